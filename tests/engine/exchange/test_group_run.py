"""What a key group is run with: a micro-batch, a batch, history; and how what it emits leaves."""

import json

import pyarrow as pa
import pytest

from panestream.engine.exchange import group_run
from panestream.engine.exchange.group_run import METRICS, bodies, run_batch, run_history, run_micro_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.plan import MAIN
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState
from tests.engine.exchange.test_exchange import ROWS, plan


def parts_of(times):
    """Rows of one key, at these microseconds."""
    rows = pa.table([pa.array([7] * len(times)), pa.array(range(len(times)))], schema=ROWS)
    columns = {"time": pa.array(times), "key": rows["key"], "row": rows.to_struct_array()}
    return [part for _, part in pack(plan(), PackColumns((pa.int64(),), (), row=2), pa.table(columns).to_batches())]


def counts(output):
    return [row["n"] for tag, table in output.tables if tag == MAIN for row in table.to_pylist()]


TIMES = [0, 999_999, 1_000_000]
"""Two rows in the first second, one in the second: the watermark ends the first window only."""


def test_a_batch_fires_what_no_watermark_would_reach():
    assert counts(run_batch(plan(), 0, parts_of(TIMES))) == [2, 1]


def test_history_and_micro_batches_leave_open_what_has_not_ended():
    for run in (run_history, run_micro_batch):
        state = MemoryState()
        assert counts(run(plan(), state, 0, parts_of([*TIMES, 1_000_001]))) == [2]
        assert counts(run_micro_batch(plan(), state, 0, parts_of([3_000_000]))) == [2]


def test_the_metrics_are_of_the_key_group_that_was_asked():
    assert run_micro_batch(plan(), MemoryState(), 5, parts_of(TIMES)).metrics.key_group == 5


@pytest.mark.parametrize(("most", "expected"), [(1 << 20, [10]), (8 * 4, [4, 4, 2]), (1, [1] * 10)])
def test_a_large_table_leaves_in_several_bodies_and_the_metrics_last(monkeypatch, most, expected):
    monkeypatch.setattr(group_run, "_BODY_BYTES", most)
    output = GroupOutput()
    output.emit("late", pa.table({"n": pa.array([1], pa.int64())}))
    output.emit(MAIN, pa.table({"n": pa.array(range(10), pa.int64())}))
    output.emit("none", pa.table({"n": pa.array([], pa.int64())}))
    *sent, (last, metrics) = bodies(output)
    assert [tag for tag, _ in sent] == ["late"] + [MAIN] * len(expected)
    tables = [payload.decode(body)[0]["n"].to_pylist() for _, body in sent[1:]]
    assert [len(table) for table in tables] == expected
    assert [number for table in tables for number in table] == list(range(10))
    assert last == METRICS
    assert json.loads(metrics)["outputs"] == {"late": 1, MAIN: 10}
