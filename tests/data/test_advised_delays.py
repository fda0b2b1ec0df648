"""A query with a delay of the advisor has exactly as many late rows of real data as the advisor predicts."""

from __future__ import annotations

import gzip
import os
from itertools import pairwise

import pytest

import panestream as pst
from panestream import agg

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

MICRO_BATCHES = 6
TAXI = "ride bigint, kind string, end timestamp, start timestamp, a double, b double, c double, d double, n int, taxi bigint, driver bigint"
CLICKS = "user bigint, item bigint, category bigint, behavior string, seconds bigint"
BATCH = "regexp_extract(_metadata.file_name, '[0-9]+', 0)"


def taxi(event_data):
    """Return ends of taxi rides in the order in which meters reported them. Their event time is the start."""
    with gzip.open(event_data / "nyc_taxi_rides_2013-01-01.csv.gz", "rt") as lines:
        return [line for line in lines if ",END," in line]


def clicks(event_data):
    """Return nine days of clicks, user by user. Nearly all rows have an earlier time than some row before."""
    with gzip.open(event_data / "taobao_userbehavior_9d_by_user.csv.gz", "rt") as lines:
        return [*lines]


DATA = {
    "taxi": (taxi, TAXI, "start", None, pst.TumblingEventTimeWindows.of("5 minutes"), "n"),
    "clicks": (clicks, CLICKS, "seconds", "seconds", pst.SlidingEventTimeWindows.of("1 hour", "10 minutes"), "behavior"),
}


@pytest.mark.parametrize("name", DATA)
def test_advised_delay_has_the_predicted_number_of_late_rows(spark, event_data, tmp_path, name):
    read, schema, event_time, unit, windows, key = DATA[name]
    lines = read(event_data)
    folder = tmp_path / "in"
    folder.mkdir()
    cuts = [len(lines) * number // MICRO_BATCHES for number in range(MICRO_BATCHES + 1)]
    for number, (low, high) in enumerate(pairwise(cuts)):
        (folder / f"{number:03d}.csv").write_text("".join(lines[low:high]))
        os.utime(folder / f"{number:03d}.csv", (1_700_000_000 + number,) * 2)
    batch = spark.read.schema(schema).csv(str(folder))
    # A file is a micro-batch, so its rows arrive together.
    advice = pst.tools.lateness(batch, event_time, BATCH, unit=unit, windows=windows, together=True, key=key)
    one_by_one = pst.tools.lateness(batch, event_time, pst.order.FILE, unit=unit)
    print(f"\n{name}, micro-batches of a file: {advice}\n{name}, row by row: {one_by_one}")
    assert advice.rows == one_by_one.rows == len(lines)
    assert one_by_one.delay(1.0) >= advice.delay(1.0)
    told = {cost.delay: cost for cost in advice.costs}
    for place, delay in enumerate([advice.delay(0.99)]):
        progress = []
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(folder))
        result = (
            pst.stream(stream)
            .assign_timestamps(event_time, pst.WatermarkStrategy.for_bounded_out_of_orderness(delay), unit=unit)
            .key_by(key)
            .window(windows)
            .aggregate(agg.count().alias("rows"))
        )
        query = result.start(main=pst.MemorySink(), checkpoint=str(tmp_path / f"checkpoint-{place}"), on_progress=progress.append)
        query.await_termination()
        rows, late = sum(one.rows for one in progress), sum(one.late_rows for one in progress)
        print(f"{name}, delay {delay}: {rows - late:,} of {rows:,} not late; advised {told[delay].kept:,}")
        assert len(progress) == MICRO_BATCHES
        assert rows == advice.rows
        assert rows - late == told[delay].kept
        assert (rows - late) / rows == advice.share(delay) == told[delay].share


def test_advisor_finds_the_known_delays_of_taxi_rides(spark, event_data, tmp_path):
    """The README of the data set documents how late the rows are."""
    (tmp_path / "rides.csv").write_text("".join(taxi(event_data)))
    found = pst.tools.lateness(
        spark.read.schema(TAXI).csv(str(tmp_path)), "start", pst.order.FILE, delays=["5 minutes", "30 minutes"]
    )
    assert (found.rows, found.behind) == (46_450, 46_101)
    assert found.furthest.total_seconds() == 4_637
    assert [found.delay(share).total_seconds() for share in (0.5, 0.9, 0.99, 0.999)] == [593, 1_317, 2_151, 3_060]
    assert [cost.late for cost in found.costs if cost.delay.total_seconds() in (300, 1_800)] == [36_523, 1_251]
