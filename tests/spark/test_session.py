"""What a query is run with."""

import os
import subprocess
import sys

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from panestream.errors import EnvironmentNotReadyError
from panestream.spark.session import (
    ARROW_BYTES,
    ARROW_ROWS,
    PARTITIONS,
    STREAM_SETTINGS,
    build_session,
    session_settings,
    settings_for,
)


class Conf:
    """The part of Spark's configuration that is asked."""

    def __init__(self, **given):
        self.getAll = given


class Session:
    def __init__(self, given):
        self.conf = Conf(**given)


def test_all_settings_where_the_user_set_none():
    assert settings_for(Session({}), 7) == {**STREAM_SETTINGS, PARTITIONS: "7"}


@pytest.mark.parametrize("name", [ARROW_ROWS, ARROW_BYTES])
def test_with_a_limit_of_the_users_own_neither_is_touched(name):
    found = settings_for(Session({name: "5", "spark.app.name": "x"}), 7)
    assert not {ARROW_ROWS, ARROW_BYTES} & set(found)
    assert found.keys() | {ARROW_ROWS, ARROW_BYTES} == {*STREAM_SETTINGS, PARTITIONS}


class Builder:
    """Notes what a session would be built with, and what the environment says meanwhile."""

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
def test_a_local_session_tries_a_task_again(monkeypatch, arguments, environment, master, last_resort):
    """A master on the builder would win over spark-submit and spark-defaults; ``MASTER`` is what Spark looks at after them."""
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
def test_a_java_that_is_there_is_not_asked_for(monkeypatch, tmp_path, settings, there, said):
    """PySpark has one error for a Java that is missing and for one that ended, say since a package was not found."""
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
def test_spark_defaults_say_the_master(tmp_path, defaults, master):
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    program = "import panestream as pst; print(pst.build_session('t', {'spark.ui.enabled': 'false'}).conf.get('spark.master'))"
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert run.stdout.split("\n")[-2] == master


@pytest.mark.spark
def test_settings_are_put_back(spark):
    before = dict(spark.conf.getAll)
    with session_settings(spark, settings_for(spark, 3)):
        assert spark.conf.get(PARTITIONS) == "3"
    assert dict(spark.conf.getAll) == before
