"""Names that differ only in case, and strings with a collation, are refused when the query is built."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.spark.session import session_settings
from panestream.spark.types import schema_of
from panestream.windowing.watermarks import WatermarkStrategy

pytestmark = pytest.mark.spark

HOUR = pst.TumblingEventTimeWindows.of("1 hour")
SENSITIVE = {"spark.sql.caseSensitive": "true"}


@pytest.fixture(scope="module")
def rows(spark):
    return spark.sql("SELECT 'a' AS k, 1 AS v, 2 AS `Unit Price`, interval '1' day AS gap, timestamp'2026-01-01' AS ts")


def keyed(df, *keys, strategy=None):
    source = pst.stream(df).assign_timestamps("TS", strategy or WatermarkStrategy.no_watermarks())
    return source.key_by(*keys).window(HOUR)


def several(df):
    return pst.stream(df).assign_timestamps("ts", WatermarkStrategy.no_watermarks()).key_by("v AS WINDOW")


TWICE = {
    "columns of the input": (
        lambda df: pst.stream(df.withColumn("j", F.lit(1)).toDF("k", "v", "u", "g", "ts", "K")),
        "'k' and 'K', which",
    ),
    "keys": (lambda df: keyed(df, "k", "v AS K"), "two keys are named 'k' and 'K'"),
    "a key and the window": (lambda df: keyed(df, "k AS Window_Start"), "a key cannot be named 'Window_Start'"),
    "a key and the label": (lambda df: several(df).windows({"a": HOUR}), "results have a column 'window'"),
    "results": (lambda df: keyed(df, "k").aggregate(agg.count().alias("n"), agg.max("v").alias("N")), "called 'n' and 'N'"),
    "a key and a result": (lambda df: keyed(df, "k").aggregate(agg.count().alias("K")), "name of a key column, 'K' and 'k'"),
    "a result and the window": (lambda df: keyed(df, "k").aggregate(agg.count().alias("RANK")), "cannot be named 'RANK'"),
    "fields of a struct": (lambda df: keyed(df, "k").aggregate(agg.arg_max("v", "gap", "Gap")), "the fields 'gap' and 'Gap'"),
    "a schema and a key": (lambda df: keyed(df, "k").apply(print_nothing, "K int"), "the schema has a column 'K'"),
    "a schema": (
        lambda df: keyed(df, "k").apply(print_nothing, pa.schema([("n", pa.int64()), ("N", pa.int64())])),
        "'n' and 'N'",
    ),
    "a side output": (lambda df: keyed(df, "k").side_output("more", "WINDOW_END int"), "the schema has a column 'WINDOW_END'"),
    "firings": (lambda df: keyed(df, "k").aggregate(agg.count().alias("Firing")).with_firing(), "adds a column 'firing'"),
    "reduce": (lambda df: keyed(df.withColumn("Rank", F.lit(1)), "k").reduce(lambda a, b: a), "a column 'Rank'"),
}


def print_nothing(key, window, rows):
    return []


@pytest.mark.parametrize(("build", "message"), TWICE.values(), ids=TWICE)
def test_two_names_that_differ_only_in_case_are_refused(rows, build, message):
    with pytest.raises(InvalidPlanError, match=message):
        build(rows)


def test_names_that_differ_in_case_are_accepted_in_a_case_sensitive_session(spark, rows):
    with session_settings(spark, SENSITIVE):
        source = pst.stream(rows.select("k", F.col("v").alias("K"), "ts")).assign_timestamps(
            "ts", WatermarkStrategy.no_watermarks()
        )
        result = source.key_by("k", "K").window(HOUR).aggregate(agg.count().alias("n"), agg.max("K").alias("N"))
        assert [tuple(row) for row in result.main.drop("window_start", "window_end").collect()] == [("a", 1, 1, 1)]
        with pytest.raises(InvalidPlanError, match="there is no column 'KK'"):
            source.assign_timestamps("ts", WatermarkStrategy.no_watermarks().per_partition("KK"))
        with pytest.raises(InvalidPlanError, match="there is no result 'nN'"):
            result.top(1, by="nN")


def test_names_of_columns_are_found_in_any_case(rows):
    """As in Spark, for keys, inputs, partitions, gaps in whole rows, and results."""
    windowed = keyed(rows, "K", strategy=WatermarkStrategy.no_watermarks().per_partition("V"))
    result = windowed.aggregate(agg.sum("UNIT PRICE").alias("total")).top(1, by="Total")
    assert [(row[0], row.total, row["rank"]) for row in result.main.collect()] == [("a", 2, 1)]
    assert windowed.reduce(lambda a, b: a).operator.result_schema.names == ["v", "Unit Price", "gap", "ts"]
    sessions = pst.stream(rows).assign_timestamps("ts", WatermarkStrategy.no_watermarks()).key_by("k")
    windows = sessions.window(pst.EventTimeSessionWindows.with_gap_column("GAP"))
    assert windows.apply(print_nothing, "n int").plan.assigner == pst.EventTimeSessionWindows.with_gap_column("gap")


# ------------------------------------------------------------------------------------------------ collations


@pytest.fixture(scope="module")
def collated(spark):
    return spark.sql(
        "SELECT s COLLATE utf8_lcase AS c, v, timestamp'2026-01-01' AS ts, cast(s AS varchar(3)) AS vc, cast(s AS char(3)) AS ch "
        "FROM VALUES ('A', 1), ('a', 2) AS t(s, v)"
    )


COMPARING = {
    "a key": lambda df: keyed(df, "c"),
    "a key that is computed": lambda df: keyed(df, "lower(c) AS c"),
    "min": lambda df: keyed(df, "v").aggregate(agg.min("c")),
    "max": lambda df: keyed(df, "v").aggregate(agg.max("c")),
    "count_distinct": lambda df: keyed(df, "v").aggregate(agg.count_distinct("c")),
    "approx_count_distinct": lambda df: keyed(df, "v").aggregate(agg.approx_count_distinct("c")),
    "max_by": lambda df: keyed(df, "v").aggregate(agg.max_by("v", "c")),
    "arg_min": lambda df: keyed(df, "v").aggregate(agg.arg_min("c", "v")),
    "top_k": lambda df: keyed(df, "v").aggregate(agg.top_k("c", 2)),
    "top_k by": lambda df: keyed(df, "v").aggregate(agg.top_k("v", 2, "c")),
    "per_partition": lambda df: keyed(df, "v", strategy=WatermarkStrategy.no_watermarks().per_partition("c")),
}


@pytest.mark.parametrize("build", COMPARING.values(), ids=COMPARING)
def test_strings_with_a_collation_are_refused_in_comparisons(collated, build):
    with pytest.raises(
        InvalidPlanError, match=r"compares by the collation UTF8_LCASE.*[Ww]rite '.* COLLATE UTF8_BINARY', or .*'lower\("
    ):
        build(collated)


def test_collated_strings_that_are_only_passed_on_become_plain_strings(spark, collated):
    some = [agg.first("c").alias("first"), agg.max_by("struct(c) AS s", "v").alias("s"), agg.count("c").alias("n")]
    result = keyed(collated, "lower(c COLLATE UTF8_BINARY) AS c").aggregate(
        *some, agg.min("vc").alias("vc"), agg.max("ch").alias("ch")
    )
    assert result.main.select("first", "s").schema.simpleString() == "struct<first:string,s:struct<c:string>>"
    (row,) = result.main.collect()
    assert (row.c, row.n, row.vc) == ("a", 2, "A")
    with pytest.raises(InvalidPlanError, match="top: the strings of 'first' compare by a collation"):
        result.top(1, by="first")
    result.top(1, by="n")
    with pytest.raises(InvalidPlanError, match="the column 'x' of the schema is a string collate UTF8_LCASE"):
        keyed(collated, "v").apply(print_nothing, "x string collate utf8_lcase")


def test_char_and_varchar_in_a_schema_are_strings(spark):
    found = schema_of(spark, "a varchar(3), b CHAR ( 2 ), c array<varchar(1)>")
    assert [str(field.type) for field in found] == ["string", "string", "list<element: string>"]
