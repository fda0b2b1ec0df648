"""Queries whose checkpoints and savepoints are stored as files: at least one for each state table of each operator.

They never change, because a checkpoint is tied to its query. A new feature gets a new query and new files.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import panestream as pst
from panestream import agg

SCHEMA = "user string, at timestamp, price bigint, weight double"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
USERS = ("ann", "bob", "", None)
# Seconds of each user's rows in turn. The stored files were made after the second of the four micro-batches.
SECONDS = ([0, 1, 2, 9, 12], [14, 16, 17, 3, 21], [24, 26, 33, 12, 34], [36, 48, 20, 49, 90])
KEPT = 2
ROWS = [
    [
        (user, START + timedelta(seconds=second), 100 * batch + 10 * place + of_user, of_user / 4)
        for place, second in enumerate(seconds)
        for of_user, user in enumerate(USERS)
    ]
    for batch, seconds in enumerate(SECONDS)
]
SLIDING = pst.SlidingEventTimeWindows.of("20 seconds", "10 seconds")
TUMBLING = pst.TumblingEventTimeWindows.of("10 seconds")
BY_PREDICATES = pst.PredicateWindows.of(start="price % 3 = 0", end="price % 7 = 0", gap="8 seconds")


class Mean(pst.AggregateFunction):
    """A user-defined aggregate function whose accumulator is a pair."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value.price, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return (accumulator[0] / accumulator[1],)

    def merge(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])


def visit(key: Any, context: Any, rows: Any) -> Any:
    """Emit with state for each key and for each window."""
    visits = context.global_state().get_state(pst.state.ValueStateDescriptor("visits"))
    prices = context.window_state().get_list_state(pst.state.ListStateDescriptor("prices"))
    visits.update((visits.value() or 0) + 1)
    prices.add(rows[-1].price)
    return [(len(rows), sum(prices.get()), visits.value())]


def keyed(df: Any) -> Any:
    """Key the rows by user, with a watermark and an order of arrival."""
    watermark = pst.WatermarkStrategy.for_bounded_out_of_orderness("4 seconds")
    return pst.stream(df).assign_timestamps("at", watermark).arrival_order("price").key_by("user")


def windowed(df: Any, *windows: Any) -> Any:
    """Put the rows in windows that keep late rows."""
    return keyed(df).window(*windows).options(key_groups=2).side_output_late_data("late")


def two(one: Any, other: Any) -> Any:
    """Split the rows into two streams: the even rows, and the odd rows of the other stream with other names."""
    watermark = pst.WatermarkStrategy.for_bounded_out_of_orderness("4 seconds")
    right = other.where("price DIV 10 % 2 = 1").selectExpr("user", "at AS seen", "price AS offer")
    right = pst.stream(right).assign_timestamps("seen", watermark).arrival_order("offer").key_by("user")
    return keyed(one.where("price DIV 10 % 2 = 0")), right


def in_both(*streams: Any) -> Any:
    """Join both streams in windows that fire again for late rows."""
    left, right = two(*streams)
    return left.co_group(right).window(SLIDING).allowed_lateness("10 seconds").options(key_groups=2).side_output_late_data("late")


def around(*streams: Any) -> Any:
    """Join each row of one stream with the rows of the other around its time."""
    left, right = two(*streams)
    return left.interval_join(right).between("-8 seconds", "4 seconds").options(key_groups=2).side_output_late_data("late")


def by_the_clock(df: Any) -> Any:
    """Put the rows in windows that fire by processing time."""
    timeout = pst.triggers.ProcessingTimeoutTrigger.of(pst.CountTrigger.of(1000), "15 seconds")
    by_user = pst.stream(df).key_by("user").window(pst.GlobalWindows.create())
    return by_user.options(key_groups=2).trigger(timeout).aggregate(agg.count().alias("n"))


COUNT, TOTAL = agg.count().alias("n"), agg.sum("price").alias("total")
EVERY = (
    COUNT,
    TOTAL,
    agg.sum("CAST(price AS decimal(38, 2))").alias("exact"),
    agg.mean("weight").alias("mean"),
    agg.min("price").alias("least"),
    agg.max("at").alias("latest"),
    agg.stddev("price").alias("spread"),
    agg.weighted_mean("price", "weight").alias("weighted"),
    agg.count_distinct("price % 7").alias("different"),
    agg.approx_count_distinct("price % 7").alias("about"),
    agg.approx_quantile("price", 0.5).alias("median"),
    agg.histogram("price", [100, 200, 300]).alias("histogram"),
    agg.collect_list("price").alias("prices"),
    agg.first("price").alias("first"),
    agg.last("weight").alias("last"),
    agg.max_by("price", "at").alias("newest"),
    agg.top_k("price", 2).alias("dearest"),
)
QUERIES: dict[str, Callable[..., Any]] = {
    "panes": lambda df: windowed(df, SLIDING).aggregate(*EVERY),
    "emitted": lambda df: windowed(df, TUMBLING).allowed_lateness("30 seconds").aggregate(COUNT, TOTAL).with_firing().changelog(),
    "purged": lambda df: (
        windowed(df, TUMBLING)
        .trigger(pst.PurgingTrigger.of(pst.ContinuousEventTimeTrigger.of("5 seconds")))
        .aggregate(COUNT, TOTAL)
    ),
    "several": lambda df: windowed(df, TUMBLING, SLIDING).aggregate(COUNT, TOTAL),
    "split": lambda df: (
        windowed(df, SLIDING).options(split_distinct=2).aggregate(COUNT, agg.count_distinct("price % 7").alias("different"))
    ),
    "two phases": lambda df: windowed(df, SLIDING).aggregate_with(
        Mean(), schema="mean double", accumulator_type="s bigint, n bigint"
    ),
    "sessions": lambda df: (
        windowed(df, pst.EventTimeSessionWindows.with_gap("8 seconds")).allowed_lateness("10 seconds").aggregate(*EVERY)
    ),
    "counts": lambda df: keyed(df).count_window(4, 3).options(key_groups=2).aggregate(COUNT, TOTAL),
    "accumulating": lambda df: windowed(df, SLIDING).apply_arrow(
        lambda key, window, table: table.select(["price"]), "price bigint"
    ),
    "row": lambda df: (
        windowed(df, SLIDING)
        .trigger(pst.ContinuousEventTimeTrigger.of("5 seconds"))
        .process(visit, "n int, total bigint, visits int")
    ),
    "own aggregate": lambda df: windowed(df, pst.EventTimeSessionWindows.with_gap("8 seconds")).aggregate_with(
        Mean(), schema="mean double"
    ),
    "evicted": lambda df: (
        windowed(df, SLIDING)
        .trigger(pst.CountTrigger.of(3))
        .evictor(pst.evictors.TimeEvictor.of("8 seconds"))
        .apply(lambda key, window, rows: [(len(rows), sum(row.price for row in rows))], "n int, total bigint")
    ),
    "clock": by_the_clock,
    "look backs": lambda df: (
        keyed(df)
        .windows({"short": pst.LookBackWindows.of("5 seconds"), "long": pst.LookBackWindows.of("20 seconds")})
        .options(key_groups=2)
        .side_output_late_data("late")
        .aggregate(COUNT, TOTAL, agg.max_by("price", "at").alias("newest"))
    ),
    "predicates": lambda df: windowed(df, BY_PREDICATES).aggregate(COUNT, TOTAL, agg.max_by("price", "at").alias("newest")),
    "join": lambda *streams: in_both(*streams).pairs("full").with_firing(),
    "co group": lambda *streams: in_both(*streams).apply(
        lambda key, window, left, right: [(len(left), sum(row.offer for row in right))], "n int, total bigint"
    ),
    "intervals": lambda *streams: around(*streams).pairs("full"),
    "tiles": lambda df: (
        windowed(df, TUMBLING).allowed_lateness("10 seconds").panes(COUNT, TOTAL, agg.mean("weight").alias("mean"))
    ),
}
OF_TWO_STREAMS = ("join", "co group", "intervals")


def over(rows: Any, name: str) -> Any:
    """Build the query of that name over the rows, as one stream or as two streams of the same rows."""
    return QUERIES[name](*(rows.stream() for _ in range(2 if name in OF_TWO_STREAMS else 1)))
