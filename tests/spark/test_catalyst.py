"""Batches that Spark reduces to partials give the same bits as the same query over ``pack``."""

from __future__ import annotations

import importlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panestream as pst
from panestream import agg
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.errors import AggregateOverflowError
from panestream.spark import catalyst
from panestream.spark.session import ship_module
from panestream.windowing.watermarks import WatermarkStrategy
from tests.engine.aggregates import toy
from tests.engine.costs import python_calls

pytestmark = pytest.mark.spark

KEYS = pa.schema([("key", pa.int64())])

AGGREGATES = (
    agg.count().alias("n"),
    agg.count("v").alias("values"),
    agg.sum("v").alias("total"),
    agg.sum("small").alias("small_total"),
    agg.mean("v").alias("mean"),
    agg.min("v").alias("low"),
    agg.max("day").alias("last_day"),
    agg.sum("price").alias("turnover"),
    agg.mean("price").alias("mean_price"),
    agg.sum("fine").alias("fine_total"),
    agg.complete("mean_price").alias("whole"),
)
WINDOWS = [
    pst.TumblingEventTimeWindows.of("7 seconds", offset="3 seconds"),
    pst.SlidingEventTimeWindows.of("10 seconds", "4 seconds"),
    pst.SlidingEventTimeWindows.of("3 seconds", "5 seconds", offset="1 second"),
]


@pytest.fixture(scope="module")
def events(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Random rows around the epoch with nulls, and with values whose running sums leave int64 and return."""
    rng = np.random.default_rng(7)
    rows = 3000
    huge = rng.choice([2**62, -(2**62), 2**62 + 1, -(2**62) - 1], rows)
    pairs = np.concatenate([huge, -huge])
    cents = rng.integers(-(10**6) + 1, 10**6, 2 * rows)
    table = pa.table(
        {
            "key": pa.array([None if k == 0 else f"k{k}" for k in rng.integers(0, 6, 2 * rows)]),
            "ts": pa.array(rng.integers(-60_000_000, 60_000_000, 2 * rows)),
            "v": pa.array(
                [None if r < 0.1 else int(v) for v, r in zip(pairs // 2**20, rng.random(2 * rows), strict=True)], pa.int64()
            ),
            "small": pa.array(rng.integers(-100, 100, 2 * rows), pa.int16()),
            "price": pa.array(
                [None if r < 0.1 else Decimal(int(v)).scaleb(-2) for v, r in zip(cents, rng.random(2 * rows), strict=True)],
                pa.decimal128(10, 2),
            ),
            "fine": pa.array([Decimal(int(v)).scaleb(-18) for v in cents * (10**18 // 10**6 + 1)], pa.decimal128(18, 18)),
            "day": pa.array(rng.integers(0, 100, 2 * rows).astype(np.int32), pa.int32()).cast(pa.date32()),
        }
    )
    path = tmp_path_factory.mktemp("catalyst") / "events.parquet"
    pq.write_table(table, path)
    return spark.read.parquet(str(path))


def result(df: Any, windows: Any, *aggregates: Any, rows_per_pane: int = 1000) -> Any:
    stream = pst.stream(df).assign_timestamps("ts", WatermarkStrategy.no_watermarks(), unit="microseconds")
    windowed = stream.key_by("key").window(windows).options(rows_per_pane=rows_per_pane)
    return windowed.side_output_late_data("late").aggregate(*aggregates)


@pytest.mark.parametrize("windows", WINDOWS, ids=repr)
def test_batch_reduced_by_spark_has_the_same_bits_as_over_pack(events: Any, windows: Any) -> None:
    one, other = result(events, windows, *AGGREGATES), result(events, windows, *AGGREGATES, rows_per_pane=1)
    assert catalyst.reducible(one.plan)
    assert not catalyst.reducible(other.plan)
    by_spark = sorted(map(repr, one.main.collect()))
    assert by_spark == sorted(map(repr, other.main.collect()))
    assert by_spark


def test_aggregate_of_another_package_runs_by_its_sql_and_by_its_code(
    spark: Any, events: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code is shipped to the executors."""
    home = toy.package(tmp_path, "toy_on_spark")
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = importlib.import_module(home.name)
    ship_module(spark, home)
    aggregates = (theirs.spread("small").alias("spread"), agg.max("small").alias("high"), agg.min("small").alias("low"))
    one = result(events, WINDOWS[1], *aggregates)
    assert catalyst.reducible(one.plan)
    by_spark = one.main.collect()
    assert by_spark
    assert all(row.spread == row.high - row.low for row in by_spark)
    in_python = result(events, WINDOWS[1], *aggregates, rows_per_pane=1).main.collect()
    assert sorted(map(repr, by_spark)) == sorted(map(repr, in_python))


def test_sum_that_overflows_in_a_reduced_batch_fails(spark: Any) -> None:
    df = spark.range(4).selectExpr("'k' AS key", "id AS ts", "9223372036854775807 AS v")
    with pytest.raises(Exception, match=AggregateOverflowError.__name__):
        result(df, WINDOWS[0], agg.sum("v")).main.collect()


def test_row_without_event_time_fails_a_reduced_batch(spark: Any) -> None:
    df = spark.range(4).selectExpr("'k' AS key", "if(id = 2, null, id) AS ts", "id AS v")
    with pytest.raises(Exception, match=r"an unusable event time in 'ts.*side_output_invalid"):
        result(df, WINDOWS[0], agg.sum("v")).main.collect()


def test_batch_without_a_form_in_sql_runs_over_pack(spark: Any) -> None:
    df = spark.range(4).selectExpr("'k' AS key", "id AS ts", "cast(id AS double) AS v")
    # Spark adds doubles in any order, so the last bits would differ from run to run.
    assert not catalyst.reducible(result(df, WINDOWS[0], agg.sum("v")).plan)
    assert not catalyst.reducible(result(df, WINDOWS[0], agg.count_distinct("v")).plan)


def plan_of_sums(sums: int) -> WindowPlan:
    names = [f"v{number}" for number in range(sums)]
    declared = tuple(agg.sum(name).alias(f"s_{name}") for name in names)
    windows = WindowQuery(pst.TumblingEventTimeWindows.of("7 seconds"))
    operator = plan_aggregates(windows, declared, dict.fromkeys(names, pa.int64()), KEYS)
    return WindowPlan(("key",), KEYS, windows.assigner, operator, WatermarkStrategy.no_watermarks(), "ts", 1)


def test_hundreds_of_aggregates_are_packed_because_catalyst_would_take_longer_than_the_rows() -> None:
    assert catalyst.reducible(plan_of_sums(30))
    assert not catalyst.reducible(plan_of_sums(300))


def test_python_calls_of_reduced_rows_grow_in_proportion_to_aggregates() -> None:
    def calls(sums: int) -> int:
        plan = plan_of_sums(sums)
        columns = {"key_0": pa.array([1]), "pane": pa.array([0]), "rows": pa.array([1])}
        for number, one in enumerate(plan.operator.aggregation.partial_aggregates):
            texts = one.sql(plan.operator.inputs)
            columns |= {f"partial_{number}_{place}": pa.array([1]) for place in range(len(texts))}
        assert catalyst.reducible(plan)
        return python_calls(lambda: (catalyst.reducible(plan), catalyst.group_input(plan, pa.table(columns))))[0]

    calls(8)  # warm the caches
    few, twice, four_times = calls(8), calls(16), calls(32)
    assert four_times - twice <= 2.3 * (twice - few)
