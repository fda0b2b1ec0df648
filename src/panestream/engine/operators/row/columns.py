"""Payloads of the row operator: columns of numbers and users' values, one row per window, key or element."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain, count, pairwise
from typing import Any

import pyarrow as pa

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.python_values import RowType, python_values
from panestream.engine.operators.row.codec import Codec, Kind, NotPlainError, narrowed, pickled_parts
from panestream.engine.storage import payload
from panestream.errors import InvalidPlanError
from panestream.windowing.evictors import TimestampedValue

_MAX_DEPTH = 64
"""Maximum depth of nested types that Arrow writes."""
_LENGTH = struct.Struct("<I")
_PLACES = {
    "key": "a key",
    "value": "an element",
    "contents": "an accumulator",
    "trigger": "the trigger's state",
    "window": "the per-window state",
    "global": "the per-key state",
}
"""Descriptions of columns for error messages, by the first word of the column's name."""


class ColumnWriter:
    """Collects columns of equal length into one payload."""

    def __init__(self, codec: Codec | None = None) -> None:
        self._codec = codec or Codec()
        self._names: list[str] = []
        self._arrays: list[pa.Array] = []
        self._kinds: dict[str, Kind] = {}
        self._rows = 0

    def integers(self, name: str, values: Sequence[int | None]) -> None:
        self.array(name, pa.array(values, pa.int64()))

    def counts(self, name: str, values: Sequence[int]) -> None:
        """Add a column of int64; it is omitted if all are 0."""
        if any(values):
            self.integers(name, values)

    def integer_lists(self, name: str, values: Sequence[Sequence[int]]) -> None:
        """Add a column of lists of int64; it is omitted if all are empty."""
        if any(values):
            ends = pa.array(accumulate(map(len, values), initial=0), pa.int32())
            numbers = pa.array(list(chain.from_iterable(values)), pa.int64())
            self.array(name, pa.ListArray.from_arrays(ends, narrowed(numbers)))

    def booleans(self, name: str, values: Sequence[bool]) -> None:
        """Add a column of booleans; it is omitted if all are true."""
        if not all(values):
            self.array(name, pa.array(values, pa.bool_()))

    def values(self, name: str, values: Sequence[Any]) -> None:
        """Add a column of Python values, or raise InvalidPlanError if one does not fit and pickles are not allowed."""
        try:
            array, self._kinds[name] = self._codec.encode(values, top=True)
        except NotPlainError as error:
            raise InvalidPlanError(_refusal(name, error)) from None
        except RecursionError:
            raise InvalidPlanError(_too_deep(name)) from None
        if _depth(array.type) > _MAX_DEPTH:
            raise InvalidPlanError(_too_deep(name))
        self._rows = len(values)
        if self._kinds[name] != ["null"]:
            self.array(name, array)

    def array(self, name: str, array: pa.Array) -> None:
        self._names.append(name)
        self._rows = len(array)
        self._arrays.append(array)

    def of_rows(self, rows: int) -> None:
        """Set the number of rows, which counts even if no column is added."""
        self._rows = rows

    def finish(self, header: dict[str, Any] | None = None) -> bytes:
        """Return the payload; ``header`` must be JSON-compatible."""
        table = pa.Table.from_arrays(self._arrays, names=self._names)
        return payload.encode(table, {"kinds": self._kinds, "rows": self._rows, **(header or {})})


class ColumnReader:
    """Reads payloads of :class:`ColumnWriter`. A column that was omitted reads as its default."""

    def __init__(self, data: bytes, codec: Codec | None = None) -> None:
        self._codec = codec or Codec()
        self._table, self.header = payload.decode(data)
        self._kinds: dict[str, Kind] = self.header["kinds"]
        # Not the table's row count: a column of only None is not written.
        self.rows: int = self.header["rows"]

    def integers(self, name: str) -> list[Any]:
        values: list[Any] = self.array(name).to_pylist()
        return values

    def counts(self, name: str) -> list[int]:
        return self.integers(name) if name in self._table.column_names else [0] * self.rows

    def integer_lists(self, name: str) -> list[list[int]]:
        if name not in self._table.column_names:
            return [[]] * self.rows
        lists = self.array(name)
        numbers: list[int] = lists.values.to_pylist()
        return [numbers[start:end] for start, end in pairwise(lists.offsets.to_pylist())]

    def booleans(self, name: str) -> list[bool]:
        return self.integers(name) if name in self._table.column_names else [True] * self.rows

    def values(self, name: str) -> list[Any]:
        """Return a column of Python values, or raise InvalidPlanError if they are pickled and pickles are not allowed."""
        kind = self._kinds[name]
        return [None] * self.rows if kind == ["null"] else self._codec.decode(self.array(name), kind)

    def value_names(self, prefix: str) -> list[str]:
        """Return the names of the value columns that start with ``prefix``, in the order of writing."""
        return [name for name in self._kinds if name.startswith(prefix)]

    def array(self, name: str) -> pa.Array:
        return one_chunk(self._table.column(name))


def _depth(type_: pa.DataType) -> int:
    return 1 + max((_depth(type_.field(at).type) for at in range(type_.num_fields)), default=0)


def _too_deep(name: str) -> str:
    return (
        f"{_where(name)} holds a value that is nested more than {_MAX_DEPTH - 1} levels deep, which no column holds: keep a "
        "flatter value there, or a text such as json.dumps(value)"
    )


def _where(name: str) -> str:
    word, _, own = name.partition(":")
    return _PLACES[word] + (f" {own!r}" if own else "")


def _refusal(name: str, error: NotPlainError) -> str:
    word, _, _ = name.partition(":")
    inside = f" (at {error.path})" if error.path else ""
    advice = "return tuples or dicts from create_accumulator and add" if word == "contents" else "keep tuples or dicts there"
    return (
        f"{_where(name)} holds a {error}{inside}, which has no columns to rest in between micro-batches: {advice}, of numbers, "
        "strings, bytes, dates, decimals, lists and sets; or allow pickles with .options(allow_pickled_state=True), if nobody "
        "else can write "
        "to the checkpoint"
    )


def pickled_columns(data: bytes) -> list[str]:
    """Return the names of the pickled columns of a payload, for ``explain()`` and tests.

    >>> writer = ColumnWriter(Codec(pickled=True))
    >>> writer.values("sums", [(1, 2.5), (3, None)])
    >>> writer.values("ranges", [(1, range(3)), None])
    >>> pickled_columns(writer.finish())
    ['ranges.1']
    """
    _, header = payload.decode(data)
    return [part for name, kind in header["kinds"].items() for part in pickled_parts(name, kind)]


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Join several payloads into one value of the store, each preceded by its length."""
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))


def split_parts(data: bytes) -> list[bytes]:
    """Split a value of :func:`join_parts`."""
    parts, position = [], 0
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        parts.append(data[position : position + length])
        position += length
    return parts


stamped: Callable[[tuple[Any, int]], TimestampedValue] = partial(tuple.__new__, TimestampedValue)
"""Makes a ``TimestampedValue`` of a tuple; calling the class takes three times as long."""


class ElementArrivals:
    """The input columns of this micro-batch's elements, so that storing an element does not rebuild its columns.

    Elements are found by identity, so the lists must be referenced until the last lookup.

    >>> row_type = RowType(pa.schema([("price", pa.int64())]))
    >>> arrivals, rows = ElementArrivals(), row_type.from_columns([[7, 8, 9]], 3)
    >>> arrivals.add(rows, [pa.array([7, 8, 9])])
    >>> arrivals.columns([rows[2], rows[0].replace(price=1)], row_type)[0].to_pylist()
    [9, 1]
    """

    def __init__(self) -> None:
        self._row_of: dict[int, int] = {}
        self._elements: list[Sequence[Any]] = []
        self._columns: list[Sequence[pa.Array]] = []

    def add(self, elements: Sequence[Any], columns: Sequence[pa.Array]) -> None:
        first = sum(map(len, self._elements))
        self._row_of.update(zip(map(id, elements), range(first, first + len(elements)), strict=True))
        self._elements.append(elements)
        self._columns.append(columns)

    def columns(self, elements: Sequence[Any], row_type: RowType) -> list[pa.Array]:
        """Return the columns of elements, converting older ones, or raise InvalidPlanError if a value does not fit its column."""
        rows = [self._row_of.get(identity, -1) for identity in map(id, elements)]
        if not self._elements or max(rows, default=-1) < 0:
            return row_type.columns(elements)
        if len(self._columns) > 1:
            self._columns = [[pa.concat_arrays(parts) for parts in zip(*self._columns, strict=True)]]
        columns = self._columns[0]
        others = [element for element, row in zip(elements, rows, strict=True) if row < 0]
        if others:
            columns = [pa.concat_arrays(parts) for parts in zip(columns, row_type.columns(others), strict=True)]
            following = count(sum(map(len, self._elements)))
            rows = [next(following) if row < 0 else row for row in rows]
        chosen = pa.array(rows, pa.int64())
        return [column.take(chosen) for column in columns]


class ElementChunkCodec:
    """Converts lists of elements to bytes and back.

    Rows of a type with a schema are stored by that schema, all others by ``codec`` and the types of their values. ``timed``
    elements come with their event times, for an evictor.
    """

    def __init__(self, element_type: type | None, codec: Codec, timed: bool) -> None:
        self._element_type = element_type
        self._row_type = RowType.of(element_type)
        self._codec = codec
        self._timed = timed
        self.arrivals = ElementArrivals()

    def encode(self, elements: list[Any]) -> bytes:
        """Encode elements; an element that occurs several times, as in overlapping windows, is written once."""
        references = b""
        identities = list(map(id, elements))
        distinct = dict(zip(identities, elements, strict=True))
        if len(distinct) < len(elements):
            numbers = {identity: number for number, identity in enumerate(distinct)}
            writer = ColumnWriter()
            writer.integers("at", [numbers[identity] for identity in identities])
            references, elements = writer.finish(), list(distinct.values())
        writer = ColumnWriter(self._codec)
        values: Sequence[Any] = elements
        if self._timed:
            values, times = zip(*elements, strict=True)
            writer.integers("timestamp", times)
        self._write(writer, values)
        return join_parts([writer.finish(), references])

    def _write(self, writer: ColumnWriter, values: Sequence[Any]) -> None:
        if self._row_type is not None and set(map(type, values)) == {self._element_type}:
            try:
                columns = self.arrivals.columns(values, self._row_type)
            except InvalidPlanError:
                pass  # a row that a user's evictor made
            else:
                writer.of_rows(len(values))
                for at, column in enumerate(columns):
                    writer.array(f"column {at}", column)
                return
        writer.values("value", values)

    def decode(self, data: bytes) -> list[Any]:
        """Return the elements that were given to :meth:`encode`, in order."""
        written, references = split_parts(data)
        reader = ColumnReader(written, self._codec)
        elements: list[Any]
        if self._row_type is not None and not reader.value_names("value"):
            columns = [python_values(reader.array(f"column {at}")) for at in range(len(self._row_type.schema))]
            elements = self._row_type.from_columns(columns, reader.rows)
        else:
            elements = reader.values("value")
        if self._timed:
            elements = list(map(stamped, zip(elements, reader.integers("timestamp"), strict=True)))
        if references:
            elements = [elements[at] for at in ColumnReader(references).integers("at")]
        return elements
