"""The trace of a query over a batch DataFrame has Spark's rows and the results of the query."""

import datetime as dt
from dataclasses import replace

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError

pytestmark = pytest.mark.spark
UTC = dt.timezone.utc


def at(minute):
    return dt.datetime(2026, 1, 1, 10, tzinfo=UTC) + dt.timedelta(minutes=minute)


@pytest.fixture(scope="module")
def orders(spark):
    rows = [("ann", 1, 0, 1), ("bob", 2, 3, 2), ("ann", 3, 4, 3), ("ann", 9, 40, 4), ("ann", 5, 2, 5), (None, 7, 1, 6)]
    made = [(user, price, at(minute), place) for user, price, minute, place in reversed(rows)]
    return spark.createDataFrame(made, "user string, price bigint, ts timestamp, place int").repartition(3)


def windowed(df, assigner=None, *, delay="10 minutes"):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness(delay)
    stream = pst.stream(df).assign_timestamps("ts", strategy).arrival_order("place")
    return stream.key_by("user").window(assigner or pst.TumblingEventTimeWindows.of("30 minutes"))


def test_trace_of_a_batch_has_rows_in_order_and_results(orders):
    result = windowed(orders).aggregate(agg.count().alias("n"), agg.sum("price * 2").alias("twice")).top(1, by="n")
    trace = result.trace()
    assert [element.value.place for element in trace.elements] == [1, 2, 3, 4, 5, 6]
    gave = {(trace.windows[firing.window].key, *firing.results[0].values()) for firing in trace.firings}
    every = windowed(orders).aggregate(agg.count().alias("n"), agg.sum("price * 2").alias("twice")).main.collect()
    assert (
        gave == {(row.user, row.n, row.twice) for row in every} == {("ann", 3, 18), ("ann", 1, 18), ("bob", 1, 4), (None, 1, 14)}
    )
    said = str(pst.tools.why(result, key="ann", row={"price": 5}))
    assert "Row (user='ann', price=5, ts=2026-01-01 10:02:00+00:00, place=5) of key 'ann'" in said
    assert "since the watermark passed its end: 3 rows, gave {'n': 3, 'twice': 18}." in said


def test_trace_of_one_key_reads_only_its_rows(orders):
    result = windowed(orders).apply(lambda key, window, rows: [len(rows)], "n bigint")
    assert {element.key for element in result.trace(key="bob", most_rows=1).elements} == {"bob"}
    assert [element.value.price for element in result.trace(key=None).elements] == [7]
    with pytest.raises(InvalidPlanError, match=r"more than 3 rows of the key 'ann', too many to trace. Choose"):
        result.trace(key="ann", most_rows=3)
    with pytest.raises(InvalidPlanError, match="more than 5 rows, too many to trace"):
        result.trace(most_rows=5)
    with pytest.raises(InvalidPlanError, match=r"not of the key columns \(user\)"):
        result.trace(key=("ann", 1))


def test_trace_of_a_batch_in_micro_batches_has_late_rows(orders):
    result = windowed(orders, delay="5 minutes").aggregate(agg.count())
    trace = result.trace(rows_per_batch=2)
    assert [each.value.price for each in trace.late] == [5, 7]
    assert "It was late: its window, [2026-01-01 10:00:00, 2026-01-01 10:30:00), had closed" in str(
        pst.tools.why(trace, row={"price": 5})
    )
    assert not trace.missing
    whole = result.trace()
    assert not whole.late
    assert "It is unknown if a row was late in a stream: here all rows came as one batch" in str(
        pst.tools.why(whole, row={"price": 5})
    )
    source = result.windowed.keyed.source
    unordered = replace(
        result, windowed=replace(result.windowed, keyed=replace(result.windowed.keyed, source=replace(source, order=())))
    )
    assert "the query lacks .arrival_order(...)" in str(pst.tools.why(unordered.trace(rows_per_batch=2), row={"price": 5}))
    with pytest.raises(InvalidPlanError, match=r"[Ll]eave out key=, or rows_per_batch="):
        result.trace(key="ann", rows_per_batch=2)


def test_trace_of_a_stream_refers_to_the_checkpoint(spark):
    clicks = (
        spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts").selectExpr("ts", "'a' AS user", "1 AS place")
    )
    with pytest.raises(InvalidPlanError, match="Read its checkpoint"):
        windowed(clicks).aggregate(agg.count()).trace()


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("double", float("nan")),
        ("timestamp_ntz", dt.datetime(2026, 1, 1, 12)),
        ("timestamp", dt.datetime(2026, 1, 1, 12)),
    ],
)
def test_why_finds_rows_by_keys_of_any_type(spark, kind, key):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        rows = spark.createDataFrame([(key, 1, at(0)), (None, 2, at(0))], f"user {kind}, price bigint, ts timestamp")
        result = windowed(rows.withColumn("place", rows.price)).aggregate(agg.count().alias("n"))
        assert [fact.element.value.price for fact in pst.tools.why(result, key=key).facts] == [1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
