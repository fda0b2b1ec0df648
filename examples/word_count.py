"""Count each word of the last ten seconds, every five seconds.

Sliding windows with a process function. Each word is in two windows, and the function is called when one of them is over. Spark
SQL splits lines into words before the windows.

    python examples/word_count.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import panestream as pst
from panestream.testing import MicroBatches

NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def at(seconds: int) -> datetime:
    """Return a time after noon."""
    return NOON + timedelta(seconds=seconds)


LINES_SCHEMA = "line string, at timestamp"
# Each list arrives as one micro-batch.
LINES = [
    [("to be or not to be", at(1)), ("that is the question", at(3))],
    [("whether tis nobler in the mind to suffer", at(8)), ("the slings and arrows", at(6))],
    [("to die to sleep", at(12)), ("no more", at(13))],
    [("to sleep perchance to dream", at(27))],
]


class Count(pst.ProcessWindowFunction):
    """Counts the elements of a window."""

    def process(self, key: str, context: Any, elements: Sequence[Any]) -> Iterator[int]:
        yield len(elements)


def counts(lines: DataFrame) -> pst.datastream.WindowedResult:
    """Return a row for each word and window."""
    words = lines.select(F.explode(F.split("line", " ")).alias("word"), "at")
    return (
        pst.stream(words)
        .assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("2 seconds"))
        .key_by("word")
        .window(pst.SlidingEventTimeWindows.of("10 seconds", "5 seconds"))
        .process(Count(), schema="n int")
    )


def most_frequent(frame: DataFrame, batch: int) -> None:
    """Print the words that occur more than once. Any function of a DataFrame and the batch's number can be a sink."""
    print(f"--- micro-batch {batch}")
    frame.where("n > 1").orderBy("window_start", F.desc("n"), "word").show(truncate=False)


def main() -> None:
    """Stream the lines, and print the results of each micro-batch."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("word count", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        lines = MicroBatches(spark, f"{folder}/lines", LINES_SCHEMA)
        for batch in LINES:
            lines.add(batch)
        query = counts(lines.stream()).start(
            main=pst.ForeachBatchSink(most_frequent, idempotent=True), checkpoint=f"{folder}/checkpoint"
        )
        query.await_termination()


if __name__ == "__main__":
    main()
