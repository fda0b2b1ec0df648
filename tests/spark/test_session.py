"""What a query is run with."""

import pytest
from pyspark.sql import SparkSession

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


def master_of(monkeypatch, **arguments):
    """The master that a session would be built with; None: none is set."""
    asked = {}

    class Builder:
        def __getattr__(self, name):
            def call(*given):
                asked[name] = given
                return self

            return call

        def getOrCreate(self):  # noqa: N802 - Spark's name
            return type("Session", (), {"version": "4.3.0"})()

    monkeypatch.setattr(SparkSession, "builder", Builder())
    monkeypatch.delenv("MASTER", raising=False)
    build_session("test", **arguments)
    return asked.get("master", (None,))[0]


def test_a_local_session_tries_a_task_again(monkeypatch):
    assert master_of(monkeypatch) == "local[*, 4]"
    assert master_of(monkeypatch, master="local[2]") == "local[2]"
    assert master_of(monkeypatch, settings={"spark.master": "local[1]"}) is None


@pytest.mark.spark
def test_settings_are_put_back(spark):
    before = dict(spark.conf.getAll)
    with session_settings(spark, settings_for(spark, 3)):
        assert spark.conf.get(PARTITIONS) == "3"
    assert dict(spark.conf.getAll) == before
