"""Tracing of a query over a batch DataFrame, with its rows collected on the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.datastream.events import WindowedEvents
from panestream.engine.operators.two_sides import TwoSidesSpec
from panestream.engine.plan import OperatorSpec, WindowPlan
from panestream.engine.rule import WindowRequest
from panestream.errors import InvalidPlanError
from panestream.spark.columns import micros_of, order_of, quoted
from panestream.spark.operator.dataflow import Projection, project
from panestream.tracing.events import Trace
from panestream.tracing.joins import trace_of_join
from panestream.tracing.recorder import TracedQuery, row_operator_of, trace_of_batch, traced_query, with_whole_rows
from panestream.tracing.why import ANY

MOST_ROWS = 100_000
"""The default limit of traced rows, since each becomes a Python object on the driver."""


_AS_ONE_BATCH = (
    "It is unknown if a row was late in a stream: here all rows came as one batch, without late rows. "
    ".trace(rows_per_batch=...) reads them like a stream, in the order of .arrival_order(...)."
)
_IN_NO_ORDER = (
    "It is unknown if a stream had the rows in this order: the query lacks .arrival_order(...) (for files *pst.order.FILE), so "
    "the rows came in Spark's order. In another order other rows are late."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows to trace: those of ``key``, at most ``most_rows``, as a stream with ``rows_per_batch`` or else as a batch."""

    key: Any = ANY
    most_rows: int = MOST_ROWS
    rows_per_batch: int | None = None

    def __post_init__(self) -> None:
        for name, number in (("most_rows", self.most_rows), ("rows_per_batch", self.rows_per_batch)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise InvalidPlanError(f"{name} must be a positive number of rows, got {number!r}")
        if self.key is not ANY and self.rows_per_batch is not None:
            raise InvalidPlanError("rows of other keys move the watermark of a stream: leave out key=, or rows_per_batch=")


def traced(
    windowed: WindowedEvents,
    asked: WindowRequest | TwoSidesSpec | None,
    inputs: Mapping[str, Column],
    plan_of: Callable[[OperatorSpec], WindowPlan],
    wanted: Wanted,
) -> Trace:
    """Trace the rows of a batch, of windows or of a join by time.

    ``inputs`` are columns by the user's text, ``plan_of`` returns the plan with an operator.
    """
    df = windowed.keyed.source.df
    if df.isStreaming:
        raise InvalidPlanError(
            "a stream does not keep its rows. Read its checkpoint, pst.state.read_checkpoint(spark, path), or trace the same "
            "query over a batch of the rows (spark.read instead of spark.readStream)"
        )
    if asked is None:
        raise InvalidPlanError("only a result of .aggregate, .reduce, .apply, .process, .apply_arrow or .pairs has a trace")
    if windowed.windowing.assigner.columns_only:
        raise InvalidPlanError(
            f"{windowed.windowing.assigner!r} has no trace: the rows around a row decide about its windows, and a trace has the "
            "windows of single rows. Ask a checkpoint of the stream, "
            "pst.tools.why(pst.state.read_checkpoint(spark, path), key=..., at=...)"
        )
    if windowed.windowing.fill is not None:
        raise InvalidPlanError("a trace shows rows, and the windows that they are in: leave out fill, whose windows have no rows")
    rows_of = windowed.keyed.source.row_schema
    query: TracedQuery | None = None
    if isinstance(asked, TwoSidesSpec):
        plan = with_whole_rows(plan_of(asked), rows_of)
    else:
        query = _query_of(windowed, asked, plan_of)
        plan = query.plan
    projection = _projection(windowed, plan, inputs)
    key, most = wanted.key, wanted.most_rows
    rows = projection.rows_of(df if key is ANY else df.where(_is_key(windowed, key)))
    # One row more reveals whether there are too many, without counting all.
    table = _nullable(rows.limit(most + 1)).toArrow()
    if table.num_rows > most:
        raise InvalidPlanError(
            f"the query has more than {most} rows{'' if key is ANY else f' of the key {key!r}'}, too many to trace. Choose one "
            f"key (key=), or trace the query over fewer rows, e.g. df.where(\"user = 'ann' AND ts >= '2026-01-01'\"); or "
            "raise most_rows="
        )
    batches, size, first = table.to_batches(), wanted.rows_per_batch, 1 + len(projection.pack.keys)
    columns = replace(projection.pack, values=tuple(table.schema.types[first : first + len(projection.pack.values)]))
    if query is None:
        trace = trace_of_join(plan, columns, batches, rows_per_batch=size)
    else:
        trace = trace_of_batch(query, columns, batches, rows_per_batch=size)
    ordered = bool(windowed.keyed.source.order)
    return replace(trace, missing=(*trace.missing, *_not_as_in_a_stream(trace, wanted, ordered=ordered)))


def _not_as_in_a_stream(trace: Trace, wanted: Wanted, *, ordered: bool) -> tuple[str, ...]:
    """Return why a stream may have treated these rows differently, since users often trace a row to understand a stream."""
    if not trace.is_event_time:
        return ()
    if wanted.rows_per_batch is None:
        return (_AS_ONE_BATCH,)
    return () if ordered else (_IN_NO_ORDER,)


def _query_of(windowed: WindowedEvents, asked: WindowRequest, plan_of: Callable[[OperatorSpec], WindowPlan]) -> TracedQuery:
    """Return the query with the row operator."""
    source = windowed.keyed.source
    _, kinds = order_of(source.df, source.order)
    # For two streams, the rows of a window are shown as they are, not as pairs.
    plan = replace(
        plan_of(row_operator_of(windowed.windowing, asked)), arrival=kinds if source.order else None, sides=None, pairs=None
    )
    return traced_query(plan, asked, source.row_schema)


def _projection(windowed: WindowedEvents, plan: WindowPlan, inputs: Mapping[str, Column]) -> Projection:
    """Return the projection of the rows of a traced query."""
    source, rows = windowed.keyed.source, windowed.keyed.source.df
    time = None if source.event_time is None else micros_of(rows, source.event_time, source.unit)
    clock_column = source.processing_time
    clock = None if clock_column is None else micros_of(rows, clock_column, source.processing_time_unit)
    keys = [column for _, column in windowed.keyed.key_columns]
    values = [inputs[text] for text in plan.operator.inputs]
    return project(rows, plan, time, keys, values, clock, order_of(rows, source.order)[0])


def _nullable(rows: DataFrame) -> DataFrame:
    """Return rows whose structs have nullable fields: ``toArrow`` fails on the null row of the other stream if one is not."""
    schema = T.StructType.fromJson(json.loads(rows.schema.json().replace('"nullable":false', '"nullable":true')))
    return rows.select(*(F.col(quoted(field.name)).cast(field.dataType).alias(field.name) for field in schema))


def _is_key(windowed: WindowedEvents, key: Any) -> Column:
    """Return the condition for rows of a key: a value, or a tuple with a value for each key column."""
    columns = [column for _, column in windowed.keyed.key_columns]
    values = list(key) if isinstance(key, (tuple, list)) else [key]
    if len(values) != len(columns):
        names = ", ".join(windowed.keyed.key_schema.names) or "none, all rows are together"
        raise InvalidPlanError(f"the key {key!r} is not of the key columns ({names}): give a value, or a tuple of one for each")
    condition = F.lit(True)
    for column, value, field in zip(columns, values, windowed.keyed.key_schema, strict=True):
        condition = condition & column.eqNullSafe(_literal(value, field.type))
    return condition


def _literal(value: Any, of: pa.DataType) -> Column:
    """Return a key as a Spark literal; Spark would read a time without zone in the session's zone, even for a zoneless column."""
    if isinstance(value, datetime) and value.tzinfo is None and pa.types.is_timestamp(of) and of.tz is None:
        return F.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
    return F.lit(value)
