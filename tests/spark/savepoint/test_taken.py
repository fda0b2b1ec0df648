"""The start of a new key group from a savepoint (header, rows and timer), with the same and other numbers. Without Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.spark.savepoint.restore import RestorePlan
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingProcessingTimeWindows
from tests.comparison import harness

TICKS = 1_000
CLOCKS = (3_500_000, 7_200_000)
WINDOW = 10_000_000


def two_key_groups(groups: int) -> tuple[RestorePlan, list[dict[str, pa.Table]]]:
    """Return the restore plan and tables of two key groups with a row each. The clock woke the second key group again."""
    windowing = WindowQuery(TumblingProcessingTimeWindows(WINDOW), every_firing=True)
    plan = replace(harness.Query(windowing, (agg.count().alias("n"),)).row(), groups=2, ticks=TICKS, event_time=None)
    headers, tables = [], []
    for group, clocks in enumerate(((CLOCKS[0],), CLOCKS)):
        state = MemoryState()
        for number, clock in enumerate(clocks):
            rows = [] if number else [(f"k{group}", 0, 1, None, 1)]
            given = harness.group_input(plan, harness.MicroBatch([rows], clock=clock))
            plan.operator.for_group(plan, state, group).process(given)
        saved = plan.operator.for_group(plan, state, group).tables()
        headers.append(saved.header)
        tables.append(dict(saved.tables))
    empty = {name: table.slice(0, 0) for name, table in tables[0].items()}
    return RestorePlan(replace(plan, groups=groups), tuple(headers), empty, {}), tables


@pytest.mark.parametrize("group", [0, 1])
def test_same_number_of_key_groups_keeps_headers_and_rows(group):
    start, tables = two_key_groups(2)
    state, wake_up = start.state_of(group, [tables[group]])
    again = start.plan.operator.for_group(start.plan, state, group).tables()
    assert again.header == start.headers[group]
    assert again.header["clock"] == CLOCKS[group]
    assert {name: table.to_pylist() for name, table in again.tables.items()} == {
        name: table.to_pylist() for name, table in tables[group].items()
    }
    # The window ends at ten seconds, so its last instant is a microsecond earlier. Spark wakes once the clock is past that.
    assert wake_up == (WINDOW - 1) // TICKS + 1


@pytest.mark.parametrize("groups", [1, 3])
def test_changed_number_of_key_groups_sets_the_latest_clock(groups):
    start, tables = two_key_groups(groups)
    for group in range(groups):
        parts = tables if group == 0 else []
        state, wake_up = start.state_of(group, parts)
        again = start.plan.operator.for_group(start.plan, state, group).tables()
        assert again.header["clock"] == max(CLOCKS)
        assert (wake_up is None) == (not parts)


def test_query_without_processing_time_timers_restores_no_timer():
    start, tables = two_key_groups(2)
    asleep = replace(start, plan=replace(start.plan, processing_time="at"))
    assert asleep.state_of(0, [tables[0]])[1] is None
