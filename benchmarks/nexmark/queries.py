"""The five windowed queries, as users of panestream would write them. Windows follow Nexmark's Flink SQL edition.

Each takes a stream or a batch of its input in ``SOURCES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.windowing.watermarks import WatermarkStrategy

WATERMARK_DELAY_MS = 4_000
SIZE, SIZE_MS = "10 seconds", 10_000
SLIDE, SLIDE_MS = "2 seconds", 2_000
GAP, GAP_MS = "10 seconds", 10_000


@dataclass(frozen=True)
class Query:
    """One of the five.

    Attributes:
        name: e.g. ``q5``.
        title: a description of its question.
        source: options of the source: kind and columns.
        build: the query itself.
        checked: two integer columns of each result row for the comparison of answers. The first identifies the subject of the
            row.
        keep: a condition on rows of the windows' results that belong to the answer, or None for all.
        by_processing_time: whether windows are in processing time. Then only total counts can be compared, and a stream never
            ends by itself.
    """

    name: str
    title: str
    source: Mapping[str, str]
    build: Callable[[DataFrame], pst.datastream.WindowedResult]
    checked: Callable[[], tuple[Column, Column]]
    keep: Callable[[], Column] | None = None
    by_processing_time: bool = False

    def answer(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the answer as columns ``window_end, who, what``."""
        kept = rows if self.keep is None else rows.where(self.keep())
        who, what = self.checked()
        return kept.select("window_end", who.cast("bigint").alias("who"), what.cast("bigint").alias("what"))


def timed(events: DataFrame) -> pst.datastream.DataStream:
    """Assign Nexmark's watermark, with a delay of four seconds."""
    return pst.stream(events).assign_timestamps(
        "dateTime", WatermarkStrategy.for_bounded_out_of_orderness(f"{WATERMARK_DELAY_MS} milliseconds")
    )


def q5(bids: DataFrame) -> pst.datastream.WindowedResult:
    """Hot items: the auction with the most bids of each window. (Nexmark returns all ties, this query the smallest.)"""
    windows = timed(bids).key_by("auction").window(pst.SlidingEventTimeWindows.of(SIZE, SLIDE))
    return windows.aggregate(agg.count().alias("bids")).top(1, by="bids")


def q7(bids: DataFrame) -> pst.datastream.WindowedResult:
    """Highest bid: the largest price of each window, its bidder and its auction."""
    return (
        timed(bids)
        .window_all(pst.TumblingEventTimeWindows.of(SIZE))
        .aggregate(
            agg.max("price").alias("price"),
            agg.max_by("auction", "price").alias("auction"),
            agg.max_by("bidder", "price").alias("bidder"),
        )
    )


def q8(persons_and_auctions: DataFrame) -> pst.datastream.WindowedResult:
    """New users: persons who registered and sold in the same window. The join of windows on their key is one window of both."""
    return (
        timed(persons_and_auctions)
        .key_by("coalesce(person_id, auction_seller) AS id")
        .window(pst.TumblingEventTimeWindows.of(SIZE))
        .aggregate(agg.max("person_name").alias("name"), agg.count("auction_seller").alias("auctions"))
    )


def q11(bids: DataFrame) -> pst.datastream.WindowedResult:
    """User sessions: the number of bids of each bidder without a pause of ten seconds."""
    return timed(bids).key_by("bidder").window(pst.EventTimeSessionWindows.with_gap(GAP)).aggregate(agg.count().alias("bids"))


def q12(bids: DataFrame) -> pst.datastream.WindowedResult:
    """Count the bids of each bidder that arrive in ten seconds of processing time."""
    return (
        pst.stream(bids).key_by("bidder").window(pst.TumblingProcessingTimeWindows.of(SIZE)).aggregate(agg.count().alias("bids"))
    )


QUERIES = {
    query.name: query
    for query in (
        Query(
            "q5", "hot items", {"kind": "bid", "columns": "auction,dateTime"}, q5,
            lambda: (F.col("auction"), F.col("bids")),
        ),
        Query(
            "q7", "highest bid", {"kind": "bid", "columns": "auction,bidder,price,dateTime"}, q7,
            lambda: (F.col("auction") * 1_000_000 + F.col("bidder"), F.col("price")),
        ),
        Query(
            "q8", "new users",
            {"kind": "person,auction", "columns": "person_id,person_name,auction_seller,dateTime"}, q8,
            lambda: (F.col("id"), F.col("auctions")),
            lambda: F.col("name").isNotNull() & (F.col("auctions") > 0),
        ),
        Query(
            "q11", "user sessions", {"kind": "bid", "columns": "bidder,dateTime"}, q11,
            lambda: (F.col("bidder"), F.col("bids")),
        ),
        Query(
            "q12", "bids per user, by the clock", {"kind": "bid", "columns": "bidder"}, q12,
            lambda: (F.col("bidder"), F.col("bids")), by_processing_time=True,
        ),
    )
}  # fmt: skip
