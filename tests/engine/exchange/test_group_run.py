"""Running a key group on a micro-batch, on a batch or on history, and how its output leaves."""

import gc
import json
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.exchange.group_run import METRICS, bodies, check_history, run_batch, run_history, run_micro_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import MAIN, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, MemoryLimitError
from panestream.windowing.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.functions import applied
from tests.engine.exchange.test_exchange import KEYS, RESULTS, ROWS, plan


def parts_of(times):
    """Return the parts of rows of one key at these microseconds."""
    rows = pa.table([pa.array([7] * len(times)), pa.array(range(len(times)))], schema=ROWS)
    columns = {"time": pa.array(times), "key": rows["key"], "row": rows.to_struct_array()}
    return [part for _, part in pack(plan(), PackColumns((pa.int64(),), (), row=2), pa.table(columns).to_batches())]


def counts(output):
    return [row["n"] for tag, table in output.tables if tag == MAIN for row in table.to_pylist()]


TIMES = [0, 999_999, 1_000_000]
"""Two rows in the first second, one in the second. The watermark ends only the first window."""


def test_batch_fires_windows_that_the_watermark_has_not_reached():
    assert counts(run_batch(plan(), 0, parts_of(TIMES))) == [2, 1]


def test_history_and_micro_batches_leave_unfinished_windows_open():
    for run in (run_history, run_micro_batch):
        state = MemoryState()
        assert counts(run(plan(), state, 0, parts_of([*TIMES, 1_000_001]))) == [2]
        assert counts(run_micro_batch(plan(), state, 0, parts_of([3_000_000]))) == [2]


def test_metrics_name_their_key_group():
    assert run_micro_batch(plan(), MemoryState(), 5, parts_of(TIMES)).metrics.key_group == 5


@pytest.mark.parametrize(("most", "expected"), [(1 << 20, [10]), (8 * 4, [4, 4, 2]), (1, [1] * 10)])
def test_large_table_leaves_in_several_bodies_with_the_metrics_last(most, expected):
    output = GroupOutput()
    output.emit("late", pa.table({"n": pa.array([1], pa.int64())}))
    output.emit(MAIN, pa.table({"n": pa.array(range(10), pa.int64())}))
    output.emit("none", pa.table({"n": pa.array([], pa.int64())}))
    *tables_sent, (last, metrics) = bodies(output, most)
    assert [tag for tag, _ in tables_sent] == ["late"] + [MAIN] * len(expected)
    tables = [payload.decode(body)[0]["n"].to_pylist() for _, body in tables_sent[1:]]
    assert [len(table) for table in tables] == expected
    assert [number for table in tables for number in table] == list(range(10))
    assert last == METRICS
    assert json.loads(metrics)["outputs"] == {"late": 1, MAIN: 10}


def recording_plan(records):
    """Return a plan whose operator records its arguments, and whether the garbage collector is paused."""

    class Looking(type(plan().operator)):
        __slots__ = ()

        def for_group(self, plan, state, group):
            operator = super().for_group(plan, state, group)

            class Noting:
                def process(self, batch):
                    records.append((batch.run, batch.planned_in, batch.batch_time, batch.end_of_input, gc.isenabled()))
                    return operator.process(batch)

            return Noting()

    own = plan().operator
    return replace(plan(), operator=Looking(**{name: getattr(own, name) for name in own.__dataclass_fields__}))


def test_operator_gets_run_clock_and_end_of_input_with_the_rows():
    records = []
    recorder = recording_plan(records)
    rows = pa.table([pa.array([7]), pa.array([1])], schema=ROWS)
    columns = pa.table({"time": [1], "key": rows["key"], "row": rows.to_struct_array(), "clock": [40]})
    positions = PackColumns((pa.int64(),), (), row=2, processing_time=3)
    parts = [part for _, part in pack(plan(), positions, columns.to_batches(), run="of the report")]
    run_micro_batch(recorder, MemoryState(), 0, parts, run="mine", planned_in="before")
    run_micro_batch(recorder, MemoryState(), 0, parts, 0, run="mine")
    run_micro_batch(recorder, MemoryState(), 0, [], 50, run="mine", planned_in="before")
    run_history(recorder, MemoryState(), 0, parts)
    run_batch(recorder, 0, parts)
    assert records == [
        ("of the report", "before", 40, False, False),
        ("of the report", "", 0, False, False),
        ("mine", "before", 50, False, False),
        ("of the report", "", 40, False, False),
        ("of the report", "", 40, True, True),
    ]
    assert gc.isenabled()


def test_memory_limit_is_exact_to_the_byte():
    parts = parts_of(TIMES)
    size = sum(len(part.body) for part in parts)
    for run, name, words in (
        (lambda limited_plan: run_micro_batch(limited_plan, MemoryState(), 3, parts), "most_bytes", "in one micro-batch"),
        (lambda limited_plan: run_batch(limited_plan, 3, parts), "batch_bytes", "in this batch"),
    ):
        assert counts(run(replace(plan(), **{name: size})))[0] == 2
        with pytest.raises(MemoryLimitError, match=f"^key group 3 has more than {size - 1:,} bytes of rows {words}"):
            run(replace(plan(), **{name: size - 1}))
    # The limit of a micro-batch does not apply to a batch.
    assert counts(run_batch(replace(plan(), most_bytes=size - 1), 0, parts)) == [2, 1]


def test_history_is_refused_for_processing_time_windows():
    def plan_with(assigner):
        windowing = WindowQuery(assigner)
        operator = plan_functions(
            windowing, KeepRows(applied(lambda key, window, rows: [len(rows)])), RESULTS, ROWS, "count", KEYS
        )
        return replace(plan(), assigner=assigner, operator=operator)

    check_history(plan_with(TumblingEventTimeWindows(1_000_000)))
    with pytest.raises(InvalidPlanError, match=r"^bootstrap: the windows or the trigger of this query use the clock"):
        check_history(plan_with(TumblingProcessingTimeWindows(1_000_000)))
