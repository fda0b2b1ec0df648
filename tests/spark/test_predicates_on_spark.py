"""Windows by predicates on Spark, from SQL and Columns: a restarted stream agrees with the batch, and the batch with SQL."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.testing import MicroBatches

# .main of a stream warns about its columns.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user string, ts timestamp, action string, id bigint"


def rows(seed, count, begin):
    """Make rows with unique times per key. No row is more than 20 s late."""
    rng, made = random.Random(seed), []
    for number in range(count):
        at = START + timedelta(seconds=begin + number - rng.randint(0, 20), milliseconds=seed * 100 + number)
        action = rng.choice(["login", "click", "click", "click", "logout", None])
        made.append((rng.choice(["ann", "bob", None]), at, action, seed * 1000 + number))
    return made


LAST = [("zoe", START + timedelta(days=1), "click", 9999)]
PARTS = [*(rows(seed, 60, 70 * seed) for seed in range(3)), LAST]


def batch_of(spark):
    return spark.createDataFrame([row for part in PARTS for row in part], SCHEMA)


def result_of(df, assigner):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 minute")
    windowed = pst.stream(df).assign_timestamps("ts", strategy).key_by("user").window(assigner)
    return windowed.side_output_late_data("late").aggregate(agg.count().alias("n"), agg.min("id").alias("first_id"))


def told(frame):
    return sorted((tuple(row) for row in frame.collect() if row[0] != "zoe"), key=str)


def test_sessions_closed_by_an_event_agree_with_sql(spark):
    """In SQL, a session starts if the row before was a logout, or after a gap. Running sums number the sessions."""
    rows_ = batch_of(spark)
    rows_.createOrReplaceTempView("rows_of_predicates")
    expected = spark.sql(
        """
        WITH cut AS (
          SELECT *, lag(action) OVER w <=> 'logout' OR ts > lag(ts) OVER w + INTERVAL 10 SECONDS AS begins
          FROM rows_of_predicates WINDOW w AS (PARTITION BY user ORDER BY ts)
        ), numbered AS (SELECT *, sum(int(coalesce(begins, false))) OVER (PARTITION BY user ORDER BY ts) AS number FROM cut)
        SELECT user, min(ts) AS window_start,
          if(max_by(action, ts) <=> 'logout', max(ts) + INTERVAL 0.000001 SECONDS, max(ts) + INTERVAL 10 SECONDS) AS window_end,
          count(*) AS n, min(id) AS first_id
        FROM numbered GROUP BY user, number
        """
    )
    for closing in ("action = 'logout'", F.col("action") == "logout"):
        result = result_of(rows_, pst.EventTimeSessionWindows.with_gap("10 seconds").closed_by(closing))
        assert result.operator.name == "predicates"
        assert told(result.main) == told(expected)
    assert len(told(expected)) > 10


@pytest.mark.parametrize(
    "assigner",
    [
        pst.PredicateWindows.of(start="action = 'login'", end="action = 'logout'"),
        pst.EventTimeSessionWindows.with_gap("5 seconds").closed_by("action = 'logout'"),
    ],
    ids=["start and end", "closed sessions"],
)
def test_restarted_stream_of_predicate_windows_agrees_with_the_batch(spark, tmp_path, assigner):
    made = MicroBatches(spark, tmp_path / "clicks", SCHEMA)
    late = [("ann", START - timedelta(minutes=30), "login", 7777)]
    for number, part in enumerate([*PARTS, late]):
        made.add(part)
        result = result_of(made.stream(), assigner)
        sinks = {"main": pst.ParquetSink(tmp_path / "main"), "late": pst.ParquetSink(tmp_path / "late")}
        if number not in (0, 3):  # two micro-batches in a run
            result.start(checkpoint=tmp_path / "c", **sinks).await_termination()
    found = spark.read.schema(result.main.schema).parquet(str(tmp_path / "main")).select(result.main.columns)
    expected = told(result_of(batch_of(spark), assigner).main)
    assert told(found) == expected
    assert len(expected) > 5
    assert [row.id for row in spark.read.parquet(str(tmp_path / "late")).collect()] == [7777]


def test_wrong_windows_by_predicates_are_refused(spark):
    rows_ = batch_of(spark)
    with pytest.raises(InvalidWindowError, match="is a string: it must be true or false"):
        result_of(rows_, pst.PredicateWindows.of(start="action"))
    with pytest.raises(InvalidPlanError, match="neither a column nor valid SQL"):
        result_of(rows_, pst.PredicateWindows.of(start="acton = 'login'"))
    one, other = (F.udf(lambda action, name=name: action == name, "boolean")("action") for name in ("login", "logout"))
    with pytest.raises(InvalidPlanError, match=r"both called .* and differ"):
        result_of(rows_, pst.PredicateWindows.of(start=one, end=other))
    windowed = pst.stream(rows_).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("user")
    with pytest.raises(InvalidPlanError, match=r"[Ll]eave out allowed_lateness"):
        windowed.window(pst.PredicateWindows.of(end="true")).allowed_lateness("1 s").aggregate(agg.count())
    with pytest.raises(InvalidPlanError, match="functions of your own"):
        windowed.window(pst.PredicateWindows.of(end="true")).apply(lambda key, window, elements: [], "n int")
