"""Look-backs on Spark agree with Spark's range windows in a batch, and a restarted stream agrees with that batch."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.testing import MicroBatches

# .main of a stream warns about its columns.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user string, ts timestamp, price bigint, cost double, id bigint, `odd name` array<int>"
MINUTE = 60_000_000
AGGREGATES = (
    agg.count().alias("n"),
    agg.sum("price").alias("total"),
    agg.min("cost").alias("least"),
    agg.max("price * 2").alias("most"),
    agg.mean("cost").alias("mean"),
)


def rows(seed, count, begin):
    """Make rows of few keys and few instants, so that many are equal, with some nulls. No row is more than 20 s late."""
    rng, made = random.Random(seed), []
    for number in range(count):
        at = START + timedelta(seconds=begin + number // 2 - rng.randint(0, 20))
        price, cost = rng.choice([None, rng.randint(-9, 9)]), rng.choice([None, rng.randint(0, 40) / 4])
        made.append((rng.choice(["ann", "bob", "cyd", None]), at, price, cost, seed * 1000 + number, [number]))
    return made


@pytest.fixture
def clicks(spark, tmp_path):
    """Four micro-batches. The last has a row so far ahead that the watermark passes all others."""
    made = MicroBatches(spark, tmp_path / "clicks", SCHEMA)
    for seed in range(3):
        made.add(rows(seed, 80, 40 * seed))
    return made.add([("zoe", START + timedelta(days=1), 0, None, 9999, [])])


def result_of(df, delay="1 minute", keep=None, **look_backs):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness(delay)
    keyed = pst.stream(df).assign_timestamps("ts", strategy).key_by("user")
    windowed = keyed.windows(look_backs) if len(look_backs) > 1 else keyed.window(look_backs["alone"])
    windowed = windowed if keep is None else windowed.keep(*keep)
    return windowed.side_output_late_data("late").aggregate(*AGGREGATES)


def of_spark(df, before, after, suffix=""):
    """Compute the same with Spark's range windows."""
    over = f"OVER (PARTITION BY user ORDER BY unix_micros(ts) RANGE BETWEEN {before} PRECEDING AND {after} FOLLOWING)"
    texts = {"n": "count(*)", "total": "sum(price)", "least": "min(cost)", "most": "max(price * 2)", "mean": "avg(cost)"}
    return df.select("*", *(F.expr(f"{text} {over}").alias(name + suffix) for name, text in texts.items()))


def told(rows_):
    return sorted((tuple(row.asDict().items()) for row in rows_), key=lambda row: dict(row)["id"])


def test_look_back_in_a_batch_agrees_with_sparks_range_window(spark, clicks):
    result = result_of(clicks.batch(), alone=pst.LookBackWindows.of("1 minute"))
    assert result.operator.name == "look-backs"
    assert "the 1 minute before each row" in result.explain()
    main = result.main
    assert main.columns == ["user", "ts", "price", "cost", "id", "odd name", "n", "total", "least", "most", "mean"]
    assert told(main.collect()) == told(of_spark(clicks.batch(), MINUTE, 0).select(main.columns).collect())


def test_several_look_backs_with_chosen_columns_agree_with_spark(spark, clicks):
    look_backs = {"10s": pst.LookBackWindows.of("10 s"), "near": pst.LookBackWindows.of("1 minute", following="5 s")}
    result = result_of(clicks.batch(), keep=["ID", "user"], **look_backs)
    expected = of_spark(of_spark(clicks.batch(), MINUTE // 6, 0, "_10s"), MINUTE, 5_000_000, "_near")
    assert result.main.columns == ["user", "id", *(f"{one.name}_{label}" for label in look_backs for one in AGGREGATES)]
    assert told(result.main.collect()) == told(expected.select(result.main.columns).collect())


def test_restarted_stream_of_look_backs_agrees_with_the_batch(spark, clicks, tmp_path):
    result = result_of(clicks.stream(), alone=pst.LookBackWindows.of("1 minute"))
    clicks_of_now = MicroBatches(spark, tmp_path / "again", SCHEMA)
    parts = [rows(seed, 80, 40 * seed) for seed in range(3)]
    late = [("ann", START - timedelta(minutes=30), 1, 1.0, 7777, [])]
    parts += [[("zoe", START + timedelta(days=1), 0, None, 9999, [])], late]
    for number, part in enumerate(parts):
        clicks_of_now.add(part)
        result = result_of(clicks_of_now.stream(), alone=pst.LookBackWindows.of("1 minute"))
        sinks = {"main": pst.ParquetSink(tmp_path / "main"), "late": pst.ParquetSink(tmp_path / "late")}
        if number != 1:  # two micro-batches in the second run
            result.start(checkpoint=tmp_path / "c", **sinks).await_termination()
    found = spark.read.schema(result.main.schema).parquet(str(tmp_path / "main"))
    expected = of_spark(clicks.batch(), MINUTE, 0).where("user is null or user <> 'zoe'")
    assert told(found.select(result.main.columns).collect()) == told(expected.select(result.main.columns).collect())
    behind = spark.read.parquet(str(tmp_path / "late")).select("id", "user").collect()
    assert [tuple(row) for row in behind] == [(7777, "ann")]


def test_advised_delay_for_look_backs_equals_the_delay_without_windows(clicks):
    rows_ = clicks.batch()
    told_ = [pst.tools.lateness(rows_, "ts", "id", windows=windows) for windows in (None, pst.LookBackWindows.of("1 hour"))]
    assert told_[0].delay(1) == told_[1].delay(1)
    assert told_[0].delay(1) > timedelta(seconds=1)


def test_unsupported_options_of_look_backs_are_refused(clicks):
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps()
    keyed = pst.stream(clicks.batch()).assign_timestamps("ts", strategy).key_by("user")
    windowed = keyed.window(pst.LookBackWindows.of("1 hour"))
    for wrong, said in [
        (lambda: windowed.allowed_lateness("1 s").aggregate(agg.count()), "[Ll]eave out allowed_lateness"),
        (lambda: windowed.trigger(pst.CountTrigger.of(1)).aggregate(agg.count()), "[Ll]eave out the trigger"),
        (lambda: windowed.evictor(pst.evictors.CountEvictor.of(1)).aggregate(agg.count()), "[Ll]eave out CountEvictor"),
        (lambda: windowed.options(every_firing=True).aggregate(agg.count()), "[Ll]eave out every_firing"),
        (lambda: windowed.apply(lambda key, window, rows: [], "n int"), "functions of your own"),
        (lambda: windowed.aggregate(agg.count(), then=lambda key, context, rows: [], schema="n int"), "functions of your own"),
        (lambda: windowed.aggregate(agg.count().alias("ID")), "cannot be named 'ID'"),
        (lambda: windowed.keep("no").aggregate(agg.count()), "there is no column 'no'"),
        (lambda: windowed.keep(1).aggregate(agg.count()), "the names of columns"),
        (lambda: windowed.aggregate(agg.count()).top(3, by="count"), "each row has its own window"),
        (lambda: windowed.aggregate(agg.count()).with_firing(), "each row has one result"),
        (lambda: windowed.aggregate(agg.count()).changelog(), "each row has one result"),
        (lambda: windowed.aggregate(agg.count()).trace(), "has no trace"),
        (
            lambda: keyed.window(pst.TumblingEventTimeWindows.of("1 h")).keep("id").aggregate(agg.count()),
            "keep is for look-backs",
        ),
        (
            lambda: keyed.windows({"a": pst.LookBackWindows.of("1 h"), "b": pst.TumblingEventTimeWindows.of("1 h")}).aggregate(
                agg.count()
            ),
            "do not go together",
        ),
    ]:
        with pytest.raises(InvalidPlanError, match=said):
            wrong()
