"""Tasks that process key groups in turn: their number, equal results, and independence of the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.spark import batch_output
from panestream.spark.session import FILE_MANAGER, known_cores
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

GROUPS = 6


def _query(orders: MicroBatches, tasks: int | None) -> Any:
    windowed = (
        pst.stream(orders.stream())
        .assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps())
        .key_by("user")
        .window(pst.SlidingEventTimeWindows.of("10 seconds", "5 seconds"))
        .options(key_groups=GROUPS)
    )
    return (windowed if tasks is None else windowed.options(tasks=tasks)).aggregate(agg.sum("price").alias("total"))


def _rows(folder: Path, spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.read.parquet(str(folder)).collect()))


def _orders(spark: SparkSession, tmp_path: Path) -> MicroBatches:
    return MicroBatches(spark, tmp_path / "in", "user long, price long, at timestamp")


def _add(spark: SparkSession, orders: MicroBatches, first: int) -> None:
    rows = spark.range(first * 100, first * 100 + 100).selectExpr(
        "id % 37 AS user", "id AS price", "timestamp_seconds(id DIV 4) AS at"
    )
    orders.add([tuple(row) for row in rows.collect()])


def test_number_of_tasks_may_change_at_each_start_with_the_same_results(spark: SparkSession, tmp_path: Path) -> None:
    orders = _orders(spark, tmp_path)
    for first, tasks in enumerate((2, 6, 1)):
        _add(spark, orders, first)
        for name, of in (("changing", tasks), ("each", GROUPS)):
            sink = pst.ParquetSink(str(tmp_path / name))
            query = _query(orders, of).start(main=sink, checkpoint=str(tmp_path / f"{name}_checkpoint"))
            query.await_termination()
            (last,) = query.recent_progress
            assert (last.rows, last.groups, last.groups_reporting) == (100, GROUPS, GROUPS)
    assert _rows(tmp_path / "changing", spark) == _rows(tmp_path / "each", spark) != []
    state = tmp_path / "changing_checkpoint" / "state" / "0"
    assert len([folder for folder in state.iterdir() if folder.name.isdecimal()]) == GROUPS


@pytest.mark.parametrize("tasks", [1, 2, 6])
def test_each_task_writes_a_file_of_a_large_output(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    monkeypatch.setattr(batch_output, "FEW_BYTES", 0)
    monkeypatch.setattr(batch_output, "FEW_BYTES_OF_A_GROUP", 0)
    orders = _orders(spark, tmp_path)
    _add(spark, orders, 0)
    _query(orders, tasks).start(main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=str(tmp_path / "c")).await_termination()
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == tasks


def test_a_small_output_is_one_file(spark: SparkSession, tmp_path: Path) -> None:
    orders = _orders(spark, tmp_path)
    _add(spark, orders, 0)
    _query(orders, 6).start(main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=str(tmp_path / "c")).await_termination()
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 1


def test_explain_shows_the_number_of_tasks(spark: SparkSession, tmp_path: Path) -> None:
    orders = _orders(spark, tmp_path)
    _add(spark, orders, 0)
    assert "6 key groups, one per state partition; 2 tasks take them in turns" in str(_query(orders, 2).explain())
    assert "6 key groups, one per state partition\n" in str(_query(orders, 6).explain())
    cores = known_cores(spark)
    assert f"; {cores} task" in str(_query(orders, None).explain())


@pytest.mark.parametrize("tasks", [0, -1, True, 2.0, "2", 32769])
def test_wrong_number_of_tasks_is_refused(spark: SparkSession, tmp_path: Path, tasks: Any) -> None:
    with pytest.raises(InvalidPlanError, match="the option tasks must be a whole number from 1 to 32768"):
        _query(_orders(spark, tmp_path), tasks)


def test_checkpoint_file_manager_is_set_for_the_query_alone(spark: SparkSession, tmp_path: Path) -> None:
    orders = _orders(spark, tmp_path)
    _add(spark, orders, 0)
    before = spark.conf.get(FILE_MANAGER, None)
    _query(orders, 2).start(main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=str(tmp_path / "c")).await_termination()
    assert spark.conf.get(FILE_MANAGER, None) == before
