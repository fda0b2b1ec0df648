"""Columnar sessions and count windows on Spark agree with the row operator on the same stream."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.testing import MicroBatches

# .main of a stream warns about its columns.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user string, ts timestamp, price bigint, wait int"
AGGREGATES = (agg.count().alias("n"), agg.sum("price").alias("total"), agg.last("price").alias("latest"))


def rows(seed, count, begin):
    rng = random.Random(seed)
    made = []
    for number in range(count):
        late = rng.choice([0, 0, 0, 0, 200])
        at = START + timedelta(seconds=begin + number - rng.randint(0, 5) - late)
        made.append((rng.choice(["ann", "bob", None]), at, seed * 1000 + number, rng.choice([2, 10])))
    return made


@pytest.fixture
def clicks(spark, tmp_path):
    """Four micro-batches. The last has a row so far ahead that everything closes."""
    made = MicroBatches(spark, tmp_path / "clicks", SCHEMA)
    for seed in range(3):
        made.add(rows(seed, 40, 60 * seed))
    return made.add([("zoe", START + timedelta(days=1), 0, 1)])


def keyed(df):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")
    return pst.stream(df).assign_timestamps("ts", strategy).key_by("user")


def streamed(result, folder):
    """Return the sorted rows of main and of the late output."""
    result.start(
        main=pst.ParquetSink(f"{folder}/main"), late=pst.ParquetSink(f"{folder}/late"), checkpoint=f"{folder}/c"
    ).await_termination()
    spark = result.main.sparkSession
    found = []
    for name, tag in (("main", "main"), ("late", "late")):
        frame = spark.read.schema(result.output(tag).schema).parquet(f"{folder}/{name}").select(result.output(tag).columns)
        found.append(sorted(map(tuple, frame.collect()), key=str))
    return found


@pytest.mark.parametrize(
    "assigner",
    [
        # tests/comparison covers the other cases without Spark.
        pst.EventTimeSessionWindows.with_gap("4 seconds"),
        pst.EventTimeSessionWindows.with_gap("20 seconds").max_duration("30 seconds"),
        pst.EventTimeSessionWindows.with_gap_column("wait * 2", "seconds"),
        pst.EventTimeSessionWindows.with_gap_column("make_dt_interval(0, 0, 0, wait)"),
    ],
    ids=["gap", "longest", "gap column", "interval"],
)
def test_sessions_on_spark_agree_with_the_row_operator(spark, clicks, tmp_path, assigner):
    windowed = keyed(clicks.stream()).window(assigner).side_output_late_data("late")
    columnar, row = windowed.aggregate(*AGGREGATES), windowed.options(every_firing=True).aggregate(*AGGREGATES)
    assert columnar.operator.name == "sessions"
    assert row.operator.name == "row operator"
    main, late = streamed(columnar, tmp_path / "columnar")
    assert (main, late) == tuple(streamed(row, tmp_path / "row"))
    assert late
    assert len(main) > 5
    assert sum(one[3] for one in main) + len(late) == 120  # zoe's session stays open


def test_batch_sessions_on_spark_agree_with_the_stream_without_late_rows(spark, clicks, tmp_path):
    def result(df):
        strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("10 minutes")
        stream = pst.stream(df).assign_timestamps("ts", strategy).key_by("user")
        return (
            stream.window(pst.EventTimeSessionWindows.with_gap("4 seconds")).side_output_late_data("late").aggregate(*AGGREGATES)
        )

    main, late = streamed(result(clicks.stream()), tmp_path / "out")
    batch = sorted((tuple(row) for row in result(clicks.batch()).main.collect() if row.user != "zoe"), key=str)
    assert late == []
    assert main == batch


@pytest.mark.parametrize("slide", [None, 4])
def test_count_windows_on_spark_agree_with_the_row_operator(spark, clicks, tmp_path, slide):
    found = []
    for exact in (False, True):
        windowed = pst.stream(clicks.stream()).key_by("user").count_window(10, slide)
        result = (windowed.options(every_firing=True) if exact else windowed).aggregate(
            agg.count().alias("n"), agg.sum("price").alias("total")
        )
        assert result.operator.name == ("row operator" if exact else "counts")
        folder = tmp_path / str(exact)
        result.start(main=pst.ParquetSink(f"{folder}/main"), checkpoint=f"{folder}/c").await_termination()
        frame = spark.read.schema(result.main.schema).parquet(f"{folder}/main")
        found.append(sorted(map(tuple, frame.collect()), key=str))
    assert found[0] == found[1]
    assert len(found[0]) > 8


def test_wrong_gap_column_is_refused(spark, clicks):
    stream = keyed(clicks.stream())

    def over(expr, unit=None):
        return stream.window(pst.EventTimeSessionWindows.with_gap_column(expr, unit))

    with pytest.raises(InvalidWindowError, match="is a number"):
        over("wait").aggregate(agg.count())
    with pytest.raises(InvalidWindowError, match="is a string"):
        over("user", "seconds").aggregate(agg.count())
    with pytest.raises(InvalidWindowError, match="is an interval already"):
        over("make_dt_interval(0, 0, 0, wait)", "seconds").aggregate(agg.count())
    with pytest.raises(InvalidPlanError, match="neither a column nor valid SQL"):
        over("waits", "seconds").aggregate(agg.count())
    with pytest.raises(InvalidPlanError, match="must be a column"):
        over("wait * 2", "seconds").apply(lambda key, window, elements: [], "n int")
