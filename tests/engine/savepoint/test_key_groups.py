"""Headers of several key groups made one, and rows dealt out: what may not be is refused, and says why."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.operators.row.contents import AggregateRows
from panestream.engine.planner import plan_aggregates, plan_functions, plan_table_function
from panestream.engine.query import WindowSpec
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


def started(plan, saved):
    query = Query(plan, len(saved))
    query.restore(saved)
    return query


TUMBLING = WindowSpec(TumblingEventTimeWindows(10))


def test_another_watermark_in_one_key_group_is_no_consistent_cut():
    plan = plan_of(TUMBLING)
    one, two = saved_after(plan, rows(3)), saved_after(plan, rows(4))
    with pytest.raises(StateDamagedError, match="do not belong together: key group 2 says of its watermarks") as raised:
        rescaled([*one[:2], two[2]], plan, placement, 2)
    assert raised.value.group == 2


def test_the_latest_clock_counts_and_totals_are_counted_once():
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


def test_what_all_key_groups_say_alike_is_said_once_and_of_one_all_is_kept():
    alike = ("format", "operator", "identity", "watermarks", "partials", "labels", "accumulators", "incomplete")
    counters = {"equal": {"offset": 7, "other": 0}, "total": {"dropped": 2}}
    one = {**{name: name for name in alike}, "clock": 3, "closed": 2, "counters": counters}
    assert header_of_all([one]) == one
    assert header_of_all([one] * 3) == {**one, "counters": {**counters, "total": {"dropped": 6}}}
    for place in range(3):
        several = [one] * 3
        several[place] = {**one, "counters": {"equal": {"offset": 8, "other": 0}}}
        with pytest.raises(PlanMismatchError, match="the number of key groups must stay as it is"):
            header_of_all(several)


def test_staggered_windows_keep_their_key_groups():
    plan = plan_of(WindowSpec(TumblingEventTimeWindows(1000, 0, WindowStagger.RANDOM)))
    saved = saved_after(plan, rows(3, 500))
    with pytest.raises(PlanMismatchError, match="staggered windows are shifted"):
        rescaled(saved, plan, placement, 2)
    again = started(plan, rescaled(saved, plan, placement, 3))
    assert again.run(MicroBatch([rows(5000)])).fired


def test_a_split_key_with_more_parts_than_key_groups_keeps_them():
    from panestream.engine.split import split_of

    plan = plan_of(TUMBLING, agg.count_distinct("v"))
    plan = replace(plan, split=split_of(3, [agg.count_distinct("v")], plan.operator))
    table = pa.table({"key 0": ["a"]})
    assert new_groups(table, plan, placement, 5, 1, 3).tolist()
    with pytest.raises(PlanMismatchError, match="split into 3 parts, which lie in 2 key groups"):
        new_groups(table, plan, placement, 5, 1, 2)


def by_number(keys, groups):
    """Stands in for a hash: keys are numbers as text."""
    return np.array([int(key) for key in keys[0].to_pylist()]) % groups


def test_a_part_of_a_key_lies_as_far_behind_the_keys_own_key_group_as_it_did():
    from panestream.engine.split import split_of

    plan = plan_of(TUMBLING, agg.count_distinct("v"))
    split = replace(plan, split=split_of(3, [agg.count_distinct("v")], plan.operator))
    table = pa.table({"key 0": ["10", "11", "12", "13", "14", "15"]})
    own = [0, 1, 2, 3, 4, 0]
    assert new_groups(table, plan, by_number, 5, 2, 3).tolist() == own
    # Of three, their own were 1, 2, 0, 1, 2, 0: in key group 2 lay what is this many behind.
    assert new_groups(table, split, by_number, 5, 2, 3).tolist() == [0 + 1, 1 + 0, 2 + 2, 3 + 1, 4 + 0, 0 + 2]
    assert new_groups(table, split, by_number, 5, 0, 3).tolist() == [0 + 2, 1 + 1, 2 + 0, 3 + 2 - 5, 4 + 1 - 5, 0 + 0]
    assert new_groups(table.slice(0, 0), split, by_number, 5, 2, 3).tolist() == []


def test_without_a_key_all_is_of_the_first_key_group_and_parts_lie_behind_it():
    from panestream.engine.split import split_of

    plan = replace(plan_of(TUMBLING, agg.count_distinct("v")), key_schema=pa.schema([]))
    split = replace(plan, split=split_of(3, [agg.count_distinct("v")], plan.operator))
    table = pa.table({"n": [1, 2]})
    assert new_groups(table, plan, by_number, 5, 2, 3).tolist() == [0, 0]
    assert [new_groups(table, split, by_number, 2, came_from, 3).tolist() for came_from in range(3)] == [[0, 0], [1, 1], [0, 0]]


def test_rows_are_dealt_out_in_their_order():
    table = pa.table({"n": [1, 2, 3, 4, 5]})
    assert [part["n"].to_pylist() for part in dealt(table, np.array([2, 0, 2, 0, 2]), 4)] == [[2, 4], [], [1, 3, 5], []]


def test_state_is_put_into_new_key_groups_only():
    plan = plan_of(TUMBLING)
    saved = saved_after(plan, rows(3))
    query = started(plan, saved)
    with pytest.raises(PlanMismatchError, match="has state already"):
        query.restore(saved)


@pytest.mark.parametrize("exact", [False, True])
def test_what_may_not_change_is_named_with_what_may(exact):
    saved = saved_after(plan_of(TUMBLING, exact=exact), rows(3))
    other = plan_of(WindowSpec(EventTimeSessionWindows(10)), exact=exact)
    with pytest.raises(PlanMismatchError, match=r"(?s)windows: .*->.*What may change, .*savepoints") as raised:
        started(other, saved)
    assert "windows" in raised.value.changed


def test_what_is_kept_of_emitted_rows_may_not_change():
    saved = saved_after(plan_of(TUMBLING), rows(3))
    with pytest.raises(PlanMismatchError, match=r"emitted: \(absent\)  ->  values"):
        started(plan_of(TUMBLING, changelog=True), saved)


def test_a_newer_format_and_a_missing_table_are_refused_in_words():
    plan = plan_of(TUMBLING)
    (saved,) = saved_after(plan, rows(3), groups=1)
    with pytest.raises(StateFormatError, match="has format 99"):
        started(plan, [StateTables({**saved.header, "format": 99}, saved.tables)])
    with pytest.raises(StateFormatError, match="no table 'panes'"):
        started(plan, [StateTables(saved.header, {})])


# -- other aggregates, other windows ----------------------------------------------------------------------------------------


def fired(told):
    return {(key, *place): values for key, firings in told.fired.items() for place, values in firings}


@pytest.mark.parametrize("exact", [False, True], ids=["panes", "rows"])
def test_aggregates_are_added_left_out_renamed_and_put_in_another_order(exact):
    before = plan_of(TUMBLING, agg.sum("v").alias("total"), agg.max("u"), agg.mean("x"), agg.count(), exact=exact)
    after = plan_of(TUMBLING, agg.count(), agg.max("u").alias("largest"), agg.min("u"), agg.sum("v"), exact=exact)
    query = started(after, rescaled(saved_after(before, rows(3, 4, value=5)), before, placement, 2))
    found = fired(query.run(MicroBatch([rows(8, 25, value=2)])))
    # min(u) is new: it knows the row at 8 only.
    assert found == {(key, 0, 10): (3, 8, 8, 12) for key in "abcd"}


def test_a_users_function_and_declared_aggregates_do_not_take_over_each_others_accumulators():
    operator = plan_functions(
        replace(TUMBLING, every_firing=True), AggregateRows(Totals()), Totals.results, harness.ROWS, Totals(), harness.KEYS
    )
    own = harness.plan_for(operator, TUMBLING)
    declared = plan_of(TUMBLING, exact=True)
    with pytest.raises(PlanMismatchError, match="a function of the user's own, now aggregates are declared"):
        started(declared, saved_after(own, rows(3)))
    with pytest.raises(PlanMismatchError, match=r"function: agg\.sum.*->  aggregate with Totals"):
        started(own, saved_after(declared, rows(3)))


def test_sessions_take_other_aggregates_too():
    windowing = WindowSpec(EventTimeSessionWindows(10))
    query = started(
        plan_of(windowing, agg.count_distinct("u"), agg.sum("v")), saved_after(plan_of(windowing, agg.sum("v")), rows(3, 4))
    )
    assert fired(query.run(MicroBatch([rows(8, 40)]))) == {(key, 3, 18): (1, 3) for key in "abcd"}


def test_a_changelog_takes_back_null_where_a_result_is_new():
    windowing = WindowSpec(TumblingEventTimeWindows(10), allowed_lateness=100)
    saved = saved_after(plan_of(windowing, agg.sum("v"), changelog=True), rows(3), rows(15))
    query = started(plan_of(windowing, agg.min("u"), agg.sum("v"), changelog=True), saved)
    changes = [values for _, values in query.run(MicroBatch([rows(5)])).fired["a"]]
    assert changes == [(None, 1, "update_before"), (5, 2, "update_after")]


def test_windows_may_become_fewer_and_shorter_where_panes_allow_it():
    def sliding(size, slide):
        return plan_of(WindowSpec(SlidingEventTimeWindows(size, slide)))

    early, late = rows(*range(1, 58, 4)), rows(*range(61, 160, 4))
    saved = saved_after(sliding(60, 10), early)
    never_stopped = {}
    for one in (Query(sliding(60, 20), 3), Query(sliding(20, 20), 3)):
        found = {**fired(one.run(MicroBatch([early]))), **fired(one.run(MicroBatch([late])))}
        never_stopped[one.plan.operator.grid] = found
    for plan in (sliding(60, 20), sliding(20, 20)):
        found = fired(started(plan, saved).run(MicroBatch([late])))
        ended_before = {place for place in never_stopped[plan.operator.grid] if place[2] <= 57}
        assert found == {
            place: values for place, values in never_stopped[plan.operator.grid].items() if place not in ended_before
        }
    with pytest.raises(PlanMismatchError, match="begin or end within"):
        started(sliding(60, 5), saved)


def of_rows(windowing):
    operator = plan_table_function(windowing, TablePerWindow(counted), pa.schema([("n", pa.int64())]), harness.ROWS, harness.KEYS)
    return harness.plan_for(operator, windowing)


def counted(key, window, table):
    return pa.table({"n": [table.num_rows]})


@pytest.mark.parametrize("planned", [plan_of, of_rows], ids=["aggregates", "rows"])
def test_windows_that_would_lack_rows_are_refused(planned):
    """Time is 34: windows of ten have kept what came from 30 on."""
    saved = saved_after(planned(TUMBLING), rows(3), rows(35))
    for size, lacking in ((40, 30), (20, 10)):
        with pytest.raises(PlanMismatchError, match=f"begin {lacking} microseconds before the first row that the saved state"):
            started(planned(WindowSpec(TumblingEventTimeWindows(size))), saved)
    # A window that begins where rows do has all.
    query = started(planned(WindowSpec(TumblingEventTimeWindows(15))), saved)
    assert fired(query.run(MicroBatch([rows(44, 60)]))) == {(key, 30, 45): (2,) for key in "abcd"}


def test_rows_are_dealt_out_in_their_order_and_every_key_group_gets_its_own_even_if_none():
    table = pa.table({"n": [10, 11, 12, 13]})
    tables = dealt(table, np.array([2, 0, 2, 1]), 5)
    assert [one.column("n").to_pylist() for one in tables] == [[11], [13], [10, 12], [], []]
    assert [one.num_rows for one in dealt(table.slice(0, 0), np.array([], np.int64), 3)] == [0, 0, 0]
