"""The input and settings of the stateful operator, and how PySpark is kept from importing pandas. Without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from panestream.spark import compat
from panestream.spark.operator import dataflow
from panestream.spark.operator.dataflow import operate
from panestream.spark.operator.task_functions import EXCHANGE_SCHEMA, OPERATED_SCHEMA
from tests.engine.exchange.test_exchange import plan as plan_of


class Rows:
    """Record the applied steps."""

    def __init__(self, *steps):
        self.steps = steps

    def mapInArrow(self, function, schema):  # noqa: N802 (Spark's name)
        return Rows(*self.steps, ("packed", schema))

    def unionAll(self, other):  # noqa: N802 (Spark's name)
        return Rows(*self.steps, ("and", other))

    def groupBy(self, name):  # noqa: N802 (Spark's name)
        return Rows(*self.steps, ("by", name))

    def applyInArrow(self, function, schema):  # noqa: N802 (Spark's name)
        return Rows(*self.steps, ("applied", schema))

    def coalesce(self, tasks):
        return Rows(*self.steps, ("tasks", tasks))


PACKED = ("packed", EXCHANGE_SCHEMA)


@pytest.fixture
def transformed(monkeypatch):
    asked = []

    def transform(rows, plan, **how):
        asked.append((rows.steps, plan, how))
        return Rows(*rows.steps, "transformed")

    monkeypatch.setattr(dataflow, "transform", transform)
    return asked


def projection_of(*, streaming):
    return SimpleNamespace(streaming=streaming, pack=None, rows_of=Rows)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, {"data_frames": False, "initial": None, "clock": False, "restart_info": None}),
        (
            {"data_frames": True, "initial": "saved", "clock": True, "restart_info": "found"},
            {"data_frames": True, "initial": "saved", "clock": True, "restart_info": "found"},
        ),
    ],
)
def test_stream_is_transformed_with_the_requested_settings(transformed, how, expected):
    plan = plan_of(3)
    assert operate("in", plan, projection_of(streaming=True), **how).steps == ("in", PACKED, "transformed")
    assert transformed == [(("in", PACKED), plan, expected)]


def test_signals_join_the_stream_and_key_groups_may_share_tasks(transformed):
    found = operate("in", plan_of(3), projection_of(streaming=True), also="signals", tasks=2)
    assert found.steps == ("in", PACKED, ("and", "signals"), "transformed", ("tasks", 2))


@pytest.mark.parametrize("reduced", [False, True])
def test_batch_is_grouped_and_reduced_by_spark_if_possible(transformed, monkeypatch, reduced):
    monkeypatch.setattr(dataflow, "reducible", lambda plan: reduced)
    monkeypatch.setattr(dataflow, "reduce_rows", lambda rows, plan: Rows(*rows.steps, "reduced"))
    found = operate("in", plan_of(3), projection_of(streaming=False))
    assert found.steps == ("in", "reduced" if reduced else PACKED, ("by", "group"), ("applied", OPERATED_SCHEMA))
    assert transformed == []


def test_streams_are_not_reduced_by_spark(transformed, monkeypatch):
    monkeypatch.setattr(dataflow, "reducible", lambda plan: True)
    assert operate("in", plan_of(3), projection_of(streaming=True)).steps == ("in", PACKED, "transformed")


CHECK = "require_minimum_pandas_version"


@pytest.mark.parametrize("there", [True, False])
def test_pandas_check_of_pyspark_is_skipped_only_without_pandas(monkeypatch, there):
    check = lambda: None  # noqa: E731
    functions = SimpleNamespace(**{CHECK: check})
    monkeypatch.setattr(compat, "pandas_functions", functions)
    monkeypatch.setattr(compat, "find_spec", lambda name: object() if there and name == "pandas" else None)
    with compat.without_pandas():
        assert (getattr(functions, CHECK) is check) is there
    assert getattr(functions, CHECK) is check
    with pytest.raises(RuntimeError), compat.without_pandas():
        raise RuntimeError
    assert getattr(functions, CHECK) is check


def test_module_of_a_missing_package_counts_as_not_installed(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(compat, "find_spec", missing)
    assert not compat._installed("pandas")
