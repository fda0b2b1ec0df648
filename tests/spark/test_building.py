"""Building a query runs no Spark job, on streams and on batches; a prepared one asks nothing more when it is applied."""

from __future__ import annotations

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
    """How many jobs it took."""
    spark.sparkContext.setJobGroup("building", "what is built")
    try:
        before = len(spark.sparkContext.statusTracker().getJobIdsForGroup("building"))
        act()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup("building")) - before
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "batch"])
@pytest.mark.parametrize("build", [declared, sessions, functions])
def test_building_runs_no_job(spark, tmp_path, build, streaming):
    (tmp_path / "in").mkdir()
    reader = (spark.readStream if streaming else spark.read).schema(SCHEMA)
    rows = reader.parquet(str(tmp_path / "in"))

    def act():
        result = build(rows)
        result.explain()
        for tag in result.plan.tags:
            assert result.output(tag).columns

    assert jobs(spark, act) == 0


def test_jobs_are_counted(spark):
    assert jobs(spark, lambda: spark.range(3).count()) > 0


def test_the_parallelism_is_asked_without_a_job(spark):
    asked = []
    assert jobs(spark, lambda: asked.append(default_parallelism(spark))) == 0
    assert asked == [spark.sparkContext.defaultParallelism] == [2]


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "batch"])
@pytest.mark.parametrize("build", [declared, sessions, functions])
def test_a_prepared_query_asks_nothing_of_the_rows(spark, tmp_path, monkeypatch, build, streaming):
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
    assert applied.schema == expected
    assert applied.isStreaming == streaming


def test_a_prepared_query_knows_its_late_rows(spark, tmp_path):
    (tmp_path / "in").mkdir()
    rows = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    prepared = pst.prepare(declared, SCHEMA)
    assert prepared.output("late", rows).columns == ["user", "price", "ts"]
    assert "aligned panes" in prepared.explain()
    with pytest.raises(InvalidPlanError, match="no output 'lat'"):
        prepared.output("lat", rows)


def test_columns_of_the_one_data_frame_are_refused(spark):
    def bound(rows):
        return keyed(rows).window(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.sum(rows.price + 1).alias("n"))

    with pytest.raises(InvalidPlanError, match=r"Column of the DataFrame that it is given.*F\.col"):
        pst.prepare(bound, SCHEMA)
    with pytest.raises(InvalidPlanError, match="build must return"):
        pst.prepare(lambda rows: rows, SCHEMA)
