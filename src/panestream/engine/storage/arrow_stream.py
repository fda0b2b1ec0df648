"""What is looked at before and after Arrow reads a stream: it believes what a stream says of itself.

The seals (:mod:`panestream.engine.storage.sealed_state`) find accidents. Who can write to a checkpoint can seal what he made: a
few bytes that unpack into gigabytes, or an offset that leads outside of the values, where Arrow would read whatever is there.
Neither is ever written here, so a stream that has one is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa

_SCHEMA, _RECORD_BATCH = 1, 3
"""Kinds of messages. Dictionaries are another, and are never written."""
_CONTINUES = 0xFFFFFFFF
_MOST_ROWS = 2**31 - 1
_PREFIX = struct.Struct("<II")
_INT, _SHORT, _LONG, _UNSIGNED_SHORT = (struct.Struct(form) for form in ("<i", "<h", "<q", "<H"))
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3
"""Fields of a message, by their numbers in Arrow's Message.fbs."""
_LENGTH, _COMPRESSION = 0, 3
"""Those of a record batch."""


class _Message(NamedTuple):
    kind: int
    table: int
    """Where its header's table begins."""
    metadata: memoryview


def check_stream(payload: bytes | memoryview | pa.Buffer) -> None:
    """Refuses a stream of messages that is cut, compressed, has dictionaries, or says that it has more rows than there can be.

    Reads the few bytes that describe each message, and none of the values.

    Raises:
        ValueError: says what is wrong.
    """
    try:
        _check_messages(memoryview(payload))
    except (struct.error, IndexError) as error:
        raise ValueError(f"what it says of itself cannot be read ({error})") from error


def _check_messages(data: memoryview) -> None:
    for number, message in enumerate(_messages(data)):
        if message.kind != (_SCHEMA if number == 0 else _RECORD_BATCH):
            raise ValueError(f"message {number} is of the kind {message.kind}, which is never written here")
        if number and _field(message.metadata, message.table, _COMPRESSION) is not None:
            raise ValueError("its values are compressed, which they never are here")
        if number and not 0 <= _long(message.metadata, message.table, _LENGTH) <= _MOST_ROWS:
            raise ValueError(f"it says that it has {_long(message.metadata, message.table, _LENGTH):,} rows")


def check_columns(table: pa.Table) -> None:
    """Refuses columns whose lengths and offsets do not fit the values that are there.

    Whether strings are UTF-8 is not looked at: Spark does not ask either, and what it has comes through.

    Raises:
        pyarrow.ArrowInvalid: says where.
    """
    table.validate()
    for column in table.columns:
        for chunk in column.chunks:
            _check(chunk)


def _messages(data: memoryview) -> Iterator[_Message]:
    at = 0
    while True:
        if at + _PREFIX.size > len(data):
            raise ValueError("it is cut off")
        mark, size = _PREFIX.unpack_from(data, at)
        if mark != _CONTINUES:
            raise ValueError("it is no stream of Arrow's")
        if not size:
            return
        at += _PREFIX.size
        metadata = data[at : at + size]
        if len(metadata) < size:
            raise ValueError("it is cut off")
        (root,) = _INT.unpack_from(metadata, 0)
        kind, header = _field(metadata, root, _HEADER_TYPE), _field(metadata, root, _HEADER)
        if kind is None or header is None:
            raise ValueError("a message has no header")
        body = _long(metadata, root, _BODY_LENGTH)
        at += size + body
        if body < 0 or at > len(data):
            raise ValueError("it is cut off")
        yield _Message(metadata[kind], header + _INT.unpack_from(metadata, header)[0], metadata)


def _field(metadata: memoryview, table: int, number: int) -> int | None:
    """Where a field of a FlatBuffers table is; None: it is not set."""
    if table < 0:
        raise ValueError("what it says of itself cannot be read")
    vtable = table - _INT.unpack_from(metadata, table)[0]
    if vtable < 0:
        raise ValueError("what it says of itself cannot be read")
    (size,) = _UNSIGNED_SHORT.unpack_from(metadata, vtable)
    entry = 4 + 2 * number
    offset = _UNSIGNED_SHORT.unpack_from(metadata, vtable + entry)[0] if entry + 2 <= size else 0
    return table + offset if offset else None


def _long(metadata: memoryview, table: int, number: int) -> int:
    place = _field(metadata, table, number)
    return 0 if place is None else int(_LONG.unpack_from(metadata, place)[0])


def _check(array: pa.Array) -> None:
    """Offsets go up and end inside of the values, here and in all parts; the lengths :meth:`pyarrow.Table.validate` has seen."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        array.view(pa.binary()).validate(full=True)
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        array.view(pa.large_binary()).validate(full=True)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            _check(array.field(place))
    elif pa.types.is_union(kind):
        _check_union(array)
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parts = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
        _check_offsets(array.offsets.to_numpy(), min(map(len, parts)))
        for part in parts:
            _check(part)


def _check_offsets(offsets: npt.NDArray[Any], length: int) -> None:
    if len(offsets) and (int(offsets[0]) < 0 or int(offsets[-1]) > length or bool((offsets[1:] < offsets[:-1]).any())):
        raise pa.ArrowInvalid("the offsets of a list lead outside of its values")


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


__all__ = ["check_columns", "check_stream"]
