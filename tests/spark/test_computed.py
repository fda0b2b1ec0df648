"""Few rows that come with the counters equal the rows that Spark would have unpacked."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

import panestream as pst
from panestream import agg
from panestream.spark import batch_output
from panestream.spark.batch_output import BatchOutput, output

pytestmark = pytest.mark.spark

FLAT = {
    "flag": "id % 2 = 0",
    "byte": "cast(id as tinyint)",
    "short": "cast(-id as smallint)",
    "whole": "cast(id * 1000 as int)",
    "long": "id * 9007199254740993",
    "float": "cast(id / 3 as float)",
    "double": "if(id = 1, double('NaN'), if(id = 2, double('-Infinity'), id / 7))",
    "price": "cast(id / 8 as decimal(38, 18))",
    "text": "concat('é', char(0), id)",
    "bytes": "cast(concat('b', id) as binary)",
    "day": "date_sub(date'1970-01-01', cast(id * 100000 as int))",
    # Times within the hour that New York repeats, and before 1883, when its offset had minutes and seconds.
    "instant": "timestamp_micros(if(id % 2 = 0, 1667107800000000, -3000000000000000) + id * 600000001)",
    "local": "cast(timestamp_micros(1667107800000000 + id * 600000001) as timestamp_ntz)",
    "span": "make_dt_interval(cast(id as int), 1, 2, 3.000004)",
}


@pytest.fixture
def in_new_york(spark):
    """A session whose time zone repeats an hour."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def windowed(rows, groups=2):
    delay = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
    stream = pst.stream(rows).assign_timestamps("at", delay).side_output_invalid("invalid")
    return stream.key_by("k").window(pst.TumblingEventTimeWindows.of("1 minute")).options(key_groups=groups)


def rows_of(spark, columns=FLAT, number=8):
    """Make rows. Every other row lacks an event time, every third row has nulls in all columns."""
    given = [F.when(F.col("id") % 3 != 0, F.expr(text)).alias(name) for name, text in columns.items()]
    at = F.when(F.col("id") % 2 == 0, F.timestamp_seconds(F.col("id")))
    return spark.range(number).select((F.col("id") % 3).alias("k"), at.alias("at"), *given)


def same(one, other):
    """Compare schema and rows as Spark writes them, because comparisons in Python could hide a difference."""
    assert one.schema == other.schema
    texts = [
        sorted(row[0] for row in each.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect())
        for each in (one.select(*map(shown, one.schema)), other.select(*map(shown, other.schema)))
    ]
    assert texts[0] == texts[1]
    return len(texts[0])


def shown(field):
    """Show values that JSON does not distinguish."""
    column = F.col(f"`{field.name}`")
    if isinstance(field.dataType, T.TimestampType):
        return F.unix_micros(column).alias(field.name)
    return F.hex(column).alias(field.name) if isinstance(field.dataType, (T.BinaryType, T.StringType)) else column


def test_brought_rows_of_all_types_equal_unpacked_rows(in_new_york):
    largest = [agg.max(name).alias(f"largest_{name}") for name in FLAT if name != "span"]
    result = windowed(rows_of(in_new_york)).aggregate(agg.count().alias("n"), *largest)
    operated = result._operated.persist()
    found = BatchOutput.of(operated, result.plan)
    assert set(found.present) == {"main", "invalid"}
    for tag, rows in (("main", 3), ("invalid", 4)):
        brought = found.rows(tag)
        assert same(brought, output(operated, result.plan, tag)) == rows
        assert is_here(brought)
        assert brought.rdd.getNumPartitions() == 1
    operated.unpersist()


def is_here(rows):
    """Return whether the plan runs no Python worker."""
    return "MapInArrow" not in plan_of(rows)


def plan_of(rows):
    return rows._jdf.queryExecution().toString()


def test_brought_output_without_rows_equals_the_unpacked_output(spark):
    result = windowed(rows_of(spark).where("at is not null")).aggregate(agg.count().alias("n"))
    operated = result._operated.persist()
    found = BatchOutput.of(operated, result.plan)
    assert set(found.present) == {"main"}
    assert same(found.rows("invalid"), output(operated, result.plan, "invalid")) == 0
    operated.unpersist()


def test_rows_with_nested_columns_are_unpacked_on_executors(spark):
    nested = {
        "pair": "struct(id, timestamp_seconds(id) as t)",
        "list": "array(timestamp_seconds(id), null)",
        "map": "map(id, id)",
    }
    result = windowed(rows_of(spark, nested)).aggregate(agg.count().alias("n"))
    operated = result._operated.persist()
    found = BatchOutput.of(operated, result.plan)
    assert is_here(found.rows("main"))
    assert not is_here(found.rows("invalid"))
    assert (
        found.rows("invalid").where("pair is null").count()
        == output(operated, result.plan, "invalid").where("pair is null").count()
    )
    operated.unpersist()


@pytest.mark.parametrize("groups", [1, 3])
def test_many_rows_are_unpacked_on_executors(spark, monkeypatch, groups):
    monkeypatch.setattr(batch_output, "FEW_BYTES", 20_000)
    result = windowed(spark.range(3_000).selectExpr("id k", "timestamp_seconds(id % 2) at"), groups).aggregate(
        agg.count().alias("n")
    )
    operated = result._operated.persist()
    found = BatchOutput.of(operated, result.plan)
    assert not is_here(found.rows("main"))
    assert found.rows("main").count() == 3_000
    assert found.rows("invalid").count() == 0
    operated.unpersist()


def test_rows_are_right_without_a_limit_of_arrow_rows(spark):
    result = windowed(rows_of(spark)).aggregate(agg.count().alias("n"))
    operated = result._operated.persist()
    found = BatchOutput.of(operated, result.plan)
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "-1")
    try:
        assert found.rows("main").count() == 3
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)
    operated.unpersist()
