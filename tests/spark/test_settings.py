"""The settings that are read from a session, their restoration, and the files that are shipped to executors. Without Java."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from panestream.errors import EnvironmentNotReadyError
from panestream.spark.session import (
    PARTITIONS,
    check_version,
    chosen_partitions,
    default_parallelism,
    is_connect,
    known_cores,
    session_settings,
    ship,
    ship_module,
    version,
)


class Conf:
    """Spark's settings. A missing setting has the offered default."""

    def __init__(self, **told):
        self.told = {name.replace("_", "."): value for name, value in told.items()}

    def get(self, name, default=None):
        return self.told.get(name, default)

    def set(self, name, value):
        self.told[name] = value

    def unset(self, name):
        del self.told[name]


def session(plan="", **told):
    first = lambda: plan if plan is None else (plan,)  # noqa: E731
    asked = []
    sql = lambda text: asked.append(text) or SimpleNamespace(first=first)  # noqa: E731
    return SimpleNamespace(conf=Conf(**told), sql=sql, asked=asked)


@pytest.mark.parametrize(
    ("plan", "cores"),
    [
        ("== Physical Plan ==\n*(1) Range (0, 65536, step=1, splits=7)", 7),
        ("Range (0, 65536, step=1, splits=Some(12))", 12),
        ("Range (0, 65536, step=1, splits=None)", 4),
        ("", 4),
        (None, 4),
    ],
)
def test_default_parallelism_is_read_from_a_plan(plan, cores):
    spark = session(plan)
    assert default_parallelism(spark) == cores
    assert spark.asked == ["EXPLAIN SELECT id FROM range(65536)"]


@pytest.mark.parametrize(
    ("told", "chosen"), [({}, None), ({"v": "200"}, None), ({"v": ""}, None), ({"v": "7"}, 7), ({"v": "201"}, 201)]
)
def test_number_of_partitions_counts_as_chosen_if_not_sparks_default(told, chosen):
    spark = session()
    if told:
        spark.conf.set(PARTITIONS, told["v"])
    assert chosen_partitions(spark) == chosen


CLUSTER = {"spark_executor_instances": "3", "spark_executor_cores": "4"}


@pytest.mark.parametrize(
    ("told", "cores"),
    [
        ({"spark_master": "local"}, 1),
        ({"spark_master": "local[3]"}, 3),
        ({"spark_master": "local[3, 4]"}, 3),
        ({"spark_master": "local[*]"}, 7),
        ({"spark_master": "local[*, 4]"}, 7),
        ({"spark_master": "local-cluster[2,1,1024]"}, None),
        ({"spark_master": "spark://host:7077"}, None),
        ({}, None),
        ({"spark_master": "yarn", **CLUSTER}, 12),
        (CLUSTER, 12),
        ({**CLUSTER, "spark_task_cpus": "2"}, 6),
        ({**CLUSTER, "spark_task_cpus": "3"}, 3),
        ({**CLUSTER, "spark_task_cpus": "5"}, 1),
        ({"spark_executor_instances": "3"}, None),
        ({"spark_executor_cores": "4"}, None),
        ({"spark_executor_instances": "all", "spark_executor_cores": "4"}, None),
        ({**CLUSTER, "spark_dynamicAllocation_enabled": "true"}, None),
        ({**CLUSTER, "spark_dynamicAllocation_enabled": "false"}, 12),
    ],
)
def test_cores_of_a_session_are_known_if_they_cannot_grow(told, cores):
    assert known_cores(session("Range (0, 65536, step=1, splits=7)", **told)) == cores


@pytest.mark.parametrize("fails", [False, True])
def test_settings_of_a_query_are_restored_after_its_start(fails):
    spark = session(a="1", b="2")
    within = {}
    with suppress(RuntimeError), session_settings(spark, {"a": "3", "c": "4"}):
        within |= spark.conf.told
        if fails:
            raise RuntimeError
    assert within == {"a": "3", "b": "2", "c": "4"}
    assert spark.conf.told == {"a": "1", "b": "2"}


@pytest.mark.parametrize(("text", "line"), [("4.0.0", (4, 0)), ("4.10.2-amzn-1", (4, 10)), ("5.0", (5, 0))])
def test_version_is_reduced_to_its_line(text, line):
    spark = SimpleNamespace(version=text)
    assert version(spark) == line
    assert check_version(spark) is None


def test_spark_3_is_refused_for_streams():
    with pytest.raises(EnvironmentNotReadyError) as error:
        check_version(SimpleNamespace(version="3.5.7"))
    assert str(error.value) == "panestream needs Spark 4.0 or later, this session runs 3.5.7"


def test_connect_client_is_recognised_by_the_module_of_its_class():
    of = lambda module: type("SparkSession", (), {"__module__": module})()  # noqa: E731
    assert [is_connect(of(f"pyspark.sql.{name}")) for name in ("connect.session", "connect", "session", "classic.connect")] == [
        True,
        True,
        False,
        False,
    ]


class Executors:
    """Record the shipped files."""

    def __init__(self):
        self.sent = []

    def addArtifacts(self, *paths, **more):  # noqa: N802 (Spark's name)
        self.sent.append((paths, more))


def test_module_is_shipped_as_its_file(tmp_path):
    spark, file = Executors(), tmp_path / "functions.py"
    file.write_text("x = 1")
    ship_module(spark, file)
    assert spark.sent == [((str(file),), {"pyfile": True})]


def test_package_is_shipped_as_a_zip_of_its_python_files(tmp_path):
    home = tmp_path / "shop"
    for name in ("__init__.py", "b.py", "py.typed", "data.csv", "inner/__init__.py", "inner/a.py", "__pycache__/b.pyc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"# {name}")
    spark = Executors()
    ship_module(spark, home)
    (((path,), more),) = spark.sent
    assert more == {"pyfile": True}
    assert Path(path).name == "shop.zip"
    assert Path(path).parent.name.startswith("panestream-")
    with zipfile.ZipFile(path) as archive:
        told = {info.filename: (archive.read(info).decode(), info.compress_type) for info in archive.infolist()}
    names = ["__init__.py", "b.py", "inner/__init__.py", "inner/a.py", "py.typed"]
    assert list(told) == [f"shop/{name}" for name in names]
    assert told == {f"shop/{name}": (f"# {name}", zipfile.ZIP_DEFLATED) for name in names}


def test_panestream_is_shipped_completely():
    spark = Executors()
    ship(spark)
    (((path,), _),) = spark.sent
    assert Path(path).name == "panestream.zip"
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    assert {"panestream/__init__.py", "panestream/py.typed", "panestream/spark/session.py", "panestream/engine/plan.py"} <= names
    assert all(name.startswith("panestream/") for name in names)
