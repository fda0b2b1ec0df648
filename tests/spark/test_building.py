"""Building a query runs no Spark job for streams and batches, and applying a prepared query needs no more analysis.

A batch over files with rows may sample them (``test_row_density.py``). Here the files have none.
"""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.spark.session import default_parallelism

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

SCHEMA = "user string, price double, ts timestamp"
STRATEGY = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")


def keyed(rows):
    return pst.stream(rows).assign_timestamps("ts", STRATEGY).key_by("user")


def declared(rows):
    windowed = keyed(rows).window(pst.SlidingEventTimeWindows.of("1 hour", "5 minutes")).side_output_late_data("late")
    return windowed.aggregate(agg.count().alias("n"), agg.max_by("price", F.col("ts")).alias("newest"))


def sessions(rows):
    return keyed(rows).window(pst.EventTimeSessionWindows.with_gap("1 minute")).aggregate(agg.sum("price").alias("total"))


def functions(rows):
    return keyed(rows).window(pst.TumblingEventTimeWindows.of("1 hour")).process(lambda key, context, them: [len(them)], "n int")


def jobs(spark, act):
    """Return how many jobs an action ran."""
    spark.sparkContext.setJobGroup("building", "what is built")
    try:
        before = len(spark.sparkContext.statusTracker().getJobIdsForGroup("building"))
        act()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup("building")) - before
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "batch"])
@pytest.mark.parametrize("build", [declared, sessions, functions])
def test_building_a_query_runs_no_spark_job(spark, tmp_path, build, streaming):
    (tmp_path / "in").mkdir()
    reader = (spark.readStream if streaming else spark.read).schema(SCHEMA)
    rows = reader.parquet(str(tmp_path / "in"))

    def act():
        result = build(rows)
        result.explain()
        for tag in result.plan.tags:
            assert result.output(tag).columns

    assert jobs(spark, act) == 0


def test_counter_of_jobs_counts_a_job(spark):
    assert jobs(spark, lambda: spark.range(3).count()) > 0


def test_parallelism_is_found_without_a_spark_job(spark):
    asked = []
    assert jobs(spark, lambda: asked.append(default_parallelism(spark))) == 0
    assert asked == [spark.sparkContext.defaultParallelism] == [2]


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "batch"])
@pytest.mark.parametrize("build", [declared, sessions, functions])
def test_prepared_query_does_not_analyse_its_rows(spark, tmp_path, monkeypatch, build, streaming):
    (tmp_path / "in").mkdir()
    reader = (spark.readStream if streaming else spark.read).schema(SCHEMA + ", more int")
    rows = reader.parquet(str(tmp_path / "in"))
    prepared = pst.prepare(build, SCHEMA, streaming=streaming)
    expected = build(rows).main.schema
    kinds = {type(rows), DataFrame}
    with monkeypatch.context() as patch:
        for name in ("collect", "first", "count", "head", "take", "isEmpty", "explain", "isStreaming"):
            for kind in kinds:
                if name in vars(kind):
                    patch.setattr(kind, name, property(lambda _, name=name: pytest.fail(f"{name} was asked")))
        applied = prepared.main(rows)
        together = prepared.all_outputs(rows)
    assert applied.schema == expected
    assert together.schema["main"].dataType == expected
    assert together.isStreaming == streaming
    assert applied.isStreaming == streaming


def test_prepared_query_has_an_output_for_late_rows(spark, tmp_path):
    (tmp_path / "in").mkdir()
    rows = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    prepared = pst.prepare(declared, SCHEMA)
    assert prepared.output("late", rows).columns == ["user", "price", "ts"]
    assert "aligned panes" in prepared.explain()
    with pytest.raises(InvalidPlanError, match="no output 'lat'"):
        prepared.output("lat", rows)


def test_all_outputs_have_the_rows_of_each_output(spark):
    def build(rows):
        events = pst.stream(rows).assign_timestamps("ts", STRATEGY).side_output_invalid("invalid").key_by("user")
        windowed = events.window(pst.TumblingEventTimeWindows.of("1 hour")).side_output_late_data("late")
        return windowed.aggregate(agg.count().alias("n"), agg.collect_list("price").alias("prices"))

    noon = dt.datetime(2026, 1, 1, 12)
    rows = spark.createDataFrame([("ann", 1.0, noon), ("bob", None, noon), ("ann", 3.0, noon), ("eve", 4.0, None)], SCHEMA)
    prepared = pst.prepare(build, SCHEMA, streaming=False)
    together = prepared.all_outputs(rows)
    assert together.columns == ["output", "main", "late", "invalid"]
    counted = {row.output: row["count"] for row in together.groupBy("output").count().collect()}
    assert counted == {"main": 2, "invalid": 1}
    for tag in ("main", "late", "invalid"):
        of_output = together.where(F.col("output") == tag).select(f"{tag}.*")
        assert sorted(map(str, of_output.collect())) == sorted(map(str, prepared.output(tag, rows).collect()))
        assert together.where(F.col("output") != tag).where(F.col(tag).isNotNull()).count() == 0


def test_all_outputs_of_a_join_are_its_rows(spark):
    clicks = spark.createDataFrame([("ann", 1.0, dt.datetime(2026, 1, 1, 12)), ("bob", 2.0, dt.datetime(2026, 1, 1, 13))], SCHEMA)
    views = spark.createDataFrame([("ann", dt.datetime(2026, 1, 1, 12, 5), "hats")], OTHER)
    prepared = pst.prepare(joined, SCHEMA, OTHER, streaming=False)
    together = prepared.all_outputs(clicks, views)
    assert together.columns == ["output", "main", "late_left", "late_right"]
    assert together.select("main.*").collect() == prepared.main(clicks, views).collect() != []


def test_all_outputs_refuse_steps_that_complete_the_main_rows(spark):
    def named(rows):
        windowed = keyed(rows).window(pst.TumblingEventTimeWindows.of("1 hour")).side_output_late_data("output")
        return windowed.aggregate(agg.count().alias("n"))

    def largest(rows):
        return keyed(rows).window(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.count().alias("n")).top(2, by="n")

    rows = spark.createDataFrame([], SCHEMA)
    for build, reason in (
        (named, "an output is named 'output'"),
        (largest, "does not support top"),
        (tiles, "not support panes"),
    ):
        with pytest.raises(InvalidPlanError, match=reason):
            pst.prepare(build, SCHEMA, streaming=False).all_outputs(rows)


def test_prepared_query_refuses_columns_bound_to_a_data_frame(spark):
    def bound(rows):
        return keyed(rows).window(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.sum(rows.price + 1).alias("n"))

    with pytest.raises(InvalidPlanError, match=r"Column of its argument.*F\.col"):
        pst.prepare(bound, SCHEMA)
    with pytest.raises(InvalidPlanError, match="build must return"):
        pst.prepare(lambda rows: rows, SCHEMA)


# --- two streams, and tiles

OTHER = "who string, ts timestamp, ad string"


def joined(rows, others):
    seen = pst.stream(others).assign_timestamps("ts", STRATEGY).key_by("who")
    windows = seen.join(keyed(rows)).window(pst.TumblingEventTimeWindows.of("1 hour")).side_output_late_data("late")
    return windows.pairs("left", suffixes=("", "_click"))


def near(rows, others):
    seen = pst.stream(others).assign_timestamps("ts", STRATEGY).key_by("who AS user")
    return keyed(rows).interval_join(seen).between("-1 hour", "0 seconds").pairs("full", suffixes=("", "_view"))


def over_both(rows, others):
    seen = pst.stream(others).assign_timestamps("ts", STRATEGY).key_by("who AS user")
    windows = keyed(rows).co_group(seen).window(pst.TumblingEventTimeWindows.of("1 hour"))
    return windows.apply(lambda key, window, left, right: [len(left) - len(right)], "n int")


def tiles(rows):
    return keyed(rows).window(pst.TumblingEventTimeWindows.of("1 hour")).panes(agg.sum("price").alias("total"), agg.count())


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "batch"])
@pytest.mark.parametrize("build", [joined, near, over_both, tiles])
def test_prepared_join_does_not_analyse_its_streams(spark, tmp_path, monkeypatch, build, streaming):
    (tmp_path / "in").mkdir()
    schemas = [SCHEMA] if build is tiles else [SCHEMA, OTHER]
    reader = spark.readStream if streaming else spark.read
    given = [reader.schema(f"{schema}, more int").parquet(str(tmp_path / "in")) for schema in schemas]
    prepared = pst.prepare(build, *schemas, streaming=streaming)
    expected = build(*(rows.drop("more") for rows in given)).main.schema
    with monkeypatch.context() as patch:
        for name in ("collect", "first", "count", "head", "take", "isEmpty", "explain", "isStreaming"):
            for kind in {type(given[0]), DataFrame}:
                if name in vars(kind):
                    patch.setattr(kind, name, property(lambda _, name=name: pytest.fail(f"{name} was asked")))
        applied = prepared.main(*given)
    assert applied.schema == expected
    assert applied.isStreaming == streaming


def test_prepared_join_gives_the_results_of_the_join(spark):
    clicks = spark.createDataFrame([("ann", 1.0, dt.datetime(2026, 1, 1, 12)), ("bob", 2.0, dt.datetime(2026, 1, 1, 13))], SCHEMA)
    views = spark.createDataFrame([("ann", dt.datetime(2026, 1, 1, 12, 5), "hats"), ("eve", None, "bags")][:1], OTHER)
    for build in (joined, near, over_both):
        prepared = pst.prepare(build, SCHEMA, OTHER, streaming=False)
        # Twice, because it works for any rows.
        for rows in (clicks, clicks.where("user = 'ann'")):
            wanted = build(rows, views)
            assert sorted(map(str, prepared.main(rows, views).collect())) == sorted(map(str, wanted.main.collect()))
            assert sorted(map(str, wanted.main.collect()))
    assert prepared.schema.names == ["user", "price", "ts"]
    assert pst.prepare(joined, SCHEMA, OTHER).output("late_right", *map(empty_stream(spark), (SCHEMA, OTHER))).columns == [
        "user",
        "price",
        "ts",
    ]


def empty_stream(spark):
    def stream(schema):
        rows = spark.readStream.format("rate").load()
        kinds = spark.createDataFrame([], schema).schema
        return rows.select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in kinds))

    return stream


def test_prepared_self_join_takes_one_stream(spark):
    def twice(rows):
        return keyed(rows).join(keyed(rows)).window(pst.TumblingEventTimeWindows.of("1 hour")).pairs(suffixes=("", "_other"))

    rows = spark.createDataFrame(
        [("ann", 1.0, dt.datetime(2026, 1, 1, 12)), ("ann", 2.0, dt.datetime(2026, 1, 1, 12, 1))], SCHEMA
    )
    assert pst.prepare(twice, SCHEMA, streaming=False).main(rows).count() == 4


def test_wrong_use_of_a_prepared_query_is_refused(spark, tmp_path):
    rows, others = (spark.createDataFrame([], schema) for schema in (SCHEMA, OTHER))
    wrong = [
        (
            lambda: pst.prepare(lambda rows: declared(rows.where("price > 0")), SCHEMA),
            "starts with another DataFrame than its argument",
        ),
        (lambda: pst.prepare(lambda rows, other: joined(rows, other.where("ad <> ''")), SCHEMA, OTHER), "starts with another"),
        (
            lambda: pst.prepare(lambda rows, other: declared(rows), SCHEMA, OTHER),
            "2 schemas were given, but build does not use all of them",
        ),
        (lambda: pst.prepare(joined, SCHEMA, OTHER).main(rows), "prepared for 2 DataFrames, and is applied to one DataFrame"),
        (lambda: pst.prepare(declared, SCHEMA).main(rows, others), "prepared for one DataFrame, and is applied to 2 DataFrames"),
    ]
    for act, words in wrong:
        with pytest.raises(InvalidPlanError) as refused:
            act()
        assert words in str(refused.value)

    def bound(rows, others):
        return (
            pst.stream(rows)
            .assign_timestamps("ts", STRATEGY)
            .key_by(rows.user)
            .interval_join(pst.stream(others).assign_timestamps("ts", STRATEGY).key_by("who"))
            .between("0 s", "1 s")
            .pairs(suffixes=("", "_view"))
        )

    with pytest.raises(InvalidPlanError, match=r"Column of its argument.*F\.col"):
        pst.prepare(bound, SCHEMA, OTHER)
