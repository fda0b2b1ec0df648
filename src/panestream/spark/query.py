"""One running query: the operator is computed once per micro-batch, each output goes to its own sink."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from panestream import errors
from panestream.engine.plan import MAIN, WindowPlan
from panestream.spark.checkpoint import claim_checkpoint
from panestream.spark.columns import quoted
from panestream.spark.dataflow import unpack
from panestream.spark.operate import METRICS
from panestream.spark.session import is_connect, session_settings, settings_for
from panestream.spark.sinks import Sink
from panestream.windowing.failures import WindowFunctionError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What one micro-batch did.

    Attributes:
        batch_id: Spark's number of the micro-batch.
        rows: input rows.
        duration_ms: from the start of the operator to the last sink.
        rows_per_second: the two divided.
        watermark, max_event_time: microseconds since the epoch; None: unknown yet.
        late_rows, invalid_rows, fired_rows, fired_windows: in this micro-batch.
        open_windows: windows that have rows and have not fired.
        state_bytes, state_calls: size of the panes kept, calls of the state store, over all key groups.
    """

    batch_id: int
    rows: int
    duration_ms: int
    rows_per_second: float
    watermark: int | None
    max_event_time: int | None
    late_rows: int
    invalid_rows: int
    fired_rows: int
    fired_windows: int
    open_windows: int
    state_bytes: int
    state_calls: int

    @classmethod
    def of(cls, batch_id: int, seconds: float, groups: list[dict[str, Any]]) -> BatchProgress:
        """From the metrics of the key groups."""
        rows = max((group["input_rows"] for group in groups), default=0)
        spans = [group["open_windows"] for group in groups if group["open_windows"] is not None]
        fired = set().union(*(group["fired_windows"] for group in groups))
        return cls(
            batch_id=batch_id,
            rows=rows,
            duration_ms=round(seconds * 1000),
            rows_per_second=rows / seconds if seconds > 0 else 0.0,
            watermark=max((group["watermark"] for group in groups if group["watermark"] is not None), default=None),
            max_event_time=max(
                (group["max_event_time"] for group in groups if group["max_event_time"] is not None), default=None
            ),
            late_rows=sum(group["late_rows"] for group in groups),
            invalid_rows=max((group["invalid_rows"] for group in groups), default=0),
            fired_rows=sum(group["fired_rows"] for group in groups),
            fired_windows=len(fired),
            open_windows=max(span[1] for span in spans) - min(span[0] for span in spans) + 1 if spans else 0,
            state_bytes=sum(group["state_bytes"] for group in groups),
            state_calls=sum(group["state_calls"] for group in groups),
        )


@dataclass(slots=True)
class Distribute:
    """The function for ``foreachBatch``: computes the operator once, and writes each output that has rows.

    A sink also gets the first micro-batch when it has no rows, so that its place exists and has the schema.
    """

    plan: WindowPlan
    sinks: Mapping[str, Sink]
    on_progress: Callable[[BatchProgress], Any] | None = None

    def __call__(self, operated: DataFrame, batch_id: int) -> None:
        started = time.perf_counter()
        operated.persist()
        try:
            counts = operated.select("tag", F.when(F.col("tag") == METRICS, F.col("body").cast("string")).alias("body")).collect()
            present = {row.tag for row in counts}
            for tag, sink in self.sinks.items():
                if tag in present or batch_id == 0:
                    sink.write(output(operated, self.plan, tag), batch_id)
        finally:
            operated.unpersist()
        if self.on_progress is not None:
            metrics = [json.loads(row.body) for row in counts if row.body is not None]
            self.on_progress(BatchProgress.of(batch_id, time.perf_counter() - started, metrics))


def observed(operated: DataFrame) -> DataFrame:
    """Operator rows whose counters Spark shows in each progress of the query, under ``observedMetrics["panestream"]``."""

    def counter(name: str) -> Column:
        return F.when(F.col("tag") == METRICS, F.get_json_object(F.col("body").cast("string"), f"$.{name}").cast("bigint"))

    sums = [F.sum(counter(name)).alias(name) for name in ("late_rows", "fired_rows", "state_bytes", "state_calls")]
    same = [F.max(counter(name)).alias(name) for name in ("input_rows", "invalid_rows", "watermark")]
    return operated.observe("panestream", *same, *sums)


def output(operated: DataFrame, plan: WindowPlan, tag: str) -> DataFrame:
    """The rows of one output of computed operator rows; the largest of each window where the plan says so."""
    rows = unpack(operated, plan, tag)
    if tag != MAIN or plan.top is None:
        return rows
    # Every key group kept its own largest; all groups fire a window in the same micro-batch, so these decide.
    order = [F.col(quoted(plan.top.by)).desc_nulls_last(), *(F.col(quoted(name)).asc_nulls_first() for name in plan.key_names)]
    windows = [*(["window"] if plan.labels else []), "window_start", "window_end"]
    ranked = rows.withColumn("rank", F.row_number().over(Window.partitionBy(*windows).orderBy(*order)))
    return ranked.where(F.col("rank") <= plan.top.n)


@dataclass(frozen=True)
class RunningQuery:
    """A started query. Like Spark's ``StreamingQuery`` (which is :attr:`query`), with panestream's errors."""

    query: StreamingQuery
    plan: WindowPlan = field(repr=False)

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most ``timeout`` seconds; returns whether it has ended.

        Raises:
            WindowFunctionError: a function of the user's own raised; says where, with the user's traceback.
            PanestreamError: what panestream refused (e.g. a checkpoint of another plan).
            StreamingQueryException: any other failure, as Spark tells it.
        """
        try:
            if timeout is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(math.ceil(timeout)))
        except StreamingQueryException as error:
            ours = own_error(str(error))
            if ours is None:
                raise
            raise ours from error

    def stop(self) -> None:
        """Ends the query after the micro-batch at hand is given up; it goes on from there with the same checkpoint."""
        self.query.stop()


def own_error(text: str) -> errors.PanestreamError | None:
    """The error of panestream inside what Spark reports of a failed Python worker; None where there is none."""
    raised = WindowFunctionError.from_text(text)
    if raised is not None:
        return raised
    found = re.search(r"panestream\.errors\.(\w+): (.*?)(?=\n\s*(?:at |File |SQLSTATE|\Z)|\n\n|\Z)", text, re.DOTALL)
    kind = getattr(errors, found.group(1), None) if found else None
    if found is None or not (isinstance(kind, type) and issubclass(kind, errors.PanestreamError)):
        return None
    return kind(found.group(2).strip())


def start(
    operated: DataFrame,
    plan: WindowPlan,
    sinks: Mapping[str, Sink],
    *,
    checkpoint: str,
    trigger: Mapping[str, Any],
    name: str | None,
    on_progress: Callable[[BatchProgress], Any] | None,
) -> RunningQuery:
    """Starts one streaming query that serves all ``sinks``; see ``WindowedResult.start``."""
    spark = operated.sparkSession
    if on_progress is not None and is_connect(spark):
        raise errors.InvalidPlanError("on_progress cannot be called through Spark Connect: look at query.query.recentProgress")
    query_id = claim_checkpoint(spark, plan, checkpoint)
    for sink in sinks.values():
        sink.open(spark, query_id)
    writer = operated.writeStream.foreachBatch(Distribute(plan, sinks, on_progress).__call__)
    writer = writer.outputMode("append").option("checkpointLocation", checkpoint).trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    with session_settings(spark, settings_for(spark, plan.groups)):
        return RunningQuery(writer.start(), plan)
