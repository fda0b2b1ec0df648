"""Batch queries: Spark itself reduces rows to partials per (key, pane), if every aggregate has a form in SQL.

A JVM aggregates faster than rows get to Python if its result is small. With few rows in a pane, ``pack`` is faster. The plan may
say how many there are, or a sample shows it (:mod:`panestream.spark.row_density`). ``pack`` is also faster with hundreds of
aggregates: planning 3,000 sums took most of four minutes, while ``pack`` needs a third of that. The operators are the same, since
they get partials either way. On streams Spark's aggregation would be one more stateful operator, so there rows go to ``pack``.
"""

from __future__ import annotations

from functools import reduce
from itertools import count, takewhile
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.panes import EvenGrid, EvenWindows
from panestream.engine.operators.panes.arriving import PARTIALS
from panestream.engine.operators.panes.filling import FilledPaneSpec
from panestream.engine.operators.panes.operator import PaneSpec
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput
from panestream.spark.columns import raise_unusable, usable

MIN_ROWS_PER_PANE = 20
"""With fewer rows of a key in a pane, ``pack`` takes less time than Spark's aggregation (``benchmarks/features/batch.py``)."""
_MOST_EDGES = 16
"""A pane is found with one comparison for each edge in a period."""
_MAX_EXPRESSIONS = 100
"""Above ``spark.sql.codegen.maxFields`` Spark does not compile an aggregation. Planning it then takes longer than its rows."""


def reducible(plan: WindowPlan) -> bool:
    """Return whether Spark itself reduces the rows of a batch. It does not if the plan says that panes have few rows."""
    spec = plan.operator
    if not isinstance(spec, PaneSpec):
        return False
    names = _names(spec)
    return (
        # Only reports have the newest time of all key groups, until which windows without rows are emitted.
        not isinstance(spec, FilledPaneSpec)
        and (plan.rows_per_pane is None or plan.rows_per_pane >= MIN_ROWS_PER_PANE)
        and len(spec.aggregation.partial_schema) <= _MAX_EXPRESSIONS
        and not spec.capabilities.uses_processing_time
        and plan.event_time is not None
        and plan.invalid_tag is None
        and not plan.watermark.limits_ahead
        and isinstance(spec.grid, EvenGrid)  # Spark's zone rules differ from the query's
        and len(spec.grid.edges) <= _MOST_EDGES
        and all(partial.sql(names) is not None for partial in spec.aggregation.partial_aggregates)
    )


def reduce_rows(projected: DataFrame, plan: WindowPlan) -> DataFrame:
    """Return one row per (key, pane): group, key columns, pane, number of rows, and the columns of the partials.

    ``projected`` has the input of ``pack``: time, keys, values, group. The plan must be :func:`reducible`.
    """
    spec = plan.operator
    assert isinstance(spec, PaneSpec)  # noqa: S101 - reducible() looked
    value = F.coalesce(F.col("time").cast("string"), F.lit("null"))
    time = F.when(usable(F.col("time")), F.col("time")).otherwise(raise_unusable(plan, value))
    keys = [f"key_{position}" for position in range(len(plan.key_schema))]
    group = F.col("group") if plan.groups > 1 else F.lit(0).alias("group")
    values = _names(spec)
    rows = projected.select(group, *keys, *values, time.alias("time"))
    assert isinstance(spec.grid, EvenGrid)  # noqa: S101 - reducible() looked
    rows = rows.select("*", pane_of(F.col("time"), spec.grid).alias("pane"))
    if spec.grid.has_gaps:
        rows = rows.where(in_window(F.col("time"), spec.grid))
    results = [F.count(F.lit(1)).alias("rows")]
    for number, partial in enumerate(spec.aggregation.partial_aggregates):
        texts = partial.sql(values)
        assert texts is not None  # noqa: S101 - reducible() looked
        results += [F.expr(text).alias(f"partial_{number}_{position}") for position, text in enumerate(texts)]
    return rows.groupBy("group", *keys, "pane").agg(*results)


def pane_length(plan: WindowPlan) -> float:
    """Return the average length of a pane in microseconds. The plan must be :func:`reducible`."""
    spec = plan.operator
    assert isinstance(spec, PaneSpec)  # noqa: S101 - reducible() looked
    assert isinstance(spec.grid, EvenGrid)  # noqa: S101 - reducible() looked
    return spec.grid.period / len(spec.grid.edges)


def _names(spec: PaneSpec) -> list[str]:
    """Return the column names of the aggregates' inputs."""
    return [f"value_{position}" for position in range(len(spec.aggregation.inputs))]


def pane_of(time: Column, grid: EvenGrid) -> Column:
    """Return the pane of an instant, numbered like :meth:`PaneGrid.panes_of`."""
    shifted = time - F.lit(grid.origin)
    within = F.pmod(shifted, F.lit(grid.period))
    # Spark's `div` rounds towards zero, so the dividend must be divisible.
    slides = F.call_function("div", shifted - within, F.lit(grid.period))
    edges = [(within >= F.lit(edge)).cast("bigint") for edge in grid.edges[1:]]
    pane = slides * F.lit(len(grid.edges))
    for edge in edges:
        pane = pane + edge
    return pane


def in_window(time: Column, grid: EvenGrid) -> Column:
    """Return whether an instant is in a window, for grids with gaps between windows."""
    even = [windows for windows in grid.windows if isinstance(windows, EvenWindows)]
    return reduce(or_, [F.pmod(time - F.lit(windows.offset), F.lit(windows.period)) < F.lit(windows.size) for windows in even])


def group_input(plan: WindowPlan, group: pa.Table) -> GroupInput:
    """Return an operator's complete input for the reduced rows of one key group."""
    spec = plan.operator
    assert isinstance(spec, PaneSpec)  # noqa: S101 - reducible() looked
    aggregation = spec.aggregation
    columns_by_name = dict(zip(group.column_names, group.columns, strict=True))
    arrays = [one_chunk(columns_by_name[f"key_{at}"]).cast(key.type) for at, key in enumerate(aggregation.key_schema)]
    arrays += [one_chunk(columns_by_name["pane"]), one_chunk(columns_by_name["rows"])]
    for number, partial in enumerate(aggregation.partial_aggregates):
        names = takewhile(columns_by_name.__contains__, (f"partial_{number}_{position}" for position in count()))
        arrays += partial.from_sql([one_chunk(columns_by_name[name]) for name in names])
    schema = aggregation.partial_schema
    columns = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    table = pa.Table.from_arrays(columns, schema=schema)
    # Spark returns them in any order; merging restores the operators' order.
    return GroupInput(parts={PARTIALS: [aggregation.merge([table])]}, end_of_input=True)
