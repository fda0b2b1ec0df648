"""What rests of windows by predicates from one micro-batch to the next: each open window as one, and every instant that waits."""

from __future__ import annotations

from panestream.engine.operators.predicates import ENDS, OPEN, STARTS
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import PredicateWindows
from tests.comparison import harness, predicates

AGGREGATES = (agg.count().alias("n"), agg.sum("u").alias("s"))
BEGINS, NEITHER, LAST = 2, 3, 5
"""Values of ``u``: with a ``v`` above zero the first begins a window, the last ends one."""


def batch(*rows, end=False):
    """A micro-batch of (key, time, u): rows with BEGINS begin a window, those with LAST end one."""
    return harness.MicroBatch([[(key, time, int(u == BEGINS), None, u) for key, time, u in rows]] if rows else [], end=end)


def run(plan, state, *rows):
    """What a micro-batch fires; and what rests: key, start, time, flags, and the results so far."""
    (one,) = harness.run(plan, [batch(*rows)], state)
    steps = plan.operator.for_group(plan, state, 0).tables().tables["steps"]
    assert one.metrics.kept_windows == steps.num_rows
    names = ("key 0", "start", "time", "flags", "rows", "#0.sum")
    return one.fired, sorted(tuple(row[name] for name in names) for row in steps.to_pylist())


def test_what_is_open_rests_as_one_and_what_time_has_not_passed_waits():
    plan, state = predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1"), AGGREGATES), MemoryState()
    # The watermark is 2: what came at 3 waits, rows of an instant together.
    fired, rests = run(plan, state, ("a", 1, BEGINS), ("a", 2, NEITHER), ("b", 3, BEGINS), ("b", 3, NEITHER))
    assert (fired, rests) == ([], [("a", 1, 2, OPEN, 2, 5), ("b", 3, 3, STARTS, 2, 5)])
    # It is 9: the window of "a" ends with its last row, that of "b" has grown.
    fired, rests = run(plan, state, ("a", 5, LAST), ("b", 8, NEITHER), ("b", 10, BEGINS), ("c", 10, NEITHER))
    assert fired == [(("a", 1, 6), (3, 10))]
    assert rests == [("b", 3, 8, OPEN, 3, 8), ("b", 10, 10, STARTS, 1, 2), ("c", 10, 10, 0, 1, 3)]
    # A row of "b" has begun another window; the one of "c" was in none, and has gone.
    fired, rests = run(plan, state, ("b", 13, LAST), ("c", 13, BEGINS))
    assert fired == [(("b", 3, 10), (3, 8))]
    assert rests == [("b", 10, 10, OPEN, 1, 2), ("b", 13, 13, ENDS, 1, 5), ("c", 13, 13, STARTS, 1, 2)]
    fired, rests = run(plan, state, ("d", 40, NEITHER))
    assert fired == [(("b", 10, 14), (2, 7))]
    assert rests == [("c", 13, 13, OPEN, 1, 2), ("d", 40, 40, 0, 1, 3)]


def test_a_window_that_a_gap_ends_rests_until_time_has_come_to_its_end():
    plan, state = predicates.plan_of(PredicateWindows("v > 0", gap=10), AGGREGATES), MemoryState()
    assert run(plan, state, ("a", 1, BEGINS), ("b", 3, NEITHER)) == ([], [("a", 1, 1, OPEN, 1, 2), ("b", 3, 3, 0, 1, 3)])
    assert run(plan, state, ("b", 11, NEITHER)) == ([], [("a", 1, 1, OPEN, 1, 2), ("b", 11, 11, 0, 1, 3)])
    assert run(plan, state, ("b", 12, NEITHER)) == ([(("a", 1, 11), (1, 2))], [("b", 12, 12, 0, 1, 3)])


def test_at_the_end_of_input_what_has_ended_fires_and_what_is_open_does_not():
    plan = predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1"), AGGREGATES)
    rows = [("a", 1, BEGINS), ("a", 4, LAST), ("b", 2, BEGINS), ("b", 3, NEITHER)]
    (one,) = harness.run(plan, [batch(*rows, end=True)])
    assert one.fired == [(("a", 1, 5), (2, 7))]
    first, last = harness.run(plan, [batch(*rows[:1], *rows[2:]), batch(rows[1], end=True)])
    assert (first.fired, last.fired) == ([], [(("a", 1, 5), (2, 7))])


def test_what_is_open_is_merged_whatever_the_first_aggregate_keeps():
    aggregates = (agg.sum("x").alias("total"), agg.max("v").alias("most"), agg.count().alias("n"))
    plan, state = predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1"), aggregates), MemoryState()
    rows = [[("a", 1, 1, 0.5, BEGINS), ("a", 2, 0, 0.25, NEITHER)], [("a", 5, 0, 2.0, NEITHER)], [("a", 7, 0, 4.0, LAST)]]
    fired = [one.fired for one in harness.run(plan, [*(harness.MicroBatch([some]) for some in rows), batch(end=True)], state)]
    assert fired == [[], [], [], [(("a", 1, 8), (6.75, 1, 4))]]
