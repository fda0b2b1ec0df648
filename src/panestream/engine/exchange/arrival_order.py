"""The user-defined order of arrival.

The rows of a micro-batch come from several source partitions, each with its own order. If a plan names columns for the order
(:attr:`~panestream.engine.plan.WindowPlan.arrival`) and its operator depends on it, rows cross the exchange unreduced, with these
columns. The key group sorts them and only then packs them. (In batch mode Spark sorts them before.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import as_type, one_chunk
from panestream.engine.plan import Chunk, WindowPlan


def unordered(chunk: Chunk, order: Sequence[pa.Array]) -> pa.Table:
    """Return rows in the form in which they cross the exchange, with the columns to sort by first."""
    arrays = [*map(_small, order), pa.array(chunk.times), *chunk.keys, *chunk.values]
    if chunk.rows is not None:
        arrays += [one_chunk(column) for column in chunk.rows.columns]
    return pa.Table.from_arrays(arrays, names=[str(position) for position in range(len(arrays))])


def in_order(plan: WindowPlan, arrived: Sequence[pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Sort the tables of :func:`unordered`, at least one, and yield what the operator packs.

    They come source partition by source partition. Nulls sort last; rows equal in all sort columns keep the given order.
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
    """Encode texts as a dictionary: file names are long, and few."""
    return pc.dictionary_encode(column) if pa.types.is_string(column.type) else column


def _plain(table: pa.Table, arrival: pa.Schema) -> pa.Table:
    columns = [as_type(column, field.type) for column, field in zip(table.columns, arrival, strict=False)]
    return pa.Table.from_arrays([*columns, *table.columns[len(arrival) :]], names=table.column_names)
