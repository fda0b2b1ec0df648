"""Two operators in one query: windows over the results of windows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning"),
]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MONOTONOUS = pst.WatermarkStrategy.for_monotonous_timestamps()


def at(seconds):
    return START + timedelta(seconds=seconds)


class Ends(pst.functions.WatermarkGenerator):
    """All results of a window come in one micro-batch, so its end is reached with the first of them."""

    def on_event(self, element, timestamp, output):
        output.emit_watermark(timestamp)


def counts(df):
    """Count clicks of each item in 10 seconds, every 5."""
    keyed = pst.stream(df).assign_timestamps("at", MONOTONOUS).key_by("item")
    return (
        keyed.window(pst.SlidingEventTimeWindows.of("10 seconds", "5 seconds"))
        .options(key_groups=2)
        .aggregate(agg.count().alias("n"))
    )


def largest(results, strategy=MONOTONOUS):
    """Return the largest result in 10 seconds. The event time of a result is the last instant of its window."""
    stream = pst.stream(results).assign_timestamps("window_end - INTERVAL 1 MICROSECOND", strategy)
    windowed = stream.window_all(pst.TumblingEventTimeWindows.of("10 seconds"))
    return windowed.aggregate(agg.max("n").alias("most"), agg.count().alias("results"))


BATCHES = [
    [("a", at(1)), ("b", at(2)), ("a", at(3))],
    [("a", at(12)), ("b", at(14))],
    [("b", at(23)), ("a", at(21))],
    [("a", at(37))],
]
# Computed by hand: results end at 5 and 10 (a 2, b 1 each), at 15 and 20 (a 1, b 1 each), at 25 and 30 (a 1, b 1 each), at 40 and
# 45 (a 1 each).
WINDOWS = [(0, 2, 4), (10, 1, 4), (20, 1, 4)]


def found(spark, folder):
    rows = spark.read.schema("window_start timestamp, most bigint, results bigint, batch_id int").parquet(str(folder)).collect()
    seconds = [(row.window_start.replace(tzinfo=row.window_start.tzinfo), row.most, row.results, row.batch_id) for row in rows]
    return sorted((int(start.timestamp() - START.timestamp()), *rest) for start, *rest in seconds)


@pytest.mark.parametrize(
    ("strategy", "behind"),
    [(MONOTONOUS, 1), (pst.WatermarkStrategy.for_generator(Ends), 0)],
)
def test_windows_over_results_of_windows_are_right_with_restarts(spark, tmp_path, strategy, behind):
    clicks = MicroBatches(spark, tmp_path / "clicks", "item string, at timestamp")
    for batch in BATCHES:
        clicks.add(batch)
        # The query restarts after every micro-batch. The one checkpoint has the state of both operators.
        query = largest(counts(clicks.stream()).main.select("n", "window_end"), strategy).start(
            main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=str(tmp_path / "checkpoint")
        )
        query.await_termination()
    assert query.recent_progress[-1].rows == 4, "the counters are those of the operator that was started"
    # Results of a window reach the second operator in the micro-batch that fires it. The second operator fires when its own
    # watermark gets there. Monotonous timestamps need the results of the next window, and a watermark at the end itself needs no
    # further micro-batch. Windows that the first operator has not fired when the input ends, and windows that are still open in
    # the second, wait for the next run.
    closed = [(start, most, results, 1 + number + behind) for number, (start, most, results) in enumerate(WINDOWS)]
    assert found(spark, tmp_path / "out") == [row for row in closed if row[-1] < len(BATCHES)]
    batch = largest(counts(clicks.batch()).main.select("n", "window_end")).main.collect()
    at_once = sorted((int(row.window_start.timestamp() - START.timestamp()), row.most, row.results) for row in batch)
    assert at_once == [*WINDOWS, (30, 1, 1), (40, 1, 1)]
    first = spark.read.parquet(str(tmp_path / "out"))
    assert first.columns[:4] == ["window_start", "window_end", "most", "results"]
