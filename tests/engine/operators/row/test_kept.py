"""How many windows the row operator says that it keeps, from one micro-batch to the next."""

from __future__ import annotations

from panestream.engine.query import WindowSpec
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness


def batch(*rows):
    return harness.MicroBatch([[(key, time, None, None, 1) for key, time in rows]])


def test_windows_are_counted_as_they_come_and_go():
    plan = harness.Query(WindowSpec(TumblingEventTimeWindows(10)), (agg.count().alias("n"),)).row()
    batches = [batch(("a", 1), ("a", 12), ("b", 1)), batch(("a", 13), ("c", 12)), batch(("b", 25))]
    emitted = harness.run(plan, batches)
    assert [one.metrics.kept_windows for one in emitted] == [1, 2, 1]
    assert [len(one.fired) for one in emitted] == [2, 0, 2]
