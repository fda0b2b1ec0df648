"""Batch: rows are reduced to partials per (key, pane) by Spark itself, where every aggregate has a form in SQL.

A JVM aggregates faster than rows get to Python, and what it gives back is small. The operators above are the same: they get
partials either way. On streams Spark's own aggregation would be one more stateful operator, so there rows go to ``pack``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.engine.aggregates.exact_sums import PartialSum
from panestream.engine.aggregates.partials import PartialAggregate, PartialCount, PartialExtreme
from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.slicing import PaneGrid
from panestream.engine.operators.panes.operator import PARTIALS
from panestream.engine.operators.panes.spec import PaneSpec
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput
from panestream.spark.event_time import raise_unusable, usable

_MOST_EDGES = 16
"""A pane is found by one comparison for each edge in a period."""


@dataclass(frozen=True, slots=True)
class SqlForm:
    """A partial in SQL.

    Attributes:
        columns: aggregates over the value's column.
        partials: makes the partial's own columns of their results.
    """

    columns: Callable[[Column], Sequence[Column]]
    partials: Callable[[Sequence[pa.Array]], Sequence[pa.Array]]


def reducible(plan: WindowPlan) -> bool:
    """Whether Spark itself can reduce the rows of a batch."""
    spec = plan.operator
    return (
        isinstance(spec, PaneSpec)
        and not spec.uses_processing_time
        and plan.event_time is not None
        and plan.invalid_tag is None
        and plan.watermark.max_ahead_by is None
        and len(spec.grid.edges) <= _MOST_EDGES
        and all(_sql_of(partial) is not None for partial in spec.aggregation.partial_aggregates)
    )


def reduce_rows(projected: DataFrame, plan: WindowPlan) -> DataFrame:
    """One row per (key, pane): group, key columns, pane, number of rows, and the columns of the partials.

    Args:
        projected: what ``pack`` would take: time, keys, values, group.
        plan: the query, one that is :func:`reducible`.
    """
    spec = plan.operator
    assert isinstance(spec, PaneSpec)  # noqa: S101 - reducible() looked
    told = F.coalesce(F.col("time").cast("string"), F.lit("null"))
    time = F.when(usable(F.col("time")), F.col("time")).otherwise(raise_unusable(plan, told))
    keys = [f"key_{position}" for position in range(len(plan.key_schema))]
    group = F.col("group") if plan.groups > 1 else F.lit(0).alias("group")
    values = [f"value_{position}" for position in range(len(spec.inputs))]
    rows = projected.select(group, *keys, *values, time.alias("time"))
    rows = rows.select("*", pane_of(F.col("time"), spec.grid).alias("pane"))
    if spec.grid.has_gaps:
        rows = rows.where(in_window(F.col("time"), spec.grid))
    results = [F.count(F.lit(1)).alias("rows")]
    for number, partial in enumerate(spec.aggregation.partial_aggregates):
        sql = _sql_of(partial)
        assert sql is not None  # noqa: S101 - reducible() looked
        columns = sql.columns(F.col(values[partial.source]))
        results += [column.alias(f"partial_{number}_{position}") for position, column in enumerate(columns)]
    return rows.groupBy("group", *keys, "pane").agg(*results)


def pane_of(time: Column, grid: PaneGrid) -> Column:
    """The pane of an instant, as :meth:`PaneGrid.panes_of` numbers them."""
    shifted = time - F.lit(grid.origin)
    within = F.pmod(shifted, F.lit(grid.period))
    # Spark's `div` cuts towards zero: divide what is divisible.
    slides = F.call_function("div", shifted - within, F.lit(grid.period))
    edges = [(within >= F.lit(edge)).cast("bigint") for edge in grid.edges[1:]]
    pane = slides * F.lit(len(grid.edges))
    for edge in edges:
        pane = pane + edge
    return pane


def in_window(time: Column, grid: PaneGrid) -> Column:
    """Whether an instant lies in a window, where there are gaps between them."""
    return reduce(or_, [F.pmod(time - F.lit(one.offset), F.lit(one.period)) < F.lit(one.size) for one in grid.windows])


def group_input(plan: WindowPlan, group: pa.Table) -> GroupInput:
    """What an operator takes in for the reduced rows of one key group: all there is."""
    spec = plan.operator
    assert isinstance(spec, PaneSpec)  # noqa: S101 - reducible() looked
    aggregation = spec.aggregation
    arrays = [one_chunk(group.column(f"key_{at}")).cast(key.type) for at, key in enumerate(aggregation.key_schema)]
    arrays += [one_chunk(group.column("pane")), one_chunk(group.column("rows"))]
    for number, partial in enumerate(aggregation.partial_aggregates):
        arrays += _partial_columns(group, number, partial)
    schema = aggregation.partial_schema
    columns = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    table = pa.Table.from_arrays(columns, schema=schema)
    # Spark gives them in any order; merging puts them into the operators' order.
    return GroupInput(parts={PARTIALS: [aggregation.merge([table])]}, end_of_input=True)


def _partial_columns(group: pa.Table, number: int, partial: PartialAggregate) -> list[pa.Array]:
    sql = _sql_of(partial)
    assert sql is not None  # noqa: S101 - reducible() looked
    names = [name for name in group.column_names if name.startswith(f"partial_{number}_")]
    return list(sql.partials([one_chunk(group.column(name)) for name in names]))


def _sql_of(partial: PartialAggregate) -> SqlForm | None:
    """A partial in SQL; None: it has no form there that gives the same bits."""
    if isinstance(partial, PartialCount):
        return SqlForm(lambda value: [F.count(value)], list)
    if isinstance(partial, PartialSum):
        return SqlForm(_halves, _whole)
    if isinstance(partial, PartialExtreme) and (pa.types.is_integer(partial.type) or pa.types.is_temporal(partial.type)):
        return SqlForm(lambda value: [F.max(value) if partial.largest else F.min(value)], list)
    return None


def _halves(value: Column) -> list[Column]:
    """Sums that cannot overflow: of the upper and of the lower half of each number."""
    whole = value.cast("bigint")
    return [F.sum(F.shiftright(whole, 32)), F.sum(whole.bitwiseAND(F.lit(0xFFFFFFFF).cast("bigint")))]


def _whole(halves: Sequence[pa.Array]) -> list[pa.Array]:
    """The halves as ``high * 2**64 + low``, low signed: what :class:`PartialSum` keeps."""
    upper, lower = (half.fill_null(0).to_numpy().astype(np.int64) for half in halves)
    middle = upper + (lower >> 32)
    low = (middle << 32) | (lower & np.int64(0xFFFFFFFF))
    return [pa.array(low), pa.array(((middle >> 32) + (low < 0)).astype(np.int32))]
