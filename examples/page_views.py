"""The day's page views, every five minutes: a window of a day emits early results long before its end.

A ContinuousEventTimeTrigger fires a day's window every five minutes of event time and at midnight. The day is that of a shop at
UTC+8, so the windows are shifted by eight hours; we look at the last minutes of one day and the first of the next.

Each firing shows everything since the day began. Rows of the same page and day replace one another: a table that is keyed by page
and window_start always shows the present state.

    python examples/page_views.py
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

MIDNIGHT = datetime(2026, 11, 12, tzinfo=timezone(timedelta(hours=8)))


def at(minutes: float) -> datetime:
    """Return a time before or after midnight."""
    return MIDNIGHT + timedelta(minutes=minutes)


VIEWS_SCHEMA = "page string, user string, at timestamp"
# Each list arrives as one micro-batch.
VIEWS = [
    [("/sale", "ann", at(-14)), ("/sale", "bob", at(-13.5)), ("/home", "ann", at(-13))],
    [("/sale", "ann", at(-12)), ("/home", "cleo", at(-9.5))],
    [("/sale", "dan", at(-6)), ("/sale", "cleo", at(-4.5)), ("/home", "eve", at(-4))],
    [("/sale", "bob", at(-1)), ("/home", "bob", at(1))],
    [("/sale", "eve", at(2)), ("/home", "eve", at(6))],
]


def views_today(views: DataFrame) -> pst.datastream.WindowedResult:
    """Return the day's views and users so far: a row for each page every five minutes."""
    return (
        pst.stream(views)
        .assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps())
        .key_by("page")
        .window(pst.TumblingEventTimeWindows.of("1 day", offset="-8 hours"))
        .trigger(pst.ContinuousEventTimeTrigger.of("5 minutes"))
        .aggregate(agg.count().alias("views"), agg.count_distinct("user").alias("users"), agg.max("at").alias("last_view"))
    )


def main() -> None:
    """Stream the views, and print the results of each micro-batch."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("page views", {"spark.sql.session.timeZone": "Asia/Shanghai"}, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        views = MicroBatches(spark, f"{folder}/views", VIEWS_SCHEMA)
        for batch in VIEWS:
            views.add(batch)
        query = views_today(views.stream()).start(main=pst.ConsoleSink(), checkpoint=f"{folder}/checkpoint")
        query.await_termination()


if __name__ == "__main__":
    main()
