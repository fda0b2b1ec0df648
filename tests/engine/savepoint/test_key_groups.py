"""Changing the number of key groups: headers are combined, rows are distributed, and invalid changes are refused with the
reason.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.operators.row.contents import AggregateRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions, plan_table_function
from panestream.engine.savepoint.key_groups import dealt, header_for, header_of_all, new_groups, rescaled
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import PlanMismatchError, StateDamagedError, StateFormatError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowStagger,
)
from tests.comparison import harness
from tests.comparison.harness import MicroBatch
from tests.comparison.savepoints import Query, placement
from tests.comparison.test_two_phase_random import Totals


def plan_of(windowing, *aggregates, exact=False, **more):
    windowing = replace(windowing, every_firing=exact)
    operator = plan_aggregates(windowing, aggregates or (agg.sum("v"),), harness.TYPES, harness.KEYS)
    return harness.plan_for(operator, windowing, **more)


def rows(*times, value=1):
    return [(key, time, value, None, time) for key in ("a", "b", "c", "d") for time in times]


def saved_after(plan, *batches, groups=3):
    query = Query(plan, groups)
    for batch in batches:
        query.run(MicroBatch([batch]))
    return query.tables()


def restart(plan, saved):
    query = Query(plan, len(saved))
    query.restore(saved)
    return query


TUMBLING = WindowQuery(TumblingEventTimeWindows(10))


def test_key_groups_with_different_watermarks_are_refused():
    plan = plan_of(TUMBLING)
    first, second = saved_after(plan, rows(3)), saved_after(plan, rows(4))
    with pytest.raises(StateDamagedError, match="do not belong together: key group 2 says of its watermarks") as raised:
        rescaled([*first[:2], second[2]], plan, placement, 2)
    assert raised.value.group == 2


def test_combined_header_has_the_latest_clock_and_the_sums_of_totals():
    headers = [
        {
            "clock": clock,
            "closed": clock - 1,
            "counters": {"total": {"dropped": 2}, "any": {"overdue": clock > 5}, "largest": {"n": clock}},
        }
        for clock in (3, 9, 4)
    ]
    header = header_of_all(headers)
    assert (header["clock"], header["closed"]) == (9, 8)
    assert header["counters"] == {"total": {"dropped": 6}, "any": {"overdue": True}, "largest": {"n": 9}}
    assert [header_for(header, group)["counters"]["total"]["dropped"] for group in range(3)] == [6, 0, 0]


def test_combined_header_keeps_common_entries_and_refuses_different_offsets():
    common_names = ("format", "operator", "identity", "watermarks", "partials", "labels", "accumulators", "incomplete")
    counters = {"equal": {"stagger": 7, "other": 0}, "total": {"dropped": 2}}
    header = {**{name: name for name in common_names}, "clock": 3, "closed": 2, "counters": counters}
    assert header_of_all([header]) == header
    assert header_of_all([header] * 3) == {**header, "counters": {**counters, "total": {"dropped": 6}}}
    for place in range(3):
        several = [header] * 3
        several[place] = {**header, "counters": {"equal": {"stagger": 8, "other": 0}}}
        with pytest.raises(PlanMismatchError, match="the number of key groups must stay as it is"):
            header_of_all(several)


def test_number_of_key_groups_cannot_change_with_staggered_windows():
    plan = plan_of(WindowQuery(TumblingEventTimeWindows(1000, 0, WindowStagger.RANDOM)))
    saved = saved_after(plan, rows(3, 500))
    with pytest.raises(PlanMismatchError, match="staggered windows are shifted"):
        rescaled(saved, plan, placement, 2)
    again = restart(plan, rescaled(saved, plan, placement, 3))
    assert again.run(MicroBatch([rows(5000)])).fired


def test_fewer_key_groups_than_parts_of_a_split_key_are_refused():
    from panestream.engine.planner import split_of

    plan = plan_of(TUMBLING, agg.count_distinct("v"))
    plan = replace(plan, split=split_of(3, [agg.count_distinct("v")], plan.operator))
    table = pa.table({"key 0": ["a"]})
    assert new_groups(table, plan, placement, 5, 1, 3).tolist()
    with pytest.raises(PlanMismatchError, match="split into 3 parts, in 2 key groups"):
        new_groups(table, plan, placement, 5, 1, 2)


def by_number(keys, groups):
    """A replacement for the hash of keys. Keys are numbers as text."""
    return np.array([int(key) for key in keys[0].to_pylist()]) % groups


def test_part_of_a_key_keeps_its_distance_from_the_key_group_of_the_key():
    from panestream.engine.planner import split_of

    plan = plan_of(TUMBLING, agg.count_distinct("v"))
    split = replace(plan, split=split_of(3, [agg.count_distinct("v")], plan.operator))
    table = pa.table({"key 0": ["10", "11", "12", "13", "14", "15"]})
    own = [0, 1, 2, 3, 4, 0]
    assert new_groups(table, plan, by_number, 5, 2, 3).tolist() == own
    # With three key groups, their own groups were 1, 2, 0, 1, 2, 0. Key group 2 held the parts at this distance from them.
    assert new_groups(table, split, by_number, 5, 2, 3).tolist() == [0 + 1, 1 + 0, 2 + 2, 3 + 1, 4 + 0, 0 + 2]
    assert new_groups(table, split, by_number, 5, 0, 3).tolist() == [0 + 2, 1 + 1, 2 + 0, 3 + 2 - 5, 4 + 1 - 5, 0 + 0]
    assert new_groups(table.slice(0, 0), split, by_number, 5, 2, 3).tolist() == []


def test_state_without_a_key_goes_to_the_first_key_group_and_parts_after_it():
    from panestream.engine.planner import split_of

    plan = replace(plan_of(TUMBLING, agg.count_distinct("v")), key_schema=pa.schema([]))
    split = replace(plan, split=split_of(3, [agg.count_distinct("v")], plan.operator))
    table = pa.table({"n": [1, 2]})
    assert new_groups(table, plan, by_number, 5, 2, 3).tolist() == [0, 0]
    assert [new_groups(table, split, by_number, 2, came_from, 3).tolist() for came_from in range(3)] == [[0, 0], [1, 1], [0, 0]]


def test_distributed_rows_keep_their_order():
    table = pa.table({"n": [1, 2, 3, 4, 5]})
    assert [part["n"].to_pylist() for part in dealt(table, np.array([2, 0, 2, 0, 2]), 4)] == [[2, 4], [], [1, 3, 5], []]


def test_restore_into_key_groups_with_state_is_refused():
    plan = plan_of(TUMBLING)
    saved = saved_after(plan, rows(3))
    query = restart(plan, saved)
    with pytest.raises(PlanMismatchError, match="has state already"):
        query.restore(saved)


@pytest.mark.parametrize("exact", [False, True])
def test_error_names_the_changed_windows_and_the_allowed_changes(exact):
    saved = saved_after(plan_of(TUMBLING, exact=exact), rows(3))
    other = plan_of(WindowQuery(EventTimeSessionWindows(10)), exact=exact)
    with pytest.raises(PlanMismatchError, match=r"(?s)windows: .*->.*savepoints.md lists the possible changes") as raised:
        restart(other, saved)
    assert "windows" in raised.value.changed


def test_adding_a_changelog_to_saved_state_is_refused():
    saved = saved_after(plan_of(TUMBLING), rows(3))
    with pytest.raises(PlanMismatchError, match=r"emitted: \(absent\)  ->  values"):
        restart(plan_of(TUMBLING, changelog=True), saved)


def test_newer_format_and_missing_table_are_refused():
    plan = plan_of(TUMBLING)
    (saved,) = saved_after(plan, rows(3), groups=1)
    with pytest.raises(StateFormatError, match="has format 99"):
        restart(plan, [StateTables({**saved.header, "format": 99}, saved.tables)])
    with pytest.raises(StateFormatError, match="no table 'panes'"):
        restart(plan, [StateTables(saved.header, {})])


# -- other aggregates, other windows ----------------------------------------------------------------------------------------


def fired_results(output):
    return {(key, *place): values for key, firings in output.fired.items() for place, values in firings}


@pytest.mark.parametrize("exact", [False, True], ids=["panes", "rows"])
def test_aggregates_may_be_added_removed_renamed_and_reordered(exact):
    before = plan_of(TUMBLING, agg.sum("v").alias("total"), agg.max("u"), agg.mean("x"), agg.count(), exact=exact)
    after = plan_of(TUMBLING, agg.count(), agg.max("u").alias("largest"), agg.min("u"), agg.sum("v"), exact=exact)
    query = restart(after, rescaled(saved_after(before, rows(3, 4, value=5)), before, placement, 2))
    results = fired_results(query.run(MicroBatch([rows(8, 25, value=2)])))
    # min(u) is new, so it includes only the row at 8.
    assert results == {(key, 0, 10): (3, 8, 8, 12) for key in "abcd"}


def test_user_function_and_declared_aggregates_cannot_replace_each_other():
    operator = plan_functions(
        replace(TUMBLING, every_firing=True), AggregateRows(Totals()), Totals.results, harness.ROWS, Totals(), harness.KEYS
    )
    own = harness.plan_for(operator, TUMBLING)
    declared = plan_of(TUMBLING, exact=True)
    with pytest.raises(PlanMismatchError, match="a user function, but now aggregates are declared"):
        restart(declared, saved_after(own, rows(3)))
    with pytest.raises(PlanMismatchError, match=r"function: agg\.sum.*->  aggregate with Totals"):
        restart(own, saved_after(declared, rows(3)))


def test_aggregates_of_sessions_may_change():
    windowing = WindowQuery(EventTimeSessionWindows(10))
    query = restart(
        plan_of(windowing, agg.count_distinct("u"), agg.sum("v")), saved_after(plan_of(windowing, agg.sum("v")), rows(3, 4))
    )
    assert fired_results(query.run(MicroBatch([rows(8, 40)]))) == {(key, 3, 18): (1, 3) for key in "abcd"}


def test_changelog_takes_back_null_for_a_new_aggregate():
    windowing = WindowQuery(TumblingEventTimeWindows(10), allowed_lateness=100)
    saved = saved_after(plan_of(windowing, agg.sum("v"), changelog=True), rows(3), rows(15))
    query = restart(plan_of(windowing, agg.min("u"), agg.sum("v"), changelog=True), saved)
    changes = [values for _, values in query.run(MicroBatch([rows(5)])).fired["a"]]
    assert changes == [(None, 1, "update_before"), (5, 2, "update_after")]


def test_windows_may_become_fewer_and_shorter_if_their_panes_match():
    def sliding(size, slide):
        return plan_of(WindowQuery(SlidingEventTimeWindows(size, slide)))

    early, late = rows(*range(1, 58, 4)), rows(*range(61, 160, 4))
    saved = saved_after(sliding(60, 10), early)
    never_stopped = {}
    for query in (Query(sliding(60, 20), 3), Query(sliding(20, 20), 3)):
        results = {**fired_results(query.run(MicroBatch([early]))), **fired_results(query.run(MicroBatch([late])))}
        never_stopped[query.plan.operator.grid] = results
    for plan in (sliding(60, 20), sliding(20, 20)):
        results = fired_results(restart(plan, saved).run(MicroBatch([late])))
        ended_before = {place for place in never_stopped[plan.operator.grid] if place[2] <= 57}
        assert results == {
            place: values for place, values in never_stopped[plan.operator.grid].items() if place not in ended_before
        }
    with pytest.raises(PlanMismatchError, match="begin or end within"):
        restart(sliding(60, 5), saved)


def of_rows(windowing):
    operator = plan_table_function(
        windowing, TablePerWindow(count_rows), pa.schema([("n", pa.int64())]), harness.ROWS, harness.KEYS
    )
    return harness.plan_for(operator, windowing)


def count_rows(key, window, table):
    return pa.table({"n": [table.num_rows]})


@pytest.mark.parametrize("planned", [plan_of, of_rows], ids=["aggregates", "rows"])
def test_windows_that_begin_before_the_kept_rows_are_refused(planned):
    """The watermark is 34. Windows of ten have kept the rows from 30 on."""
    saved = saved_after(planned(TUMBLING), rows(3), rows(35))
    for size, lacking in ((40, 30), (20, 10)):
        with pytest.raises(PlanMismatchError, match=f"begin {lacking} microseconds before the first row in the saved state"):
            restart(planned(WindowQuery(TumblingEventTimeWindows(size))), saved)
    # A window that begins with the kept rows has all its rows.
    query = restart(planned(WindowQuery(TumblingEventTimeWindows(15))), saved)
    assert fired_results(query.run(MicroBatch([rows(44, 60)]))) == {(key, 30, 45): (2,) for key in "abcd"}


def test_each_key_group_gets_its_rows_in_order_or_an_empty_table():
    table = pa.table({"n": [10, 11, 12, 13]})
    tables = dealt(table, np.array([2, 0, 2, 1]), 5)
    assert [part.column("n").to_pylist() for part in tables] == [[11], [13], [10, 12], [], []]
    assert [part.num_rows for part in dealt(table.slice(0, 0), np.array([], np.int64), 3)] == [0, 0, 0]
