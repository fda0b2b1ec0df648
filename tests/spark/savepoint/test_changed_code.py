"""A query starts from a savepoint with other aggregates, or with accumulators of another form."""

from __future__ import annotations

import datetime as dt

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import PlanMismatchError
from panestream.testing import MicroBatches
from tests.spark.savepoint.runs import fired

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
ROWS = [(f"u{number % 3}", number, START + dt.timedelta(minutes=number)) for number in range(50)]


class Mean(pst.AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value.n, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]


class MeanByName(pst.AggregateFunction):
    def create_accumulator(self):
        return {"total": 0, "n": 0}

    def add(self, value, accumulator):
        return {"total": accumulator["total"] + value.n, "n": accumulator["n"] + 1}

    def get_result(self, accumulator):
        return accumulator["total"] / accumulator["n"]


def windowed(clicks):
    timed = pst.stream(clicks.stream()).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    return timed.key_by("user").window(pst.TumblingEventTimeWindows.of("15 minutes")).options(key_groups=2)


def test_query_from_savepoint_adds_aggregates_and_migrates_accumulators(spark, tmp_path):
    parts = [MicroBatches(spark, tmp_path / name, "user string, n bigint, ts timestamp") for name in ("all", "old", "new")]
    for clicks, rows in zip(parts, (ROWS, ROWS[:20], ROWS[20:]), strict=True):
        clicks.add(rows)
    whole, old, new = parts
    fired(windowed(old).aggregate(agg.count().alias("n")), tmp_path / "old-1")
    saved = pst.savepoint(spark, str(tmp_path / "old-1"), str(tmp_path / "saved-1")).path
    added = (agg.count().alias("n"), agg.sum("n").alias("total"))
    with pytest.raises(PlanMismatchError, match=r"'total' is new.*agg\.complete\('total'\)"):
        fired(windowed(new).aggregate(*added), tmp_path / "no", savepoint=saved, source_offsets="job")
    told = windowed(new).aggregate(*added, agg.complete("total").alias("whole"))
    sink = pst.MemorySink()
    told.start(main=sink, checkpoint=str(tmp_path / "new-1"), savepoint=saved, source_offsets="job").await_termination()
    # The window that was open when the aggregate was added lacks rows. The next window is complete.
    assert [whole for _, whole in sorted({(row.window_start, row.whole) for row in sink.rows})] == [False, True]

    expected = fired(windowed(whole).aggregate_with(MeanByName(), schema="mean double"), tmp_path / "whole")
    first = fired(windowed(old).aggregate_with(Mean(), schema="mean double"), tmp_path / "old-2")
    saved = pst.savepoint(spark, str(tmp_path / "old-2"), str(tmp_path / "saved-2")).path
    changed = windowed(new).aggregate_with(MeanByName(), schema="mean double")
    with pytest.raises(PlanMismatchError, match="MeanByName"):
        fired(changed, tmp_path / "no-2", savepoint=saved, source_offsets="job")
    migrate = {"accumulator": lambda old: {"total": old[0], "n": old[1]}}
    rest = fired(changed, tmp_path / "new-2", savepoint=saved, source_offsets="job", migrate=migrate)
    assert sorted(first + rest) == expected
