"""Runs scenarios as streaming queries on Spark, through the fluent API: one query, checkpoint and set of files for each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from panestream.datastream import WindowedResult, stream
from panestream.engine.operators.row.contents import AggregateRows, ReduceRows, RowPlan
from panestream.errors import PanestreamError
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.session import build_session
from panestream.spark.sinks.debug_and_foreach import ForeachBatchSink
from panestream.windowing.functions import ProcessWindowFunction
from panestream.windowing.watermarks import WatermarkStrategy
from tests.conformance.executors.base import Observed
from tests.conformance.executors.batches import (
    MicroBatch,
    StepWatermarks,
    fired_as_json,
    json_plan_of,
    late_as_json,
    micro_batches,
)
from tests.conformance.scenario_format import LATE_TAG, Scenario, ScenarioError

_SCHEMA = pa.schema([(name, pa.int64()) for name in ("ts", "value", "gap", "watermark", "clock")] + [("key", pa.string())])
_HEARTBEAT = "\N{SYMBOL FOR SYNCHRONOUS IDLE}"
"""The key of rows that only carry the watermark and the clock. The output of their windows is ignored."""
_FAR_AWAY = 2**60
"""Their event time, which is never late."""


@dataclass(frozen=True)
class StreamingExecutor:
    """Runs scenarios on Spark. Every micro-batch is a file, and its last row carries the watermark and the clock.

    Attributes:
        restore: end the query after every micro-batch and start it again from its checkpoint.
        longest: the maximum number of elements in a micro-batch.
    """

    restore: bool = False
    longest: int = 20

    @cached_property
    def _spark(self) -> SparkSession:
        return build_session("panestream scenarios", master="local[2]")

    def run(self, scenario: Scenario) -> Observed:
        batches = micro_batches(scenario, self.longest)
        observed = Observed(cuts=[batch.steps for batch in batches])
        folder = Path(tempfile.mkdtemp(prefix="panestream-scenario-"))
        try:
            _Run(self._spark, folder, self.restore).run(scenario, batches, observed)
        except ScenarioError:
            raise
        except PanestreamError as error:
            observed.error = f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return observed


@dataclass
class _Run:
    """One scenario's query."""

    spark: SparkSession
    folder: Path
    restore: bool
    fired: dict[int, list[Any]] = field(default_factory=dict)
    late: dict[int, list[Any]] = field(default_factory=dict)
    dropped: int = 0

    def run(self, scenario: Scenario, batches: Sequence[MicroBatch], observed: Observed) -> None:
        (self.folder / "in").mkdir()
        plan = json_plan_of(scenario)
        result = self._result(plan)
        sinks: dict[str, Any] = {"main": ForeachBatchSink(self._take_fired, idempotent=True)}
        if plan.late_output:
            sinks[LATE_TAG] = ForeachBatchSink(self._take_late, idempotent=True)
        clock = 0
        try:
            for number, batch in enumerate(batches):
                clock = max(clock, batch.clock or 0)
                self._write(number, batch, clock)
                if self.restore or number == len(batches) - 1:
                    checkpoint = str(self.folder / "checkpoint")
                    query = result.start(checkpoint=checkpoint, on_progress=self._count, **sinks)
                    query.await_termination()
        finally:
            committed = len(list((self.folder / "checkpoint" / "commits").glob("[0-9]*")))
            observed.steps = [self.fired.get(number, []) for number in range(committed)]
            observed.late = [self.late.get(number, []) for number in range(committed)]
            observed.late_dropped = 0 if plan.late_output else self.dropped

    def _result(self, plan: RowPlan) -> WindowedResult:
        schema = "ts bigint, value bigint, gap bigint, watermark bigint, clock bigint, key string"
        df = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        events = stream(df).assign_timestamps("ts", WatermarkStrategy.for_generator(StepWatermarks), unit="microseconds")
        windows = events.processing_time_from("clock", unit="microseconds").key_by("key").window(plan.window.assigner)
        windows = windows.options(key_groups=2)
        if plan.window.trigger is not None:
            windows = windows.trigger(plan.window.trigger)
        if plan.window.evictor is not None:
            windows = windows.evictor(plan.window.evictor)
        if plan.late_output is not None:
            windows = windows.side_output_late_data(plan.late_output)
        if plan.window.allowed_lateness:
            windows = windows.allowed_lateness(f"{plan.window.allowed_lateness} microseconds")
        function, schema = plan.function, "value string"
        if isinstance(function, AggregateRows):
            return windows.aggregate_with(function.function, then=function.then, schema=schema)
        if isinstance(function, ReduceRows):
            return windows.reduce(function.function, then=function.then, schema=schema)
        assert isinstance(function.function, ProcessWindowFunction)
        return windows.process(function.function, schema)

    def _write(self, number: int, batch: MicroBatch, clock: int) -> None:
        rows: list[dict[str, Any]] = [{**element._asdict(), "clock": clock} for element in batch.elements]
        beat = {"key": _HEARTBEAT, "ts": _FAR_AWAY, "value": 0, "gap": 1, "clock": clock, "watermark": batch.watermark}
        file = self.folder / "in" / f"{number:04}.parquet"
        pq.write_table(pa.Table.from_pylist([*rows, beat], schema=_SCHEMA), file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads files in the order of their times

    def _take_fired(self, df: DataFrame, batch_id: int) -> None:
        bounds = [F.unix_micros(name).alias(name) for name in ("window_start", "window_end")]
        rows = df.where(F.col("key") != _HEARTBEAT).select("key", *bounds, "value").collect()
        self.fired[batch_id] = [fired_as_json(row.asDict()) for row in rows]

    def _take_late(self, df: DataFrame, batch_id: int) -> None:
        self.late[batch_id] = [late_as_json(row.asDict()) for row in df.where(F.col("key") != _HEARTBEAT).collect()]

    def _count(self, progress: BatchProgress) -> None:
        self.dropped += progress.late_rows
