"""History of two joined streams, and of tiles, followed by the streams, gives the same as streams alone."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches
from tests.spark.savepoint.runs import ran, texts

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
VIEWS, CLICKS = "user string, ts timestamp, ad string", "who string, ts timestamp, price bigint"
STRATEGY = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes")


def rows_of(seed, number, value):
    rng = random.Random(seed)
    return [(rng.choice("abc"), START + dt.timedelta(minutes=2 * at - rng.randint(0, 5)), value(at)) for at in range(number)]


ROWS = rows_of(1, 60, lambda at: f"ad {at}"), rows_of(2, 60, lambda at: at)
HALF = 30


def streams_in(spark, folder, cuts, dropped=0):
    """Return the two streams, with one micro-batch for each cut, from the row ``dropped`` on."""
    made = []
    for name, schema, rows in zip(("views", "clicks"), (VIEWS, CLICKS), ROWS, strict=True):
        stream = MicroBatches(spark, folder / name, schema)
        for start, end in zip([dropped, *cuts], [*cuts, len(rows)], strict=True):
            stream.add(rows[start:end])
        made.append(stream.stream())
    return made


def keyed(views, clicks):
    seen = pst.stream(views).assign_timestamps("ts", STRATEGY).key_by("user")
    return seen, pst.stream(clicks).assign_timestamps("ts", STRATEGY).key_by("who AS user")


def in_windows(views, clicks):
    seen, clicked = keyed(views, clicks)
    windows = seen.join(clicked).window(pst.SlidingEventTimeWindows.of("20 minutes", "10 minutes")).options(key_groups=2)
    return windows.pairs("full", suffixes=("", "_click"))


def near_in_time(views, clicks):
    seen, clicked = keyed(views, clicks)
    return (
        seen.interval_join(clicked)
        .between("-4 minutes", "9 minutes")
        .options(key_groups=2)
        .pairs("full", suffixes=("", "_click"))
    )


def over_both(views, clicks):
    seen, clicked = keyed(views, clicks)
    windows = seen.co_group(clicked).window(pst.EventTimeSessionWindows.with_gap("5 minutes")).options(key_groups=2)
    return windows.aggregate(agg.count("left.ad").alias("views"), agg.sum("right.price").alias("paid"))


def history(spark, until=HALF):
    return tuple(spark.createDataFrame(rows[:until], schema) for rows, schema in zip(ROWS, (VIEWS, CLICKS), strict=True))


@pytest.mark.parametrize("build", [in_windows, near_in_time, over_both])
def test_history_and_streams_of_a_join_agree_with_streams_alone(spark, tmp_path, build):
    whole, _ = ran(build(*streams_in(spark, tmp_path / "all", [HALF])), tmp_path / "whole")
    result = build(*streams_in(spark, tmp_path / "rest", [45], HALF))
    first = pst.MemorySink()
    saved = result.bootstrap(history(spark), str(tmp_path / "saved"), main=first)
    rest, running = ran(result, tmp_path / "new", savepoint=saved.path)
    assert sorted(texts(first.rows) + rest) == whole
    assert first.rows
    assert rest
    assert sum(one.late_rows for one in running.recent_progress) == 0


def test_joined_streams_skip_rows_of_history(spark, tmp_path):
    whole, _ = ran(near_in_time(*streams_in(spark, tmp_path / "all", [HALF])), tmp_path / "whole")
    result = near_in_time(*streams_in(spark, tmp_path / "rest", [HALF], 10))
    seam, first = START + dt.timedelta(minutes=50), pst.MemorySink()
    # The history has more columns, in another order.
    views, clicks = history(spark, 40)
    saved = result.bootstrap(
        (views.select("ts", F.lit(1).alias("other"), "ad", "user"), clicks), str(tmp_path / "saved"), until=seam, main=first
    )
    rest, running = ran(result, tmp_path / "new", savepoint=saved.path)
    assert sorted(texts(first.rows) + rest) == whole
    known = sum(row[1] < seam for rows in ROWS for row in rows[10:])
    assert sum(one.history_rows for one in running.recent_progress) == known


def test_one_stream_of_a_join_may_have_no_history(spark, tmp_path):
    views, _ = history(spark)
    result = in_windows(*streams_in(spark, tmp_path / "rest", [45], HALF))
    first = pst.MemorySink()
    # The smaller watermark counts. A stream without rows does not have a watermark, so nothing fires.
    saved = result.bootstrap((views, spark.createDataFrame([], CLICKS)), str(tmp_path / "saved"), main=first)
    assert first.rows == []
    rest, _ = ran(result, tmp_path / "new", savepoint=saved.path)
    assert any("ad 3'" in row for row in rest)


def test_wrong_history_of_a_join_is_refused(spark, tmp_path):
    result = in_windows(*streams_in(spark, tmp_path / "rest", [45]))
    views, clicks = history(spark)
    wrong = [
        (views, {}, "two streams, and each needs its own history: bootstrap((views, clicks), ...)"),
        ((views,), {}, "two streams, and each needs its own history"),
        ((views, clicks.drop("who")), {}, "who: string in the right stream, missing in history"),
        ((views.withColumn("ad", F.lit(1)), clicks), {}, "ad: string in the left stream, int in history"),
        ((views, 3), {}, "needs history as a DataFrame, got int"),
        ((views, clicks), {"position": {"clicks": {"0": 23}}}, "give the position of each"),
        ((views, clicks), {"position": ({"clicks": 23}, None)}, "position must be the first offset of each partition"),
    ]
    for given, how, words in wrong:
        with pytest.raises(InvalidPlanError) as refused:
            result.bootstrap(given, str(tmp_path / "saved"), **how)
        assert words in str(refused.value)
    one = pst.stream(streams_in(spark, tmp_path / "one", [45])[0]).assign_timestamps("ts", STRATEGY).key_by("user")
    with pytest.raises(InvalidPlanError, match="needs history as a DataFrame, got tuple"):
        one.window(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.count()).bootstrap(
            (views, clicks), str(tmp_path / "saved")
        )
    stream, _ = streams_in(spark, tmp_path / "bound", [45])
    bound = pst.stream(stream).assign_timestamps("ts", STRATEGY).key_by(stream.user)
    other = keyed(stream, streams_in(spark, tmp_path / "other", [45])[1])[1]
    near = bound.interval_join(other).between("0 s", "1 s").pairs(suffixes=("", "_click"))
    with pytest.raises(InvalidPlanError, match="a Column of the stream's DataFrame"):
        near.bootstrap((views, clicks), str(tmp_path / "saved"))


def test_savepoint_keeps_the_position_of_each_joined_stream(spark, tmp_path):
    result = in_windows(*streams_in(spark, tmp_path / "rest", [45]))
    saved = result.bootstrap(history(spark), str(tmp_path / "saved"), position=(None, {"clicks": {"0": 23}}))
    assert [(one.number, one.kind) for one in saved.positions] == [(1, "kafka")]


def test_tiles_of_history_and_stream_equal_tiles_of_all_rows(spark, tmp_path):
    def tiles(rows):
        timed = (
            pst.stream(rows)
            .assign_timestamps("ts", STRATEGY)
            .key_by("user")
            .window(pst.TumblingEventTimeWindows.of("10 minutes"))
        )
        return timed.options(key_groups=2).panes(agg.count().alias("n"), agg.last("ad").alias("last"))

    whole, _ = ran(tiles(streams_in(spark, tmp_path / "all", [HALF])[0]), tmp_path / "whole")
    result, out = tiles(streams_in(spark, tmp_path / "rest", [45], HALF)[0]), str(tmp_path / "tiles")
    saved = result.bootstrap(history(spark)[0], str(tmp_path / "saved"), main=pst.ParquetSink(out))
    result.start(main=pst.ParquetSink(out), checkpoint=str(tmp_path / "new"), savepoint=saved.path).await_termination()
    stored = spark.read.parquet(out).drop("batch_id")
    assert texts(stored.collect()) == whole
    n = (
        pst.from_panes(stored, agg.count().alias("n"))
        .window(pst.TumblingEventTimeWindows.of("10 days"))
        .agg(F.sum("n"))
        .first()[0]
    )
    assert n == stored.agg(F.sum("rows")).first()[0] > HALF
