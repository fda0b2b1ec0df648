"""The Arrow encoding of the exchange and of stored state.

A payload is one Arrow IPC stream: a table, and a header (JSON in the schema's metadata) with the format's version. Integer and
timestamp columns are stored as narrow as their values allow (minus their smallest value, divided by their common step), and
constant columns are omitted; the reader widens them again. That quarters the bytes that are shuffled, stored and handed between
Python and the JVM, which copy every byte several times. Payloads cross the exchange cut into parts. Nothing here is compressed,
because Spark compresses shuffles and RocksDB compresses blocks.

Arrow trusts what a stream declares, so streams are checked before and after Arrow reads them. The seals
(:mod:`panestream.engine.storage.sealed_state`) detect accidents. Anyone who can write to a checkpoint can also seal a forged
value: a few bytes that unpack into gigabytes, or an offset outside the values, at which Arrow would read foreign memory. Neither
occurs in streams of panestream, so such a stream is refused. The checks run for every value of the state that is read, so they
use few calls.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.kernels.columns import as_type, one_chunk
from panestream.errors import MemoryLimitError, StateFormatError

_DICTIONARY, _RECORD_BATCH = 2, 3
"""Kinds of messages (Arrow's Message.fbs). Dictionaries cross the exchange (file names), and are never stored in state."""
_CONTINUES = 0xFFFFFFFF
_MOST_ROWS = 2**31 - 1
_PREFIX = struct.Struct("<II")
_INT, _LONG = struct.Struct("<i"), struct.Struct("<q")
_VTABLE = struct.Struct("<HHHHHH")
"""A FlatBuffers table: its own length, the length of the data, and the offsets of the first four fields (0 if not set).

A message has the fields version, kind, header and body length. A record batch has rows, nodes, buffers and compression.
"""


def check_stream(payload: bytes | memoryview | pa.Buffer, *, dictionaries: bool = False) -> None:
    """Raise ValueError for a stream that is cut or compressed, or declares too many rows or dictionaries that are not allowed.

    It reads only the few bytes that describe each message. Streams from this job's own tasks may have dictionaries.
    """
    data = memoryview(payload)
    try:
        # The schema lacks a body, and Arrow checks its content.
        at = _after_mark(data, 0)
        while True:
            mark, size = _PREFIX.unpack_from(data, at)
            if mark != _CONTINUES:
                raise ValueError("it is not an Arrow stream")
            if not size:
                return
            at += _PREFIX.size + size + _check_message(data, at + _PREFIX.size, dictionaries=dictionaries)
    except (struct.error, IndexError) as error:
        raise ValueError(f"it is incomplete, or its header is unreadable ({error})") from error


def _after_mark(data: memoryview, at: int) -> int:
    mark, size = _PREFIX.unpack_from(data, at)
    if mark != _CONTINUES or not size:
        raise ValueError("it is not an Arrow stream")
    return int(at + _PREFIX.size + size)


def _check_message(data: memoryview, at: int, *, dictionaries: bool) -> int:
    """Check the declarations of a message and return the length of its body."""
    message = at + _INT.unpack_from(data, at)[0]
    vtable = message - _INT.unpack_from(data, message)[0]
    outer, _, _, kind, header, body = _VTABLE.unpack_from(data, vtable)
    if outer < _VTABLE.size - 2 or not kind or not header:
        raise ValueError("a message is not a record batch")
    if data[message + kind] == _RECORD_BATCH:
        _check_batch(data, message + header + _INT.unpack_from(data, message + header)[0])
    elif not dictionaries or data[message + kind] != _DICTIONARY:
        raise ValueError(f"a message is of the kind {data[message + kind]}, which is never written here")
    # FlatBuffers omits default values at the end of a table, including their places: here a body of zero bytes.
    size = _LONG.unpack_from(data, message + body)[0] if outer >= _VTABLE.size and body else 0
    if size < 0:
        raise ValueError("a message has a negative length")
    return int(size)


def _check_batch(data: memoryview, batch: int) -> None:
    vtable = batch - _INT.unpack_from(data, batch)[0]
    length, _, rows, _, _, compression = _VTABLE.unpack_from(data, vtable)
    if length >= _VTABLE.size and compression:
        raise ValueError("its values are compressed, which they never are here")
    count = _LONG.unpack_from(data, batch + rows)[0] if length > 4 and rows else 0
    if not 0 <= count <= _MOST_ROWS:
        raise ValueError(f"it says that it has {count:,} rows")


def check_columns(table: pa.Table, *, dictionaries: bool = False) -> None:
    """Raise pyarrow.ArrowInvalid if lengths or offsets of columns do not fit the values.

    Strings may be invalid UTF-8, because Spark does not check either and passes them on.
    """
    table.validate()
    for column in table.columns:
        if dictionaries and pa.types.is_dictionary(column.type):
            column.validate(full=True)
        elif column.type.id in _CHECKS:
            for chunk in column.chunks:
                _check(chunk)


def _check(array: pa.Array) -> None:
    """Check that offsets ascend and end within the values, in all parts. :meth:`pyarrow.Table.validate` checked the lengths."""
    check = _CHECKS.get(array.type.id)
    if check is not None:
        check(array)


def _check_bytes(array: pa.Array) -> None:
    array.view(pa.binary()).validate(full=True)


def _check_large_bytes(array: pa.Array) -> None:
    array.view(pa.large_binary()).validate(full=True)


def _check_struct(array: pa.Array) -> None:
    for place in range(array.type.num_fields):
        _check(array.field(place))


def _check_list(array: pa.Array) -> None:
    _check_offsets(array.offsets.to_numpy(), len(array.values))
    _check(array.values)


def _check_map(array: pa.Array) -> None:
    _check_offsets(array.offsets.to_numpy(), min(len(array.keys), len(array.items)))
    _check(array.keys)
    _check(array.items)


def _check_union(array: pa.Array) -> None:
    codes, offsets = array.type_codes.to_numpy(), array.offsets.to_numpy()
    parts = [array.field(place) for place in range(array.type.num_fields)]
    if len(codes) and (codes.min() < 0 or codes.max() >= len(parts)):
        raise pa.ArrowInvalid("a union has more parts than it says")
    for code, part in enumerate(parts):
        mine = offsets[codes == code]
        if len(mine) and (mine.min() < 0 or mine.max() >= len(part)):
            raise pa.ArrowInvalid("the offsets of a union lead outside of its parts")
        _check(part)


def _check_offsets(offsets: npt.NDArray[Any], length: int) -> None:
    if len(offsets) and (int(offsets[0]) < 0 or int(offsets[-1]) > length or bool((offsets[1:] < offsets[:-1]).any())):
        raise pa.ArrowInvalid("the offsets of a list lead outside of its values")


def _check_fixed(array: pa.Array) -> None:
    _check(array.values)


def _check_all(array: pa.Array) -> None:
    """Leave the check to Arrow, which examines strings as well."""
    array.validate(full=True)


_CHECKS: dict[int, Callable[[pa.Array], None]] = {
    **dict.fromkeys((pa.string().id, pa.binary().id), _check_bytes),
    **dict.fromkeys((pa.large_string().id, pa.large_binary().id), _check_large_bytes),
    **dict.fromkeys((pa.list_(pa.null()).id, pa.large_list(pa.null()).id), _check_list),
    pa.struct([]).id: _check_struct,
    pa.map_(pa.int8(), pa.int8()).id: _check_map,
    pa.dense_union([]).id: _check_union,
    pa.list_(pa.null(), 1).id: _check_fixed,
    **dict.fromkeys((pa.string_view().id, pa.binary_view().id, pa.list_view(pa.null()).id), _check_all),
    **dict.fromkeys((pa.large_list_view(pa.null()).id, pa.sparse_union([]).id), _check_all),
    **dict.fromkeys((pa.dictionary(pa.int8(), pa.null()).id, pa.run_end_encoded(pa.int32(), pa.null()).id), _check_all),
}
"""The check of each type id. All other types have neither offsets nor parts, so they cannot point outside."""

FORMAT_VERSION = 2
"""The format of payloads in stored state and in the exchange, raised with every incompatible change."""
PART_BYTES = 1 << 18
"""The size of the parts of a payload: Spark hands many rows at a time to Python, and they must fit the memory together."""

INVALID, REPORT, UNORDERED, END = "__invalid", "__report", "__unordered", "__end"
"""The kinds of payloads that are independent of the operator.

They are rows without usable event time, a source partition's report, rows that the key group must still sort and pack, and the
notice that nothing more is available.
"""
_HEADER = b"panestream"
_STEPS = (1_000_000, 1_000, 1)
"""Most timestamps, above all window bounds, are whole seconds or milliseconds."""
_NO_PAYLOAD = (
    pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError,
)  # fmt: skip
"""The exceptions raised by decoding bytes that are not a payload."""
_NARROW = (np.int8, np.int16, np.int32)


class PayloadPart(NamedTuple):
    """A part of a payload, numbered per source partition (``origin``). ``parts_left`` parts of the same payload follow."""

    origin: int
    sequence: int
    parts_left: int
    body: bytes


def encode(table: pa.Table, header: Mapping[str, Any] | None = None) -> bytes:
    """Encode a table and its header (JSON values only). Equal input gives equal bytes."""
    columns: list[pa.Array] = []
    fields: list[pa.Field] = []
    packed: dict[str, list[int]] = {}
    for position, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        array, how = _narrowed(one_chunk(column))
        if how is not None:
            packed[str(position)] = how
        columns.append(array)
        fields.append(pa.field(name, array.type))
    meta: dict[str, Any] = {"format": FORMAT_VERSION, **(header or {})}
    if packed:
        meta["packed"] = packed
    if any(
        field.type != was.type and (was.type != pa.int64() or pa.types.is_null(field.type))
        for field, was in zip(fields, table.schema, strict=True)
    ):
        # A reader without a schema must learn the original types.
        meta["schema"] = b64encode(table.schema.remove_metadata().serialize()).decode()
    schema = pa.schema(fields, metadata={_HEADER: json.dumps(meta, separators=(",", ":"))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def decode(payload: bytes, schema: pa.Schema | None = None, *, dictionaries: bool = False) -> tuple[pa.Table, dict[str, Any]]:
    """Decode a table and its header. A ``schema`` requires these columns, in order, with their full types.

    Only the exchange has ``dictionaries``, stored state never. Bytes that are not a payload, or have another format version or
    other columns, raise StateFormatError.
    """
    try:
        return _decoded(payload, schema, dictionaries=dictionaries)
    except _NO_PAYLOAD as error:
        raise StateFormatError(
            f"some bytes are not a payload of panestream ({type(error).__name__}: {error}): they were changed on their way, or "
            "something else wrote them"
        ) from error


def _decoded(payload: bytes, schema: pa.Schema | None, *, dictionaries: bool) -> tuple[pa.Table, dict[str, Any]]:
    check_stream(payload, dictionaries=dictionaries)
    with pa.ipc.open_stream(payload) as reader:
        table = reader.read_all()
    header = json.loads((table.schema.metadata or {}).get(_HEADER, b"{}"))
    if header.get("format") != FORMAT_VERSION:
        raise wrong_format("a payload", header.get("format"), FORMAT_VERSION)
    check_columns(table, dictionaries=dictionaries)
    packed: dict[str, list[int]] = header.pop("packed", {})
    saved = header.pop("schema", None)
    if schema is None and saved is not None:
        schema = pa.ipc.read_schema(pa.py_buffer(b64decode(saved)))
    if schema is not None and table.column_names != schema.names:
        raise StateFormatError(f"a payload has the columns {table.column_names}, expected were {schema.names}")
    columns, fields = [], []
    for position, name in enumerate(table.column_names):
        array = one_chunk(table.column(position))
        if str(position) in packed:
            array = _widened(array, *packed[str(position)])
        wanted = array.type if schema is None else schema.field(position).type
        if array.type != wanted:
            array = array.cast(pa.int64()).view(wanted) if pa.types.is_timestamp(wanted) else array.cast(wanted)
        columns.append(array)
        fields.append(pa.field(name, array.type) if schema is None else schema.field(position))
    if not columns:
        return table.replace_schema_metadata(None), header
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)), header


def encode_numbers(names: Sequence[str], rows: Sequence[Sequence[int]], header: Mapping[str, Any]) -> bytes:
    """Encode rows of integers, e.g. an index, with their column ``names`` and a header."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return encode(pa.Table.from_arrays([pa.array(column, pa.int64()) for column in columns], names=list(names)), header)


def decode_numbers(payload: bytes) -> tuple[Iterator[tuple[int, ...]], dict[str, Any]]:
    """Decode the rows and the header of :func:`encode_numbers`; errors as in :func:`decode`."""
    table, header = decode(payload)
    columns = [column.cast(pa.int64()).to_pylist() for column in table.columns]
    return zip(*columns, strict=True), header


def format_of(value: bytes) -> int | None:
    """Return the format in the header of a payload without reading the rest, or None for other bytes."""
    try:
        with pa.ipc.open_stream(value) as reader:
            found = json.loads((reader.schema.metadata or {}).get(_HEADER, b"{}")).get("format")
    except _NO_PAYLOAD:
        return None
    return found if isinstance(found, int) else None


def wrong_format(what: str, version: object, current: int) -> StateFormatError:
    """Return the error about ``what`` having another format version than the ``current`` one."""
    newer = isinstance(version, int) and version > current
    return StateFormatError(
        f"{what} has format {version!r}, this version of panestream reads {current}: it was written by "
        f"{'a newer' if newer else 'an older'} panestream; start with the version that wrote it, or on a new checkpoint"
    )


def cut(body: bytes, origin: int, after: int) -> Iterator[PayloadPart]:
    """Cut a payload from source partition ``origin`` into parts, numbered from ``after + 1``."""
    starts = range(0, len(body), PART_BYTES)
    for number, start in enumerate(starts, 1):
        # The slice of a whole body is the body itself, not a copy.
        yield PayloadPart(origin, after + number, len(starts) - number, body[start : start + PART_BYTES])


def within(parts: Iterable[PayloadPart], most: int, beyond: Callable[[], MemoryLimitError]) -> Iterator[PayloadPart]:
    """Pass on the parts for a key group; raise the error made by ``beyond`` after more than ``most`` bytes."""
    size = 0
    for part in parts:
        size += len(part.body)
        if size > most:
            raise beyond()
        yield part


def joined(parts: Iterable[PayloadPart]) -> Iterator[tuple[int, bytes]]:
    """Yield each payload with its source partition, in the order of sending. A missing or duplicate part raises RuntimeError.

    (A payload that is missing completely is not detected.)
    """
    gathered: list[bytes] = []
    before: PayloadPart | None = None
    # Spark does not order rows inside a group. Sorting makes a rerun of the micro-batch see, and give, the same bytes.
    for part in sorted(parts, key=lambda part: part[:2]):
        if before is not None and before.parts_left:
            if part[:3] != (before.origin, before.sequence + 1, before.parts_left - 1):
                raise RuntimeError(f"a payload from source partition {before.origin} lacks a part, or has one twice")
        elif before is not None and part[:2] == before[:2]:
            raise RuntimeError(f"a payload from source partition {part.origin} has come twice")
        gathered.append(part.body)
        if not part.parts_left:
            yield part.origin, b"".join(gathered)  # a single part is not copied
            gathered = []
        before = part
    if gathered and before is not None:
        raise RuntimeError(f"a payload from source partition {before.origin} lacks its last part")


def as_schema(table: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Restore the full types: a payload narrows integers, and Spark labels times with the session's zone."""
    if schema is None:
        raise RuntimeError("rows crossed the exchange that the plan did not ask for")
    columns = [as_type(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _narrowed(array: pa.Array) -> tuple[pa.Array, list[int] | None]:
    """Return the narrow array and how to restore it (``value = base + step * stored``), or None if it is unchanged."""
    if not len(array):
        return array, None
    if array.null_count == len(array):
        return pa.nulls(len(array)), None
    timestamp = pa.types.is_timestamp(array.type)
    if array.null_count or not (timestamp or array.type in (pa.int64(), pa.int32())):
        return array, None
    values: npt.NDArray[np.int64] = (array.view(pa.int64()) if timestamp else array).to_numpy()
    low, high = int(values.min()), int(values.max())
    if low == high:
        return pa.nulls(len(array)), [low, 0]
    # An overflow of this difference is too wide for all narrow integers anyway.
    shifted = values.astype(np.int64, copy=False) - low
    step = _step(shifted) if timestamp else 1
    for narrow in _NARROW:
        if (high - low) // step <= np.iinfo(narrow).max:
            return pa.array((shifted // step if step > 1 else shifted).astype(narrow)), [low, step]
    return array, None


def _step(shifted: npt.NDArray[np.int64]) -> int:
    return next(step for step in _STEPS if not (shifted[:64] % step).any() and not (shifted % step).any())


def _widened(array: pa.Array, base: int, step: int) -> pa.Array:
    if not step:
        return pa.array(np.full(len(array), base, np.int64))
    values = array.to_numpy().astype(np.int64)
    if step > 1:
        values *= step
    values += base
    return pa.array(values)
