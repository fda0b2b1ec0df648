"""The queries on Spark's own windows if Spark has them, as the rival in the same run."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.nexmark.queries import GAP, SIZE, SLIDE, WATERMARK_DELAY_MS


def timed(events: DataFrame) -> DataFrame:
    """Nexmark's watermark."""
    return events.withWatermark("dateTime", f"{WATERMARK_DELAY_MS} milliseconds")


def q5(bids: DataFrame) -> DataFrame:
    """Count per window and auction, and take the largest of each window, in two stateful steps."""
    counts = timed(bids).groupBy(F.window("dateTime", SIZE, SLIDE), "auction").agg(F.count(F.lit(1)).alias("bids"))
    best = counts.groupBy("window").agg(F.max(F.struct("bids", (-F.col("auction")).alias("other_way"))).alias("best"))
    return best.select(_end("window"), (-F.col("best.other_way")).alias("auction"), F.col("best.bids").alias("bids"))


def q7(bids: DataFrame) -> DataFrame:
    """Take the largest struct that starts with the price."""
    best = timed(bids).groupBy(F.window("dateTime", SIZE)).agg(F.max(F.struct("price", "auction", "bidder")).alias("best"))
    return best.select(_end("window"), "best.price", "best.auction", "best.bidder")


def q8(persons_and_auctions: DataFrame) -> DataFrame:
    """Use one window of both, as on panestream."""
    person = F.coalesce("person_id", "auction_seller").alias("id")
    found = timed(persons_and_auctions).groupBy(F.window("dateTime", SIZE), person)
    return found.agg(F.max("person_name").alias("name"), F.count("auction_seller").alias("auctions")).select(
        _end("window"), "id", "name", "auctions"
    )


def q11(bids: DataFrame) -> DataFrame:
    """Session windows."""
    found = timed(bids).groupBy(F.session_window("dateTime", GAP), "bidder").agg(F.count(F.lit(1)).alias("bids"))
    return found.select(_end("session_window"), "bidder", "bids")


def _end(window: str) -> Column:
    return F.col(f"{window}.end").alias("window_end")


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {"q5": q5, "q7": q7, "q8": q8, "q11": q11}
"""Windows of processing time that close by themselves (q12) do not exist in Spark."""
