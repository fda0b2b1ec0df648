"""The three steps of a windowed query as one DataFrame: project, pack, operate; and unpack for each output."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan
from panestream.spark.catalyst import reduce_rows, reducible
from panestream.spark.columns import quoted
from panestream.spark.exchange import EXCHANGE_SCHEMA, LARGEST_TIME, Pack, PackColumns
from panestream.spark.operate import OPERATED_SCHEMA, Unpack, process_batch, process_reduced
from panestream.spark.processor import WindowProcessor
from panestream.spark.types import arrow_schema, spark_schema
from panestream.spark.without_pandas import without_pandas


def project(
    df: DataFrame,
    plan: WindowPlan,
    time: Column | None,
    keys: Sequence[Column],
    values: Sequence[Column],
    clock: Column | None = None,
) -> tuple[DataFrame, PackColumns]:
    """The columns that ``pack`` takes: few and narrow, since the way from the JVM to Arrow is what limits the speed.

    Args:
        df: the input.
        plan: the query.
        time: the event time in microseconds; None: the clock stands in for it.
        keys: the key columns.
        values: the columns that the operation asked for.
        clock: processing time in microseconds; None: the time of the micro-batch.
    """
    clock = batch_time() if clock is None else clock
    columns = [(clock if time is None else time).alias("time")]
    columns += [key.alias(f"key_{position}") for position, key in enumerate(keys)]
    columns += [value.alias(f"value_{position}") for position, value in enumerate(values)]
    places: dict[str, int] = {}

    def add(name: str, column: Column) -> None:
        places[name] = len(columns)
        columns.append(column.alias(name))

    if plan.groups > 1:
        add("group", F.pmod(F.xxhash64(*keys), F.lit(plan.groups)).cast("int"))
    if plan.watermark.partition_column is not None:
        name = plan.watermark.partition_column
        add("partition", df[quoted(name)].cast("string"))
    if plan.row_schema is not None:
        row = F.struct(*(df[quoted(name)] for name in df.columns))
        if not plan.carries_rows and time is not None:
            row = F.when(time.isNull() | ~time.between(-LARGEST_TIME + 1, LARGEST_TIME - 1), row)
        add("row", row)
    if plan.operation.shows_clock or plan.watermark.idle_timeout is not None:
        add("clock", clock)
    projected = df.select(*columns)
    value_types = [field.type for field in arrow_schema(projected.schema)][1 + len(keys) : 1 + len(keys) + len(values)]
    key_types = tuple(field.type for field in plan.key_schema)
    return projected, PackColumns(key_types, tuple(value_types), **places)


def batch_time() -> Column:
    """The time of the micro-batch in microseconds.

    Spark puts such a number into the Java code that it generates: code that differs from one micro-batch to the next, which is
    compiled, and warms up, anew every time. Inside a function that Spark interprets, as it does this one, it is handed over
    beside the code.
    """
    return F.array_sort(F.array(F.unix_micros(F.current_timestamp())))[0]


def operate(projected: DataFrame, plan: WindowPlan, columns: PackColumns) -> DataFrame:
    """The operator's output, a few rows (tag, body) per key group and micro-batch."""
    with without_pandas():
        if not projected.isStreaming and reducible(plan):
            return reduce_rows(projected, plan).groupBy("group").applyInArrow(process_reduced(plan), OPERATED_SCHEMA)
        grouped = projected.mapInArrow(Pack(plan, columns).__call__, EXCHANGE_SCHEMA).groupBy("group")
        if not projected.isStreaming:
            return grouped.applyInArrow(process_batch(plan), OPERATED_SCHEMA)
        mode = "ProcessingTime" if plan.wakes_up else "None"
        return grouped.transformWithState(
            statefulProcessor=WindowProcessor(plan), outputStructType=OPERATED_SCHEMA, outputMode="append", timeMode=mode
        )


def unpack(operated: DataFrame, plan: WindowPlan, tag: str) -> DataFrame:
    """The rows of one output."""
    schema = plan.output_schema(tag)
    bodies = operated.where(F.col("tag") == tag).select("body")
    with without_pandas():
        return bodies.mapInArrow(Unpack(schema).__call__, spark_schema(schema))
