"""The fate of late rows: a fired window fires again, a closed window does not, and no row is lost.

Bids on an auction, minute by minute. Rows may arrive ten seconds out of order, which the watermark allows for. A window that has
fired stays open for one minute more, and fires again if more rows arrive (allowed lateness). Later rows go to a separate output.

    python examples/late_rows.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def at(seconds: int) -> datetime:
    """Return a time after noon."""
    return NOON + timedelta(seconds=seconds)


BIDS_SCHEMA = "auction string, price bigint, at timestamp"
# Each list arrives as one micro-batch.
BIDS = [
    [("vase", 10, at(5)), ("vase", 12, at(31)), ("clock", 90, at(40))],
    [("vase", 15, at(72)), ("clock", 95, at(58))],  # the watermark reaches 12:01:02, and the first minute is over
    [("vase", 14, at(45)), ("clock", 99, at(90))],  # 12:00:45 is late, and its window fires again
    [("vase", 30, at(140))],  # it reaches 12:02:10, so the first minute is closed and the second is over
    [("clock", 91, at(59)), ("clock", 97, at(80))],  # too late for the first minute, but the second fires again
]


def highest_bids(bids: DataFrame) -> pst.datastream.WindowedResult:
    """Return a row for each auction and minute, and another if late rows change it, and the rows that are too late."""
    return (
        pst.stream(bids)
        .assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("10 seconds"))
        .key_by("auction")
        .window(pst.TumblingEventTimeWindows.of("1 minute"))
        .allowed_lateness("1 minute")
        .side_output_late_data("too_late")
        .aggregate(agg.count().alias("bids"), agg.max("price").alias("highest"))
    )


def printed(title: str) -> Callable[[DataFrame, int], None]:
    """Return a function that prints the rows of an output."""

    def show(frame: DataFrame, batch: int) -> None:
        print(f"--- micro-batch {batch}: {title}")
        frame.show(truncate=False)

    return show


def main() -> None:
    """Stream the bids, and print the results of each micro-batch."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("late rows", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        bids = MicroBatches(spark, f"{folder}/bids", BIDS_SCHEMA)
        for batch in BIDS:
            bids.add(batch)
        query = highest_bids(bids.stream()).start(
            main=pst.ForeachBatchSink(printed("highest bids"), idempotent=True),
            too_late=pst.ForeachBatchSink(printed("too late"), idempotent=True),
            checkpoint=f"{folder}/checkpoint",
        )
        query.await_termination()


if __name__ == "__main__":
    main()
