"""The number of kept windows in the metrics of the row operator."""

from __future__ import annotations

from panestream.engine.plan import WindowQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness


def batch(*rows):
    return harness.MicroBatch([[(key, time, None, None, 1) for key, time in rows]])


def test_kept_windows_metric_counts_open_windows_of_all_keys():
    plan = harness.Query(WindowQuery(TumblingEventTimeWindows(10)), (agg.count().alias("n"),)).row()
    batches = [batch(("a", 1), ("a", 12), ("b", 1)), batch(("a", 13), ("c", 12)), batch(("b", 25))]
    emitted = harness.run(plan, batches)
    assert [output.metrics.kept_windows for output in emitted] == [1, 2, 1]
    assert [len(output.fired) for output in emitted] == [2, 0, 2]
