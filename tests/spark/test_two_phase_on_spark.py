"""User functions in two phases by the fluent API give the same results as in one phase. Also refused plans."""

import datetime as dt

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError


class Average(pst.AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, row, accumulator):
        return accumulator[0] + row.price, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Kinds(pst.AggregateFunction):
    """Count each kind. The accumulator is a dict, a name needs quotes in SQL, and times have a zone."""

    def create_accumulator(self):
        return {"kinds": {}, "last": None}

    def add(self, row, accumulator):
        kinds = accumulator["kinds"]
        kinds[row["a kind"]] = kinds.get(row["a kind"], 0) + 1
        accumulator["last"] = max(row.ts, accumulator["last"] or row.ts)
        return accumulator

    def get_result(self, accumulator):
        return max(accumulator["kinds"].values()), accumulator["last"]

    def merge(self, a, b):
        for kind, count in b["kinds"].items():
            a["kinds"][kind] = a["kinds"].get(kind, 0) + count
        a["last"] = max(a["last"], b["last"])
        return a


KINDS = "kinds map<string, bigint>, last timestamp"
START = dt.datetime(2024, 1, 1)


@pytest.fixture(scope="module")
def clicks(spark):
    rows = [
        (0 if number % 10 else number % 7, START + dt.timedelta(seconds=number), number % 11, f"kind {number % 3}")
        for number in range(600)
    ]
    return spark.createDataFrame(rows, "user bigint, ts timestamp, price bigint, `a kind` string").repartition(3)


def windows(df, assigner):
    return (
        pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("user").window(assigner)
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "assigner",
    [pst.SlidingEventTimeWindows.of("1 minute", "20 seconds"), pst.EventTimeSessionWindows.with_gap("8 seconds")],
    ids=["sliding", "sessions"],
)
def test_function_in_two_phases_gives_the_results_of_one_phase(clicks, assigner):
    over = windows(clicks, assigner)
    once = over.aggregate_with(Kinds(), schema="most bigint, last timestamp")
    twice = over.aggregate_with(Kinds(), schema="most bigint, last timestamp", accumulator_type=KINDS)
    assert once.operator.name == "row operator"
    assert twice.operator.name in ("aligned panes", "sessions")
    assert "before the shuffle" in twice.explain()
    assert sorted(twice.main.collect()) == sorted(once.main.collect())


@pytest.mark.spark
def test_reduce_in_two_phases_gives_the_results_of_one_phase(clicks):
    over = windows(clicks, pst.TumblingEventTimeWindows.of("1 minute"))
    results = [
        over.reduce(lambda a, b: a.replace(price=a.price + b.price, ts=max(a.ts, b.ts)), two_phase=two_phase).main.select(
            "user", "window_end", "price", "ts"
        )
        for two_phase in (False, True)
    ]
    assert sorted(results[0].collect()) == sorted(results[1].collect())


@pytest.mark.spark
def test_stream_of_a_two_phase_function_continues_after_restart(spark, clicks, tmp_path):
    clicks.write.parquet(str(tmp_path / "in"))
    result = windows(
        spark.readStream.schema(clicks.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in")),
        pst.TumblingEventTimeWindows.of("1 minute"),
    )
    result = result.allowed_lateness("1 hour").aggregate_with(
        Average(), schema="mean double", accumulator_type="total bigint, n bigint"
    )
    for trigger in ("once", "availableNow"):
        main = pst.ParquetSink(str(tmp_path / "out"))
        result.start(main=main, checkpoint=str(tmp_path / "checkpoint"), trigger=trigger).await_termination()
    out = spark.read.parquet(str(tmp_path / "out"))
    last = {(row.user, row.window_end): row.mean for row in out.orderBy("batch_id").collect()}
    batch = windows(clicks, pst.TumblingEventTimeWindows.of("1 minute")).aggregate(agg.mean("price").alias("mean")).main
    expected = {(row.user, row.window_end): row.mean for row in batch.collect() if (row.user, row.window_end) in last}
    assert last == pytest.approx(expected)
    assert len(last) > 10


@pytest.mark.spark
def test_function_that_cannot_run_in_two_phases_is_refused(clicks):
    tumbling = windows(clicks, pst.TumblingEventTimeWindows.of("1 minute"))
    with pytest.raises(InvalidPlanError, match=r"[Ww]rite a column for each of its 2 values"):
        tumbling.aggregate_with(Average(), schema="mean double", accumulator_type="total bigint")
    with pytest.raises(InvalidPlanError, match=r"an evictor needs all elements.*Leave out accumulator_type"):
        tumbling.evictor(pst.evictors.CountEvictor.of(3)).aggregate_with(
            Average(), schema="mean double", accumulator_type="t bigint, n bigint"
        )
    with pytest.raises(InvalidPlanError, match="then= sees one window at a time"):
        tumbling.aggregate_with(
            Average(), schema="mean double", accumulator_type="t bigint, n bigint", then=lambda key, context, results: results
        )
    with pytest.raises(InvalidPlanError, match="Leave out two_phase=True"):
        tumbling.trigger(pst.CountTrigger.of(3)).reduce(max, two_phase=True)


@pytest.mark.spark
def test_error_of_a_two_phase_function_names_the_row(clicks):
    class Broken(Average):
        def add(self, row, accumulator):
            return accumulator[0] + row.prize, accumulator[1]

    result = windows(clicks, pst.TumblingEventTimeWindows.of("1 minute")).aggregate_with(
        Broken(), schema="mean double", accumulator_type="total bigint, n bigint"
    )
    with pytest.raises(Exception, match=r"Broken.add raised AttributeError.*at the row Row\(user="):
        result.main.collect()
