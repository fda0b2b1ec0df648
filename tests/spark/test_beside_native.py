"""Spark's own stateful operators in one query with panestream's: before the windows, and behind them. docs/how-to/chaining.md says the same."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import PanestreamWarning
from panestream.spark.session import session_settings, settings_for
from panestream.testing import MicroBatches

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:.*(late row|moved the watermark|set these).*:panestream.errors.PanestreamWarning"),
]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SEEN, BOUGHT = "item string, at timestamp", "item string, bought timestamp"
CLOSING = "zed"
"""The item of rows that only move time."""


def at(second):
    return START + timedelta(seconds=second)


def rows(*pairs):
    return [(item, at(second)) for item, second in pairs]


def second(value):
    return round((value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value).timestamp() - START.timestamp())


def bounded(seconds):
    return pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{seconds} seconds")


def counts(df, strategy):
    """Rows of each item in ten seconds."""
    keyed = pst.stream(df).assign_timestamps("at", strategy).key_by("item")
    windowed = keyed.window(pst.TumblingEventTimeWindows.of("10 seconds")).options(key_groups=2).side_output_late_data("late")
    return windowed.aggregate(agg.count().alias("n"))


def shown(found):
    return sorted((row["item"], second(row["window_start"]), row["n"]) for row in found if row["item"] != CLOSING)


def at_once(df):
    return shown(counts(df, bounded(0)).main.collect())


@pytest.fixture(autouse=True)
def _few_partitions(spark):
    with session_settings(spark, settings_for(spark, 2)):
        yield


class Inputs:
    """Two streams: what was seen, and what was bought. Their last micro-batches only move time, so that all before is closed."""

    def __init__(self, spark, folder):
        self.seen = MicroBatches(spark, folder / "seen", SEEN)
        self.bought = MicroBatches(spark, folder / "bought", BOUGHT)
        self.checkpoint = str(folder / "checkpoint")

    def close(self):
        for number in (1000, 2000, 3000):
            self.seen.add(rows((CLOSING, number)))
            self.bought.add(rows((CLOSING, number)))
        return self

    def run(self, build, strategy):
        """The main rows, the late rows, and the query."""
        main, late = pst.MemorySink(), pst.MemorySink()
        query = counts(build(self.seen.stream(), self.bought.stream()), strategy).start(
            main=main, late=late, checkpoint=self.checkpoint
        )
        query.await_termination()
        return shown(main.rows), sorted((row["item"], second(row["at"])) for row in late.rows), query

    def batch(self, build):
        return at_once(build(self.seen.batch(), self.bought.batch()))


@pytest.fixture
def inputs(spark, tmp_path):
    made = Inputs(spark, tmp_path)
    # Out of order by up to five seconds, with doubles, within a micro-batch and over two.
    made.seen.add(rows(("a", 1), ("a", 1), ("b", 6), ("c", 9))).add(rows(("a", 14), ("b", 9), ("a", 1 + 8), ("b", 9), ("d", 13)))
    made.bought.add(rows(("a", 4), ("b", 5))).add(rows(("b", 12), ("a", 16), ("a", 24)))
    return made


def once(seen, bought):
    return seen.withWatermark("at", "10 seconds").dropDuplicates(["item", "at"])


def once_within(seen, bought):
    # A batch knows no watermark: there it is dropDuplicates.
    name = "dropDuplicatesWithinWatermark" if seen.isStreaming else "dropDuplicates"
    return getattr(seen.withWatermark("at", "10 seconds"), name)(["item", "at"])


def windows_of_two_seconds(seen, bought):
    """An aggregation of Spark's; the time of a result is the last instant of its window."""
    counted = seen.withWatermark("at", "10 seconds").groupBy("item", F.window("at", "2 seconds")).count()
    return counted.select("item", F.expr("window.end - INTERVAL 1 MICROSECOND").alias("at"))


def joined(seen, bought, how):
    left, right = seen.withWatermark("at", "5 seconds"), bought.withWatermark("bought", "5 seconds")
    within = F.expr("l.item = r.item AND r.bought BETWEEN l.at AND l.at + INTERVAL 10 SECONDS")
    return left.alias("l").join(right.alias("r"), within, how).select("l.item", "l.at", "r.bought")


def inner(seen, bought):
    return joined(seen, bought, "inner")


def left_outer(seen, bought):
    return joined(seen, bought, "left_outer")


@pytest.mark.parametrize(
    ("build", "strategy"),
    [
        (once, bounded(10)),
        (once_within, bounded(10)),
        (windows_of_two_seconds, bounded(0)),  # results come in the order of their windows
        (inner, bounded(5 + 10)),  # the delay, and how far apart two rows may be
        (left_outer, bounded(5 + 10 + 1000)),  # and how far event time moves in one micro-batch
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_before_the_windows(inputs, build, strategy):
    main, late, query = inputs.close().run(build, strategy)
    assert main == inputs.batch(build)
    assert len(main) >= 3
    assert late == []
    assert sum(step.spark_dropped_rows for step in query.recent_progress) == 0


def test_rows_without_a_partner_are_late_where_the_watermark_does_not_wait_for_them(inputs):
    """Spark puts them out when its own watermark has passed them, a micro-batch behind; the rows beside them came at once."""
    main, late, _ = inputs.close().run(left_outer, bounded(0))
    in_windows = {(item, start): n for item, start, n in main}
    for item, when in late:
        in_windows[item, when // 10 * 10] = in_windows.get((item, when // 10 * 10), 0) + 1
    assert late
    # None is lost: what is not in a window is among the late rows.
    assert sorted((*where, n) for where, n in in_windows.items()) == inputs.batch(left_outer)


def test_what_spark_drops_before_the_windows_is_counted_and_warned_of(inputs):
    inputs.close().seen.add(rows(("a", 3)))
    with pytest.warns(PanestreamWarning, match=r"dropped 1 row behind Spark's watermark"):
        main, late, query = inputs.run(once, bounded(10))
    # Neither in a window nor late for panestream: it never came there.
    assert ("a", 0, 2) in main
    assert late == []
    assert sum(step.spark_dropped_rows for step in query.recent_progress) == 1
    assert inputs.batch(once) == sorted([*(row for row in main if row != ("a", 0, 2)), ("a", 0, 3)])


# -- behind the windows ------------------------------------------------------------------------------------------------


def results(seen, lateness=0):
    """Firings, with the last instant of their window."""
    timed = pst.stream(seen).assign_timestamps("at", bounded(0)).key_by("item")
    windowed = (
        timed.window(pst.TumblingEventTimeWindows.of("10 seconds")).options(key_groups=2).allowed_lateness(f"{lateness} seconds")
    )
    found = windowed.aggregate(agg.count().alias("n")).main
    return found.withColumn("t", F.expr("window_end - INTERVAL 1 MICROSECOND"))


def in_twenty_seconds(found, delay=0):
    summed = found.withWatermark("t", f"{delay} seconds").groupBy(F.window("t", "20 seconds")).agg(F.sum("n").alias("n"))
    return summed.select(F.col("window.start").alias("start"), "n")


def written(spark, df, folder):
    """What a query of Spark's own, which runs until there is nothing to read, puts out; and what its operators dropped."""
    stream = df.writeStream.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True)
    query = stream.format("parquet").start(str(folder / "out"))
    query.awaitTermination()
    dropped = sum(one["numRowsDroppedByWatermark"] for step in query.recentProgress for one in step["stateOperators"])
    return spark.read.schema(df.schema).parquet(str(folder / "out")).collect(), dropped


@pytest.fixture
def clicks(spark, tmp_path):
    made = MicroBatches(spark, tmp_path / "clicks", SEEN)
    made.add(rows(("a", 1), ("b", 2), ("a", 3))).add(rows(("a", 12), ("b", 14))).add(rows(("b", 23), ("a", 21)))
    return made


def test_an_aggregation_behind_the_windows(spark, tmp_path, clicks):
    """The watermark behind them is Spark's own, of the results' times: a window of its own is out a micro-batch after that."""
    clicks.add(rows((CLOSING, 41))).add(rows((CLOSING, 61)))
    found, dropped = written(spark, in_twenty_seconds(results(clicks.stream())), tmp_path)
    in_batch = in_twenty_seconds(results(clicks.batch())).collect()
    assert sorted((second(row.start), row.n) for row in found) == [(0, 5), (20, 2)]
    assert sorted((second(row.start), row.n) for row in in_batch) == [(0, 5), (20, 2), (40, 1), (60, 1)]
    assert dropped == 0


@pytest.mark.parametrize(("delay", "lost"), [(0, 1), (100, 0)])
def test_a_late_firing_is_dropped_by_spark_unless_its_watermark_waits_as_long(spark, tmp_path, clicks, delay, lost):
    for late in ((CLOSING, 41), (CLOSING, 61), ("a", 17), (CLOSING, 161), (CLOSING, 301)):
        clicks.add(rows(late))
    found, dropped = written(spark, in_twenty_seconds(results(clicks.stream(), lateness=100), delay), tmp_path)
    assert dropped == lost
    # The late firing of a's second window has both rows; the first one had one: a sum over both counts it twice.
    assert (0, 5 + (0 if lost else 2)) in [(second(row.start), row.n) for row in found]


@pytest.mark.parametrize("within", [False, True])
def test_duplicates_are_dropped_behind_the_windows(spark, tmp_path, clicks, within):
    def build(found):
        timed = found.withWatermark("t", "10 seconds")
        return (timed.dropDuplicatesWithinWatermark(["n", "t"]) if within else timed.dropDuplicates(["n", "t"])).select("n", "t")

    clicks.add(rows((CLOSING, 41)))
    found, dropped = written(spark, build(results(clicks.stream())), tmp_path)
    assert sorted((second(row.t), row.n) for row in found) == [(10, 1), (10, 2), (20, 1), (30, 1)]
    assert dropped == 0


def test_what_spark_refuses(spark, tmp_path, clicks):
    found = results(clicks.stream())
    # The rows that come out have no watermark of Spark's.
    with pytest.raises(AnalysisException, match="without watermark"):
        written(spark, found.groupBy(F.window("t", "20 seconds")).count(), tmp_path / "none")
    # One before the windows reaches behind them, where a second one is refused; Spark says so with the second micro-batch.
    before = clicks.stream().withWatermark("at", "0 seconds").dropDuplicates(["item", "at"])
    with pytest.raises(StreamingQueryException, match="Redefining watermark is disallowed"):
        written(spark, in_twenty_seconds(results(before)), tmp_path / "two")
