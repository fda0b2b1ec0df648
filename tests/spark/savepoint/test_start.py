"""A query that starts from a savepoint: as if never stopped."""

from __future__ import annotations

import datetime as dt

import pytest

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
ROWS = [
    [(f"u{number % 7}", number, START + dt.timedelta(minutes=number * 2 - number % 5)) for number in range(first, first + 25)]
    for first in range(0, 100, 25)
]


def clicks_in(spark, folder, batches=ROWS):
    clicks = MicroBatches(spark, folder, "user string, n bigint, ts timestamp")
    for batch in batches:
        clicks.add(batch)
    return clicks


def counted(clicks, groups=None):
    windowed = (
        pst.stream(clicks.stream())
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by("user")
        .window(pst.SlidingEventTimeWindows.of("30 minutes", "10 minutes"))
    )
    if groups is not None:
        windowed = windowed.key_groups(groups)
    return windowed.aggregate(agg.count().alias("n"), agg.sum("n").alias("total"))


def ran(result, checkpoint, **how):
    sink = pst.MemorySink()
    result.start(main=sink, checkpoint=str(checkpoint), **how).await_termination()
    return sorted(map(str, sink.rows))


def test_another_number_of_key_groups(spark, tmp_path):
    whole = ran(counted(clicks_in(spark, tmp_path / "all"), 2), tmp_path / "whole")
    first = ran(counted(clicks_in(spark, tmp_path / "first", ROWS[:2]), 2), tmp_path / "old")
    saved = pst.savepoint(spark, str(tmp_path / "old"), str(tmp_path / "saved"))
    assert (saved.batch_id, saved.manifest.groups) == (1, 2)
    rest = clicks_in(spark, tmp_path / "rest", ROWS[2:])
    for groups in (1, 5):
        new = tmp_path / f"new-{groups}"
        assert sorted(first + ran(counted(rest, groups), new, savepoint=saved.path)) == whole
