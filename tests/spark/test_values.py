"""Deceptive values: times without a zone, intervals, random numbers, and strings with a collation."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.datastream import planned
from panestream.datastream.inputs import gap_input
from panestream.errors import InvalidWindowError
from panestream.spark.catalyst import reduce_rows, reducible
from panestream.spark.columns import micros_of
from panestream.spark.session import session_settings
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.watermarks import WatermarkStrategy

pytestmark = pytest.mark.spark

NONE = WatermarkStrategy.no_watermarks()
NEW_YORK = {"spark.sql.session.timeZone": "America/New_York"}
"""Its clocks went from 02:00 to 03:00 on 2024-03-10, and from 02:00 back to 01:00 on 2024-11-03."""


def streamed(spark, folder, schema):
    """Read Parquet files as a stream, one in each micro-batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def write(folder, *tables):
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


# ------------------------------------------------------------------------------------------------ times without zone


def at(month, day, hour, minute=0):
    return datetime(2024, month, day, hour, minute)


NIGHT = [at(3, 10, 1, 30), at(3, 10, 2, 30), at(3, 10, 1, 50), at(3, 10, 3, 30), at(11, 3, 1, 30), at(11, 3, 2, 30)]

STAMPS = "one timestamp_ntz, all array<timestamp_ntz>"


def hourly(df, delay="45 minutes"):
    source = pst.stream(df).assign_timestamps("ts", WatermarkStrategy.for_bounded_out_of_orderness(delay))
    return source.key_by("stamp").window(pst.TumblingEventTimeWindows.of("1 hour"))


def hours(df):
    """Return the results of a query, with the window's start in UTC."""
    names = [name for name in df.columns if name not in ("window_start", "window_end", "batch_id")]
    rows = df.select(F.unix_micros("window_start"), *names).collect()
    return sorted((datetime(1970, 1, 1) + timedelta(microseconds=row[0]), *row[1:]) for row in rows)


@pytest.mark.filterwarnings("ignore:micro-batch . moved the watermark")  # from the night of March to that of November
def test_times_without_zone_mean_utc_in_every_session(spark, tmp_path):
    """As event time, key, value and in whole rows, on all operators, also at 02:30 of a night without such a time."""
    table = pa.table({"ts": NIGHT, "stamp": NIGHT})
    folder, schema = write(tmp_path / "in", table.slice(0, 2), table.slice(2)), "ts timestamp_ntz, stamp timestamp_ntz"
    expected = sorted((ts.replace(minute=0), ts, ts, [ts]) for ts in NIGHT)
    some = [agg.max("stamp").alias("most"), agg.collect_list("stamp").alias("all")]
    with session_settings(spark, NEW_YORK):
        df = spark.read.schema(schema).parquet(str(folder))
        assert hours(hourly(df).aggregate(some[0]).main) == [row[:3] for row in expected]  # by Spark's own aggregation
        one_each = hourly(df).process(lambda key, context, rows: [(key, [row.stamp for row in rows])], STAMPS)
        assert hours(one_each.main) == expected
        # On a stream, 02:30 is on time after 01:50, because the zone is not used.
        result = hourly(streamed(spark, folder, schema)).side_output_late_data("late").aggregate(*some)
        main, late = str(tmp_path / "main"), str(tmp_path / "late")
        sinks = {"main": pst.ParquetSink(main), "late": pst.ParquetSink(late)}
        result.start(checkpoint=str(tmp_path / "c"), **sinks).await_termination()
        assert hours(spark.read.parquet(main)) == expected[:-2]
        assert spark.read.parquet(late).count() == 0


# ------------------------------------------------------------------------------------------------ gaps

GAPS = {
    "interval": (
        None,
        "interval day to second",
        [timedelta(days=150), timedelta(microseconds=1), timedelta(0), timedelta(days=-1)],
    ),
    "int": ("seconds", "bigint", [3, 0, -1, 2**62, 2**63 - 1]),
    "double": ("seconds", "double", [0.1, 1.9999999, 1e-7, -1.5, 1e300, 5e12, float("nan"), float("inf"), float("-inf")]),
    "float": ("milliseconds", "float", [0.10000000149011612, 1234.56787109375, float("nan"), float("inf"), 3e38]),
    "decimal": ("seconds", "decimal(10, 8)", [Decimal("0.00000199"), Decimal("1.5"), Decimal(-1)]),
    "wide": ("milliseconds", "decimal(38, 18)", [Decimal("0.000999999999"), Decimal("1.999999999999999999"), Decimal(10**19)]),
    "large": ("seconds", "decimal(38, 0)", [Decimal(7), Decimal(10**37)]),
}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_gap_as_a_column_and_in_a_function_has_the_same_length(spark, ansi):
    with session_settings(spark, {**NEW_YORK, "spark.sql.ansi.enabled": ansi}):
        for name, (unit, kind, values) in GAPS.items():
            gap = GapColumn("gap", unit)
            df = spark.createDataFrame([(None,), *((value,) for value in values)], f"gap {kind}")
            (column,) = gap_input(df, pst.EventTimeSessionWindows(gap)).values()
            for value, micros in df.select("gap", column).collect():
                try:
                    expected = gap({"gap": value})
                except InvalidWindowError:
                    expected = None
                assert (micros if micros is not None and 0 < micros < 2**62 else None) == expected, (name, value)


def test_decimal_time_before_1970_is_rounded_down_to_its_microsecond(spark):
    """Spark truncates a decimal towards zero in a cast."""
    df = spark.sql("SELECT -0.0000005BD AS narrow, cast(-0.0000005 AS decimal(38, 18)) AS wide, -1.5BD AS exact")
    assert tuple(df.select(*(micros_of(df, name, "seconds") for name in df.columns)).first()) == (-1, -1, -1_500_000)


def test_a_day_is_24_hours_on_every_operator(spark):
    with session_settings(spark, NEW_YORK):
        df = spark.sql("SELECT timestamp_ntz'2024-01-01' AS ts, interval '150' day AS gap")
        source = pst.stream(df).assign_timestamps("ts", NONE)
        windowed = source.window_all(pst.EventTimeSessionWindows.with_gap_column("gap"))
        for result in (windowed.aggregate(agg.count()), windowed.apply(lambda key, window, rows: [1], "n int")):
            (row,) = result.main.select((F.unix_micros("window_end") - F.unix_micros("window_start")).alias("length")).collect()
            assert row.length == 150 * 86_400_000_000


# ------------------------------------------------------------------------------------------------ random numbers


def operator_input(monkeypatch, result):
    """Return the input and the plan of a query's operators."""
    taken = []

    def take(df, plan, projection, **how):
        taken.append(projection.rows_of(df))
        return taken[-1]

    monkeypatch.setattr(planned, "operate", take)
    assert result._operated is taken[0]
    return taken[0], result.plan


def test_random_expressions_of_users_are_evaluated_once(spark, monkeypatch):
    """A row with a random key has one key group, and a random event time decides the windows and lateness of its row."""
    source = pst.stream(spark.range(4000).toDF("v")).side_output_invalid("bad")
    source = source.assign_timestamps("if(rand() < 0.5, null, v)", NONE, unit="microseconds")
    salted = source.key_by("cast(floor(rand() * 4) AS int) AS salt", "uuid() AS u", "v AS __panestream_time")
    windowed = salted.window(pst.TumblingEventTimeWindows.of("1 hour")).options(key_groups=4)
    projected, _ = operator_input(monkeypatch, windowed.aggregate(agg.count()))
    group = F.pmod(F.xxhash64("key_0", "key_1", "key_2"), F.lit(4)).alias("expected")
    rows = projected.select("*", group).collect()
    assert [row.group for row in rows] == [row.expected for row in rows]
    assert {row.key_0 for row in rows} == {0, 1, 2, 3}
    assert [row.time is None for row in rows] == [row.row is not None for row in rows]
    assert 1000 < sum(row.time is None for row in rows) < 3000


def test_spark_reduces_rows_by_the_evaluated_random_key(spark, monkeypatch):
    source = pst.stream(spark.range(4000).toDF("v")).assign_timestamps("v + floor(rand() * 2) * 4000", NONE, unit="microseconds")
    windowed = (
        source.key_by("cast(floor(rand() * 4) AS int) AS salt")
        .window(pst.SlidingEventTimeWindows(3000, 4000))
        .options(key_groups=4)
    )
    projected, plan = operator_input(monkeypatch, windowed.aggregate(agg.count(), agg.max("v")))
    assert reducible(plan)
    rows = reduce_rows(projected, plan).collect()
    assert len({(row.group, row.key_0) for row in rows}) == 4
    assert len(rows) == 8, "4 keys in 2 windows"
    assert sum(row.rows for row in rows) == 3000, "the others lie between the windows"
