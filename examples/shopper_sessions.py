"""The visits of shoppers: clicks with at most half an hour between them belong to one visit.

Session windows with a process function, which gets all clicks of a visit when it is over. This is when the watermark has passed
its last click by half an hour. The watermark is five minutes earlier than the newest click, so clicks may arrive out of order by
that much.

    python examples/shopper_sessions.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame

import panestream as pst
from panestream.testing import MicroBatches


def at(time: str) -> datetime:
    """Return a time of the example's day."""
    return datetime.fromisoformat(f"2026-03-02 {time}").replace(tzinfo=timezone.utc)


CLICKS_SCHEMA = "shopper string, item string, at timestamp"
# Each list arrives as one micro-batch.
CLICKS = [
    [("ann", "shoes", at("09:00")), ("bob", "lamp", at("09:02")), ("ann", "socks", at("09:04"))],
    [("ann", "laces", at("09:31")), ("ann", "boots", at("09:28")), ("bob", "bulb", at("09:15"))],
    [("cleo", "tea", at("10:20"))],
    [("bob", "desk", at("10:21")), ("ann", "hat", at("10:40")), ("bob", "chair", at("10:44")), ("cleo", "cup", at("10:50"))],
    [("dan", "pen", at("12:00"))],
]

VISITS_SCHEMA = "first timestamp, last timestamp, clicks int, items string"


class Visit(pst.ProcessWindowFunction):
    """Describes a visit by its clicks."""

    def process(self, key: str, context: Any, elements: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        clicks = sorted(elements, key=lambda click: click.at)
        yield clicks[0].at, clicks[-1].at, len(clicks), " > ".join(click.item for click in clicks)


def visits(clicks: DataFrame) -> pst.datastream.WindowedResult:
    """Return a row for each visit: key, window, and the results of :class:`Visit`."""
    return (
        pst.stream(clicks)
        .assign_timestamps("at", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by("shopper")
        .window(pst.EventTimeSessionWindows.with_gap("30 minutes"))
        .process(Visit(), schema=VISITS_SCHEMA)
    )


def main() -> None:
    """Stream the clicks, and print the results of each micro-batch."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    spark = pst.build_session("shopper sessions", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as folder:
        clicks = MicroBatches(spark, f"{folder}/clicks", CLICKS_SCHEMA)
        for batch in CLICKS:
            clicks.add(batch)
        query = visits(clicks.stream()).start(main=pst.ConsoleSink(), checkpoint=f"{folder}/checkpoint")
        query.await_termination()


if __name__ == "__main__":
    main()
