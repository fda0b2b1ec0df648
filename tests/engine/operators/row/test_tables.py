"""The row operator's state as tables: restoring them in another store gives the same state and the same results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import Chunk, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.aligned import WindowStagger
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import ProcessWindowFunction
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, ProcessingTimeoutTrigger
from tests.comparison import harness, savepoints

TEN = TumblingEventTimeWindows(10)
RESULT = pa.schema([("seen", pa.list_(pa.int64())), ("before", pa.int64())])


class CountingByWindowAndKey(ProcessWindowFunction):
    """Emits the values, and how many earlier rows it has seen of the window and of the key."""

    def process(self, key, context, elements):
        window = context.window_state().get_state(ValueStateDescriptor("n"))
        every = context.global_state().get_state(ValueStateDescriptor("all"))
        yield [element.v for element in elements], 100 * (window.value() or 0) + (every.value() or 0)
        window.update(len(elements))
        every.update((every.value() or 0) + len(elements))


class CountingByKey(ProcessWindowFunction):
    """The same for merging windows, which lack a window state."""

    def process(self, key, context, elements):
        every = context.global_state().get_state(ValueStateDescriptor("all"))
        yield [element.v for element in elements], every.value() or 0
        every.update((every.value() or 0) + len(elements))


def of_elements(windowing, function=CountingByWindowAndKey):
    operator = plan_functions(
        replace(windowing, every_firing=True), KeepRows(function()), RESULT, harness.ROWS, "it", harness.KEYS
    )
    return harness.plan_for(operator, windowing)


def batch(*rows, clock=0):
    return harness.MicroBatch([[(key, time, value, None, value) for key, time, value in rows]] if rows else [], clock)


ROWS = batch(("a", 1, 7), ("b", 2, 8), ("a", 3, 9), ("a", 14, 1), clock=100)
EVERY_TWO = CountTrigger.of(2)


@pytest.mark.parametrize(
    ("plan", "then", "fired"),
    [
        (
            harness.Query(WindowQuery(TEN, allowed_lateness=20), (agg.sum("v").alias("s"),), more={"with_firing": True}).row(),
            batch(("a", 4, 5), ("b", 25, 1)),
            [("a", 0, 21, "late", 1, False), ("a", 10, 1, "on_time", 0, False)],
        ),
        (
            of_elements(WindowQuery(TEN, EVERY_TWO, CountEvictor.of(3), allowed_lateness=20)),
            batch(("a", 4, 5), ("a", 5, 6)),
            [("a", 0, [9, 5, 6], 202)],
        ),
        (
            of_elements(
                WindowQuery(EventTimeSessionWindows(10), ContinuousEventTimeTrigger(5), allowed_lateness=20), CountingByKey
            ),
            batch(("a", 22, 5), ("b", 25, 1)),
            # The window fires at 15 and 20. Six elements of key a have been seen in the sessions of the first three rows.
            [("a", 14, [1, 5], 6), ("a", 14, [1, 5], 8)],
        ),
        (
            of_elements(WindowQuery(GlobalWindows.create(), ProcessingTimeoutTrigger(CountTrigger.of(9), 4, False, True))),
            batch(clock=105),
            [("a", None, [7, 9, 1], 0), ("b", None, [8], 0)],
        ),
    ],
    ids=["accumulators", "an evictor", "sessions", "the clock"],
)
def test_restored_tables_give_the_same_state_and_results(plan, then, fired):
    whole, cut = savepoints.Query(plan, 1), savepoints.Query(plan, 1)
    whole.run(ROWS)
    (saved,) = whole.tables()
    cut.restore([saved])
    assert cut.wake_ups == whole.wake_ups
    assert cut.tables()[0].tables == saved.tables
    for query in (whole, cut):
        rows_fired = query.run(then).fired
        assert [(key, place[0], *values) for key, rows in sorted(rows_fired.items()) for place, values in rows] == fired
    assert cut.tables()[0].tables == whole.tables()[0].tables


KEY_COLUMNS = [("x", pa.string()), ("y", pa.int64())]


@pytest.mark.parametrize("width", [0, 1, 2])
def test_saved_tables_have_the_key_columns_of_the_plan(width):
    keys = pa.schema(KEY_COLUMNS[:width])
    windowing = WindowQuery(TEN, EVERY_TWO, CountEvictor.of(9), every_firing=True)
    operator = plan_functions(windowing, KeepRows(CountingByWindowAndKey()), RESULT, harness.ROWS, "it", keys)
    plan = replace(harness.plan_for(operator, windowing), keys=tuple(keys.names), key_schema=keys)
    state, again = MemoryState(), MemoryState()
    rows = pa.table([["k"] * 3, [1, 2, 3], [7, 8, 9], [None] * 3, [0] * 3], schema=harness.ROWS)

    def group_input(*times):
        columns = [pa.array(["p", "p", "q"]), pa.array([1, 1, 1])][:width]
        chunk = Chunk(np.array(times), [column.slice(0, len(times)) for column in columns], [], rows.slice(0, len(times)))
        return GroupInput({kind: [part] for kind, part in plan.operator.pack(plan, chunk)}, input_rows=len(times))

    plan.operator.for_group(plan, state, 0).process(group_input(1, 2, 3))
    saved = plan.operator.for_group(plan, state, 0).tables()
    assert saved.table("windows").num_rows == (2 if width else 1)
    own = [name for name in saved.table("windows").column_names if name.startswith("key ")]
    assert own == [f"key {place}" for place in range(width)]
    assert saved.table("elements").num_rows == 3
    plan.operator.for_group(plan, again, 0).restore(saved)
    assert plan.operator.for_group(plan, again, 0).tables().tables == saved.tables
    ((_, rows_fired),) = plan.operator.for_group(plan, again, 0).process(group_input(5)).tables if not width else ((None, None),)
    assert rows_fired is None or rows_fired["seen"].to_pylist() == [[7, 8, 9, 7]]


def test_saved_tables_are_empty_without_state():
    plan = of_elements(WindowQuery(TEN))
    saved = plan.operator.for_group(plan, MemoryState(), 0).tables()
    assert {name: table.num_rows for name, table in saved.tables.items()} == {"windows": 0, "elements": 0, "keys": 0}
    assert saved.header["counters"] == {"total": {"late_dropped": 0}, "equal": {}}


def test_count_of_dropped_late_rows_is_restored():
    plan = harness.Query(WindowQuery(TEN), (agg.count(),)).row()
    query, again = savepoints.Query(plan, 1), MemoryState()
    query.run(batch(("a", 50, 1)))
    query.run(batch(("a", 5, 1), ("b", 6, 1)))
    (saved,) = query.tables()
    assert saved.header["counters"]["total"] == {"late_dropped": 2}
    plan.operator.for_group(plan, again, 0).restore(saved)
    harness.run(plan, [batch(("a", 7, 1))], again)
    assert plan.operator.for_group(plan, again, 0).header()["counters"]["total"] == {"late_dropped": 3}


def test_stagger_of_windows_is_restored():
    windowing = WindowQuery(TumblingProcessingTimeWindows(100, 0, WindowStagger.NATURAL))
    plan = harness.Query(windowing, (agg.count().alias("n"),)).row()
    query, again = savepoints.Query(plan, 1), MemoryState()
    query.run(batch(("a", 1, 1), clock=1234))
    (saved,) = query.tables()
    assert saved.header["counters"] == {"total": {"late_dropped": 0}, "equal": {"stagger": 34}}
    plan.operator.for_group(plan, again, 0).restore(saved)
    fired = [output.fired for output in harness.run(plan, [batch(("a", 2, 2), clock=1290), batch(clock=1334)], again)]
    assert fired == [[], [(("a", 1234, 1334), (2,))]]


def plan_of_aggregates(*aggregates):
    return harness.Query(WindowQuery(TEN), aggregates).row()


def test_restore_with_new_aggregates_keeps_the_accumulators_of_the_others():
    before = plan_of_aggregates(agg.sum("v").alias("s"), agg.count().alias("n"))
    query, again = savepoints.Query(before, 1), MemoryState()
    query.run(batch(("a", 1, 7), ("a", 2, 8)))
    (saved,) = query.tables()
    assert saved.header["accumulators"] == ["agg.sum('v')", "agg.count()"]
    now = plan_of_aggregates(
        agg.count().alias("rows"), agg.max("v").alias("most"), agg.complete("most").alias("all"), agg.sum("v")
    )
    now.operator.for_group(now, again, 0).restore(saved)
    (rows_fired,) = harness.run(now, [batch(("a", 3, 5), ("a", 15, 6), ("a", 30, 1))], again)
    assert [(place[1], *values) for place, values in rows_fired.fired] == [(0, 3, 5, False, 20), (10, 1, 6, True, 6)]


@pytest.mark.parametrize("declared", [False, True])
def test_accumulators_of_user_functions_and_declared_aggregates_are_not_exchanged(declared):
    plans = plan_of_aggregates(agg.count()), of_elements(WindowQuery(TEN))
    before, now = plans if declared else plans[::-1]
    query = savepoints.Query(before, 1)
    query.run(batch(("a", 1, 7)))
    (saved,) = query.tables()
    header = {**saved.header, "identity": dict(now.identity())}
    what = "declared aggregates" if declared else "a user function, but now aggregates are declared"
    with pytest.raises(PlanMismatchError, match=f"the saved state holds accumulators of {what}: neither can take over"):
        now.operator.for_group(now, MemoryState(), 0).restore(replace(saved, header=header))
