"""Spark's own stateful operators before and after panestream's windows in one query, as docs/how-to/chaining.md describes."""

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
    """Count rows of each item in ten seconds."""
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
    """Two streams of views and purchases. Their last micro-batches only move time and close everything before."""

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
        """Return the main rows, the late rows, and the query."""
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
    # Out of order by up to five seconds, with duplicates within a micro-batch and across two.
    made.seen.add(rows(("a", 1), ("a", 1), ("b", 6), ("c", 9))).add(rows(("a", 14), ("b", 9), ("a", 1 + 8), ("b", 9), ("d", 13)))
    made.bought.add(rows(("a", 4), ("b", 5))).add(rows(("b", 12), ("a", 16), ("a", 24)))
    return made


def once(seen, bought):
    return seen.withWatermark("at", "10 seconds").dropDuplicates(["item", "at"])


def once_within(seen, bought):
    # A batch does not have a watermark, so it uses dropDuplicates.
    name = "dropDuplicatesWithinWatermark" if seen.isStreaming else "dropDuplicates"
    return getattr(seen.withWatermark("at", "10 seconds"), name)(["item", "at"])


def windows_of_two_seconds(seen, bought):
    """Aggregate with Spark. The time of a result is the last instant of its window."""
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
        (inner, bounded(5 + 10)),  # the delay, plus the largest distance of two rows
        (left_outer, bounded(5 + 10 + 1000)),  # plus the advance of event time in one micro-batch
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_windows_after_a_stateful_operator_of_spark_agree_with_a_batch(inputs, build, strategy):
    main, late, query = inputs.close().run(build, strategy)
    assert main == inputs.batch(build)
    assert len(main) >= 3
    assert late == []
    assert sum(step.spark_dropped_rows for step in query.recent_progress) == 0


def test_unmatched_rows_of_a_join_are_late_for_a_short_watermark_delay(inputs):
    """Spark emits them one micro-batch late, when its own watermark has passed them. Matched rows come at once."""
    main, late, _ = inputs.close().run(left_outer, bounded(0))
    in_windows = {(item, start): n for item, start, n in main}
    for item, when in late:
        in_windows[item, when // 10 * 10] = in_windows.get((item, when // 10 * 10), 0) + 1
    assert late
    # No row is lost: each is in a window or a late row.
    assert sorted((*where, n) for where, n in in_windows.items()) == inputs.batch(left_outer)


def test_rows_that_spark_drops_before_the_windows_are_counted_and_warned_of(inputs):
    inputs.close().seen.add(rows(("a", 3)))
    with pytest.warns(PanestreamWarning, match=r"dropped 1 row as late"):
        main, late, query = inputs.run(once, bounded(10))
    # Such a row never reaches panestream, so it is neither in a window nor late.
    assert ("a", 0, 2) in main
    assert late == []
    assert sum(step.spark_dropped_rows for step in query.recent_progress) == 1
    assert inputs.batch(once) == sorted([*(row for row in main if row != ("a", 0, 2)), ("a", 0, 3)])


# -- after the windows --------------------------------------------------------------------------------------------------


def results(seen, lateness=0):
    """Return firings with the last instant of their window."""
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
    """Run a query of Spark until the input ends. Return its output, and the rows that its operators dropped."""
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


def test_spark_aggregation_after_the_windows_uses_its_own_watermark(spark, tmp_path, clicks):
    """Spark's watermark of the results' times closes its own window one micro-batch later."""
    clicks.add(rows((CLOSING, 41))).add(rows((CLOSING, 61)))
    found, dropped = written(spark, in_twenty_seconds(results(clicks.stream())), tmp_path)
    in_batch = in_twenty_seconds(results(clicks.batch())).collect()
    assert sorted((second(row.start), row.n) for row in found) == [(0, 5), (20, 2)]
    assert sorted((second(row.start), row.n) for row in in_batch) == [(0, 5), (20, 2), (40, 1), (60, 1)]
    assert dropped == 0


@pytest.mark.parametrize(("delay", "lost"), [(0, 1), (100, 0)])
def test_spark_drops_a_late_firing_unless_its_watermark_waits_long_enough(spark, tmp_path, clicks, delay, lost):
    for late in ((CLOSING, 41), (CLOSING, 61), ("a", 17), (CLOSING, 161), (CLOSING, 301)):
        clicks.add(rows(late))
    found, dropped = written(spark, in_twenty_seconds(results(clicks.stream(), lateness=100), delay), tmp_path)
    assert dropped == lost
    # The late firing of a's second window has both rows, and the first had one. A sum over both counts the row twice.
    assert (0, 5 + (0 if lost else 2)) in [(second(row.start), row.n) for row in found]


@pytest.mark.parametrize("within", [False, True])
def test_spark_drops_duplicates_after_the_windows(spark, tmp_path, clicks, within):
    def build(found):
        timed = found.withWatermark("t", "10 seconds")
        return (timed.dropDuplicatesWithinWatermark(["n", "t"]) if within else timed.dropDuplicates(["n", "t"])).select("n", "t")

    clicks.add(rows((CLOSING, 41)))
    found, dropped = written(spark, build(results(clicks.stream())), tmp_path)
    assert sorted((second(row.t), row.n) for row in found) == [(10, 1), (10, 2), (20, 1), (30, 1)]
    assert dropped == 0


def test_chained_queries_that_spark_refuses(spark, tmp_path, clicks):
    found = results(clicks.stream())
    # Rows from the windows do not have a watermark of Spark.
    with pytest.raises(AnalysisException, match="without watermark"):
        written(spark, found.groupBy(F.window("t", "20 seconds")).count(), tmp_path / "none")
    # A watermark before the windows also applies after them, and Spark refuses a second one in the second micro-batch.
    before = clicks.stream().withWatermark("at", "0 seconds").dropDuplicates(["item", "at"])
    with pytest.raises(StreamingQueryException, match="Redefining watermark is disallowed"):
        written(spark, in_twenty_seconds(results(before)), tmp_path / "two")
