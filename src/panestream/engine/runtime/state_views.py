"""What is shown of a key group's state: open windows, kept elements, users' states and timers, alike for all operators.

Views are computed from state tables, and from nothing else. Their columns are the same whatever the operator, so those of all key
groups, and of several queries, can be one table; keys, results and elements are structs, so that no name of the user's is in the
way of another. docs/decisions/0141-views-of-state.md has every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, as_type, plain
from panestream.engine.plan import FIRINGS, WindowPlan
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.windowing.time import MAX_TIMESTAMP

INSTANT = pa.timestamp("us", tz="UTC")
EVENT_TIME, PROCESSING_TIME = "event", "processing"
OF_TRIGGER, OF_WINDOW, OF_KEY = "trigger", "window", "key"
_BOUNDS = pa.struct([("start", INSTANT), ("end", INSTANT)])


@dataclass(slots=True)
class WindowRows:
    """The columns of the view of windows as an operator has them, in engine units; None: unknown, or there are none such.

    Attributes:
        keys: the key columns.
        starts, ends: the bounds; None: global windows.
        kinds: the number of the kind of windows, where there are several.
        results: the aggregates as they stand.
        contents: what a function of the user's keeps, as text.
        rows: how many rows went in, or are kept.
        firings: how often the window has fired.
        last_firing: the last one, by its place in ``FIRINGS``; -1: none.
        due: when it fires next, if no row comes; MAX_TIMESTAMP: never.
        closes: when it goes; MAX_TIMESTAMP: it does not go by time.
        size: about how many bytes it takes.
    """

    keys: Sequence[pa.Array]
    count: int
    starts: pa.Array | None = None
    ends: pa.Array | None = None
    kinds: Ints | None = None
    results: Sequence[pa.Array] | None = None
    contents: pa.Array | None = None
    rows: Ints | None = None
    firings: Ints | None = None
    last_firing: Ints | None = None
    due: Ints | None = None
    closes: Ints | None = None
    size: Ints | None = None


@dataclass(frozen=True, slots=True)
class ViewSchemas:
    """The columns of the views of a plan.

    Attributes:
        plan: the query.
        group: the number of the key group that is shown.
        rows: the columns of an element; None: the operator keeps none.
    """

    plan: WindowPlan
    group: int
    rows: pa.Schema | None = None

    @property
    def _key(self) -> list[pa.Field]:
        return [pa.field("key", pa.struct(list(self.plan.key_schema)))] if len(self.plan.key_schema) else []

    @property
    def windows(self) -> pa.Schema:
        """Of the open windows."""
        return pa.schema(
            [
                *self._key,
                pa.field("window", pa.string()),
                pa.field("window_start", INSTANT),
                pa.field("window_end", INSTANT),
                pa.field("operator", pa.string()),
                pa.field("key_group", pa.int32()),
                pa.field("results", pa.struct(list(self.plan.operator.result_schema))),
                pa.field("contents", pa.string()),
                pa.field("rows", pa.int64()),
                pa.field("firings", pa.int64()),
                pa.field("last_firing", pa.string()),
                pa.field("due", INSTANT),
                pa.field("closes", INSTANT),
                pa.field("bytes", pa.int64()),
            ]
        )

    @property
    def elements(self) -> pa.Schema:
        """Of the kept elements."""
        return pa.schema(
            [
                *self._key,
                pa.field("windows", pa.list_(_BOUNDS)),
                pa.field("place", pa.int64()),
                pa.field("time", INSTANT),
                *([pa.field("element", pa.struct(list(self.rows)))] if self.rows is not None and len(self.rows) else []),
                pa.field("value", pa.string()),
                pa.field("key_group", pa.int32()),
            ]
        )

    @property
    def user_state(self) -> pa.Schema:
        """Of users' states."""
        own = [("of", pa.string()), ("name", pa.string()), ("window_start", INSTANT), ("window_end", INSTANT)]
        return pa.schema([*self._key, *map(_field, own), pa.field("value", pa.string()), pa.field("key_group", pa.int32())])

    @property
    def timers(self) -> pa.Schema:
        """Of timers."""
        own = [("window_start", INSTANT), ("window_end", INSTANT), ("kind", pa.string()), ("time", INSTANT)]
        return pa.schema([*self._key, *map(_field, own), pa.field("key_group", pa.int32())])

    # -- tables --------------------------------------------------------------------------------------------------------

    def with_windows(self, shown: pa.Table, **others: pa.Table) -> StateViews:
        """The views of an operator that has windows, and maybe others; where there are no timers they follow from ``due``."""
        found = {"elements": self.elements.empty_table(), "user_state": self.user_state.empty_table(), **others}
        timers = found.get("timers")
        return StateViews(shown, found["elements"], found["user_state"], self._due(shown) if timers is None else timers)

    def windows_of(self, given: WindowRows) -> pa.Table:
        """The view of open windows."""
        schema, count = self.windows, given.count
        labels = None if given.kinds is None or not self.plan.labels else pa.array(self.plan.labels).take(pa.array(given.kinds))
        columns: dict[str, Any] = {
            "key": self.key(given.keys),
            "window": labels,
            "window_start": given.starts,
            "window_end": given.ends,
            "operator": pa.array([self.plan.operator.name]).take(pa.array(np.zeros(count, np.int64))),
            "key_group": self._group(count),
            "results": None if given.results is None else _struct(given.results, schema.field("results").type),
            "contents": given.contents,
            "rows": _numbers(given.rows),
            "firings": _numbers(given.firings),
            "last_firing": None if given.last_firing is None else _words(FIRINGS, given.last_firing),
            "due": instants(given.due),
            "closes": instants(given.closes),
            "bytes": _numbers(given.size),
        }
        return _table(schema, columns, count)

    def elements_of(
        self, keys: Sequence[pa.Array], count: int, columns: dict[str, Any], rows: Sequence[pa.Array] | None
    ) -> pa.Table:
        """The view of elements: ``rows`` are the columns of those that are rows of the input."""
        schema = self.elements
        given = {"key": self.key(keys), "key_group": self._group(count), **columns}
        if rows is not None and "element" in schema.names:
            given["element"] = _struct(rows, schema.field("element").type)
        return _table(schema, given, count)

    def user_state_of(self, keys: Sequence[pa.Array], count: int, columns: dict[str, Any]) -> pa.Table:
        """The view of users' states."""
        return _table(self.user_state, {"key": self.key(keys), "key_group": self._group(count), **columns}, count)

    def timers_of(self, keys: Sequence[pa.Array], count: int, columns: dict[str, Any]) -> pa.Table:
        """The view of timers."""
        return _table(self.timers, {"key": self.key(keys), "key_group": self._group(count), **columns}, count)

    def key(self, columns: Sequence[pa.Array]) -> pa.Array | None:
        """Key columns as one struct."""
        return _struct(columns, pa.struct(list(self.plan.key_schema))) if len(self.plan.key_schema) else None

    def _due(self, shown: pa.Table) -> pa.Table:
        waiting = shown.filter(shown.column("due").is_valid())
        kind = PROCESSING_TIME if self.plan.operator.capabilities.uses_processing_time else EVENT_TIME
        columns = {
            **({"key": waiting.column("key")} if self._key else {}),
            "window_start": waiting.column("window_start"),
            "window_end": waiting.column("window_end"),
            "kind": pa.array([kind]).take(pa.array(np.zeros(waiting.num_rows, np.int64))),
            "time": waiting.column("due"),
            "key_group": self._group(waiting.num_rows),
        }
        return _table(self.timers, columns, waiting.num_rows)

    def _group(self, count: int) -> pa.Array:
        return pa.array(np.full(count, self.group, np.int32))


def instants(times: Ints | pa.Array | None) -> pa.Array | None:
    """Times in engine units as timestamps; the end of time is none."""
    if times is None or isinstance(times, pa.Array):
        return times if times is None else times.cast(INSTANT)
    return pa.array(np.ascontiguousarray(times), mask=np.asarray(times) == MAX_TIMESTAMP).cast(INSTANT)


def reached_by(saved: StateTables, *, by_processing_time: bool) -> int:
    """How far the time of the windows had come."""
    return int(saved.header["clock"] - 1 if by_processing_time else saved.header["watermarks"]["watermark"])


def share(size: int, parts: Ints) -> Ints:
    """What each of some windows takes of ``size`` bytes, by the number of rows of state that it is made of."""
    whole = int(parts.sum())
    return parts * (size // whole) if whole else parts


def _field(of: tuple[str, pa.DataType]) -> pa.Field:
    return pa.field(*of)


def _numbers(values: Ints | None) -> pa.Array | None:
    return None if values is None else pa.array(np.ascontiguousarray(values, np.int64))


def _words(words: tuple[str, ...], places: Ints) -> pa.Array:
    none: Mask = places < 0
    return pa.array(words).take(pa.array(places.astype(np.int64), mask=none))


def _struct(columns: Sequence[Any], type_: pa.StructType) -> pa.Array:
    arrays = [plain(column) for column in columns]
    typed = [as_type(array, part.type) for array, part in zip(arrays, type_, strict=True)]
    return pa.StructArray.from_arrays(typed, fields=[part.with_nullable(True) for part in type_])


def _table(schema: pa.Schema, columns: dict[str, Any], count: int) -> pa.Table:
    """A table of the columns that are known; the others are null."""
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        array = pa.nulls(count, field.type) if column is None else plain(column)
        arrays.append(as_type(array, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


__all__ = [
    "EVENT_TIME",
    "OF_KEY",
    "OF_TRIGGER",
    "OF_WINDOW",
    "PROCESSING_TIME",
    "ViewSchemas",
    "WindowRows",
    "instants",
    "reached_by",
    "share",
]
