"""The view of a key group's watermark and source partitions."""

import datetime as dt
from dataclasses import replace

from panestream.engine.plan import WindowQuery
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


def rows_shown(strategy, tracker, closed=MIN_TIMESTAMP, clock=0):
    plan = harness.Query(WindowQuery(TumblingEventTimeWindows(10)), (agg.count(),)).columnar()
    header = {"watermarks": tracker.to_json(), "closed": closed, "clock": clock}
    table = watermarks_of(replace(plan, watermark=strategy), header, 3)
    return table.to_pylist()


def test_source_partitions_are_shown_in_order_of_their_watermarks():
    strategy = WatermarkStrategy(delay=5).per_partition("p", ["0", "1"]).with_idleness("10 seconds")
    tracker = WatermarkTracker(strategy)
    # Partition 1 is expected and stays empty for 15 seconds while the source is read. Only this time counts as silence.
    for second in (1000, 1005, 1010, 1015):
        tracker.advance({"0": second, "2": second + 7}, second * SECOND, run="first")
    rows = rows_shown(strategy, tracker, closed=900, clock=1015 * SECOND)
    common = {"key_group": 3, "watermark": at(1009), "closed": at(900), "processing_time": at(1015 * SECOND)}
    silent = dt.timedelta(seconds=15)
    partition = {"partition_watermark": at(1009), "max_event_time": at(1015), "idle": False, "silent": None}
    assert rows == [
        {**common, "source_partition": "1", "partition_watermark": None, "max_event_time": None, "idle": True, "silent": silent},
        {**common, "source_partition": "0", **partition},
        {**common, "source_partition": "2", **partition, "partition_watermark": at(1016), "max_event_time": at(1022)},
    ]


def test_key_group_without_input_has_one_row():
    strategy = WatermarkStrategy(delay=5)
    (row,) = rows_shown(strategy, WatermarkTracker(strategy))
    assert {name for name, value in row.items() if value is not None} == {"key_group"}


def test_all_of_1001_source_partitions_are_shown():
    strategy = WatermarkStrategy(delay=0).per_partition("p")
    tracker = WatermarkTracker(strategy)
    tracker.advance({str(number): number for number in range(1001)}, 0)
    assert [row["max_event_time"] for row in rows_shown(strategy, tracker)] == [at(number) for number in range(1001)]
