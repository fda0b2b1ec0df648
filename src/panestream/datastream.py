"""The fluent API: a DataFrame becomes a stream of events, keyed, windowed, aggregated.

Every step returns a new, immutable object; nothing runs before a result is written. ``df.isStreaming`` decides between
streaming and batch: the same code, the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from panestream.engine.aggregation import Aggregation
from panestream.engine.plan import MAIN, Top, WindowPlan
from panestream.engine.planner import explain_plan, pane_grid
from panestream.errors import InvalidPlanError, SinkError, did_you_mean
from panestream.spark import query as spark_query
from panestream.spark.columns import column_of, key_of, micros_of, type_of
from panestream.spark.dataflow import operate, project
from panestream.spark.session import (
    ARROW_ROWS,
    PARTITIONS,
    STREAM_SETTINGS,
    check_version,
    chosen_partitions,
    default_parallelism,
    session_settings,
)
from panestream.spark.sinks import Sink
from panestream.spark.types import arrow_schema, to_arrow
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.watermarks import WatermarkStrategy

_RESERVED = ("window_start", "window_end", "rank", "batch_id")


def stream(df: DataFrame) -> DataStream:
    """Begins a windowed query over a streaming or a batch DataFrame.

    Raises:
        InvalidPlanError: two columns of the same name.
        EnvironmentNotReadyError: Spark is older than 4.1.
    """
    check_version(df.sparkSession)
    doubled = sorted({name for name in df.columns if df.columns.count(name) > 1})
    if doubled:
        raise InvalidPlanError(f"the DataFrame has more than one column {doubled[0]!r}: rename or drop one")
    return DataStream(df)


@dataclass(frozen=True)
class DataStream:
    """Events without a key. Flink: ``DataStream``."""

    df: DataFrame
    event_time: str | None = None
    unit: str | None = None
    watermark: WatermarkStrategy = field(default_factory=WatermarkStrategy.no_watermarks)
    invalid_tag: str | None = None

    def assign_timestamps(self, column: str, strategy: WatermarkStrategy, *, unit: str | None = None) -> DataStream:
        """Says where the event time is, and how the watermark follows from it. Flink: ``assignTimestampsAndWatermarks``.

        Args:
            column: a timestamp column, or SQL that gives one; a number with ``unit``. A timestamp without time zone is taken
                as UTC.
            strategy: e.g. ``WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")``.
            unit: of a number: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"`` since the epoch.

        Raises:
            InvalidEventTimeError: the column is no time.
            InvalidPlanError: no such column; or ``strategy.per_partition`` names none.
        """
        if not isinstance(strategy, WatermarkStrategy):
            raise InvalidPlanError(f"assign_timestamps wants a WatermarkStrategy, got {strategy!r}")
        micros_of(self.df, column, unit)
        partition = strategy.partition_column
        if partition is not None and partition not in self.df.columns:
            raise InvalidPlanError(f"per_partition: there is no column {partition!r}; {did_you_mean(partition, self.df.columns)}")
        return replace(self, event_time=column, unit=unit, watermark=strategy)

    def side_output_invalid(self, tag: str) -> DataStream:
        """Sends rows without usable event time (null, or absurd) to the output ``tag``, whole. Without it they fail the query."""
        return replace(self, invalid_tag=_tag(tag))

    def key_by(self, *keys: str) -> KeyedStream:
        """Keys the events by one or more columns, or SQL expressions (``"lower(name) AS name"``). A null key is a key.

        Raises:
            InvalidPlanError: none given, no such column, two of the same name, or a type that cannot be a key.
        """
        if not keys:
            raise InvalidPlanError("key_by wants at least one column; for windows over all rows use .window_all(assigner)")
        names = [key_of(self.df, key)[0] for key in keys]
        for position, name in enumerate(names):
            if name in names[:position]:
                raise InvalidPlanError(f"two keys are named {name!r}: give one another name with AS")
            if name in _RESERVED:
                raise InvalidPlanError(
                    f"a key cannot be named {name!r}, results have such a column: rename it, e.g. '{name} AS my_{name}'"
                )
        return KeyedStream(self, keys)

    def window_all(self, assigner: WindowAssigner) -> WindowedStream:
        """Windows over all rows together. One key group, so one task fires them (pre-aggregation is parallel).

        Flink: ``windowAll``.
        """
        return KeyedStream(self, ()).window(assigner)


@dataclass(frozen=True)
class KeyedStream:
    """Events with a key. Flink: ``KeyedStream``."""

    source: DataStream
    keys: tuple[str, ...]

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Puts the events of each key into windows.

        Raises:
            InvalidPlanError: the event time is missing, or panestream has no operator for these windows yet.
        """
        if not isinstance(assigner, WindowAssigner):
            raise InvalidPlanError(f"window wants an assigner such as TumblingEventTimeWindows.of('1 hour'), got {assigner!r}")
        if self.source.event_time is None:
            raise InvalidPlanError("event-time windows need .assign_timestamps(column, strategy) first")
        pane_grid(assigner)
        return WindowedStream(self, assigner)


@dataclass(frozen=True)
class WindowedStream:
    """Events in windows. Flink: ``WindowedStream``."""

    keyed: KeyedStream
    assigner: WindowAssigner
    late_tag: str | None = None
    groups: int | None = None

    def side_output_late_data(self, tag: str) -> WindowedStream:
        """Sends late rows, whole, to the output ``tag``. Without it they are counted and dropped. Flink: ``sideOutputLateData``.

        Whole rows then have to cross the shuffle, since only the key group knows the watermark: ask for it where it is needed.
        """
        return replace(self, late_tag=_tag(tag))

    def key_groups(self, number: int) -> WindowedStream:
        """Sets the number of key groups: the parallelism of the state, fixed when the checkpoint is born. Default: the cores."""
        if not isinstance(number, int) or not 1 <= number <= 32768:
            raise InvalidPlanError(f"the number of key groups must be between 1 and 32768, got {number!r}")
        return replace(self, groups=number)

    def aggregate(self, *aggregates: Aggregate) -> WindowedResult:
        """Aggregates the rows of each key and window with declared aggregates (``panestream.agg``).

        Returns:
            The result: ``.main`` has the key columns, ``window_start``, ``window_end`` and a column for each aggregate.

        Raises:
            InvalidPlanError: none given, an unknown column, a type that an aggregate does not take, two results of the same name.
        """
        if not aggregates:
            raise InvalidPlanError("aggregate wants at least one aggregate, e.g. agg.count()")
        for aggregate in aggregates:
            if not isinstance(aggregate, Aggregate):
                raise InvalidPlanError(f"aggregate wants aggregates of panestream.agg, e.g. agg.sum('price'), got {aggregate!r}")
            if aggregate.name in _RESERVED:
                raise InvalidPlanError(f"a result cannot be named {aggregate.name!r}: choose another .alias(...)")
        return WindowedResult(self, aggregates)


@dataclass(frozen=True)
class WindowedResult:
    """The outputs of a windowed query: main, late rows, invalid rows."""

    windowed: WindowedStream
    aggregates: tuple[Aggregate, ...]
    largest: Top | None = None

    def top(self, n: int, by: str) -> WindowedResult:
        """Of each window only the ``n`` rows with the largest ``by`` (a result's name), with their ``rank`` (1 first).

        Ties go to the smaller key. On a stream use :meth:`start`, which ranks each window when it fires; :attr:`main` cannot.
        """
        names = [aggregate.name for aggregate in self.aggregates]
        if not isinstance(n, int) or n < 1:
            raise InvalidPlanError(f"top wants a positive number of rows, got {n!r}")
        if by not in names:
            raise InvalidPlanError(f"top: there is no result {by!r}; {did_you_mean(str(by), names)}")
        return replace(self, largest=Top(n, by))

    @property
    def main(self) -> DataFrame:
        """The windows' results, an ordinary DataFrame: key columns, window_start, window_end, results.

        Streaming: append mode; a row comes in the micro-batch whose rows move the watermark past the window's end. Set
        ``spark.sql.shuffle.partitions`` to the number of key groups, and the RocksDB state store (see :meth:`explain`);
        :meth:`start` does both. Late rows and the watermark are in the query's progress, ``observedMetrics["panestream"]``.
        """
        return self.output(MAIN)

    def output(self, tag: str) -> DataFrame:
        """The rows of one output as a DataFrame of its own.

        Several of them in several queries compute the operator several times: :meth:`start` serves all from one.

        Raises:
            InvalidPlanError: no such output; or ``top`` on a stream.
        """
        plan = self.plan
        if tag not in plan.tags:
            raise InvalidPlanError(f"there is no output {tag!r}; {did_you_mean(tag, plan.tags)}")
        if tag == MAIN and plan.top is not None and self.is_streaming:
            raise InvalidPlanError("top on a stream ranks each window when it fires: use result.start(main=...), not .main")
        operated = spark_query.observed(self._operated) if self.is_streaming else self._operated
        return spark_query.output(operated, plan, tag)

    def start(
        self,
        *,
        checkpoint: str,
        trigger: Mapping[str, Any] | None = None,
        name: str | None = None,
        on_progress: Callable[[spark_query.BatchProgress], Any] | None = None,
        **sinks: Sink,
    ) -> spark_query.RunningQuery:
        """Starts one streaming query that computes the operator once per micro-batch and serves every sink, each idempotent.

        Args:
            checkpoint: a directory; belongs to this plan from then on.
            trigger: Spark's, e.g. ``{"availableNow": True}`` (default) or ``{"processingTime": "10 seconds"}``.
            name: of the query, for Spark's UI.
            on_progress: called on the driver after each micro-batch with a :class:`BatchProgress`. Not through Spark Connect.
            **sinks: by output tag: ``main=ParquetSink(...)``, ``late=...``. An output without a sink is computed and not kept.

        Raises:
            InvalidPlanError: a batch DataFrame, an unknown output.
            PlanMismatchError: the checkpoint belongs to another plan.
            SinkError: a sink's place belongs to another query.
        """
        if not self.is_streaming:
            raise InvalidPlanError("start is for streams; this DataFrame is a batch: use result.run(main=...) or result.main")
        self._check_sinks(sinks)
        if not isinstance(checkpoint, str) or not checkpoint.strip():
            raise InvalidPlanError("start needs checkpoint='a directory': it holds the state of the windows")
        return spark_query.start(
            self._operated,
            self.plan,
            sinks,
            checkpoint=checkpoint,
            trigger=trigger or {"availableNow": True},
            name=name,
            on_progress=on_progress,
        )

    def run(self, **sinks: Sink) -> None:
        """Batch: computes the operator once and writes every output to its sink.

        Raises:
            InvalidPlanError: a streaming DataFrame, an unknown output.
        """
        if self.is_streaming:
            raise InvalidPlanError("run is for batches; this DataFrame is a stream: use result.start(checkpoint=..., main=...)")
        self._check_sinks(sinks)
        spark = self._df.sparkSession
        for sink in sinks.values():
            sink.open(spark, "")
        with session_settings(spark, {PARTITIONS: str(self.plan.groups), ARROW_ROWS: STREAM_SETTINGS[ARROW_ROWS]}):
            operated = self._operated.persist()
            try:
                for tag, sink in sinks.items():
                    sink.write(spark_query.output(operated, self.plan, tag), None)
            finally:
                operated.unpersist()

    def explain(self) -> str:
        """How the query will run: operator, panes, state, exchange, and why."""
        return explain_plan(self.plan, streaming=self.is_streaming, chosen=chosen_partitions(self._df.sparkSession))

    @property
    def is_streaming(self) -> bool:
        return bool(self._df.isStreaming)

    @property
    def _df(self) -> DataFrame:
        return self.windowed.keyed.source.df

    def _check_sinks(self, sinks: Mapping[str, Sink]) -> None:
        if not sinks:
            raise InvalidPlanError("name at least one sink, e.g. main=ParquetSink('out/main')")
        for tag, sink in sinks.items():
            if tag not in self.plan.tags:
                raise InvalidPlanError(f"there is no output {tag!r}; {did_you_mean(tag, self.plan.tags)}")
            if not isinstance(sink, Sink):
                raise SinkError(f"the sink of {tag!r} must be one of panestream's (ParquetSink, TableSink, …), got {sink!r}")

    @cached_property
    def plan(self) -> WindowPlan:
        """The frozen recipe of the query."""
        windowed, source = self.windowed, self.windowed.keyed.source
        keys = [key_of(self._df, key) for key in windowed.keyed.keys]
        key_schema = pa.schema(
            [pa.field(name, to_arrow(type_of(self._df, column), f"the key {name!r}")) for name, column in keys]
        )
        inputs = {text: to_arrow(type_of(self._df, column), text) for text, column in self._inputs.items()}
        groups = 1
        if keys:
            spark = self._df.sparkSession
            groups = windowed.groups or chosen_partitions(spark) or default_parallelism(spark)
        return WindowPlan(
            keys=windowed.keyed.keys,
            assigner=windowed.assigner,
            grid=pane_grid(windowed.assigner),
            watermark=source.watermark,
            aggregates=self.aggregates,
            aggregation=Aggregation.build(self.aggregates, inputs, key_schema),
            event_time=str(source.event_time) if source.unit is None else f"{source.event_time} in {source.unit}",
            groups=groups,
            late_tag=windowed.late_tag,
            invalid_tag=source.invalid_tag,
            row_schema=arrow_schema(self._df.schema) if windowed.late_tag or source.invalid_tag else None,
            top=self.largest,
        )

    @cached_property
    def _inputs(self) -> dict[str, Column]:
        texts = dict.fromkeys(text for aggregate in self.aggregates for text in aggregate.inputs)
        return {text: column_of(self._df, text, "the input of an aggregate") for text in texts}

    @cached_property
    def _operated(self) -> DataFrame:
        source = self.windowed.keyed.source
        time = micros_of(self._df, str(source.event_time), source.unit)
        keys = [key_of(self._df, key)[1] for key in self.windowed.keyed.keys]
        values = [self._inputs[text] for text in self.plan.aggregation.inputs]
        projected, places = project(self._df, self.plan, time, keys, values)
        return operate(projected, self.plan, places)


def _tag(tag: str) -> str:
    if not isinstance(tag, str) or not tag.isidentifier() or tag.startswith("_") or tag == MAIN:
        raise InvalidPlanError(f"an output tag is a plain name other than 'main' (it becomes an argument of start), got {tag!r}")
    return tag
