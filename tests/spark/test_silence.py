"""Windows on Spark that close without new rows: by processing time, and at the end of the available input."""

from __future__ import annotations

import datetime as dt
import time
import warnings

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import CallbackError, CheckpointError, PanestreamWarning
from panestream.spark.checkpoint import control_messages
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
PATIENCE = 240
LIVE = {"trigger": "200 milliseconds"}


def at(second):
    return NOON + dt.timedelta(seconds=second)


def windows(clicks, closing=None):
    """Tumbling windows of ten seconds, with event times in the past."""
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
    strategy = strategy if closing is None else strategy.closing_after(closing)
    keyed = pst.stream(clicks.stream()).assign_timestamps("ts", strategy).key_by("user")
    windowed = keyed.window(pst.TumblingEventTimeWindows.of("10 seconds")).side_output_late_data("late").options(key_groups=2)
    return windowed.aggregate(agg.count().alias("clicks"))


def fired(sink):
    """Return user, start second of the window, and clicks of all rows in a sink."""
    return sorted(
        (row.user, round((row.window_start.replace(tzinfo=dt.timezone.utc) - NOON).total_seconds()), row.clicks) for row in sink
    )


def until(enough, query):
    """Wait until a condition holds, and stop the query."""
    deadline = time.monotonic() + PATIENCE
    while not enough() and time.monotonic() < deadline:
        assert not query.await_termination(0.2)
    query.stop()
    assert enough(), [(one.batch_id, one.rows, one.watermark) for one in query.recent_progress]


class Run:
    """A run that ends by itself, with its output."""

    def __init__(self, result, checkpoint, **how):
        main, late = pst.MemorySink(), pst.MemorySink()
        query = result.start(checkpoint=str(checkpoint), main=main, late=late, **how)
        query.await_termination()
        self.fired, self.late = fired(main.rows), sorted((row.user, row.ts.second) for row in late.rows)
        self.progress = query.recent_progress


@pytest.fixture
def clicks(spark, tmp_path):
    made = MicroBatches(spark, tmp_path / "in", "user string, ts timestamp")
    return made.add([("ann", at(1)), ("bob", at(2))]).add([("ann", at(25))])


def test_end_of_available_input_closes_windows_and_the_next_run_continues(spark, clicks, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    first = Run(windows(clicks), checkpoint, fire_at_end=True)
    assert (first.fired, first.late) == ([("ann", 0, 1), ("ann", 20, 1), ("bob", 0, 1)], [])
    assert [one.rows for one in first.progress] == [2, 1, 0]
    assert first.progress[-1].watermark == round(at(30).timestamp() * 1e6) - 1
    # Rows of a closed window are late, other rows are accepted, and no window fires twice.
    clicks.add([("ann", at(28)), ("bob", at(31))])
    second = Run(windows(clicks), checkpoint, fire_at_end=True)
    assert (second.fired, second.late) == ([("bob", 30, 1)], [("ann", 28)])
    # Without new rows, nothing closes.
    third = Run(windows(clicks), checkpoint, fire_at_end=True)
    assert (third.fired, third.late) == ([], [])
    # Without the option windows stay open. It may be set again later.
    clicks.add([("ann", at(45))])
    assert Run(windows(clicks), checkpoint).fired == []
    assert Run(windows(clicks), checkpoint, fire_at_end=True).fired == [("ann", 40, 1)]
    # A savepoint has the positions of the input, but not of the signals.
    saved = pst.savepoint(spark, str(checkpoint), str(tmp_path / "saved"))
    assert [source["kind"] for source in saved.manifest.sources] == ["files"]


def test_interrupted_closing_of_windows_happens_once(spark, clicks, tmp_path):
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"

    def fail(progress):
        if not progress.rows:
            raise SystemExit("the lights went out")

    def start(**how):
        return windows(clicks).start(checkpoint=str(checkpoint), main=pst.ParquetSink(str(out)), late=pst.MemorySink(), **how)

    # Interrupted in the closing micro-batch, after the sink has its rows and before Spark commits.
    with pytest.raises(CallbackError):
        start(fire_at_end=True, on_progress=fail).await_termination()
    start().await_termination()
    assert fired(spark.read.parquet(str(out)).collect()) == [("ann", 0, 1), ("ann", 20, 1), ("bob", 0, 1)]
    # Interrupted between the signal and the run that reads it. With rows in the same micro-batch it is not an end.
    clicks.add([("bob", at(38))])
    start().await_termination()
    control_messages.send(spark, str(checkpoint), control_messages.END_WORD)
    clicks.add([("bob", at(39))])
    start().await_termination()
    assert ("bob", 30, 2) not in fired(spark.read.parquet(str(out)).collect())
    start(fire_at_end=True).await_termination()
    assert fired(spark.read.parquet(str(out)).collect())[-1] == ("bob", 30, 2)


def test_silence_closes_windows_by_processing_time_and_after_a_restart(clicks, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")

    def start():
        main, late = pst.MemorySink(), pst.MemorySink()
        return main, late, windows(clicks, "2 seconds").start(checkpoint=checkpoint, main=main, late=late, **LIVE)

    main, _, query = start()
    # Wait until Spark has committed both. The next run repeats uncommitted micro-batches.
    until(lambda: sum(bool(one.rows) for one in query.recent_progress) == 2, query)
    # The window of the last row closes after six seconds without another row, so it may already be emitted.
    first = fired(main.rows)
    assert [one for one in first if one[1] == 0] == [("ann", 0, 1), ("bob", 0, 1)]
    if ("ann", 20, 1) not in first:
        # No more rows come, but the next run closes the window.
        main, _, query = start()
        until(lambda: main.rows, query)
        assert ("ann", 20, 1) in fired(main.rows)
        moved = [one.watermark for one in query.recent_progress if one.watermark is not None]
        assert moved == sorted(moved)
        assert not any(one.rows for one in query.recent_progress)
    # Rows that come for that window are late.
    clicks.add([("ann", at(29)), ("bob", at(900))])
    _, late, query = start()
    until(lambda: late.rows, query)
    assert [(row.user, row.ts.second) for row in late.rows] == [("ann", 29)]
    with pytest.raises(CheckpointError, match="belongs to a query with processing-time timers"):
        windows(clicks, "2 seconds").start(checkpoint=checkpoint, main=pst.MemorySink(), late=pst.MemorySink())


def test_checkpoint_refuses_another_closing_mode_and_a_savepoint_allows_it(spark, clicks, tmp_path):
    old = str(tmp_path / "old")
    # A query that ends does not wait for silence, so it runs as without the option.
    assert Run(windows(clicks, "1 second"), old).fired == [("ann", 0, 1), ("bob", 0, 1)]
    with pytest.raises(CheckpointError, match=r"begun by a query that no clock wakes.*pst.savepoint"):
        windows(clicks, "1 second").start(checkpoint=old, main=pst.MemorySink(), late=pst.MemorySink(), **LIVE)
    with pytest.raises(CheckpointError, match="begun without fire_at_end=True"):
        windows(clicks).start(checkpoint=old, main=pst.MemorySink(), late=pst.MemorySink(), fire_at_end=True)
    saved = pst.savepoint(spark, old, str(tmp_path / "saved"))
    main, late = pst.MemorySink(), pst.MemorySink()
    started = windows(clicks, "1 second").start
    query = started(checkpoint=str(tmp_path / "new"), savepoint=saved.path, main=main, late=late, **LIVE)
    until(lambda: main.rows, query)
    assert fired(main.rows) == [("ann", 20, 1)]
    assert not any(one.rows for one in query.recent_progress)


def test_explain_shows_when_windows_close(clicks):
    said = str(windows(clicks, "30 seconds").explain())
    assert "when all input has been silent for 30 seconds, the watermark follows the clock" in said
    assert "every 3 seconds" in said


def test_endless_input_is_warned_of(spark, tmp_path):
    from panestream.spark.checkpoint.control_messages import EndOfInputRun

    closing = EndOfInputRun(spark, str(tmp_path / "checkpoint"), run=lambda: None, check=lambda: None)
    rows = Rows(rows=3)
    assert all(closing.after([rows]) is not None for _ in range(10))
    with pytest.warns(PanestreamWarning, match="the input does not end"):
        assert closing.after([rows]) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert closing.after([rows]) is None


class Rows:
    """The part of a progress that the code reads."""

    def __init__(self, rows):
        self.rows, self.history_rows = rows, 0
