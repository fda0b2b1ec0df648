"""Calendar windows on Spark: a restarted stream gives the results of a batch of the same rows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

SCHEMA = "user string, ts timestamp, price bigint"
NEW_YORK, BEIRUT = "America/New_York", "Asia/Beirut"
KINDS = {
    "day": pst.CalendarDays.of(1, zone=NEW_YORK),
    "week": pst.CalendarDays.of(7, zone=NEW_YORK, every=1),
    "month so far": pst.CalendarMonths.of(1, zone=BEIRUT, step="day"),
    "business": pst.BusinessHours.of("09:00", "17:00", zone=NEW_YORK),
    "fixed": pst.TumblingEventTimeWindows.of("1 day"),
}


def rows(batch):
    """Rows every 50 minutes over the days on which the clocks of both zones went forward."""
    begin = datetime(2022, 3, 11, tzinfo=timezone.utc) + timedelta(days=4 * batch)
    return [(f"u{number % 3}", begin + timedelta(minutes=50 * number), batch * 1000 + number) for number in range(115)]


def aggregated(df):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 hour")
    keyed = pst.stream(df).assign_timestamps("ts", strategy).key_by("user")
    return keyed.windows(KINDS).aggregate(agg.count().alias("n"), agg.sum("price").alias("total"))


def test_restarted_stream_of_calendar_windows_agrees_with_the_batch(spark, tmp_path):
    made = MicroBatches(spark, tmp_path / "in", SCHEMA)
    every = []
    for number in range(5):
        every += rows(number)
        made.add(rows(number))
        if number in (1, 4):
            if number == 4:
                made.add([("zoe", datetime(2024, 1, 1, tzinfo=timezone.utc), 0)])
            result = aggregated(made.stream())
            result.start(main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=str(tmp_path / "c")).await_termination()
    told = str(result.explain())
    assert "aligned panes" in told
    assert "the clock of America/New_York by the zone rules 20" in told
    names = ("user", "window", "window_start", "window_end", "n", "total")
    found = [tuple(row[name] for name in names) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    batch = aggregated(spark.createDataFrame(every, SCHEMA)).main.collect()
    assert sorted(row for row in found if row[0] != "zoe") == sorted(tuple(row[name] for name in names) for row in batch)
    hours = {(end - start).total_seconds() / 3600 for _, label, start, end, *_ in found if label == "day"}
    assert hours == {23.0, 24.0}
