"""The two most viewed pages of the last ten minutes, every five minutes: hot items, in small.

Declared aggregates on sliding windows run as columns, one slice of time at a time, and ``top`` ranks each window when it fires.
`make run` and hot_items.toml do the same with many rows.

    python examples/top_pages.py
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def at(minutes: int) -> datetime:
    """Return a time after noon."""
    return NOON + timedelta(minutes=minutes)


VIEWS_SCHEMA = "page string, at timestamp"
# Each list arrives as one micro-batch.
VIEWS = [
    [("/home", at(0)), ("/sale", at(1)), ("/sale", at(2)), ("/help", at(3))],
    [("/help", at(6)), ("/help", at(7)), ("/home", at(9)), ("/sale", at(9))],
    [("/home", at(12)), ("/home", at(13)), ("/cart", at(14))],
    [("/home", at(26))],
]


def top_pages(views: DataFrame) -> pst.datastream.WindowedResult:
    """Return two rows for each window: page, window, views and the page's rank."""
    return (
        pst.stream(views)
        .assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("1 minute"))
        .key_by("page")
        .window(pst.SlidingEventTimeWindows.of("10 minutes", "5 minutes"))
        .aggregate(agg.count().alias("views"))
        .top(2, by="views")
    )


def by_window(frame: DataFrame, batch: int) -> None:
    """Print the pages in order. Any function of a DataFrame and the batch's number can be a sink."""
    print(f"--- micro-batch {batch}")
    frame.orderBy("window_start", "rank").show(truncate=False)


def main() -> None:
    """Stream the views, and print the results of each micro-batch."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("top pages", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        views = MicroBatches(spark, f"{folder}/views", VIEWS_SCHEMA)
        for batch in VIEWS:
            views.add(batch)
        query = top_pages(views.stream()).start(
            main=pst.ForeachBatchSink(by_window, idempotent=True), checkpoint=f"{folder}/checkpoint"
        )
        query.await_termination()


if __name__ == "__main__":
    main()
