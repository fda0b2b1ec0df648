"""Convert rows of state tables to a common form for Spark, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.ordering import stable_order
from panestream.spark.savepoint.values import KEY_GROUP, table_in

PIECES = pa.schema([KEY_GROUP, pa.field("table", pa.string()), pa.field("body", pa.binary())])
"""The number of a key group, a table's name, and some of its rows as an Arrow stream."""

_MOST_BYTES = 1 << 16
"""The approximate size of a piece, since Spark may limit its batches to Python only by rows."""

OfBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_group(schema: pa.Schema) -> pa.Schema:
    """Return a table's columns after the number of the key group."""
    return pa.schema([KEY_GROUP, *schema])


def rows_of_pieces(schema: pa.Schema) -> OfBatches:
    """Return the function for ``mapInArrow`` that converts key group and body to rows with the table's ``schema`` after it."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group, body in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                table = table_in(body.as_py())
                number = pa.array(np.full(table.num_rows, group), pa.int32())
                yield from pa.Table.from_arrays([number, *table.columns], schema=with_group(schema)).to_batches()

    return rows


def pieces_of_rows(name: str, columns: Sequence[str]) -> OfBatches:
    """Return the function for ``mapInArrow`` that converts rows to pieces, at least one per key group and batch.

    The rows have the number of their key group, then ``columns``.
    """

    def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = np.asarray(batch.column(0), np.int64)
            order = stable_order(numbers)
            table = pa.Table.from_arrays(batch.columns[1:], names=list(columns)).take(pa.array(order))
            found, begins = np.unique(numbers[order], return_index=True)
            ends = [*begins.tolist(), len(numbers)][1:]
            most = max(1, _MOST_BYTES * table.num_rows // max(table.nbytes, 1))
            for group, begin, end in zip(found.tolist(), begins.tolist(), ends, strict=True):
                for first in range(begin, end, most):
                    yield piece(group, name, table.slice(first, min(most, end - first)))

    return pieces


def piece(group: int, name: str, table: pa.Table) -> pa.RecordBatch:
    """Return rows of a key group's table as a batch of one row."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    row = (group, name, sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays(
        [pa.array([one], field.type) for one, field in zip(row, PIECES, strict=True)], schema=PIECES
    )


__all__ = ["PIECES", "OfBatches", "piece", "pieces_of_rows", "rows_of_pieces", "with_group"]
