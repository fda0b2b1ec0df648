"""Aggregates of PySpark in windows of panestream give what they give in Spark's own windows, and Spark reads the sketches."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

import panestream as pst

pytestmark = pytest.mark.spark


def of_spark():
    """Return aggregates of PySpark, which need a session."""
    return [
        F.count_if("f"),
        F.count_if(F.col("v") > 5).alias("big"),
        F.bool_and("f"),
        F.bool_or(F.col("v") > 18).alias("any"),
        F.every("f").alias("every"),
        F.some("f").alias("some"),
        F.median("x"),
        F.percentile("x", 0.9).alias("p90"),
        F.expr("percentile(x, 0.25)").alias("p25"),
        F.percentile("v", [0.1, 0.9]).alias("p10_90"),
        F.corr("v", "x"),
        F.covar_samp("v", "x"),
        F.covar_pop("v", "x"),
        F.regr_slope("v", "x"),
        F.regr_intercept("v", "x"),
        F.regr_r2("v", "x"),
        F.mode("w"),
        F.collect_set("t").alias("set"),
        F.hll_sketch_agg("v", 11).alias("hll"),
        F.hll_sketch_agg("t").alias("hll_t"),
        F.theta_sketch_agg("v").alias("theta"),
        F.theta_sketch_agg("x", 6).alias("theta_x"),
        F.theta_sketch_agg("t").alias("theta_t"),
    ]


SKETCHES = {"hll": "hll", "hll_t": "hll", "theta": "theta", "theta_x": "theta", "theta_t": "theta"}


@pytest.fixture(scope="module")
def tables(spark):
    """Return the windows of panestream and those of Spark over the same rows."""
    rng = random.Random(5)
    rows = [
        (rng.choice("ab"), number * 7 % 600, rng.choice([None, *range(20)]), rng.random() * 9, rng.choice(["p", "q", "qq"]))
        for number in range(400)
    ]
    df = spark.createDataFrame(rows, "k string, sec bigint, v bigint, x double, t string")
    df = df.withColumns({"ts": F.timestamp_seconds("sec"), "f": F.expr("v % 7 < 5"), "w": F.expr("if(v < 18, v div 18, v)")})
    keyed = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("k")
    ours = keyed.window(pst.TumblingEventTimeWindows.of("2 minutes")).aggregate(*of_spark()).main
    theirs = df.groupBy(F.window("ts", "2 minutes").alias("window"), "k").agg(*of_spark())
    theirs = theirs.withColumns({"window_start": F.col("window.start"), "window_end": F.col("window.end")}).drop("window")
    return ours.cache(), theirs.select(ours.columns).cache()


def by_window(df):
    return {(row["k"], row["window_start"]): row.asDict() for row in df.collect()}


def test_pyspark_aggregates_give_the_same_values_in_both_windows(tables):
    ours, theirs = (by_window(table.drop(*SKETCHES)) for table in tables)
    assert ours.keys() == theirs.keys()
    for pair, expected in theirs.items():
        expected["set"] = sorted(expected["set"])
        for name, value in expected.items():
            is_number = isinstance(value, float) or name == "p10_90"
            assert ours[pair][name] == (pytest.approx(value, rel=1e-9) if is_number else value), (pair, name)


def test_spark_reads_and_merges_sketches_of_panestream(tables):
    ours, theirs = tables
    estimates = [f"{kind}_sketch_estimate({name}) AS {name}" for name, kind in SKETCHES.items()]
    counts = [table.selectExpr("k", "window_start", *estimates) for table in tables]
    assert by_window(counts[0]) == by_window(counts[1])
    both = ours.alias("a").join(theirs.alias("b"), ["k", "window_start"])
    unions = [f"{kind}_sketch_estimate({kind}_union(a.{name}, b.{name})) AS {name}" for name, kind in SKETCHES.items()]
    merged = by_window(both.selectExpr("k", "window_start", *(text for text in unions if "theta_x" not in text)))
    for pair, expected in by_window(counts[1]).items():
        expected.pop("theta_x")  # sketches of 64 hashes, which a union of 4,096 does not make larger
        assert merged[pair] == expected, "the hashes are the same"
    shared = both.selectExpr("max(theta_sketch_estimate(theta_difference(a.theta_x, b.theta_x))) AS other").first()
    assert shared["other"] == 0
