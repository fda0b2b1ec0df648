"""Elements at rest: those that came in one batch for one page, written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from panestream.engine.elements import RowType, python_values
from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter, join_parts, split_parts
from panestream.errors import InvalidPlanError
from panestream.windowing.evictors import TimestampedValue

stamped: Callable[[tuple[Any, int]], TimestampedValue] = partial(tuple.__new__, TimestampedValue)
"""``TimestampedValue`` of a tuple; calling the class takes three times as long."""


class SegmentCodec:
    """Turns lists of elements into bytes and back.

    Rows of a type with a schema rest by that schema, whatever else by the types of its values.

    Args:
        element_type: the class of the elements, where it is known.
        codec: for elements without a schema.
        timed: whether elements come with their event times, for an evictor.
    """

    def __init__(self, element_type: type | None, codec: Codec, timed: bool) -> None:
        self._element_type = element_type
        self._row_type = RowType.of(element_type)
        self._codec = codec
        self._timed = timed

    def encode(self, elements: list[Any]) -> bytes:
        """The bytes of some elements; one that is there several times, as overlapping windows hold it, is written once."""
        references = b""
        places = list(map(id, elements))
        distinct = dict(zip(places, elements, strict=True))
        if len(distinct) < len(elements):
            numbers = {place: number for number, place in enumerate(distinct)}
            writer = ColumnWriter()
            writer.integers("at", [numbers[place] for place in places])
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
                columns = self._row_type.columns(values)
            except InvalidPlanError:
                pass  # a row that an evictor of the user's own made up
            else:
                writer.of_rows(len(values))
                for at, column in enumerate(columns):
                    writer.array(f"column {at}", column)
                return
        writer.values("value", values)

    def decode(self, data: bytes) -> list[Any]:
        """The elements that :meth:`encode` was given, in order."""
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
