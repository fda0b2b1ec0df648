"""Real clicks through four Kafka partitions, one of them an hour late and then idle, give the known hot items."""

from __future__ import annotations

import gzip
import time
from collections import Counter

import pytest

import panestream as pst
from panestream import agg

pytestmark = [pytest.mark.connectors, pytest.mark.kafka]

PV = {9: 41_890, 10: 48_022}
"""Page views of the hours 09 and 10 of the shop's clock (UTC+8)."""
TOP = {
    9: [(2338453, 27), (2563440, 18), (812879, 17), (138964, 14), (3244134, 12)],
    10: [(2338453, 35), (812879, 20), (3845720, 17), (3142142, 16), (291932, 15)],
}
HALF_HOUR, BEGIN = 1800, 1_511_658_000


def page_views(event_data):
    """Return page views by partition and half hour. The rows of the file go to the partitions in turn."""
    slices = {(partition, half): [] for partition in range(4) for half in range(5)}
    with gzip.open(event_data / "taobao_userbehavior_2h_sorted.csv.gz", "rt") as lines:
        for number, line in enumerate(lines):
            user, item, _, behavior, at = line.rstrip("\n").split(",")
            if behavior == "pv":
                half = (int(at) - BEGIN) // HALF_HOUR
                value = {"user": int(user), "item": int(item), "at": int(at)}
                slices[number % 4, half].append({"partition": number % 4, "key": user, "value": value})
    return slices


def side_by_side(parts):
    """Interleave the rows of several partitions, so that every stretch has some of each."""
    placed = [(place / len(rows), number, row) for number, rows in enumerate(parts) for place, row in enumerate(rows)]
    return [row for _, _, row in sorted(placed, key=lambda one: one[:2])]


def test_hot_items_are_right_with_a_kafka_partition_that_lags_and_stops(spark, topics, broker, event_data, tmp_path):
    slices, topic = page_views(event_data), topics.make(4)
    late, main = pst.MemorySink(), pst.MemorySink()
    clicks = pst.from_kafka(
        spark,
        broker.servers,
        topic,
        schema="user BIGINT, item BIGINT, at BIGINT",
        idle_after="4 seconds",
        records_per_batch=40_000,
    )
    timed = clicks.assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps(), unit="seconds")
    hours = timed.key_by("item").window(pst.TumblingEventTimeWindows.of("1 hour")).side_output_late_data("late")
    result = hours.options(key_groups=2).aggregate(agg.count().alias("views"))
    query = result.start(checkpoint=str(tmp_path / "checkpoint"), trigger="10 milliseconds", main=main, late=late)
    found = {}

    def feed(*records):
        topics.write(topic, records)
        query.query.processAllAvailable()
        found.clear()
        for row in main.rows:
            items = found.setdefault((row.window_start.hour + 8) % 24, Counter())
            assert row.item not in items, "a window came twice"
            items[row.item] = row.views
        return sorted(found)

    try:
        # The last partition has started. From now on it is an hour late.
        begun, slices[3, 0] = slices[3, 0][:2], slices[3, 0][2:]
        spare = slices[0, 4][-60:]
        del slices[0, 4][-60:]
        for step in range(6):
            rows = side_by_side(
                slices[place, half] for place, half in (*((place, step) for place in range(3)), (3, step - 2)) if 0 <= half < 5
            )
            hours_done = feed(*rows, *begun[step : step + 1])
            assert hours_done == ([9] if step >= 4 else []), step
        # It is silent from now on. The hour that only this partition kept open ends without it.
        deadline = time.monotonic() + 180
        while hours_done == [9] and spare and time.monotonic() < deadline:
            hours_done = feed(spare.pop(0))
        assert hours_done == [9, 10]
        assert not late.rows
    finally:
        query.stop()
    assert {hour: sum(items.values()) for hour, items in found.items()} == PV
    for hour, top in TOP.items():
        ranked = sorted(found[hour].items(), key=lambda item: (-item[1], item[0]))
        assert [views for _, views in ranked[:5]] == [views for _, views in top]
        assert all(found[hour][item] == views for item, views in top)
