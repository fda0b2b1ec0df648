"""Earthquakes joined with those that the same network measured in the hour before, by time, in windows and as a stream."""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_left
from collections import Counter, defaultdict
from datetime import datetime, timedelta

import pytest

import panestream as pst
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

SCHEMA = "net string, time timestamp, id string, mag double"
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def quakes(event_data):
    with gzip.open(event_data / "usgs_earthquakes_30d_2025-07-23.csv.gz", "rt", encoding="utf-8") as lines:
        read = [
            (row["net"], datetime.fromisoformat(row["time"].replace("Z", "+00:00")), row["id"], float(row["mag"] or 0))
            for row in csv.DictReader(lines)
        ]
    return sorted(read, key=lambda row: (row[1], row[2]))


def keyed(df, delay="1 second"):
    stream = pst.stream(df).assign_timestamps("time", pst.WatermarkStrategy.for_bounded_out_of_orderness(delay))
    return stream.key_by("net")


def before(quakes):
    """Return how many quakes its network had in the hour before each quake."""
    times = defaultdict(list)
    found = Counter()
    for net, time, name, _ in quakes:
        known = times[net]
        found[name] = bisect_left(known, time) - bisect_left(known, time - HOUR)
        known.append(time)
    return found


def joined(stream):
    near = keyed(stream).interval_join(keyed(stream)).between("-1 hour", "0 s").upper_bound_exclusive()
    return near.pairs("left", suffixes=("", "_before"))


def counted(rows):
    found = rows.groupBy("id").agg({"id_before": "count"}).collect()
    return Counter({row[0]: row[1] for row in found})


def test_interval_join_counts_quakes_of_the_hour_before(spark, quakes, tmp_path):
    wanted = before(quakes)
    assert len(wanted) == len(quakes) > 10_000
    assert sum(wanted.values()) > 10_000
    batch = spark.createDataFrame(quakes, SCHEMA)
    assert counted(joined(batch).main) == wanted
    # As a stream, each micro-batch has about five days. The last row is far ahead and closes everything before it.
    files = MicroBatches(spark, tmp_path / "in", SCHEMA)
    for begin in range(0, len(quakes), 2_000):
        files.add(quakes[begin : begin + 2_000])
    files.add([("end", quakes[-1][1] + timedelta(days=1), "end", 0.0)])
    result = joined(files.stream())
    result.start(main=pst.ParquetSink(f"{tmp_path}/out"), checkpoint=f"{tmp_path}/c").await_termination()
    assert counted(spark.read.parquet(f"{tmp_path}/out").where("id <> 'end'")) == wanted


def test_window_join_counts_quakes_of_the_same_hour(spark, quakes):
    batch = spark.createDataFrame(quakes, SCHEMA)
    windows = keyed(batch).join(keyed(batch.where("mag >= 4"))).window(pst.TumblingEventTimeWindows.of("1 hour"))
    found = counted(windows.pairs("left", suffixes=("", "_before")).main)
    strong = Counter((net, time.replace(minute=0, second=0, microsecond=0)) for net, time, _, mag in quakes if mag >= 4)
    assert found == {name: strong[net, time.replace(minute=0, second=0, microsecond=0)] for net, time, name, _ in quakes}
