"""PySpark Columns in all places that accept a name or SQL."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidEventTimeError, InvalidPlanError
from panestream.spark.columns import text_of
from panestream.windowing.foreign_names import AGGREGATES
from tests.spark import said

pytestmark = pytest.mark.spark

ROWS = [
    ("Ann", 1, 10, 1),
    ("ann", 2, 30, 2),
    ("Bob", 3, 5, 3),
    ("Ann", 11, 7, 1),
]
HOUR = pst.TumblingEventTimeWindows.of("10 seconds")
ON_TIME = pst.WatermarkStrategy.for_monotonous_timestamps()


@pytest.fixture(scope="module")
def df(spark):
    rows = [(user, second, price, wait) for user, second, price, wait in ROWS]
    made = spark.createDataFrame(rows, "user string, second bigint, price bigint, wait int")
    return made.withColumns(
        {"ts": F.timestamp_seconds("second"), "at": F.struct(F.col("wait").alias("x")), "tags": F.array("user")}
    ).select("user", "ts", "price", "wait", "at", "tags", "second")


def windowed(df, *keys, time="ts"):
    return pst.stream(df).assign_timestamps(time, ON_TIME).key_by(*(keys or ("user",))).window(HOUR)


@pytest.fixture(scope="module")
def by_user(df):
    return windowed(df)


def collected(result):
    return sorted([tuple(row) for row in result.main.drop("window_start", "window_end").collect()])


def test_columns_have_the_names_that_spark_gives_them(df):
    assert {text_of(df, column, "it"): text for text, column in said.columns(df).items()} == {
        text: text for text in said.columns(df)
    }


def test_columns_give_what_sql_gives(df):
    by_text = windowed(df, "lower(user) AS user").aggregate(
        agg.count(),
        agg.sum("price * wait"),
        agg.max_by("price", "ts").alias("newest"),
        agg.weighted_mean("price", "wait + 1").alias("mean"),
        agg.arg_max("ts", "price", "wait").alias("last"),
        agg.top_k("price", 1, by="wait").alias("top"),
    )
    by_column = windowed(df, F.lower(df.user).alias("user"), time=df["ts"]).aggregate(
        agg.count(F.lit(1)).alias("count"),
        agg.sum(F.col("price") * F.col("wait")),
        agg.max_by(F.col("price"), F.col("ts")).alias("newest"),
        agg.weighted_mean(df.price, F.col("wait") + 1).alias("mean"),
        agg.arg_max(F.col("ts"), "price", F.col("wait")).alias("last"),
        agg.top_k(F.col("price"), 1, by=df.wait).alias("top"),
    )
    assert collected(by_column) == collected(by_text)
    assert by_text.main.columns[4] == "sum(price * wait)"
    # As Spark names F.sum(F.col("price") * F.col("wait")).
    assert by_column.main.columns == [*by_text.main.columns[:4], "sum((price * wait))", *by_text.main.columns[5:]]


def test_plain_column_equals_its_name(df):
    by_text = windowed(df, "user").aggregate(agg.sum("price"), agg.max_by("wait", "ts"))
    by_column = windowed(df, F.col("user"), time=df.ts).aggregate(agg.sum(df.price), agg.max_by(F.col("wait"), df["ts"]))
    assert by_column.plan.identity() == by_text.plan.identity()
    assert by_column.explain() == by_text.explain()
    other = windowed(df, F.lower("user").alias("user")).aggregate(agg.sum(F.col("price") * 2))
    assert other.plan.identity()["key"] == "lower(user) AS user (string)"
    assert other.plan.identity()["aggregates"] == "agg.sum('(price * 2)')"
    assert other.plan.key_names == ("user",)


def test_columns_as_processing_time_and_session_gap(df):
    source = pst.stream(df).assign_timestamps(F.col("second"), ON_TIME, unit="seconds").processing_time_from(df.ts)
    assert (source.key_by("user").window(HOUR).aggregate(agg.count()).plan.processing_time) == "ts"
    with pytest.raises(InvalidEventTimeError, match="'price' is a number"):
        pst.stream(df).assign_timestamps(F.col("price"), ON_TIME)

    def sessions(gap):
        over = source.key_by("user").window(pst.EventTimeSessionWindows.with_gap_column(gap, "seconds").max_duration("1 day"))
        return over.aggregate(agg.count())

    assert collected(sessions(F.col("wait") * 20)) == collected(sessions("wait * 20")) == [("Ann", 2), ("Bob", 1), ("ann", 1)]
    assert sessions(F.col("wait")).plan.identity() == sessions("wait").plan.identity()
    rows = source.key_by("user").window(pst.EventTimeSessionWindows.with_gap_column(F.col("wait"), "seconds"))
    rows.apply(lambda key, window, rows: [len(rows)], "n int")
    made = source.key_by("user").window(pst.EventTimeSessionWindows.with_gap_column(F.col("wait") * 2, "seconds"))
    with pytest.raises(InvalidPlanError, match="must be a column"):
        made.apply(lambda key, window, rows: [len(rows)], "n int")


def test_two_different_columns_with_one_name_are_refused(df):
    # Spark omits the quotes of literals in names.
    column, literal = F.concat("user", "user"), F.concat("user", F.lit("user"))
    windows = windowed(df)
    windows.aggregate(agg.max(column), agg.min(column), agg.first(F.concat("user", "user")))
    windows.aggregate(agg.max("price"), agg.sum(F.col("price")), agg.min(df.price))
    for inputs in [(column, literal), ("concat(user, user)", literal), (literal, "concat(user, user)")]:
        with pytest.raises(InvalidPlanError, match=r"both called 'concat\(user, user\)': give one of the Columns a name"):
            windows.aggregate(agg.max(inputs[0]), agg.min(inputs[1]))
    windows.aggregate(agg.max(column), agg.min(literal.alias("literally")))


def sessions_of(df, gap):
    sessions = pst.EventTimeSessionWindows.with_gap_column(gap, "seconds")
    return pst.stream(df).assign_timestamps("ts", ON_TIME).key_by("user").window(sessions)


@pytest.mark.parametrize(
    "build",
    [
        lambda df, other: windowed(df, other.user),
        lambda df, other: windowed(df, time=other.ts),
        lambda df, other: windowed(df).aggregate(agg.sum(other.price * 2)),
        lambda df, other: sessions_of(df, other.gap),
    ],
)
def test_column_of_another_data_frame_is_refused(df, spark, build):
    other = spark.createDataFrame([], "user string, ts timestamp, price bigint, gap int")
    with pytest.raises(InvalidPlanError, match=r"is a Column of another DataFrame than the one in pst.stream\(df\)"):
        build(df, other)


def test_missing_column_is_refused_with_a_suggestion(df):
    with pytest.raises(InvalidPlanError, match="'prize' is not a Column over these columns; did you mean 'price'"):
        windowed(df).aggregate(agg.sum(F.col("prize")))
    with pytest.raises(InvalidPlanError, match="is not a Column over these columns"):
        windowed(df).aggregate(agg.count(F.col("*")))


@pytest.mark.parametrize("key", [lambda: "user", lambda: "USER AS name", lambda: F.col("user")])
def test_missing_column_user_is_not_read_as_the_function_user(df, key):
    # Without a column of that name, Spark reads the word as user(), and all rows would have one key.
    with pytest.raises(
        InvalidPlanError, match=r"the key '.*' is not a column; .* function (user|USER)\(\), the same for all rows"
    ):
        windowed(df.withColumnRenamed("user", "visitor"), key())
    made = windowed(df.withColumnRenamed("user", "visitor"), "visitor AS user").aggregate(
        agg.count_distinct("visitor").alias("n")
    )
    assert made.main.columns[0] == "user"
    with pytest.raises(InvalidPlanError, match="the input of an aggregate 'user' is not a column"):
        windowed(df.drop("user"), "wait").aggregate(agg.count_distinct("user"))


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda: F.var_samp("price"), "agg.var('price')"),
        (lambda: F.stddev_samp("price"), "agg.stddev('price')"),
        (lambda: F.last_value("price"), "agg.last('price')"),
        (lambda: F.max_by("price", F.col("wait") + 1), "agg.max_by('price', '(wait + 1)')"),
        (lambda: F.array_agg("price"), "agg.collect_list('price')"),
        (lambda: F.sum(F.col("price") * F.col("wait")).alias("cost"), "agg.sum('(price * wait)')"),
    ],
)
def test_spark_aggregate_becomes_the_aggregate_of_panestream(by_user, function, answer):
    (recipe,) = by_user.aggregate(function().alias("result")).asked.aggregates
    assert repr(recipe) == f"{answer}.alias('result')"


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda: F.approx_count_distinct("price", 0.01), "agg.approx_count_distinct(...) around the same Column"),
        (lambda: F.percentile_approx("price", 0.9), "agg.approx_quantile('price', 0.9)"),
        (lambda: F.percentile_approx("price", [0.5, 0.9]), "agg.approx_quantiles('price', [0.5, 0.9])"),
        (lambda: F.percentile("price", 0.9, 2), "agg.percentile('price', 0.9"),
        (lambda: F.stddev_pop("price"), "there is no agg.stddev_pop; did you mean agg.stddev?"),
        (lambda: F.coalesce(F.sum("price"), F.lit(0)), "compute on its results"),
    ],
)
def test_unsupported_spark_aggregate_is_refused_with_an_alternative(by_user, function, answer):
    with pytest.raises(InvalidPlanError) as error:
        by_user.aggregate(function())
    assert answer in str(error.value)


def test_spark_aggregate_in_other_places_is_refused_with_the_line_to_write(df):
    hint = r"aggregate of many: write .aggregate\(agg.sum\('price'\)\)"
    for wrong in (
        lambda: windowed(df, F.sum("price")),
        lambda: windowed(df, "sum(price)"),
        lambda: windowed(df, time="sum(price)"),
    ):
        with pytest.raises(InvalidPlanError, match=hint):
            wrong()
    for given in (F.sum("price"), "sum(price)"):
        with pytest.raises(InvalidPlanError, match=hint):
            windowed(df).aggregate(agg.max(given))
    with pytest.raises(InvalidPlanError, match=r"got 'sum\(price\)': write .aggregate\(agg.sum\('price'\)\)"):
        windowed(df).aggregate("sum(price)")
    with pytest.raises(InvalidPlanError, match="got the Column 'price'"):
        windowed(df).aggregate(F.col("price"))


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("explode(array(1, 2))", "makes several rows of one: do that before"),
        (lambda: F.explode(F.array(F.lit(1), F.lit(2))), "makes several rows of one: do that before"),
        ("1 + sum(price) OVER (PARTITION BY user)", r"looks at other rows: .*process"),
    ],
)
def test_column_without_one_value_per_row_is_refused(df, by_user, written, says):
    """In a projection, an explode multiplies the rows of all other columns."""
    written = written() if callable(written) else written
    with pytest.raises(InvalidPlanError, match=f"the input of an aggregate is one value of each row, and .* {says}"):
        by_user.aggregate(agg.count(), agg.sum(written))
    with pytest.raises(InvalidPlanError, match=says):
        pst.stream(df).key_by(written)


@pytest.mark.parametrize(
    ("key", "said_"),
    [
        (lambda: "array(user, tags[0]) AS k", "'to_json(array(user, tags[0])) AS k'"),
        (lambda: "array(user) as `my key`", "'to_json(array(user)) AS name'"),
        (lambda: "at", "'to_json(at) AS at', or its fields as several keys"),
        (lambda: F.array("user", "user").alias("k"), "'to_json(array(user, user)) AS k'"),
        (
            lambda: F.window("ts", "10 minutes"),
            "is a window of Spark's: leave it out, and write .window(TumblingEventTimeWindows.of(",
        ),
    ],
)
def test_key_of_a_nested_type_is_refused_with_sql_that_can_be_a_key(df, key, said_):
    """Only Spark can report the name and type of a key."""
    with pytest.raises(InvalidPlanError) as error:
        pst.stream(df).key_by(key())
    assert said_ in str(error.value)
    written = re.search(r"write '(to_json.*? AS \w+)'", str(error.value))
    if written is not None:
        assert pst.stream(df).key_by(written[1]).key_schema.names


def test_keys_and_arrival_order_may_be_lists(df):
    assert pst.stream(df).key_by(["user", "price"]).keys == pst.stream(df).key_by("user", "price").keys
    assert pst.stream(df).arrival_order(["second"]).order == ("second",)


def test_duration_in_place_of_a_strategy_bounds_the_disorder(df):
    bounded = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes")
    assert pst.stream(df).withWatermark("ts", "5 minutes").watermark == bounded
    with pytest.raises(InvalidPlanError, match="how late rows may be"):
        pst.stream(df).assign_timestamps("ts", 5)


def test_every_aggregate_that_spark_shares_is_mapped():
    assert all(callable(getattr(agg, name)) for name in AGGREGATES.values())
    shared = {name for name in agg.__all__ if name.islower() and hasattr(F, name)} - {"Aggregate"}
    assert shared - {"count_distinct", "percentile"} <= {*AGGREGATES, "user"}


def test_aggregates_with_columns_have_equality_and_repr(df):
    column = F.col("price") * 2
    assert agg.sum(column) == agg.sum(column)
    assert agg.sum(column) != agg.sum(F.col("price") * 2)
    assert len({agg.sum(column), agg.sum(column)}) == 1
    assert repr(agg.sum(F.col("price")).alias("n")) == "agg.sum(Column<'price'>).alias('n')"
    with pytest.raises(InvalidPlanError, match="must be a column name, SQL text or a Column, not int"):
        agg.sum(3)
