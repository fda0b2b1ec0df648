"""The order in which rows arrive, where the user says what it is.

Rows of a micro-batch come from several source partitions, each in an order of its own. Where a plan names columns to order them
by (:attr:`~panestream.engine.plan.WindowPlan.arrival`) and its operator minds the order, rows cross the exchange as they are,
with these columns; the key group puts them in order, and only then are they packed. (A batch is put in order by Spark, before.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import as_type, one_chunk
from panestream.engine.plan import Chunk, WindowPlan


def unordered(chunk: Chunk, order: Sequence[pa.Array]) -> pa.Table:
    """Rows as they cross the exchange.

    Args:
        chunk: the rows.
        order: the columns to order them by, in the plan's order.
    """
    arrays = [*map(_small, order), pa.array(chunk.times), *chunk.keys, *chunk.values]
    if chunk.rows is not None:
        arrays += [one_chunk(column) for column in chunk.rows.columns]
    return pa.Table.from_arrays(arrays, names=[str(position) for position in range(len(arrays))])


def in_order(plan: WindowPlan, arrived: Sequence[pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """What the operator packs of rows, put in order.

    Nulls come last. Rows that are equal in all columns keep the order in which they are given.

    Args:
        plan: a query that names an order.
        arrived: what :func:`unordered` made, source partition by source partition; at least one.
    """
    arrival = plan.arrival or pa.schema([])
    width, keys = len(arrival), len(plan.key_schema)
    rows = pa.concat_tables([_plain(table, arrival) for table in arrived])
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names[:width]])
    columns = [one_chunk(column.take(order)) for column in rows.columns[width:]]
    whole = None
    if plan.row_schema is not None and plan.carries_rows:
        first = len(columns) - len(plan.row_schema)
        whole, columns = pa.Table.from_arrays(columns[first:], schema=plan.row_schema), columns[:first]
    times, *others = columns
    yield from plan.operator.pack(plan, Chunk(times.to_numpy(), others[:keys], others[keys:], whole))


def _small(column: pa.Array) -> pa.Array:
    """Names of files are long, and few."""
    return pc.dictionary_encode(column) if pa.types.is_string(column.type) else column


def _plain(table: pa.Table, arrival: pa.Schema) -> pa.Table:
    columns = [as_type(column, field.type) for column, field in zip(table.columns, arrival, strict=False)]
    return pa.Table.from_arrays([*columns, *table.columns[len(arrival) :]], names=table.column_names)
