"""The speed of a car at the end of each minute: only the last ten seconds of a minute's window count.

A TimeEvictor removes rows that are older than that, compared with the window's newest row. A user-defined aggregate runs over the
rest. The windows slide by half a minute.

    python examples/time_evictor.py
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame

import panestream as pst
from panestream.testing import MicroBatches

NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def at(seconds: int) -> datetime:
    """Return a time after noon."""
    return NOON + timedelta(seconds=seconds)


SPEEDS_SCHEMA = "car string, speed double, at timestamp"
# Each list arrives as one micro-batch.
SPEEDS = [
    [("red", 50.0, at(5)), ("blue", 30.0, at(12)), ("red", 70.0, at(22)), ("red", 80.0, at(28))],
    [("blue", 40.0, at(44)), ("red", 90.0, at(50)), ("blue", 60.0, at(58)), ("blue", 64.0, at(54))],
    [("red", 100.0, at(75)), ("red", 110.0, at(85)), ("red", 120.0, at(84))],
    [("blue", 20.0, at(155))],
]


class Mean(pst.AggregateFunction):
    """The mean speed. (``agg.mean("speed")`` would do, but this shows a user-defined aggregate.)"""

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Any, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value.speed, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] / accumulator[1], accumulator[1]

    def merge(self, a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]


def final_speeds(speeds: DataFrame) -> pst.datastream.WindowedResult:
    """Return a row for each car and window: the mean speed of its last ten seconds, and the number of readings."""
    return (
        pst.stream(speeds)
        .assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds"))
        .key_by("car")
        .window(pst.SlidingEventTimeWindows.of("1 minute", "30 seconds"))
        .evictor(pst.evictors.TimeEvictor.of("10 seconds"))
        .aggregate_with(Mean(), schema="speed double, readings int")
    )


def main() -> None:
    """Stream the readings, and print the results of each micro-batch."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("time evictor", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        speeds = MicroBatches(spark, f"{folder}/speeds", SPEEDS_SCHEMA)
        for batch in SPEEDS:
            speeds.add(batch)
        query = final_speeds(speeds.stream()).start(main=pst.ConsoleSink(), checkpoint=f"{folder}/checkpoint")
        query.await_termination()


if __name__ == "__main__":
    main()
