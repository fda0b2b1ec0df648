"""Limits for bringing rows to the driver together with the counters. Without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from panestream.engine.exchange.group_run import METRICS
from panestream.engine.plan import WindowQuery
from panestream.engine.storage import payload
from panestream.spark import batch_output as computed_
from panestream.spark.batch_output import FEW_BYTES, BatchOutput
from panestream.spark.types import spark_schema
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness


def plan_of(*aggregates):
    return harness.Query(WindowQuery(TumblingEventTimeWindows(10)), aggregates or (agg.count().alias("n"),), late=True).columnar()


class Operated:
    """The operator's output: tag and body of each row."""

    def __init__(self, rows, arrow_rows="10000"):
        self.rows, self.asked = rows, []
        self.made = []
        conf = SimpleNamespace(get=lambda name: {"spark.sql.execution.arrow.maxRecordsPerBatch": arrow_rows}[name])
        self.sparkSession = SimpleNamespace(conf=conf, createDataFrame=self._made)

    def selectExpr(self, *texts):  # noqa: N802 (Spark's name)
        self.asked.append(texts)
        return SimpleNamespace(collect=lambda: self.rows)

    def _made(self, table, schema):
        self.made.append((table, schema))
        return SimpleNamespace(coalesce=lambda parts: (table, parts))


@pytest.mark.parametrize(("groups", "few"), [(1, 1 << 19), (3, 174_762), (128, 4096), (129, 4096), (1000, 4096)])
def test_payload_is_brought_up_to_its_share_of_the_limit(groups, few):
    operated = Operated([])
    found = BatchOutput.of(operated, SimpleNamespace(groups=groups))
    assert operated.asked == [("tag", f"CASE WHEN tag = '{METRICS}' OR length(body) <= {few} THEN body END AS body")]
    assert (found.metrics, found.bodies, list(found.present)) == ([], {}, [])


def test_output_is_brought_if_all_its_payloads_are():
    rows = [
        ("main", bytearray(b"1")), (METRICS, bytearray(b'{"a": 1}')), ("late", bytearray(b"2")), ("main", None),
        ("late", bytearray(b"3")), ("main", bytearray(b"4")), (METRICS, bytearray(b'{"a": 2}')), ("seen", None),
    ]  # fmt: skip
    found = BatchOutput.of(Operated(rows), SimpleNamespace(groups=1))
    assert found.metrics == [{"a": 1}, {"a": 2}]
    assert found.bodies == {"main": None, "late": [b"2", b"3"], "seen": None}
    assert set(found.present) == {"main", "late", "seen"}


def emitted(plan, number, text=None):
    """Make this many rows of the main output."""
    columns = [
        pa.array([text] * number if pa.types.is_string(field.type) else [0] * number, field.type)
        for field in plan.emitted_schema("main")
    ]
    return pa.Table.from_arrays(columns, schema=plan.emitted_schema("main"))


def brought(plan, tables, **more):
    operated = Operated([], **more)
    bodies = None if tables is None else [payload.encode(table) for table in tables]
    found = BatchOutput(operated, plan, [], {} if tables == [] else {"main": bodies})
    return operated, found._brought("main")


def test_brought_rows_become_one_partition_with_the_outputs_columns():
    plan = plan_of()
    operated, (table, parts) = brought(plan, [emitted(plan, 2, "a"), emitted(plan, 1, "b")])
    assert table.schema.equals(plan.output_schema("main"))
    assert table.column("key").to_pylist() == ["a", "a", "b"]
    assert parts == 1
    assert operated.made == [(table, spark_schema(plan.output_schema("main")))]


def test_brought_output_without_rows_has_its_columns():
    plan = plan_of()
    _, (table, _) = brought(plan, [])
    assert (table.num_rows, table.schema.equals(plan.output_schema("main"))) == (0, True)


def test_output_that_was_not_brought_stays_on_the_executors():
    assert brought(plan_of(), None)[1] is None


def test_nested_values_are_not_brought():
    plan = plan_of(agg.collect_list("v").alias("all"))
    assert brought(plan, [])[1] is None


@pytest.mark.parametrize(("arrow_rows", "here"), [("1", True), ("0", False), ("-1", False), (None, False)])
def test_rows_are_not_brought_if_arrow_batches_are_unlimited(arrow_rows, here):
    assert (brought(plan_of(), [], arrow_rows=arrow_rows)[1] is not None) is here


def test_rows_up_to_the_limit_of_bytes_are_brought(monkeypatch):
    plan = plan_of()
    table = emitted(plan, 3, "a")
    bytes_ = payload.decode(payload.encode(table), plan.emitted_schema("main"))[0].nbytes
    monkeypatch.setattr(computed_, "FEW_BYTES", bytes_)
    assert brought(plan, [table])[1] is not None
    monkeypatch.setattr(computed_, "FEW_BYTES", bytes_ - 1)
    assert brought(plan, [table])[1] is None
    assert FEW_BYTES == 512 * 1024


@pytest.mark.parametrize(("most", "here"), [(2, False), (3, True), (4, True)])
def test_few_pairs_of_a_join_are_expanded_on_the_driver(monkeypatch, most, here):
    plan = plan_of()
    pairs = SimpleNamespace(count=lambda table: table.num_rows, opened=lambda table: [table.slice(0, 1), table.slice(1)])
    joined = SimpleNamespace(pairs=pairs, output_schema=plan.output_schema, emitted_schema=plan.emitted_schema)
    monkeypatch.setattr(computed_, "FEW_PAIRS", most)
    _, found = brought(joined, [emitted(plan, 2, "a"), emitted(plan, 1, "b")])
    assert (found is not None) is here
    assert not here or found[0].column("key").to_pylist() == ["a", "a", "b"]
