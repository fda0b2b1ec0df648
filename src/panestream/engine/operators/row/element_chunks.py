"""Stored elements: those that arrived in one micro-batch for one page, written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from panestream.engine.kernels.python_values import RowType, python_values
from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter, join_parts, split_parts
from panestream.errors import InvalidPlanError
from panestream.windowing.evictors import TimestampedValue

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
