"""The cost of building a query must not grow with every column and aggregate. Counted, not timed."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.spark.columns import Names, column_of, columns_of, struct_of

HOUR = pst.TumblingEventTimeWindows.of("1 hour")
FEW, MANY = 10, 210


@contextmanager
def calls(monkeypatch):
    """Count the calls of Java by method, without those that free objects, which come at random times."""
    counted: Counter[str] = Counter()
    send = GatewayClient.send_command

    def sent(self, command, *args, **how):
        if not command.startswith("m\n"):
            counted[command.split("\n")[2]] += 1
        return send(self, command, *args, **how)

    with monkeypatch.context() as patched:
        patched.setattr(GatewayClient, "send_command", sent)
        yield counted


def wide(spark, columns):
    rows = spark.range(3).select(F.col("id").alias("key"), F.timestamp_seconds("id").alias("ts"))
    return rows.selectExpr("*", *(f"key + {at} AS `c.{at}`" for at in range(columns)))


def windowed(df):
    on_time = pst.WatermarkStrategy.for_monotonous_timestamps()
    return pst.stream(df).assign_timestamps("ts", on_time).key_by("key").window(HOUR)


@pytest.mark.spark
def test_number_of_calls_to_java_does_not_grow_with_columns(spark, monkeypatch):
    def built(columns):
        df = wide(spark, columns)
        with calls(monkeypatch) as counted:
            main = (
                windowed(df)
                .apply_arrow(lambda key, window, rows: [(rows.column(f"c.{columns - 1}")[0].as_py(),)], "n bigint")
                .main
            )
        return main, counted.total()

    few, many = built(FEW), built(MANY)
    assert few[1] > 50
    assert many[1] <= few[1] + 10
    assert sorted(row.n for row in many[0].collect()) == [MANY - 1, MANY, MANY + 1]


@pytest.mark.spark
def test_number_of_calls_to_spark_does_not_grow_with_aggregates(spark, monkeypatch):
    def asked(aggregates):
        keyed = windowed(wide(spark, 1))
        with calls(monkeypatch) as counted:
            keyed.aggregate(*(agg.sum(f"key % {at + 2}").alias(f"s{at}") for at in range(aggregates)))
        return counted["schema"]

    few = asked(FEW)
    assert few
    assert asked(MANY) == few


@pytest.mark.spark
def test_wrong_input_among_several_is_named(spark):
    df = wide(spark, 2)
    wrong = ["key + nothing", "sum(key)", "explode(array(key))", "row_number() OVER (ORDER BY key)", "key +", "nothing", " "]
    for one in wrong:
        with pytest.raises(InvalidPlanError) as alone:
            column_of(df, one, "the input")
        with pytest.raises(InvalidPlanError) as among:
            columns_of(df, ["key", "key + 1", one, "ts"], "the input")
        assert str(among.value) == str(alone.value)


@pytest.mark.spark
def test_struct_with_unusual_field_names(spark):
    names = ["a.b", "`", "a b", "ä", "'", "struct", "1"]
    df = spark.range(1).selectExpr(*(f"id + {at} AS `{name.replace('`', '``')}`" for at, name in enumerate(names)))
    row = df.select(struct_of(names).alias("row"))
    assert row.schema["row"].dataType.names == names
    assert [*row.head().row] == [*range(len(names))]


class Name(str):
    """A name that counts how often it is lowercased."""

    __slots__ = ()
    lowered = 0

    def lower(self):
        Name.lowered += 1
        return super().lower()


def test_every_name_is_lowercased_once(monkeypatch):
    monkeypatch.setattr(Name, "lowered", 0)
    names = [Name(f"c{at}") for at in range(500)]
    assert Names().doubled(names) is None
    assert 0 < Name.lowered <= len(names)


@pytest.mark.parametrize(
    ("names", "sensitive", "twice"),
    [
        (["a", "b", "A"], False, ("a", "A")),
        (["a", "b", "A"], True, None),
        (["a", "b", "a"], True, ("a", "a")),
        (["a", "b", "a"], False, ("a", "a")),
        (["a", "B", "b", "a"], False, ("B", "b")),
        (["a", "b"], False, None),
        ([], False, None),
    ],
)
def test_first_two_equal_names_of_a_wide_schema_are_found(names, sensitive, twice):
    assert Names(sensitive).doubled(names) == twice
