"""The short form: a time in ``stream``, ``group_by`` with windows, PySpark's own aggregates, outputs of any name.

Spark only analyses.
"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError

pytestmark = pytest.mark.spark


def same_aggregates():
    """Return aggregates of PySpark, each with the equivalent of panestream. (Columns need a session.)"""
    price = F.col("price")
    return [
        (F.sum("price"), agg.sum("price")),
        (F.sum(price * 2).alias("double"), agg.sum("(price * 2)").alias("double")),
        (
            F.sum(F.when(price > 3, 1).otherwise(0)).alias("many"),
            agg.sum("CASE WHEN (price > 3) THEN 1 ELSE 0 END").alias("many"),
        ),
        (F.avg("price"), agg.avg("price").alias("avg(price)")),
        (F.mean("price"), agg.avg("price").alias("avg(price)")),
        (F.count("*"), agg.count().alias("count(1)")),
        (F.count(F.lit(1)).alias("n"), agg.count().alias("n")),
        (F.count("the page"), agg.count("the page")),
        (F.count_distinct("the page").alias("pages"), agg.count_distinct("the page").alias("pages")),
        (F.min("price"), agg.min("price")),
        (F.max("the page"), agg.max("the page")),
        (F.first("price"), agg.first("price")),
        (F.first("price", ignorenulls=True).alias("a"), agg.first("price", ignore_nulls=True).alias("a")),
        (F.last("price", True).alias("z"), agg.last("price", ignore_nulls=True).alias("z")),
        (F.any_value("price").alias("some"), agg.first("price").alias("some")),
        (F.collect_list("price"), agg.collect_list("price")),
        (F.stddev("price"), agg.stddev("price")),
        (F.variance("price").alias("v"), agg.var("price").alias("v")),
        (F.max_by("the page", "price"), agg.max_by("the page", "price")),
        (F.min_by("the page", price), agg.min_by("the page", "price")),
        (F.approx_count_distinct("price"), agg.approx_count_distinct("price")),
        (F.count_if(price > 3).alias("dear"), agg.count_if("(price > 3)").alias("dear")),
        (F.bool_and(price > 3).alias("all"), agg.bool_and("(price > 3)").alias("all")),
        (F.some(price > 3).alias("any"), agg.bool_or("(price > 3)").alias("any")),
        (agg.count().alias("mine"), agg.count().alias("mine")),
    ]


def other_aggregates():
    """Return refused aggregates, each with words of its error."""
    return [
        (F.sum("price") + 1, "compute on its results"),
        (F.sum("price").cast("int"), "compute on its results"),
        (F.expr("sum(price) FILTER (WHERE price > 3)"), "compute on its results"),
        (F.sum(F.when(F.col("the page") == "p1, x", 1)), r"write agg\.sum\(...\) around the same Column"),
        (F.approx_count_distinct("price", 0.01), r"write agg\.approx_count_distinct\(...\) around the same Column"),
        (F.percentile_approx("price", 0.5), r"write \.aggregate\(agg\.approx_quantile\('price', 0\.5\)\)"),
        (F.sum_distinct("price"), r"there is no agg\.sum_distinct"),
        (F.stddev_pop("price"), r"there is no agg\.stddev_pop"),
        (F.col("price"), "compute on its results"),
        (3, "got 3"),
    ]


@pytest.fixture(scope="module")
def rows(spark):
    """Two users, one row each second, each row with its own price."""
    made = spark.range(40).selectExpr(
        "if(id % 2 = 0, 'ann', 'bob') AS user",
        "timestamp_seconds(id) AS ts",
        "if(id % 7 = 0, NULL, cast(id AS double)) AS price",
        "concat('p', id % 3) AS `the page`",
    )
    return made.localCheckpoint() if hasattr(made, "localCheckpoint") else made


def test_short_form_gives_the_rows_of_spark_and_of_the_long_form(rows):
    events = pst.stream(rows, time="ts", out_of_orderness="5 seconds")
    short = events.group_by("user", pst.tumbling("10 seconds")).agg(F.sum("price").alias("total"), agg.count().alias("n"))
    long = (
        pst.stream(rows)
        .assign_timestamps("ts", "5 seconds")
        .key_by("user")
        .window(pst.TumblingEventTimeWindows.of("10 seconds"))
        .aggregate(agg.sum("price").alias("total"), agg.count().alias("n"))
    )
    native = rows.groupBy("user", F.window("ts", "10 seconds").alias("w")).agg(
        F.sum("price").alias("total"), F.count("*").alias("n")
    )
    theirs = native.select("user", F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end"), "total", "n")
    of_case = [
        each.withColumn("case", F.lit(name)) for name, each in (("long", long.main), ("native", theirs), ("short", short.main))
    ]
    found: dict[str, list[tuple[object, ...]]] = {}
    for *values, case in of_case[0].unionByName(of_case[1]).unionByName(of_case[2]).collect():
        found.setdefault(case, []).append(tuple(values))
    assert len(found["short"]) == 8
    assert sorted(found["short"]) == sorted(found["long"]) == sorted(found["native"])


def test_aggregate_of_pyspark_is_the_one_that_means_the_same(rows):
    windows = pst.stream(rows, "ts", out_of_orderness="5 seconds").group_by("user", pst.tumbling("10 seconds"))
    for theirs, ours in same_aggregates():
        assert windows.agg(theirs).asked.aggregates == windows.aggregate(ours).asked.aggregates, ours


def test_other_aggregate_of_pyspark_is_refused_with_the_line_to_write(rows):
    windows = pst.stream(rows, "ts", out_of_orderness="5 seconds").group_by("user", pst.tumbling("10 seconds"))
    for theirs, said in other_aggregates():
        with pytest.raises(InvalidPlanError, match=said):
            windows.agg(theirs)


def test_group_by_takes_every_kind_of_windows(rows):
    events = pst.stream(rows, time="ts", watermark=pst.WatermarkStrategy.for_monotonous_timestamps())
    assert events.group_by(pst.session("1 minute")).keyed.keys == ()
    assert events.group_by(["user", pst.count(3)]).windowing.trigger == pst.windows.CountWindows(3).parts[1]
    assert events.group_by("user", pst.count(3, 2)).windowing.evictor == pst.evictors.CountEvictor.of(3)
    two = events.group_by("user", pst.tumbling("10 seconds"), pst.sliding("20 seconds", "10 seconds")).agg(agg.count().alias("n"))
    assert two.main.columns == ["user", "window", "window_start", "window_end", "n"]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda rows: pst.stream(rows, time="ts"), "stream needs a time and how late rows may be"),
        (lambda rows: pst.stream(rows, out_of_orderness="1 second"), "stream needs a time and how late rows may be"),
        (lambda rows: pst.stream(rows).group_by("user"), r"group_by needs windows, e\.g\. \.group_by\('user', pst\.tumbling"),
        (lambda rows: pst.stream(rows).group_by("user", pst.count(3), pst.count(4)), "cannot be combined with other windows"),
        (lambda rows: pst.stream(rows).group_by("user", pst.tumbling("1 hour")), "event-time windows need event times"),
    ],
)
def test_wrong_short_form_is_refused_with_the_line_to_write(rows, write, said):
    with pytest.raises(InvalidPlanError, match=said):
        write(rows)


def test_outputs_of_any_name_reach_their_sinks(spark, rows, tmp_path):
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    clicks = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    events = pst.stream(clicks, time="if(price IS NULL, NULL, ts)", out_of_orderness="5 seconds").side_output_invalid(
        "checkpoint"
    )
    windows = events.group_by("user", pst.tumbling("10 seconds")).side_output_late_data("late rows")
    outputs = {name: pst.MemorySink() for name in ("main", "checkpoint", "late rows")}
    result = windows.options(key_groups=1).agg(F.count("*").alias("n"))
    result.start(outputs=outputs, checkpoint=str(tmp_path / "checkpoint")).await_termination()
    assert [len(outputs[name].rows) for name in ("checkpoint", "late rows")] == [6, 0]
    assert sum(row.n for row in outputs["main"].rows) == 25
