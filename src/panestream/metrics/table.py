"""The table of all metrics, which exporters, dashboard, alerts and docs/reference/metrics.md follow. Tests compare them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from panestream.spark.progress.micro_batch import BatchProgress, PartitionProgress

Labels: TypeAlias = tuple[str, ...]
"""Values of a metric's own labels. The value of ``query`` comes before them."""
Reading: TypeAlias = Iterator[tuple[Labels, float]]


@dataclass(frozen=True, slots=True)
class ObservedMicroBatch:
    """A micro-batch, when Spark began it (seconds since the epoch), and the source partitions that get their own series."""

    progress: BatchProgress
    clock: float
    partitions: tuple[PartitionProgress, ...]

    @classmethod
    def of(cls, progress: BatchProgress, spark: Mapping[str, Any], most_partitions: int) -> ObservedMicroBatch:
        """Convert Spark's progress, keeping the ``most_partitions`` source partitions that are furthest behind."""
        began = datetime.strptime(spark["timestamp"], "%Y-%m-%dT%H:%M:%S.%f%z")
        return cls(progress, began.timestamp(), progress.partitions[:most_partitions])


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: the name in Prometheus. The suffix ``_total`` of counters is added when they are shown.
        kind: a counter adds up over micro-batches, and a gauge has the value of the last one.
        unit: unit of the values, empty for a count.
        read: yields the values of a micro-batch. A gauge disappears if a micro-batch yields nothing.
        complete: whether to use only micro-batches in which all key groups took part.
        always: whether to also use micro-batches without any key groups, because the gauge is about the micro-batch itself.
    """

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    read: Callable[[ObservedMicroBatch], Reading]
    unit: str = ""
    labels: tuple[str, ...] = ()
    complete: bool = False
    always: bool = False
    by_query: bool = True

    @property
    def all_labels(self) -> tuple[str, ...]:
        return ("query", *self.labels) if self.by_query else self.labels

    @property
    def shown(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _number(of: Callable[[BatchProgress], float | None], scale: float = 1) -> Callable[[ObservedMicroBatch], Reading]:
    """Return a reader of one value without labels, which may be None if unknown."""

    def read(batch: ObservedMicroBatch) -> Reading:
        value = of(batch.progress)
        if value is not None:
            yield (), value / scale

    return read


def _lag(batch: ObservedMicroBatch, watermark: int | None, *, behind_clock: bool) -> Reading:
    newest = batch.clock * _MICROS if behind_clock else batch.progress.max_event_time
    if watermark is not None and newest is not None:
        yield (), (newest - watermark) / _MICROS


def _by_partition(of: Callable[[ObservedMicroBatch, PartitionProgress], float | None]) -> Callable[[ObservedMicroBatch], Reading]:
    def read(batch: ObservedMicroBatch) -> Reading:
        for partition in batch.partitions:
            value = of(batch, partition)
            if value is not None:
                yield (partition.name,), value

    return read


def _watermark(_: ObservedMicroBatch, partition: PartitionProgress) -> float | None:
    return None if partition.watermark is None else partition.watermark / _MICROS


def _behind_newest(batch: ObservedMicroBatch, partition: PartitionProgress) -> float | None:
    newest = batch.progress.max_event_time
    return None if partition.watermark is None or newest is None else (newest - partition.watermark) / _MICROS


def _behind_clock(batch: ObservedMicroBatch, partition: PartitionProgress) -> float | None:
    return None if partition.watermark is None else batch.clock - partition.watermark / _MICROS


def _nothing(_: ObservedMicroBatch) -> Reading:
    """Return nothing, for metrics that do not come from micro-batches."""
    return iter(())


def _firings(batch: ObservedMicroBatch) -> Reading:
    progress = batch.progress
    yield from (
        (("early",), progress.early_firings),
        (("on_time",), progress.on_time_firings),
        (("late",), progress.late_firings),
    )


def _outputs(batch: ObservedMicroBatch) -> Reading:
    yield from (((tag,), rows) for tag, rows in batch.progress.output_rows.items())


def _stages(batch: ObservedMicroBatch) -> Reading:
    yield from (((stage,), took / 1000) for stage, took in batch.progress.stages.items())


def _skew(batch: ObservedMicroBatch) -> Reading:
    for by, most, total, _ in _groups(batch.progress):
        # Skew is undefined without rows.
        if total:
            yield (by,), most * batch.progress.groups / total


def _largest_groups(batch: ObservedMicroBatch) -> Reading:
    for by, _, total, group in _groups(batch.progress):
        if total:
            yield (by,), group


def _groups(progress: BatchProgress) -> Iterator[tuple[str, float, float, int]]:
    came = progress.rows - progress.invalid_rows
    yield "rows", progress.most_rows, came, progress.most_rows_group
    yield "bytes", progress.most_bytes, progress.state_bytes, progress.most_bytes_group
    yield "time", progress.most_us, progress.operator_us, progress.most_us_group


_MICROS = 1_000_000
_CHANGE_AS = "the largest key group over the mean of all: 1 is even, the number of key groups is all in one"

METRICS: tuple[Metric, ...] = (
    Metric("panestream_micro_batches", "counter", "Micro-batches that are done.", _number(lambda _: 1)),
    Metric(
        "panestream_rows",
        "counter",
        "Input rows. Each is in a window, late, invalid, or outside: the four counters below add up to this one.",
        _number(lambda one: one.rows),
    ),
    Metric(
        "panestream_windowed_rows",
        "counter",
        "Rows that at least one window took; a row that came too late for some of its windows is among them, and counts once.",
        _number(lambda one: one.windowed_rows),
    ),
    Metric(
        "panestream_late_rows",
        "counter",
        "Rows that arrived too late for all their windows.",
        _number(lambda one: one.late_rows),
    ),
    Metric(
        "panestream_invalid_rows",
        "counter",
        "Rows without usable event time, or further ahead than the watermark strategy allows.",
        _number(lambda one: one.invalid_rows),
    ),
    Metric(
        "panestream_outside_rows",
        "counter",
        "Rows without a window that are not late, such as rows between windows whose slide is longer than their size.",
        _number(lambda one: one.outside_rows),
    ),
    Metric(
        "panestream_dropped_rows",
        "counter",
        "Late rows that are discarded, because the query lacks an output for them or a sink for that output. They count as late "
        "rows, too.",
        _number(lambda one: one.dropped_rows),
    ),
    Metric(
        "panestream_spark_dropped_rows",
        "counter",
        "Rows that Spark's own operators in the same query (joins, dropDuplicates, groupBy with withWatermark) dropped as late, "
        "before or after the windows. The input rows do not include them. Several operators in a query each report the same "
        "number.",
        _number(lambda one: one.spark_dropped_rows),
    ),
    Metric(
        "panestream_output_rows",
        "counter",
        "Rows that the key groups emitted, by output. For a top, each key group emits its own largest rows.",
        _outputs,
        labels=("output",),
    ),
    Metric(
        "panestream_firings",
        "counter",
        "Firings of a key and window: early (before its end, and of global windows), on_time, late (late rows made it fire "
        "again).",
        _firings,
        labels=("firing",),
    ),
    Metric(
        "panestream_open_windows",
        "gauge",
        "Windows with rows that have not ended, if all keys share the same windows. For sessions, count windows and the row "
        "operator: all stored windows of all keys, also those stored only for late rows.",
        _number(lambda one: one.open_windows),
        complete=True,
    ),
    Metric(
        "panestream_watermark_timestamp_seconds",
        "gauge",
        "How far event time has come: the watermark of the query, since the epoch.",
        _number(lambda one: one.watermark, _MICROS),
        "seconds",
    ),
    Metric(
        "panestream_newest_event_timestamp_seconds",
        "gauge",
        "The largest event time of all rows, since the epoch.",
        _number(lambda one: one.max_event_time, _MICROS),
        "seconds",
    ),
    Metric(
        "panestream_watermark_event_lag_seconds",
        "gauge",
        "The newest event time minus the watermark.",
        lambda batch: _lag(batch, batch.progress.watermark, behind_clock=False),
        "seconds",
    ),
    Metric(
        "panestream_watermark_clock_lag_seconds",
        "gauge",
        "The clock minus the watermark when the last micro-batch started.",
        lambda batch: _lag(batch, batch.progress.watermark, behind_clock=True),
        "seconds",
    ),
    Metric(
        "panestream_partition_watermark_timestamp_seconds",
        "gauge",
        "The watermark of one source partition, since the epoch; partition is empty if the whole source has one watermark.",
        _by_partition(_watermark),
        "seconds",
        ("partition",),
    ),
    Metric(
        "panestream_partition_event_lag_seconds",
        "gauge",
        "The newest event time of the whole source minus the watermark of one source partition.",
        _by_partition(_behind_newest),
        "seconds",
        ("partition",),
    ),
    Metric(
        "panestream_partition_clock_lag_seconds",
        "gauge",
        "The clock minus the watermark of one source partition when the last micro-batch started.",
        _by_partition(_behind_clock),
        "seconds",
        ("partition",),
    ),
    Metric(
        "panestream_partition_idle",
        "gauge",
        "1 if the source partition is idle and does not hold back the watermark, otherwise 0.",
        _by_partition(lambda _, partition: float(partition.idle)),
        labels=("partition",),
    ),
    Metric(
        "panestream_partitions",
        "gauge",
        "Source partitions that were seen or are expected, including those without their own series.",
        _number(lambda one: one.partition_count),
    ),
    Metric("panestream_idle_partitions", "gauge", "Source partitions that are idle.", _number(lambda one: one.idle_partitions)),
    Metric(
        "panestream_state_bytes",
        "gauge",
        "Size of the state of all key groups as panestream writes it, without Spark's overhead.",
        _number(lambda one: one.state_bytes),
        "bytes",
        complete=True,
    ),
    Metric(
        "panestream_state_read_bytes",
        "counter",
        "Bytes read from the state store.",
        _number(lambda one: one.state_read_bytes),
        "bytes",
    ),
    Metric(
        "panestream_state_written_bytes",
        "counter",
        "Bytes written to the state store.",
        _number(lambda one: one.state_written_bytes),
        "bytes",
    ),
    Metric("panestream_state_calls", "counter", "Calls of the state store.", _number(lambda one: one.state_calls)),
    Metric(
        "panestream_key_groups", "gauge", "Key groups of the query: how parallel its state is.", _number(lambda one: one.groups)
    ),
    Metric(
        "panestream_key_group_skew_ratio",
        "gauge",
        f"Skew by rows of the micro-batch, state bytes, or time in the operator; {_CHANGE_AS}.",
        _skew,
        "ratio",
        ("by",),
        complete=True,
    ),
    Metric(
        "panestream_largest_key_group",
        "gauge",
        "The number of the key group that has most rows of the micro-batch, most state bytes, or took longest.",
        _largest_groups,
        labels=("by",),
        complete=True,
    ),
    Metric(
        "panestream_stage_seconds",
        "counter",
        "Time of each part of micro-batches, by Spark's names. triggerExecution is the total, addBatch reads, computes and "
        "writes, and the others are bookkeeping.",
        _stages,
        "seconds",
        ("stage",),
    ),
    Metric(
        "panestream_operator_seconds",
        "counter",
        "Time in panestream's operators, added up over key groups, which run in parallel; a part of addBatch.",
        _number(lambda one: one.operator_us, _MICROS),
        "seconds",
    ),
    Metric(
        "panestream_micro_batch_seconds",
        "gauge",
        "How long the last micro-batch took, all in all.",
        _number(lambda one: one.stages.get("triggerExecution", one.duration_ms), 1000),
        "seconds",
        always=True,
    ),
    Metric(
        "panestream_slowest_key_group_seconds",
        "gauge",
        "Time in the operator of the key group that took longest in the last micro-batch.",
        _number(lambda one: one.most_us, _MICROS),
        "seconds",
    ),
    Metric(
        "panestream_micro_batch_timestamp_seconds",
        "gauge",
        "Start time of the last finished micro-batch, since the epoch.",
        lambda batch: iter([((), batch.clock)]),
        "seconds",
        always=True,
    ),
)
"""All metrics from micro-batches, in display order."""

ACTIVE = Metric(
    "panestream_query_active",
    "gauge",
    "1 while the query runs, 0 after it has ended. Then its gauges disappear and its counters stay.",
    _nothing,
)
FAILED = Metric(
    "panestream_query_failures",
    "counter",
    "Runs that failed, for queries that had a micro-batch in this process.",
    _nothing,
)
ERRORS = Metric(
    "panestream_listener_errors",
    "counter",
    "Spark events of any query that could not be processed. The log has the reason.",
    _nothing,
    by_query=False,
)
ALL = (*METRICS, ACTIVE, FAILED, ERRORS)
