"""Distinct values of a key split over key groups give the same results in batches and streams.

Also the two user-written steps.
"""

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError, PanestreamError
from panestream.spark.batch_output import merge_split_results
from panestream.testing import MicroBatches

START = dt.datetime(2024, 1, 1)
RESULTS = (agg.count_distinct("user").alias("users"), agg.count().alias("n"), agg.sum("price").alias("total"), agg.min("price"))
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "skew.md"
HOUR = pst.TumblingEventTimeWindows.of("1 hour")


@pytest.fixture(scope="module")
def clicks(spark):
    rows = [
        (
            0 if number % 10 else number % 70,
            START + dt.timedelta(seconds=40 * number),
            [None, 0.0, -0.0, float("nan"), number % 97 + 0.5][number % 5],
            None if number % 7 == 0 else number % 11,
        )
        for number in range(400)
    ]
    return spark.createDataFrame(rows, "shop bigint, ts timestamp, user double, price bigint").repartition(3)


def windows(df, *keys, assigner=HOUR):
    events = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    return events.key_by(*keys).window(assigner).options(key_groups=2) if keys else events.window_all(assigner)


def rows_of(df):
    return sorted(map(tuple, df.collect()), key=str)


@pytest.mark.spark
def test_split_distinct_values_give_the_same_batch_results(clicks):
    over = windows(clicks, "shop", assigner=pst.SlidingEventTimeWindows.of("1 hour", "20 minutes"))
    split = over.options(split_distinct=4).aggregate(*RESULTS)
    assert split.main.schema == over.aggregate(*RESULTS).main.schema
    assert "the rows of a key go to up to 2 key groups, by user" in split.explain()
    assert rows_of(split.main) == rows_of(over.aggregate(*RESULTS).main)


@pytest.mark.spark
def test_split_distinct_values_give_the_same_results_on_a_keyless_stream(spark, clicks, tmp_path):
    clicks.orderBy("ts").coalesce(1).write.parquet(str(tmp_path / "in"))
    clicks.withColumn("ts", F.expr("ts + interval 1 day")).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(clicks.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    split = windows(stream).options(key_groups=2, split_distinct=4).aggregate(*RESULTS)
    with pytest.raises(InvalidPlanError, match="split_distinct on a stream"):
        split.main.collect()
    query = split.start(main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=str(tmp_path / "checkpoint"))
    query.await_termination()
    written = spark.read.parquet(str(tmp_path / "out"))
    batch = windows(clicks).aggregate(*RESULTS).main.collect()
    columns = [name for name in written.columns if name != "batch_id"]
    first_day = {tuple(row[name] for name in columns) for row in batch}
    found = [tuple(row[name] for name in columns) for row in written.collect()]
    assert len(found) == len(set(found))
    assert first_day <= set(found)


@pytest.mark.spark
def test_combined_sum_of_split_parts_that_overflows_fails(spark, clicks):
    plan = (
        windows(clicks)
        .options(split_distinct=8)
        .aggregate(agg.count_distinct("user").alias("n"), agg.sum("price").alias("total"))
        .plan
    )
    columns = "window_start timestamp, window_end timestamp, n bigint, total bigint"
    # Each part fits, but their sum overflows. A sum without values is null.
    for parts, total in ([2**62, 2**62 - 1], 2**63 - 1), ([None, 5], 5), ([None, None], None):
        rows = spark.createDataFrame([(START, START, 1, part) for part in parts], columns)
        assert [tuple(row) for row in merge_split_results(rows, plan).collect()] == [(START, START, 2, total)]
    rows = spark.createDataFrame([(START, START, 1, 2**62)] * 2, columns)
    with pytest.raises(Exception, match="'total' left the range of bigint"):
        merge_split_results(rows, plan).collect()


@pytest.mark.spark
def test_wrong_split_distinct_is_refused(clicks):
    split = windows(clicks, "shop").options(split_distinct=16)
    users = agg.count_distinct("user")
    for aggregates, message in [
        ([agg.count()], "there is none"),
        ([users, agg.count_distinct("price")], "these are of user, price"),
        ([users, agg.mean("price")], r"cannot combine the parts of agg.mean\('price'\) with"),
    ]:
        with pytest.raises(InvalidPlanError, match=message):
            split.aggregate(*aggregates)
    for over in (split.allowed_lateness("1 hour"), split.trigger(pst.CountTrigger.of(3))):
        with pytest.raises(InvalidPlanError, match="windows of event time that fire once"):
            over.aggregate(users)
    with pytest.raises(InvalidPlanError, match="not for apply"):
        split.apply(lambda key, window, rows: [len(rows)], "n int")
    with pytest.raises(InvalidPlanError, match="top needs whole results"):
        split.aggregate(users.alias("n")).top(3, by="n")
    with pytest.raises(PanestreamError, match="the option split_distinct must be a whole number from 2 to 32768"):
        windows(clicks, "shop").options(split_distinct=1)


@pytest.mark.spark
def test_two_steps_of_the_skew_page_give_the_results_of_one(clicks):
    def busiest(key, window, rows):
        counts = {}
        for row in rows:
            counts[row.price] = counts.get(row.price, 0) + 1
        return sorted(((n, -1 if price is None else price) for price, n in counts.items()), reverse=True)[:1]

    parts = windows(clicks, "shop", "pmod(xxhash64(price), 16) AS part").apply(busiest, "n bigint, price bigint")
    places = ("shop", "window_start", "window_end")
    together = parts.main.groupBy(*places).agg(F.max(F.struct("n", "price")).alias("most")).select(*places, "most.*")
    at_once = windows(clicks, "shop").apply(busiest, "n bigint, price bigint").main
    assert sorted(together.collect()) == sorted(at_once.collect())


@pytest.mark.spark
def test_streaming_block_of_the_skew_page_runs(spark, tmp_path):
    block = re.findall(r"```python(?: fragment)?\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[-1]
    assert "put_together" in block
    start = START.replace(tzinfo=dt.timezone.utc)
    clicks = MicroBatches(spark, tmp_path / "clicks", "shop bigint, user string, n bigint, ts timestamp")
    rows = [(number % 2, f"u{number:03}", number * 37 % 101, start + dt.timedelta(minutes=number)) for number in range(200)]
    for first in range(0, 200, 50):
        clicks.add(rows[first : first + 50])
    for place in ("out", "checkpoint"):
        block = block.replace(f'"{place}', f'"{tmp_path}/{place}')
    known = {"pst": pst, "F": F, "clicks": clicks.stream(), "strategy": pst.WatermarkStrategy.for_monotonous_timestamps()}
    exec(block.replace("parts.start(", "query = parts.start("), known)
    known["query"].await_termination()
    found = {(row.shop, row.window_start.hour): row.user for row in spark.read.parquet(f"{tmp_path}/out").collect()}
    expected = {}
    for shop, user, n, ts in rows:
        best = expected.get((shop, ts.hour), (-1, ""))
        expected[shop, ts.hour] = max(best, (n, user))
    closed = {place: user for place, (_, user) in expected.items() if place[1] < 3}
    assert found == closed
    assert len(found) == 6


@pytest.mark.spark
def test_split_parts_of_any_type_are_combined(spark):
    columns = "k string, n bigint, total double, half float, price decimal(10, 2), low int, high string"
    rows = [
        ("a", 1, 0.5, 0.25, Decimal("1.10"), 3, "x"),
        ("a", 2, 1.5, 0.5, Decimal("2.20"), None, "y"),
        ("a", None, None, None, None, 1, None),
        ("b", None, None, None, None, None, None),
    ]
    together = {"n": "sum", "total": "sum", "half": "sum", "price": "sum", "low": "min", "high": "max"}
    plan = SimpleNamespace(split=SimpleNamespace(together=together), key_names=("k",), window_names=())
    whole = merge_split_results(spark.createDataFrame(rows, columns), plan)
    assert whole.schema.simpleString() == spark.createDataFrame(rows, columns).schema.simpleString()
    assert sorted(map(tuple, whole.collect())) == [
        ("a", 3, 2.0, 0.75, Decimal("3.30"), 1, "y"),
        ("b", None, None, None, None, None, None),
    ]
