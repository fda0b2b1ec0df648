"""How Python values of users rest in state: as Arrow columns where their types allow, else pickled.

The one place where anything is pickled. Integers, floats, strings, bytes, booleans, dates, decimals, and tuples, dicts and
``NamedTuple`` rows of such become columns, judged by the values of each payload; whatever is left (objects of users' own
classes, sets, lists) becomes one pickle per column and payload. :func:`pickled_columns` tells which.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from panestream.engine import payload
from panestream.errors import StateFormatError

Kind = list[Any]
"""How a column of values is written (JSON): ``["int"]``, ``["tuple", kind, …]``, ``["dict", [name, kind], …]``, ``["pickle"]``"""

_SIMPLE: dict[type, tuple[str, pa.DataType]] = {
    bool: ("bool", pa.bool_()),
    int: ("int", pa.int64()),
    float: ("float", pa.float64()),
    str: ("str", pa.string()),
    bytes: ("bytes", pa.binary()),
}
_INFERRED = (dt.date, dt.datetime, dt.timedelta, decimal.Decimal)
_LENGTH = struct.Struct("<I")
_NAN = math.nan


class ColumnWriter:
    """Collects columns of equal length into one payload."""

    def __init__(self, element_type: type | None = None) -> None:
        self._names: list[str] = []
        self._arrays: list[pa.Array] = []
        self._kinds: dict[str, Kind] = {}
        self._element_type = element_type
        self._rows = 0

    def integers(self, name: str, values: Sequence[int | None]) -> None:
        """A column of int64."""
        self._add(name, pa.array(values, pa.int64()))

    def integer_lists(self, name: str, values: Sequence[Sequence[int]]) -> None:
        """A column of lists of int64; left out where all are empty."""
        if any(values):
            self._add(name, pa.array(values, pa.list_(pa.int64())))

    def booleans(self, name: str, values: Sequence[bool]) -> None:
        """A column of booleans; left out where all are true."""
        if not all(values):
            self._add(name, pa.array(values, pa.bool_()))

    def values(self, name: str, values: Sequence[Any]) -> None:
        """A column of any Python values; None stays None."""
        self._rows = len(values)
        self._kinds[name] = self._encode(name, values)

    def finish(self, header: dict[str, Any] | None = None) -> bytes:
        """The payload; ``header`` is JSON."""
        table = pa.Table.from_arrays(self._arrays, names=self._names)
        return payload.encode(table, {"kinds": self._kinds, "rows": self._rows, **(header or {})})

    def _add(self, name: str, array: pa.Array) -> None:
        self._names.append(name)
        self._rows = len(array)
        self._arrays.append(array)

    def _encode(self, name: str, values: Sequence[Any]) -> Kind:
        types = set(map(type, values))
        has_nulls = type(None) in types
        types.discard(type(None))
        if not types:
            return ["null"]
        if len(types) == 1:
            kind = self._encode_as(types.pop(), name, values, has_nulls)
            if kind is not None:
                return kind
        blob = pickle.dumps(list(values), protocol=pickle.HIGHEST_PROTOCOL)
        self._add(name, pa.array([blob, *[None] * (len(values) - 1)], pa.large_binary()))
        return ["pickle"]

    def _encode_as(self, kind: type, name: str, values: Sequence[Any], has_nulls: bool) -> Kind | None:
        """The values as columns, or None where they are not alike enough."""
        if kind in _SIMPLE:
            word, arrow_type = _SIMPLE[kind]
            try:
                self._add(name, pa.array(values, arrow_type))
            except (OverflowError, UnicodeError, pa.ArrowException):
                return None
            return [word]
        if kind in _INFERRED:
            return self._encode_inferred(name, values)
        if kind is tuple or kind is self._element_type:
            return self._encode_tuples("tuple" if kind is tuple else "row", name, values, has_nulls)
        if kind is dict:
            return self._encode_dicts(name, values, has_nulls)
        return None

    def _encode_inferred(self, name: str, values: Sequence[Any]) -> Kind | None:
        try:
            array = pa.array(values)
            back = array.to_pylist()
        except (OverflowError, ValueError, pa.ArrowException):
            return None
        # Time zones, exponents of decimals and the like must come back as they were; else pickle keeps them.
        if list(map(repr, back)) != list(map(repr, values)):
            return None
        # In a struct, so that the payload keeps the type: it narrows bare timestamps to integers.
        self._add(name, pa.StructArray.from_arrays([array], ["is"]))
        return ["arrow"]

    def _encode_tuples(self, word: str, name: str, values: Sequence[Any], has_nulls: bool) -> Kind | None:
        lengths = {len(value) for value in values if value is not None}
        if len(lengths) != 1 or 0 in lengths:
            return None
        (length,) = lengths
        rows = self._without_nulls(name, values, has_nulls, (None,) * length)
        return [word, *(self._encode(f"{name}.{at}", column) for at, column in enumerate(zip(*rows, strict=True)))]

    def _encode_dicts(self, name: str, values: Sequence[Any], has_nulls: bool) -> Kind | None:
        shapes = {tuple(value) for value in values if value is not None}
        if len(shapes) != 1:
            return None
        (keys,) = shapes
        if not keys or not all(type(key) is str for key in keys):
            return None
        rows = self._without_nulls(name, values, has_nulls, dict.fromkeys(keys))
        return ["dict", *([key, self._encode(f"{name}.{at}", [row[key] for row in rows])] for at, key in enumerate(keys))]

    def _without_nulls(self, name: str, values: Sequence[Any], has_nulls: bool, filler: Any) -> Sequence[Any]:
        if not has_nulls:
            return values
        self._add(f"{name}?", pa.array([value is not None for value in values], pa.bool_()))
        return [filler if value is None else value for value in values]


class ColumnReader:
    """Reads what :class:`ColumnWriter` wrote. A column that was left out reads as its default."""

    def __init__(self, data: bytes, element_type: type | None = None) -> None:
        self._table, self.header = payload.decode(data)
        self._kinds: dict[str, Kind] = self.header.get("kinds", {})
        self._element_type = element_type
        # Not the table's: a column of nothing but None is not written.
        self.rows: int = self.header["rows"]

    def integers(self, name: str) -> list[Any]:
        """A column of int64 (or None)."""
        return self._column(name)

    def integer_lists(self, name: str) -> list[list[int]]:
        """A column of lists of int64."""
        return self._column(name) if name in self._table.column_names else [[]] * self.rows

    def booleans(self, name: str) -> list[bool]:
        """A column of booleans."""
        return self._column(name) if name in self._table.column_names else [True] * self.rows

    def values(self, name: str) -> list[Any]:
        """A column of any Python values."""
        return self._decode(name, self._kinds[name])

    def value_names(self, prefix: str) -> list[str]:
        """The names of the columns of values that begin with ``prefix``, in the order of writing."""
        return [name for name in self._kinds if name.startswith(prefix)]

    def _column(self, name: str) -> list[Any]:
        values: list[Any] = self._table.column(name).to_pylist()
        return values

    def _decode(self, name: str, kind: Kind) -> list[Any]:
        word = kind[0]
        if word == "null":
            return [None] * self.rows
        if word == "pickle":
            # What is unpickled here was pickled by this query, in its own checkpoint.
            unpickled: list[Any] = pickle.loads(self._table.column(name)[0].as_py())  # noqa: S301
            return unpickled
        if word in ("tuple", "row"):
            columns = [self._decode(f"{name}.{at}", child) for at, child in enumerate(kind[1:])]
            return self._with_nulls(name, self._rows(word, columns))
        if word == "dict":
            keys = [key for key, _ in kind[1:]]
            columns = [self._decode(f"{name}.{at}", child) for at, (_, child) in enumerate(kind[1:])]
            return self._with_nulls(name, [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)])
        if word == "arrow":
            return [one["is"] for one in self._column(name)]
        return self._column(name)

    def _rows(self, word: str, columns: list[list[Any]]) -> list[Any]:
        rows: Iterable[Any] = zip(*columns, strict=True)
        if word == "tuple":
            return list(rows)
        if self._element_type is None:
            raise StateFormatError("the state holds rows of a NamedTuple: give the plan the element_type it was written with")
        make = self._element_type._make  # type: ignore[attr-defined]
        return list(map(make, rows))

    def _with_nulls(self, name: str, values: list[Any]) -> list[Any]:
        if f"{name}?" not in self._table.column_names:
            return values
        return [value if present else None for value, present in zip(values, self._column(f"{name}?"), strict=True)]


def pickled_columns(data: bytes) -> list[str]:
    """Which columns of a payload are pickled: for ``explain()``, and for tests that say that none is.

    >>> writer = ColumnWriter()
    >>> writer.values("sums", [(1, 2.5), (3, None)])
    >>> writer.values("sets", [{1}, {2}])
    >>> pickled_columns(writer.finish())
    ['sets']
    """
    found: list[str] = []

    def look(name: str, kind: Kind) -> None:
        if kind[0] == "pickle":
            found.append(name)
        elif kind[0] == "dict":
            for key, child in kind[1:]:
                look(f"{name}.{key}", child)
        else:
            for at, child in enumerate(kind[1:]):
                look(f"{name}.{at}", child)

    _, header = payload.decode(data)
    for name, kind in header.get("kinds", {}).items():
        look(name, kind)
    return found


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Several payloads in one value of the store: each with its length before it."""
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))


def split_parts(data: bytes) -> list[bytes]:
    """What :func:`join_parts` joined."""
    parts, position = [], 0
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        parts.append(data[position : position + length])
        position += length
    return parts


def canonical_key(key: Any) -> Any:
    """The one object that stands for all equal keys: NaN equals NaN here, and 0.0 equals -0.0, as in Spark's grouping."""
    if type(key) is float:
        return _NAN if key != key else key + 0.0  # noqa: PLR0124 - the test for NaN
    if type(key) is tuple:
        return tuple(map(canonical_key, key))
    return key


_HASHED_BY_REPR = (type(None), bool, int, float, str, bytes, dt.date, dt.datetime, dt.time, dt.timedelta, decimal.Decimal)


def stable_hash(key: Any) -> int:
    """A hash that is the same in every process, of a canonical key; Python's own is salted anew in each.

    >>> stable_hash(("user", 7))
    3392436975
    """
    return zlib.crc32(_bytes_of(key))


def _bytes_of(key: Any) -> bytes:
    kind = type(key)
    if kind is str:
        return b"s" + str(key).encode("utf-8", "surrogatepass")
    if kind is tuple:
        return join_parts([_bytes_of(part) for part in key])
    if kind in _HASHED_BY_REPR:
        return repr(key).encode()
    return pickle.dumps(key, protocol=4)
