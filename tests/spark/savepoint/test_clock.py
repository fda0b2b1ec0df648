"""Queries with processing-time timers start from a savepoint and wake up without rows."""

from __future__ import annotations

import datetime as dt

import pytest

import panestream as pst
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
PATIENCE = 240


def timing_out(clicks, groups=4):
    timeout = pst.triggers.ProcessingTimeoutTrigger.of(pst.CountTrigger.of(1000), "10 milliseconds")
    windowed = pst.stream(clicks.stream().where("user <> 'nobody'")).key_by("user").window(pst.GlobalWindows.create())
    windowed = windowed.options(key_groups=groups)
    return windowed.trigger(timeout).apply(lambda key, window, rows: [(sum(row.n for row in rows),)], "total bigint")


def test_timer_from_a_savepoint_fires_without_a_row(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "in", "user string, n bigint, ts timestamp")
    clicks.add([("ann", 1, NOW), ("ann", 2, NOW), ("bob", 5, NOW)])
    first = pst.MemorySink()
    timing_out(clicks).start(main=first, checkpoint=str(tmp_path / "old"), trigger="once").await_termination()
    saved = pst.savepoint(spark, str(tmp_path / "old"), str(tmp_path / "saved"))
    rest = MicroBatches(spark, tmp_path / "rest", "user string, n bigint, ts timestamp")
    rest.add([("nobody", 7, NOW)])
    second = pst.MemorySink()
    query = timing_out(rest, 3).start(
        main=second, checkpoint=str(tmp_path / "new"), savepoint=saved.path, trigger="100 milliseconds"
    )
    deadline = PATIENCE
    while len(second.rows) < 2 and deadline:
        query.await_termination(1)
        deadline -= 1
    query.stop()
    assert sorted((row.user, row.total) for row in second.rows) == [("ann", 3), ("bob", 5)]
    assert first.rows == []
