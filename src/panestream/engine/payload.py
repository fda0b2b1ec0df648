"""The Arrow encoding of what crosses the exchange and what rests in state.

A payload is one Arrow IPC stream: a table, and a header (JSON in the schema's metadata) with the format's version. Integer
columns travel as narrow as their values allow, which halves what is shuffled and stored; the reader widens them again.
Nothing here is compressed: Spark compresses shuffles, RocksDB its blocks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.errors import StateFormatError

FORMAT_VERSION = 1
_HEADER = b"panestream"
_NARROW = ((np.int8, pa.int8()), (np.int16, pa.int16()), (np.int32, pa.int32()))


def encode(table: pa.Table, header: Mapping[str, Any] | None = None) -> bytes:
    """The bytes of a table and its header (JSON values only). Equal input gives equal bytes."""
    columns, fields, bases = [], [], {}
    for position, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        array = _one_chunk(column)
        if array.type == pa.int64() and len(array):
            array, base = _narrowed(array)
            if base:
                bases[str(position)] = base
        columns.append(array)
        fields.append(pa.field(name, array.type))
    meta: dict[str, Any] = {"format": FORMAT_VERSION, **(header or {})}
    if bases:
        meta["bases"] = bases
    schema = pa.schema(fields, metadata={_HEADER: json.dumps(meta, separators=(",", ":"))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def decode(payload: bytes, schema: pa.Schema | None = None) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the header.

    Args:
        payload: what :func:`encode` made.
        schema: the columns that are expected, in order, with their full types; None takes what is there.

    Raises:
        StateFormatError: the payload has another format version, or other columns than expected.
    """
    with pa.ipc.open_stream(payload) as reader:
        table = reader.read_all()
    header = json.loads((table.schema.metadata or {}).get(_HEADER, b"{}"))
    if header.get("format") != FORMAT_VERSION:
        raise StateFormatError(
            f"a payload has format {header.get('format')!r}, this version of panestream reads {FORMAT_VERSION}: "
            "start with the version that wrote it, or on a new checkpoint"
        )
    bases: dict[str, int] = header.pop("bases", {})
    if schema is not None and table.column_names != schema.names:
        raise StateFormatError(f"a payload has the columns {table.column_names}, expected were {schema.names}")
    columns, fields = [], []
    for position, name in enumerate(table.column_names):
        array = _one_chunk(table.column(position))
        if str(position) in bases:
            array = pc.add(array.cast(pa.int64()), pa.scalar(bases[str(position)], pa.int64()))
        if schema is not None and array.type != schema.field(position).type:
            array = array.cast(schema.field(position).type)
        columns.append(array)
        fields.append(schema.field(position) if schema is not None else pa.field(name, array.type))
    if not columns:
        return table.replace_schema_metadata(None), header
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)), header


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _narrowed(array: pa.Array) -> tuple[pa.Array, int]:
    """The array in the narrowest integer type, and what was taken off every value (0 where that does not help)."""
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return array, 0
    for numpy_type, arrow_type in _NARROW:
        limits = np.iinfo(numpy_type)
        if limits.min <= low and high <= limits.max:
            return array.cast(arrow_type), 0
        if high - low <= limits.max:
            return pc.subtract(array, pa.scalar(low, pa.int64())).cast(arrow_type), low
    return array, 0
