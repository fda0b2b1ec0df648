"""Checks of Arrow streams before and after Arrow reads them, because Arrow trusts what a stream declares.

The seals (:mod:`panestream.engine.storage.sealed_state`) detect accidents. Anyone who can write to a checkpoint can also seal a
forged value: a few bytes that unpack into gigabytes, or an offset outside the values, at which Arrow would read foreign memory.
Neither occurs in streams of panestream, so such a stream is refused.

The checks run for every value of the state that is read, so they use few calls.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import pyarrow as pa

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
                raise ValueError("it is no stream of Arrow's")
            if not size:
                return
            at += _PREFIX.size + size + _check_message(data, at + _PREFIX.size, dictionaries=dictionaries)
    except (struct.error, IndexError) as error:
        raise ValueError(f"it is cut off, or what it says of itself cannot be read ({error})") from error


def _after_mark(data: memoryview, at: int) -> int:
    mark, size = _PREFIX.unpack_from(data, at)
    if mark != _CONTINUES or not size:
        raise ValueError("it is no stream of Arrow's")
    return int(at + _PREFIX.size + size)


def _check_message(data: memoryview, at: int, *, dictionaries: bool) -> int:
    """Check the declarations of a message and return the length of its body."""
    message = at + _INT.unpack_from(data, at)[0]
    vtable = message - _INT.unpack_from(data, message)[0]
    outer, _, _, kind, header, body = _VTABLE.unpack_from(data, vtable)
    if outer < _VTABLE.size - 2 or not kind or not header:
        raise ValueError("a message is no record batch")
    if data[message + kind] == _RECORD_BATCH:
        _check_batch(data, message + header + _INT.unpack_from(data, message + header)[0])
    elif not dictionaries or data[message + kind] != _DICTIONARY:
        raise ValueError(f"a message is of the kind {data[message + kind]}, which is never written here")
    # FlatBuffers omits default values at the end of a table, including their places: here a body of zero bytes.
    size = _LONG.unpack_from(data, message + body)[0] if outer >= _VTABLE.size and body else 0
    if size < 0:
        raise ValueError("a message says that its body is shorter than nothing")
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

__all__ = ["check_columns", "check_stream"]
