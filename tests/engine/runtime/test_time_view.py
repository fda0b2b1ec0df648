"""What is shown of a key group's time."""

import datetime as dt
from dataclasses import replace

from panestream.engine.query import WindowSpec
from panestream.engine.runtime.state_views import watermarks_of
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness

SECOND = 1_000_000


def at(micros):
    return None if micros is None else dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)


def shown(strategy, tracker, closed=MIN_TIMESTAMP, clock=0):
    plan = harness.Query(WindowSpec(TumblingEventTimeWindows(10)), (agg.count(),)).columnar()
    header = {"watermarks": tracker.to_json(), "closed": closed, "clock": clock}
    table = watermarks_of(replace(plan, watermark=strategy), header, 3)
    return table.to_pylist()


def test_source_partitions_by_how_far_they_are():
    strategy = WatermarkStrategy(delay=5).per_partition("p", ["0", "1"]).with_idleness("10 seconds")
    tracker = WatermarkTracker(strategy)
    # Partition 1 is expected and has no rows, for 15 seconds while the source is asked; more than that nobody counts.
    for second in (1000, 1005, 1010, 1015):
        tracker.advance({"0": second, "2": second + 7}, second * SECOND, run="first")
    rows = shown(strategy, tracker, closed=900, clock=1015 * SECOND)
    alike = {"key_group": 3, "watermark": at(1009), "closed": at(900), "processing_time": at(1015 * SECOND)}
    silent = dt.timedelta(seconds=15)
    found = {"partition_watermark": at(1009), "max_event_time": at(1015), "idle": False, "silent": None}
    assert rows == [
        {**alike, "source_partition": "1", "partition_watermark": None, "max_event_time": None, "idle": True, "silent": silent},
        {**alike, "source_partition": "0", **found},
        {**alike, "source_partition": "2", **found, "partition_watermark": at(1016), "max_event_time": at(1022)},
    ]


def test_a_key_group_that_has_seen_nothing_has_one_row():
    strategy = WatermarkStrategy(delay=5)
    (row,) = shown(strategy, WatermarkTracker(strategy))
    assert {name for name, value in row.items() if value is not None} == {"key_group"}


def test_all_source_partitions_are_shown():
    strategy = WatermarkStrategy(delay=0).per_partition("p")
    tracker = WatermarkTracker(strategy)
    tracker.advance({str(number): number for number in range(1001)}, 0)
    assert [row["max_event_time"] for row in shown(strategy, tracker)] == [at(number) for number in range(1001)]
