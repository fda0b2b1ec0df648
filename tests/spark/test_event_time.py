"""Invalid event times and silent partitions on streams and batches, through every layer."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidEventTimeError, PanestreamWarning
from panestream.testing.micro_batches import MicroBatches

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
YEAR_9999 = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)


def at(seconds):
    return START + timedelta(seconds=seconds)


def counted(df, strategy, time="ts", *, invalid=None):
    stream = pst.stream(df).assign_timestamps(time, strategy)
    if "now" in df.columns:
        stream = stream.processing_time_from("now")
    stream = stream if invalid is None else stream.side_output_invalid(invalid)
    windowed = stream.key_by("user").window(pst.TumblingEventTimeWindows.of("10 seconds"))
    return windowed.side_output_late_data("late").aggregate(agg.count().alias("n"))


def run(result, checkpoint, **sinks):
    others = {tag: pst.MemorySink() for tag in result.plan.tags}
    result.start(checkpoint=str(checkpoint), **{**others, **sinks}).await_termination()


def test_backlog_from_down_time_is_not_late(spark, tmp_path):
    """A column gives the clock. The micro-batches of the first run are 30 seconds apart, then the query is down for hours."""
    source = MicroBatches(spark, tmp_path / "in", "user string, ts timestamp, part int, now timestamp")
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps().per_partition("part").with_idleness("1 minute")
    late, main = pst.MemorySink(), pst.MemorySink()
    source.add([("a", at(5), 0, at(0)), ("b", at(5), 1, at(0))])
    source.add([("a", at(20), 0, at(20))]).add([("a", at(50), 0, at(50))])
    run(counted(source.stream(), strategy), tmp_path / "checkpoint", main=main, late=late)
    source.add([("a", at(9000), 0, at(9000))]).add([("b", at(7), 1, at(9001)), ("b", at(8999), 1, at(9001))])
    run(counted(source.stream(), strategy), tmp_path / "checkpoint", main=main, late=late)
    assert late.rows == []
    assert ("b", at(0).replace(tzinfo=None), 2) in [(row.user, row.window_start.replace(tzinfo=None), row.n) for row in main.rows]


def test_row_of_the_year_9999_goes_to_the_invalid_output(spark, tmp_path):
    source = MicroBatches(spark, tmp_path / "in", "user string, ts timestamp, now timestamp")
    source.add([("a", at(1), at(2)), ("bad", YEAR_9999, at(2))]).add([("a", at(3), at(4))]).add([("a", at(30), at(31))])
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps().max_ahead("1 hour")
    sinks = {tag: pst.MemorySink() for tag in ("main", "late", "invalid")}
    run(counted(source.stream(), strategy, invalid="invalid"), tmp_path / "checkpoint", **sinks)
    assert [(row.user, row.n) for row in sinks["main"].rows] == [("a", 2)]
    assert ([row.user for row in sinks["invalid"].rows], sinks["late"].rows) == (["bad"], [])
    batch = counted(source.batch(), strategy, invalid="invalid")
    assert sorted((row.user, row.n) for row in batch.main.collect()) == [("a", 1), ("a", 2)]
    with pytest.raises(InvalidEventTimeError, match=r"1 of .* rows .*more than 1 hour ahead of the clock.*9999-12-31T23:59:59Z"):
        counted(source.batch(), strategy).run(main=pst.MemorySink())


def test_row_too_far_ahead_goes_to_the_invalid_output_unchanged(spark, tmp_path):
    rows = [("a", at(1)), ("a", at(2)), ("bad", YEAR_9999), ("a", at(30))]
    source = MicroBatches(spark, tmp_path / "in", "user string, ts timestamp").add(rows)
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps().max_ahead("1 hour", of="rows")
    for frame in (source.batch(), spark.createDataFrame([("bad", YEAR_9999)], "user string, ts timestamp").union(source.batch())):
        result = counted(frame.coalesce(1), strategy, invalid="invalid")
        found = result.output("invalid").collect()
        assert {(row.user, row.ts) for row in found} == {("bad", YEAR_9999.replace(tzinfo=None))}
        assert sorted((row.user, row.n) for row in result.main.collect()) == [("a", 1), ("a", 2)]


def test_jump_of_the_watermark_is_warned_of(spark, tmp_path):
    source = MicroBatches(spark, tmp_path / "in", "user string, ts timestamp")
    source.add([("a", at(1))]).add([("a", YEAR_9999)])
    with pytest.warns(PanestreamWarning, match=r"micro-batch 1 moved the watermark by .*9999-12-31.*max_ahead"):
        run(
            counted(source.stream(), pst.WatermarkStrategy.for_monotonous_timestamps()),
            tmp_path / "checkpoint",
            main=pst.MemorySink(),
        )


def test_first_watermark_far_ahead_of_the_clock_is_warned_of(spark, tmp_path):
    source = MicroBatches(spark, tmp_path / "in", "user string, ts timestamp")
    source.add([("a", at(1)), ("a", YEAR_9999)])
    with pytest.warns(
        PanestreamWarning, match=r"micro-batch 0 moved the watermark to 9999-12-31.* ahead of the clock.*max_ahead"
    ):
        run(
            counted(source.stream(), pst.WatermarkStrategy.for_monotonous_timestamps()),
            tmp_path / "checkpoint",
            main=pst.MemorySink(),
        )


@pytest.mark.parametrize(
    ("time", "told"),
    [
        ("try_to_timestamp(at, 'yyyy-MM-dd')", r"at = '2024-13-45'"),
        (
            "try_to_timestamp(concat(at, ' Asia/Shangai'), 'yyyy-MM-dd VV')",
            r"'2024-13-45'.*no time zone 'Asia/Shangai'.*Asia/Shanghai",
        ),
    ],
)
def test_error_shows_the_invalid_event_time(spark, tmp_path, time, told):
    source = MicroBatches(spark, tmp_path / "in", "user string, at string")
    source.add([("a", "2024-13-45")])
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps()
    for start in (
        lambda result: run(result, tmp_path / "checkpoint", main=pst.MemorySink()),
        lambda result: result.run(main=pst.MemorySink()),
    ):
        df = source.stream() if "checkpoint" in start.__code__.co_consts else source.batch()
        with pytest.raises(InvalidEventTimeError, match=f"an unusable event time in .*{told}.*side_output_invalid") as raised:
            start(counted(df, strategy, time))
        assert "SQLSTATE" not in str(raised.value)
