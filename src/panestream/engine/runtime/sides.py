"""Two streams in one: the columns of each, and the pairs that a join makes from the rows of a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import ListPairs, as_type, list_of, one_chunk

LEFT, RIGHT = SIDES = ("left", "right")
"""The names of the sides. A row of the two streams has a column for each: its own row in one, null in the other."""
SIDE_COLUMN = "__side"
"""The column with the side of a row and its source partition."""
INNER, LEFT_OUTER, RIGHT_OUTER, FULL_OUTER, LEFT_SEMI, LEFT_ANTI = HOWS = (
    "inner",
    "left",
    "right",
    "full",
    "left_semi",
    "left_anti",
)
"""The kinds of joins."""
OF_PAIRS = (INNER, LEFT_OUTER, RIGHT_OUTER, FULL_OUTER)
"""The kinds whose results have the columns of both sides. Interval joins support only these."""
_CALLED = {
    **{name: name for name in HOWS},
    "leftouter": LEFT_OUTER,
    "rightouter": RIGHT_OUTER,
    "outer": FULL_OUTER,
    "fullouter": FULL_OUTER,
    "semi": LEFT_SEMI,
    "leftsemi": LEFT_SEMI,
    "anti": LEFT_ANTI,
    "leftanti": LEFT_ANTI,
}
"""The names of joins in Spark and Flink, in lower case and without underscores."""
_AT_ONCE = 1 << 16
"""The number of pairs made at a time."""


def join_called(how: str) -> str | None:
    """Return a kind of join by any name that Spark or Flink has for it, or None.

    >>> join_called("LEFT OUTER"), join_called("left_semi"), join_called("cross")
    ('left', 'left_semi', None)
    """
    word = how.lower()
    return _CALLED.get(word.replace("_", "").replace(" ", ""), _CALLED.get(word))


@dataclass(frozen=True, slots=True)
class Sides:
    """Two streams with the columns ``left`` and ``right``, processed as one.

    ``keys`` has the names of the key columns on each side, and ``invalid`` the output for each side's rows without usable event
    time, or None to fail the query.
    """

    left: pa.Schema
    right: pa.Schema
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    invalid: tuple[str | None, str | None] = (None, None)

    @staticmethod
    def late_tags(tag: str) -> tuple[str, str]:
        return f"{tag}_{LEFT}", f"{tag}_{RIGHT}"

    def apart(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the rows of each side, with its own columns."""
        left, right = (_own(rows.column(name), schema) for name, schema in zip(SIDES, (self.left, self.right), strict=True))
        return left, right


def _own(column: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """Return the rows of one side (those not null), their fields as columns."""
    rows = one_chunk(column)
    # Not Table.from_struct_array: before pyarrow 23 it takes all rows if a slice starts at the first row.
    fields = rows.filter(rows.is_valid()).flatten()
    return pa.Table.from_arrays(
        [as_type(field, wanted.type) for field, wanted in zip(fields, schema, strict=True)], schema=schema
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs that a join makes for a key and window. As in SQL, a row with a null in its key remains unmatched.

    The operator emits the rows of each side as a list, and outputs contain the pairs.

    Attributes:
        how: the kind of join, one of :data:`HOWS`.
        left, right: the columns of each side in the results, in the order of the fields of its list.
        keys: the number of key columns at the start of the operator's output.
    """

    how: str
    left: pa.Schema
    right: pa.Schema
    keys: int

    @property
    def _of_left_alone(self) -> bool:
        return self.how in (LEFT_SEMI, LEFT_ANTI)

    @property
    def _columns(self) -> list[pa.Field]:
        return [*self.left, *(() if self._of_left_alone else self.right)]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._columns)

    def schema_of(self, emitted: pa.Schema) -> pa.Schema:
        """Return the columns of the results, given the operator's columns with the two lists."""
        return pa.schema([*self._around(emitted)[0], *self._columns, *self._around(emitted)[1]])

    def kept(self, emitted: pa.Table) -> pa.Table:
        """Return the keys and windows that have results."""
        emitted = self._unknown_apart(emitted)
        left, right = (pc.greater(pc.list_value_length(emitted.column(name)), 0) for name in SIDES)
        wanted = {
            INNER: lambda: pc.and_(left, right),
            LEFT_OUTER: lambda: left,
            RIGHT_OUTER: lambda: right,
            FULL_OUTER: lambda: pc.or_(left, right),
            LEFT_SEMI: lambda: pc.and_(left, right),
            LEFT_ANTI: lambda: pc.and_not(left, right),
        }[self.how]()
        return emitted.filter(wanted)

    def _unknown_apart(self, emitted: pa.Table) -> pa.Table:
        """Split keys with a null into two rows with one side each, so that they do not match."""
        keys = emitted.columns[: self.keys]
        if not any(column.null_count for column in keys):
            return emitted
        unknown = reduce(pc.or_, [column.is_null() for column in keys])
        apart = emitted.filter(unknown)
        sides = []
        for side in reversed(SIDES):
            at = emitted.schema.get_field_index(side)
            kind = emitted.schema.field(at)
            nothing = list_of(pa.nulls(0, kind.type.value_type), np.zeros(apart.num_rows, np.int64)).cast(kind.type)
            sides.append(apart.set_column(at, kind, nothing))
        return pa.concat_tables([emitted.filter(pc.invert(unknown)), *sides])

    def count(self, kept: pa.Table) -> int:
        return int(self._pairs(kept).counts.sum())

    def opened(self, kept: pa.Table) -> Iterator[pa.Table]:
        """Yield the results of :meth:`kept` rows in portions, because all of them might exceed the memory."""
        before, after = self._around(kept.schema)
        around = kept.select([*before.names, *after.names]).combine_chunks()
        schema = self.schema_of(kept.schema)
        for rows, left, right in self._pairs(kept).portions(_AT_ONCE):
            own = around.take(pa.array(rows)).columns
            columns = [*own[: len(before)], *_fields(left, self.left)]
            columns += [] if self._of_left_alone else _fields(right, self.right)
            yield pa.Table.from_arrays([*columns, *own[len(before) :]], schema=schema)

    def _pairs(self, kept: pa.Table) -> ListPairs:
        if self._of_left_alone:
            return ListPairs.of_left(kept.column(LEFT))
        return ListPairs.of(kept.column(LEFT), kept.column(RIGHT))

    @staticmethod
    def _around(emitted: pa.Schema) -> tuple[pa.Schema, pa.Schema]:
        """Return the columns before the two lists, and those after."""
        at = emitted.get_field_index(LEFT)
        fields = list(emitted)
        return pa.schema(fields[:at]), pa.schema(fields[at + 2 :])


def _fields(rows: pa.Array, schema: pa.Schema) -> list[pa.Array]:
    """Return the fields of structs as columns, null for null structs."""
    return [as_type(field, wanted.type) for field, wanted in zip(rows.flatten(), schema, strict=False)]
