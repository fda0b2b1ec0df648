"""The state of windows by predicates between micro-batches: one entry per open window, and one per instant that waits."""

from __future__ import annotations

from panestream.engine.operators.predicates.cuts import ENDS, OPEN, STARTS
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import PredicateWindows
from tests.comparison import harness, predicates

AGGREGATES = (agg.count().alias("n"), agg.sum("u").alias("s"))
BEGINS, NEITHER, LAST = 2, 3, 5
"""Values of ``u``. A row with BEGINS gets a positive ``v``, which begins a window. A row with LAST ends one."""


def batch(*rows, end=False):
    """Return a micro-batch of (key, time, u). Rows with BEGINS begin a window, rows with LAST end one."""
    return harness.MicroBatch([[(key, time, int(u == BEGINS), None, u) for key, time, u in rows]] if rows else [], end=end)


def run(plan, state, *rows):
    """Run a micro-batch. Return the results, and from state (key, start, time, flags, rows, sum)."""
    (output,) = harness.run(plan, [batch(*rows)], state)
    steps = plan.operator.for_group(plan, state, 0).tables().tables["steps"]
    assert output.metrics.kept_windows == steps.num_rows
    names = ("key 0", "start", "time", "flags", "rows", "#0.sum")
    return output.fired, sorted(tuple(row[name] for name in names) for row in steps.to_pylist())


def test_open_window_is_stored_as_one_entry_and_later_rows_wait():
    plan, state = predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1"), AGGREGATES), MemoryState()
    # The watermark is 2. Rows at 3 wait, and rows of one instant are stored together.
    fired, steps_stored = run(plan, state, ("a", 1, BEGINS), ("a", 2, NEITHER), ("b", 3, BEGINS), ("b", 3, NEITHER))
    assert (fired, steps_stored) == ([], [("a", 1, 2, OPEN, 2, 5), ("b", 3, 3, STARTS, 2, 5)])
    # The watermark is 9. The window of "a" ends with its last row, the window of "b" has grown.
    fired, steps_stored = run(plan, state, ("a", 5, LAST), ("b", 8, NEITHER), ("b", 10, BEGINS), ("c", 10, NEITHER))
    assert fired == [(("a", 1, 6), (3, 10))]
    assert steps_stored == [("b", 3, 8, OPEN, 3, 8), ("b", 10, 10, STARTS, 1, 2), ("c", 10, 10, 0, 1, 3)]
    # A row of "b" has started another window. The row of "c" was in no window and was deleted.
    fired, steps_stored = run(plan, state, ("b", 13, LAST), ("c", 13, BEGINS))
    assert fired == [(("b", 3, 10), (3, 8))]
    assert steps_stored == [("b", 10, 10, OPEN, 1, 2), ("b", 13, 13, ENDS, 1, 5), ("c", 13, 13, STARTS, 1, 2)]
    fired, steps_stored = run(plan, state, ("d", 40, NEITHER))
    assert fired == [(("b", 10, 14), (2, 7))]
    assert steps_stored == [("c", 13, 13, OPEN, 1, 2), ("d", 40, 40, 0, 1, 3)]


def test_window_that_ends_by_a_gap_is_stored_until_the_watermark_reaches_its_end():
    plan, state = predicates.plan_of(PredicateWindows("v > 0", gap=10), AGGREGATES), MemoryState()
    assert run(plan, state, ("a", 1, BEGINS), ("b", 3, NEITHER)) == ([], [("a", 1, 1, OPEN, 1, 2), ("b", 3, 3, 0, 1, 3)])
    assert run(plan, state, ("b", 11, NEITHER)) == ([], [("a", 1, 1, OPEN, 1, 2), ("b", 11, 11, 0, 1, 3)])
    assert run(plan, state, ("b", 12, NEITHER)) == ([(("a", 1, 11), (1, 2))], [("b", 12, 12, 0, 1, 3)])


def test_only_ended_predicate_windows_fire_at_the_end_of_input():
    plan = predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1"), AGGREGATES)
    rows = [("a", 1, BEGINS), ("a", 4, LAST), ("b", 2, BEGINS), ("b", 3, NEITHER)]
    (output,) = harness.run(plan, [batch(*rows, end=True)])
    assert output.fired == [(("a", 1, 5), (2, 7))]
    first, last = harness.run(plan, [batch(*rows[:1], *rows[2:]), batch(rows[1], end=True)])
    assert (first.fired, last.fired) == ([], [(("a", 1, 5), (2, 7))])


def test_open_window_is_merged_whatever_its_first_aggregate():
    aggregates = (agg.sum("x").alias("total"), agg.max("v").alias("most"), agg.count().alias("n"))
    plan, state = predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1"), aggregates), MemoryState()
    rows = [[("a", 1, 1, 0.5, BEGINS), ("a", 2, 0, 0.25, NEITHER)], [("a", 5, 0, 2.0, NEITHER)], [("a", 7, 0, 4.0, LAST)]]
    fired = [
        output.fired
        for output in harness.run(plan, [*(harness.MicroBatch([batch_rows]) for batch_rows in rows), batch(end=True)], state)
    ]
    assert fired == [[], [], [], [(("a", 1, 8), (6.75, 1, 4))]]
