"""The session and settings that a query runs with."""

import os
import subprocess
import sys

import pytest
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

import panestream as pst
from panestream import agg
from panestream.errors import EnvironmentNotReadyError, PanestreamWarning
from panestream.spark import session
from panestream.spark.session import (
    ARROW_BYTES,
    ARROW_ROWS,
    PARTITIONS,
    SOCKETS,
    STATE_STORE,
    STREAM_SETTINGS,
    TRACEBACK,
    build_session,
    missing_startup_settings,
    numbers_micro_batches,
    session_settings,
    settings_for,
    slow_settings,
)


class Refused(PySparkException):
    """Spark's error for a setting without a value, with the setting's name."""

    def __init__(self, condition):
        super().__init__(message=condition)
        self.condition = condition

    def getCondition(self):  # noqa: N802 - Spark's name
        return self.condition


class Conf:
    """The part of Spark's configuration that the code reads."""

    def __init__(self, **given):
        self.getAll = given

    def get(self, name, *default):
        if self.getAll.get(name) is Conf:
            raise Refused("CONFIG_NOT_AVAILABLE")
        return self.getAll.get(name, *default)


class Session:
    def __init__(self, given, version="4.3.0"):
        self.conf, self.version = Conf(**given), version


@pytest.mark.parametrize(("pinned", "numbered"), [(None, True), ("true", True), ("True", True), ("false", False)])
def test_tasks_have_the_number_of_their_micro_batch_only_with_pinned_threads(pinned, numbered, monkeypatch):
    monkeypatch.delenv("PYSPARK_PIN_THREAD", raising=False)
    if pinned is not None:
        monkeypatch.setenv("PYSPARK_PIN_THREAD", pinned)
    assert numbers_micro_batches(Session({})) is numbered


def test_all_settings_are_made_if_the_user_made_none():
    assert settings_for(Session({}), 7) == {**STREAM_SETTINGS, PARTITIONS: "7", TRACEBACK: "false"}


def test_tracebacks_that_the_user_set_are_left_alone():
    assert TRACEBACK not in settings_for(Session({TRACEBACK: "true"}), 7)


@pytest.mark.parametrize("name", [ARROW_ROWS, ARROW_BYTES])
def test_limit_of_the_user_keeps_both_arrow_limits_unchanged(name):
    found = settings_for(Session({name: "5", "spark.app.name": "x"}), 7)
    assert not {ARROW_ROWS, ARROW_BYTES} & set(found)
    assert found.keys() | {ARROW_ROWS, ARROW_BYTES} == {*STREAM_SETTINGS, PARTITIONS, TRACEBACK}


def test_missing_setting_is_named_with_the_line_to_set():
    all_of = {**STREAM_SETTINGS, PARTITIONS: "7"}
    assert slow_settings(Session(all_of), 7) == []
    for name in STREAM_SETTINGS.keys() - {ARROW_ROWS, ARROW_BYTES}:
        lacking = {key: value for key, value in all_of.items() if key != name}
        assert slow_settings(Session(lacking), 7) == [f'spark.conf.set("{name}", "{STREAM_SETTINGS[name]}")']
    assert slow_settings(Session({**all_of, ARROW_ROWS: "5"}), 7) == []
    bare = slow_settings(Session({}), 7)
    assert bare[0] == f'spark.conf.set("{PARTITIONS}", "7")'
    assert len(bare) == len(all_of)
    # A platform that does not report a setting does not give a warning.
    assert slow_settings(Session({**all_of, STATE_STORE: Conf}), 7) == []


@pytest.mark.parametrize(
    ("given", "version", "missed"),
    [
        ({}, "4.3.0", True),
        ({SOCKETS: "false"}, "4.1.1", True),
        ({SOCKETS: "true"}, "4.3.0", False),
        ({SOCKETS: "TRUE"}, "5.0.0", False),
        ({SOCKETS: Conf}, "4.3.0", False),
        ({}, "4.0.2", False),
    ],
)
def test_missing_startup_setting_is_named(given, version, missed):
    said = missing_startup_settings(Session(given, version))
    assert (said is not None) is missed
    assert said is None or f"{SOCKETS}=true" in said


class Builder:
    """Record the requested settings and the environment of a session."""

    def __init__(self):
        self.asked, self.environment = {}, None

    def __getattr__(self, name):
        def call(*given):
            self.asked[name] = given
            return self

        return call

    def getOrCreate(self):  # noqa: N802 - Spark's name
        self.environment = os.environ.get("MASTER")
        return type("Session", (), {"version": "4.3.0"})()


@pytest.mark.parametrize(
    ("arguments", "environment", "master", "last_resort"),
    [
        ({}, {}, None, "local[*, 4]"),
        ({}, {"MASTER": "spark://here:7077"}, None, "spark://here:7077"),
        ({}, {"SPARK_REMOTE": "sc://here"}, None, None),
        ({"settings": {"spark.remote": "sc://here"}}, {}, None, None),
        ({"master": "local[2]"}, {}, "local[2]", "local[*, 4]"),
    ],
)
def test_local_session_retries_a_task_unless_a_master_is_set(monkeypatch, arguments, environment, master, last_resort):
    """A master on the builder would win over spark-submit and spark-defaults. Spark reads ``MASTER`` after them."""
    builder = Builder()
    monkeypatch.setattr(SparkSession, "builder", builder)
    for name in ("MASTER", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    build_session("test", **arguments)
    assert builder.asked.get("master", (None,))[0] == master
    assert builder.environment == last_resort
    assert os.environ.get("MASTER") == environment.get("MASTER")


NO_JAVA = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."


@pytest.mark.parametrize(
    ("settings", "there", "said"),
    [
        ({}, False, "could not start Java: install Java 17 or 21"),
        ({}, True, r"ended while it started.*Spark needs Java 17 or 21"),
        (
            {"spark.jars.packages": "org.example:none:9"},
            True,
            r"spark\.jars\.packages was not found \(org\.example:none:9\).*PySpark 4\.",
        ),
    ],
)
def test_error_asks_for_java_only_if_java_is_missing(monkeypatch, tmp_path, settings, there, said):
    """PySpark has one error for a missing Java and for a Java that ended, for example because of a missing package."""
    if there:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/java").write_text("")
        (tmp_path / "bin/java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    class Failing(Builder):
        def getOrCreate(self):  # noqa: N802 - Spark's name
            raise PySparkRuntimeError(NO_JAVA)

    monkeypatch.setattr(SparkSession, "builder", Failing())
    with pytest.raises(EnvironmentNotReadyError, match=said):
        build_session("test", settings)


@pytest.mark.spark
@pytest.mark.parametrize(("defaults", "master"), [("", "local[*, 4]"), ("spark.master local[1]\n", "local[1]")])
def test_master_of_spark_defaults_is_used(tmp_path, defaults, master):
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    program = "import panestream as pst; print(pst.build_session('t', {'spark.ui.enabled': 'false'}).conf.get('spark.master'))"
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert run.stdout.split("\n")[-2] == master


@pytest.mark.spark
def test_session_settings_are_restored(spark):
    before = dict(spark.conf.getAll)
    with session_settings(spark, settings_for(spark, 3)):
        assert spark.conf.get(PARTITIONS) == "3"
    assert dict(spark.conf.getAll) == before


@pytest.mark.spark
def test_missing_startup_setting_is_warned_of_at_start_and_by_explain(spark, tmp_path, monkeypatch):
    rows = spark.readStream.format("rate").load()
    timed = pst.stream(rows).assign_timestamps("timestamp", pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second"))
    result = timed.key_by("value").window(pst.TumblingEventTimeWindows.of("1 minute")).aggregate(agg.count().alias("n"))
    assert SOCKETS not in result.explain()
    monkeypatch.setattr(session, "SOCKETS", "spark.panestream.nobodySetsThis")
    monkeypatch.setattr(session, "BIRTH_SETTINGS", {"spark.panestream.nobodySetsThis": "true"})
    assert "\nsession    " in result.explain()
    assert "without spark.panestream.nobodySetsThis=true" in result.explain()
    with pytest.warns(PanestreamWarning, match="without spark.panestream.nobodySetsThis=true") as warned:
        query = result.start(checkpoint=str(tmp_path / "checkpoint"), main=pst.MemorySink(), trigger="1 hour")
    query.stop()
    assert warned[0].filename == __file__
