"""The steps of a windowed query on one DataFrame: project, pack, operate, and unpack for each output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.exchange.packing import PackColumns
from panestream.engine.plan import MAIN, WindowPlan
from panestream.spark.catalyst import reduce_rows, reducible
from panestream.spark.columns import or_raise, quoted, struct_of, type_of, usable
from panestream.spark.compat import batch_time, check_data_frames, group_values, with_known_schema, without_pandas
from panestream.spark.operator.processor import RestartInfo, WindowProcessor
from panestream.spark.operator.task_functions import (
    EXCHANGE_SCHEMA,
    OPERATED_SCHEMA,
    OUTPUT,
    Pack,
    Unpack,
    UnpackTagged,
    process_batch,
    process_reduced,
)
from panestream.spark.sendable import check_sendable
from panestream.spark.types import arrow_schema, spark_schema
from panestream.windowing.watermarks import WatermarkStrategy


@dataclass(frozen=True, slots=True)
class Projection:
    """The projection of rows to the input of ``pack``: analysed on one DataFrame, valid for all with the same columns.

    Attributes:
        evaluated: the user's expressions, under unused names, added to the row's columns.
        taken: the columns that ``pack`` takes, and those to order by.
        arrival: the names of the columns that a batch is sorted by. If empty, it keeps its order.
        schema: the schema of ``taken``.
        pack: the positions of the columns for ``pack``.
    """

    streaming: bool
    evaluated: tuple[Column, ...]
    taken: tuple[Column, ...]
    arrival: tuple[str, ...]
    groups: int
    schema: T.StructType
    pack: PackColumns

    def rows_of(self, df: DataFrame) -> DataFrame:
        """Return the rows that ``pack`` takes, without a call of Spark."""
        rows = with_known_schema(df.select("*", *self.evaluated).select(*self.taken), self.schema)
        if not self.arrival:
            return rows
        left = T.StructType([field for field in self.schema if field.name not in self.arrival])
        return with_known_schema(ordered(rows, self.groups, self.arrival), left)


def project(
    df: DataFrame,
    plan: WindowPlan,
    time: Column | None,
    keys: Sequence[Column],
    values: Sequence[Column],
    processing_time: Column | None = None,
    order: Sequence[Column] = (),
) -> Projection:
    """Return the projection to the columns of ``pack``: few and narrow, as the transfer from JVM to Arrow limits the speed.

    Times are in microseconds. Without ``time`` the clock is used, without ``processing_time`` the time of the micro-batch. Rows
    arrive in the order of the columns ``order``, or in Spark's. A batch is sorted here, the rows of a micro-batch later in their
    key group.
    """
    sends_clock = plan.operator.capabilities.shows_processing_time or plan.watermark.uses_processing_time
    inputs = {} if time is None else {"time": time}
    if time is None or sends_clock:
        inputs["processing_time"] = batch_time() if processing_time is None else processing_time
    inputs |= {f"key_{position}": key for position, key in enumerate(keys)}
    inputs |= {f"value_{position}": value for position, value in enumerate(values)}
    inputs |= {f"order_{position}": column for position, column in enumerate(order)}
    evaluated, of = _named(df, inputs)
    columns = [(of("processing_time") if time is None else or_raise(of("time"), df, plan)).alias("time")]
    columns += [of(name).alias(name) for name in inputs if name.startswith(("key_", "value_"))]
    positions: dict[str, Any] = {}

    def add(name: str, column: Column) -> None:
        positions[name] = len(columns)
        columns.append(column.alias(name))

    if plan.groups > 1:
        hashed = F.xxhash64(*(of(f"key_{position}") for position in range(len(keys)))) if keys else F.lit(0)
        group = F.pmod(hashed, F.lit(plan.groups))
        if plan.split is not None:
            place = plan.operator.inputs.index(plan.split.by)
            group = F.pmod(group + part_of(of(f"value_{place}"), values[place], df, plan.split.parts), F.lit(plan.groups))
        add("group", group.cast("int"))
    if plan.watermark.partition_column is not None:
        add("partition", F.col(quoted(plan.watermark.partition_column)).cast("string"))
    if plan.row_schema is not None:
        row = struct_of(plan.row_schema.names)
        if not plan.carries_rows and time is not None:
            row = F.when(_may_be_invalid(of, plan.watermark), row)
        add("row", row)
    if sends_clock:
        add("processing_time", of("processing_time"))
    arrival = [f"order_{position}" for position in range(len(order))]
    if order and df.isStreaming:
        positions["order"] = tuple(range(len(columns), len(columns) + len(order)))
    selected = (*columns, *(of(name).alias(name) for name in arrival))
    streaming = bool(df.isStreaming)
    schema = df.select("*", *evaluated).select(*selected).schema
    value_types = [field.type for field in arrow_schema(schema)][1 + len(keys) : 1 + len(keys) + len(values)]
    key_types = tuple(field.type for field in plan.key_schema)
    packed = PackColumns(key_types, tuple(value_types), never_late=not streaming, **positions)
    return Projection(streaming, evaluated, selected, () if streaming else tuple(arrival), plan.groups, schema, packed)


def part_of(value: Column, written: Column, df: DataFrame, parts: int) -> Column:
    """Return the part of its key that a row belongs to: equal values share a part. ``written`` gives the type of ``value``."""
    if isinstance(type_of(df, written), (T.FloatType, T.DoubleType)):
        value = value + F.lit(0.0)  # -0.0 and 0.0 are the same value; their hashes differ
    return F.pmod(F.xxhash64(value), F.lit(parts))


def _named(df: DataFrame, inputs: Mapping[str, Column]) -> tuple[tuple[Column, ...], Callable[[str], Column]]:
    """Return aliased columns under unused names, and a function to refer to them, so a plan has each expression once.

    If ``rand()`` or ``uuid()`` were in the plan both for the key and for its key group, they would be two different values. Spark
    merges projections only if that does not evaluate anything twice.
    """
    prefix = "__panestream_"
    while any(name.lower().startswith(prefix) for name in df.columns):
        prefix += "_"
    return tuple(column.alias(prefix + name) for name, column in inputs.items()), lambda name: F.col(quoted(prefix + name))


def _may_be_invalid(of: Callable[[str], Column], watermark: WatermarkStrategy) -> Column:
    """Return a condition for rows that may go to the output for invalid rows, so that the whole row must be sent.

    ``of`` returns an input column by its name.
    """
    time = of("time")
    condition = time.isNull() | ~usable(time)
    for strategy in (watermark, *(strategy for _, strategy in watermark.sides)):
        if strategy.max_ahead_by is not None and strategy.max_ahead_of == "rows":
            return F.lit(True)
        if strategy.max_ahead_by is not None:
            condition = condition | (time > of("processing_time") + F.lit(strategy.max_ahead_by))
    return condition


def operate(
    df: DataFrame,
    plan: WindowPlan,
    projection: Projection,
    *,
    data_frames: bool = False,
    initial: DataFrame | None = None,
    tasks: int | None = None,
    also: DataFrame | None = None,
    clock: bool = False,
    restart_info: RestartInfo | None = None,
) -> DataFrame:
    """Return the operator's output, a few rows (tag, body) per key group and micro-batch, without a call of Spark.

    A stream starts with the state ``initial``. It sends the rows ``also`` (control messages) through the exchange. Its key groups
    share ``tasks`` tasks, or have one each. Its ``data_frames`` and ``clock`` (whether Spark's clock can wake it) depend on its
    checkpoint. ``restart_info`` is None if unknown. Raise InvalidPlanError if a user function cannot be pickled.
    """
    check_sendable(plan)
    projected = projection.rows_of(df)
    with without_pandas():
        if not projection.streaming and reducible(plan):
            return reduce_rows(projected, plan).groupBy("group").applyInArrow(process_reduced(plan), OPERATED_SCHEMA)
        exchanged = projected.mapInArrow(Pack(plan, projection.pack).__call__, EXCHANGE_SCHEMA)
        if not projection.streaming:
            return exchanged.groupBy("group").applyInArrow(process_batch(plan), OPERATED_SCHEMA)
        exchanged = exchanged if also is None else exchanged.unionAll(also)
        operated = transform(exchanged, plan, data_frames=data_frames, initial=initial, clock=clock, restart_info=restart_info)
    # A task costs more than the key group in it (decision 0161). Its partitions and their state stay the same.
    return operated if tasks is None else operated.coalesce(tasks)


def unpack(operated: DataFrame, plan: WindowPlan, tag: str) -> DataFrame:
    """Return the rows of one output, without a call of Spark."""
    bodies = with_known_schema(operated.where(F.col("tag") == tag).select("body"), T.StructType([OPERATED_SCHEMA["body"]]))
    with without_pandas():
        return bodies.mapInArrow(_unpack_of(plan, tag).__call__, spark_schema(plan.output_schema(tag)))


def unpack_all(operated: DataFrame, plan: WindowPlan) -> DataFrame:
    """Return the rows of all outputs with the column ``output`` and a struct for each output, without a call of Spark."""
    schemas = {tag: plan.output_schema(tag) for tag in plan.tags}
    fields = [T.StructField(OUTPUT, T.StringType(), nullable=False)]
    fields += [T.StructField(tag, spark_schema(schema)) for tag, schema in schemas.items()]
    bodies = with_known_schema(operated.where(F.col("tag").isin(*schemas)).select("tag", "body"), OPERATED_SCHEMA)
    with without_pandas():
        unpacks = {tag: _unpack_of(plan, tag) for tag in schemas}
        return bodies.mapInArrow(UnpackTagged(unpacks, schemas).__call__, T.StructType(fields))


def _unpack_of(plan: WindowPlan, tag: str) -> Unpack:
    return Unpack(plan.emitted_schema(tag), plan.pairs if tag == MAIN else None)


def transform(
    exchanged: DataFrame,
    plan: WindowPlan,
    *,
    data_frames: bool,
    initial: DataFrame | None = None,
    clock: bool = False,
    restart_info: RestartInfo | None = None,
) -> DataFrame:
    """Run the exchange rows of a stream through the operator, with its state.

    ``initial`` has the initial entries (:mod:`panestream.spark.savepoint.restore`). With ``clock`` Spark also runs
    micro-batches without rows, in which the clock wakes key groups. ``restart_info`` is None if unknown.
    """
    grouped = exchanged.groupBy("group")
    how: dict[str, Any] = {
        "outputStructType": OPERATED_SCHEMA,
        "outputMode": "append",
        "timeMode": "ProcessingTime" if clock else "None",
        "initialState": None if initial is None else initial.groupBy("group"),
    }
    if not data_frames:
        return grouped.transformWithState(statefulProcessor=WindowProcessor(plan, restart_info), **how)
    from panestream.spark.operator.processor import DataFrameWindowProcessor

    check_data_frames(exchanged.sparkSession)
    return grouped.transformWithStateInPandas(statefulProcessor=DataFrameWindowProcessor(plan, restart_info), **how)


_POSITION = "position"


def ordered(projected: DataFrame, groups: int, names: Sequence[str]) -> DataFrame:
    """Return a batch with the rows of each key group in one partition, in order, without the columns ``names``.

    Nulls come last, as in the engine. Rows that are equal in all these columns keep Spark's order. With several ``groups``, the
    column ``group`` has the number.
    """
    # The row's position, before rows change partitions.
    rows = projected.select("*", F.monotonically_increasing_id().alias(_POSITION))
    # Each group has its own partition.
    values = F.lit(list(group_values(groups)))
    rows = rows.repartition(groups, values[F.col("group")]) if groups > 1 else rows.repartition(1)
    remaining = [name for name in projected.columns if name not in names]
    return rows.sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in (*names, _POSITION))).select(*remaining)
