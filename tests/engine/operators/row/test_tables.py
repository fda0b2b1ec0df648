"""The row operator's state as tables, and put into another store: all of it is there, and it goes on as if nothing had been."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import Chunk
from panestream.engine.planner import plan_functions
from panestream.engine.query import WindowSpec
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
from panestream.windowing.assigners.stagger import WindowStagger
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import ProcessWindowFunction
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, ProcessingTimeoutTrigger
from tests.comparison import harness, savepoints

TEN = TumblingEventTimeWindows(10)
RESULT = pa.schema([("seen", pa.list_(pa.int64())), ("before", pa.int64())])


class Sees(ProcessWindowFunction):
    """The values, and how many rows it has seen of the window before, and of the key."""

    def process(self, key, context, elements):
        window = context.window_state().get_state(ValueStateDescriptor("n"))
        every = context.global_state().get_state(ValueStateDescriptor("all"))
        yield [element.v for element in elements], 100 * (window.value() or 0) + (every.value() or 0)
        window.update(len(elements))
        every.update((every.value() or 0) + len(elements))


class SeesKeys(ProcessWindowFunction):
    """The same of windows that merge, and have no state of their own."""

    def process(self, key, context, elements):
        every = context.global_state().get_state(ValueStateDescriptor("all"))
        yield [element.v for element in elements], every.value() or 0
        every.update((every.value() or 0) + len(elements))


def of_elements(windowing, function=Sees):
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
            harness.Query(WindowSpec(TEN, allowed_lateness=20), (agg.sum("v").alias("s"),), more={"with_firing": True}).row(),
            batch(("a", 4, 5), ("b", 25, 1)),
            [("a", 0, 21, "late", 1, False), ("a", 10, 1, "on_time", 0, False)],
        ),
        (
            of_elements(WindowSpec(TEN, EVERY_TWO, CountEvictor.of(3), allowed_lateness=20)),
            batch(("a", 4, 5), ("a", 5, 6)),
            [("a", 0, [9, 5, 6], 202)],
        ),
        (
            of_elements(WindowSpec(EventTimeSessionWindows(10), ContinuousEventTimeTrigger(5), allowed_lateness=20), SeesKeys),
            batch(("a", 22, 5), ("b", 25, 1)),
            # It fires at 15 and 20. Of the first three rows' sessions six elements of a have been seen.
            [("a", 14, [1, 5], 6), ("a", 14, [1, 5], 8)],
        ),
        (
            of_elements(WindowSpec(GlobalWindows.create(), ProcessingTimeoutTrigger(CountTrigger.of(9), 4, False, True))),
            batch(clock=105),
            [("a", None, [7, 9, 1], 0), ("b", None, [8], 0)],
        ),
    ],
    ids=["accumulators", "an evictor", "sessions", "the clock"],
)
def test_state_goes_on_from_its_tables(plan, then, fired):
    whole, cut = savepoints.Query(plan, 1), savepoints.Query(plan, 1)
    whole.run(ROWS)
    (saved,) = whole.tables()
    cut.restore([saved])
    assert cut.wake_ups == whole.wake_ups
    assert cut.tables()[0].tables == saved.tables
    for query in (whole, cut):
        told = query.run(then).fired
        assert [(key, place[0], *values) for key, rows in sorted(told.items()) for place, values in rows] == fired
    assert cut.tables()[0].tables == whole.tables()[0].tables


KEY_COLUMNS = [("x", pa.string()), ("y", pa.int64())]


@pytest.mark.parametrize("width", [0, 1, 2])
def test_keys_have_as_many_columns_as_they_are_of(width):
    keys = pa.schema(KEY_COLUMNS[:width])
    windowing = WindowSpec(TEN, EVERY_TWO, CountEvictor.of(9), every_firing=True)
    operator = plan_functions(windowing, KeepRows(Sees()), RESULT, harness.ROWS, "it", keys)
    plan = replace(harness.plan_for(operator, windowing), keys=tuple(keys.names), key_schema=keys)
    state, again = MemoryState(), MemoryState()
    rows = pa.table([["k"] * 3, [1, 2, 3], [7, 8, 9], [None] * 3, [0] * 3], schema=harness.ROWS)

    def given(*times):
        columns = [pa.array(["p", "p", "q"]), pa.array([1, 1, 1])][:width]
        chunk = Chunk(np.array(times), [column.slice(0, len(times)) for column in columns], [], rows.slice(0, len(times)))
        return GroupInput({kind: [part] for kind, part in plan.operator.pack(plan, chunk)}, input_rows=len(times))

    plan.operator.for_group(plan, state, 0).process(given(1, 2, 3))
    saved = plan.operator.for_group(plan, state, 0).tables()
    assert saved.table("windows").num_rows == (2 if width else 1)
    own = [name for name in saved.table("windows").column_names if name.startswith("key ")]
    assert own == [f"key {place}" for place in range(width)]
    assert saved.table("elements").num_rows == 3
    plan.operator.for_group(plan, again, 0).restore(saved)
    assert plan.operator.for_group(plan, again, 0).tables().tables == saved.tables
    ((_, told),) = plan.operator.for_group(plan, again, 0).process(given(5)).tables if not width else ((None, None),)
    assert told is None or told["seen"].to_pylist() == [[7, 8, 9, 7]]


def test_nothing_is_saved_where_nothing_is():
    plan = of_elements(WindowSpec(TEN))
    saved = plan.operator.for_group(plan, MemoryState(), 0).tables()
    assert {name: table.num_rows for name, table in saved.tables.items()} == {"windows": 0, "elements": 0, "keys": 0}
    assert saved.header["counters"] == {"total": {"late_dropped": 0}, "equal": {}}


def test_late_rows_that_were_dropped_are_counted_on():
    plan = harness.Query(WindowSpec(TEN), (agg.count(),)).row()
    query, again = savepoints.Query(plan, 1), MemoryState()
    query.run(batch(("a", 50, 1)))
    query.run(batch(("a", 5, 1), ("b", 6, 1)))
    (saved,) = query.tables()
    assert saved.header["counters"]["total"] == {"late_dropped": 2}
    plan.operator.for_group(plan, again, 0).restore(saved)
    harness.run(plan, [batch(("a", 7, 1))], again)
    assert plan.operator.for_group(plan, again, 0).header()["counters"]["total"] == {"late_dropped": 3}


def test_windows_stay_shifted_as_they_were():
    windowing = WindowSpec(TumblingProcessingTimeWindows(100, 0, WindowStagger.NATURAL))
    plan = harness.Query(windowing, (agg.count().alias("n"),)).row()
    query, again = savepoints.Query(plan, 1), MemoryState()
    query.run(batch(("a", 1, 1), clock=1234))
    (saved,) = query.tables()
    assert saved.header["counters"] == {"total": {"late_dropped": 0}, "equal": {"stagger": 34}}
    plan.operator.for_group(plan, again, 0).restore(saved)
    fired = [one.fired for one in harness.run(plan, [batch(("a", 2, 2), clock=1290), batch(clock=1334)], again)]
    assert fired == [[], [(("a", 1234, 1334), (2,))]]


def counting(*aggregates):
    return harness.Query(WindowSpec(TEN), aggregates).row()


def test_aggregates_that_are_new_begin_with_no_rows_and_others_find_their_part():
    before = counting(agg.sum("v").alias("s"), agg.count().alias("n"))
    query, again = savepoints.Query(before, 1), MemoryState()
    query.run(batch(("a", 1, 7), ("a", 2, 8)))
    (saved,) = query.tables()
    assert saved.header["accumulators"] == ["agg.sum('v')", "agg.count()"]
    now = counting(agg.count().alias("rows"), agg.max("v").alias("most"), agg.complete("most").alias("all"), agg.sum("v"))
    now.operator.for_group(now, again, 0).restore(saved)
    (told,) = harness.run(now, [batch(("a", 3, 5), ("a", 15, 6), ("a", 30, 1))], again)
    assert [(place[1], *values) for place, values in told.fired] == [(0, 3, 5, False, 20), (10, 1, 6, True, 6)]


@pytest.mark.parametrize("declared", [False, True])
def test_accumulators_of_users_and_of_declared_aggregates_do_not_take_over_each_other(declared):
    plans = counting(agg.count()), of_elements(WindowSpec(TEN))
    before, now = plans if declared else plans[::-1]
    query = savepoints.Query(before, 1)
    query.run(batch(("a", 1, 7)))
    (saved,) = query.tables()
    header = {**saved.header, "identity": dict(now.identity())}
    what = "declared aggregates" if declared else "a function of the user's own, now aggregates are declared"
    with pytest.raises(PlanMismatchError, match=f"the saved state holds accumulators of {what}: neither can take over"):
        now.operator.for_group(now, MemoryState(), 0).restore(replace(saved, header=header))
