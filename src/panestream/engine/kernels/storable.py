"""Conversion of columns to types that Spark and Parquet support, and back."""

from __future__ import annotations

import pyarrow as pa

from panestream.engine.kernels.columns import as_type, plain


def storable(table: pa.Table) -> pa.Table:
    """Replace numbers of more than 38 digits, which sums of decimals need, by their bytes for Spark and Parquet."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):
            table = table.set_column(place, pa.field(field.name, pa.binary()), _bytes_of(plain(table.column(place))))
    return table


def storable_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that :func:`storable` gives a column."""
    return pa.binary() if pa.types.is_decimal256(type_) else type_


def typed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column of saved state in the wanted type. Storage may have returned a similar type."""
    if pa.types.is_decimal256(type_) and not pa.types.is_decimal(column.type):
        data = column.cast(pa.binary(type_.byte_width))
        return pa.Array.from_buffers(type_, len(data), data.buffers(), offset=data.offset)
    array: pa.Array = as_type(column, type_)
    return array


def _bytes_of(column: pa.Array) -> pa.Array:
    width = pa.binary(column.type.byte_width)
    return pa.Array.from_buffers(width, len(column), column.buffers(), offset=column.offset).cast(pa.binary())


__all__ = ["storable", "storable_type", "typed"]
