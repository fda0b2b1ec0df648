"""Views of a key group's state for all operators: open windows, stored elements, user states and timers.

Views are computed from state tables only. Their columns are the same for every operator, so one table can hold the views of all
key groups, and of several queries. Keys, results and elements are structs, so that users' names cannot collide.
docs/decisions/0141-views-of-state.md has every column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, as_type, plain
from panestream.engine.plan import FIRINGS, WindowPlan
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

INSTANT = pa.timestamp("us", tz="UTC")
EVENT_TIME, PROCESSING_TIME = "event", "processing"
OF_TRIGGER, OF_WINDOW, OF_KEY = "trigger", "window", "key"
_BOUNDS = pa.struct([("start", INSTANT), ("end", INSTANT)])


@dataclass(slots=True)
class WindowRows:
    """An operator's columns for the view of windows, in engine units. None if unknown or not applicable.

    Attributes:
        starts, ends: the bounds, or None for global windows.
        kinds: the number of the kind of windows, if there are several.
        results: the current aggregates.
        contents: the state of a user function, as text.
        rows: the number of rows taken in, or stored.
        last_firing: an index into ``FIRINGS``, or -1.
        due: when it fires next without new rows, or MAX_TIMESTAMP for never.
        closes: when it is deleted, or MAX_TIMESTAMP if time does not delete it.
        size: its approximate bytes.
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
    """The columns of a plan's views; ``rows`` are the columns of an element, or None if the operator stores none."""

    plan: WindowPlan
    group: int
    rows: pa.Schema | None = None

    @property
    def _key(self) -> list[pa.Field]:
        return [pa.field("key", pa.struct(list(self.plan.key_schema)))] if len(self.plan.key_schema) else []

    @property
    def windows(self) -> pa.Schema:
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
        own = [("of", pa.string()), ("name", pa.string()), ("window_start", INSTANT), ("window_end", INSTANT)]
        return pa.schema([*self._key, *map(_field, own), pa.field("value", pa.string()), pa.field("key_group", pa.int32())])

    @property
    def timers(self) -> pa.Schema:
        own = [("window_start", INSTANT), ("window_end", INSTANT), ("kind", pa.string()), ("time", INSTANT)]
        return pa.schema([*self._key, *map(_field, own), pa.field("key_group", pa.int32())])

    # -- tables --------------------------------------------------------------------------------------------------------

    def with_windows(self, shown: pa.Table, **others: pa.Table) -> StateViews:
        """Return the views of an operator with windows; without a view of timers, timers follow from ``due``."""
        found = {"elements": self.elements.empty_table(), "user_state": self.user_state.empty_table(), **others}
        timers = found.get("timers")
        return StateViews(shown, found["elements"], found["user_state"], self._due(shown) if timers is None else timers)

    def windows_of(self, given: WindowRows) -> pa.Table:
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
        """Return the view of elements; ``rows`` are the columns of elements that are input rows."""
        schema = self.elements
        given = {"key": self.key(keys), "key_group": self._group(count), **columns}
        if rows is not None and "element" in schema.names:
            given["element"] = _struct(rows, schema.field("element").type)
        return _table(schema, given, count)

    def user_state_of(self, keys: Sequence[pa.Array], count: int, columns: dict[str, Any]) -> pa.Table:
        return _table(self.user_state, {"key": self.key(keys), "key_group": self._group(count), **columns}, count)

    def timers_of(self, keys: Sequence[pa.Array], count: int, columns: dict[str, Any]) -> pa.Table:
        return _table(self.timers, {"key": self.key(keys), "key_group": self._group(count), **columns}, count)

    def key(self, columns: Sequence[pa.Array]) -> pa.Array | None:
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
    """Return times in engine units as timestamps, with null for the end of time."""
    if times is None or isinstance(times, pa.Array):
        return times if times is None else times.cast(INSTANT)
    return pa.array(np.ascontiguousarray(times), mask=np.asarray(times) == MAX_TIMESTAMP).cast(INSTANT)


def reached_by(saved: StateTables, *, by_processing_time: bool) -> int:
    """Return the progress of window time."""
    return int(saved.header["clock"] - 1 if by_processing_time else saved.header["watermarks"]["watermark"])


def share(size: int, parts: Ints) -> Ints:
    """Divide ``size`` bytes among windows by their numbers of state rows."""
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
    """Return a table of the known columns, with nulls for the others."""
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        array = pa.nulls(count, field.type) if column is None else plain(column)
        arrays.append(as_type(array, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


WATERMARKS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("watermark", INSTANT),
        pa.field("closed", INSTANT),
        pa.field("processing_time", INSTANT),
        pa.field("source_partition", pa.string()),
        pa.field("partition_watermark", INSTANT),
        pa.field("max_event_time", INSTANT),
        pa.field("idle", pa.bool_()),
        pa.field("silent", pa.duration("us")),
    ]
)
"""One row for each known source partition, or one row without a partition if none is known."""


def watermarks_of(plan: WindowPlan, header: Mapping[str, Any], group: int) -> pa.Table:
    """Return the watermarks of key group number ``group``, given the header of its state tables."""
    tracker = WatermarkTracker.from_json(plan.watermark, header["watermarks"])
    alike = {
        "key_group": group,
        "watermark": known(tracker.watermark),
        "closed": known(header["closed"]),
        "processing_time": header["clock"] or None,
    }
    rows = [
        {
            **alike,
            "source_partition": name,
            "partition_watermark": watermark,
            "max_event_time": newest,
            "idle": idle,
            "silent": tracker.silent_for(name),
        }
        for name, newest, watermark, idle in tracker.by_partition(most=None)
    ]
    return pa.Table.from_pylist(rows or [alike], schema=WATERMARKS)


def known(time: int) -> int | None:
    """Return a time in engine units, or None before the first time and after the end of time."""
    return None if time in (MIN_TIMESTAMP, MAX_TIMESTAMP) else time
