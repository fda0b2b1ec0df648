"""The row operator's state as tables, and state from tables. Neither direction calls a user function."""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import as_type, key_fields
from panestream.engine.kernels.python_values import RowType, arrow_column, python_values
from panestream.engine.operators.row.codec import Codec, canonical_key, key_values
from panestream.engine.operators.row.contents import EMPTY, ElementList, KeyState, RowPlan, WindowState
from panestream.engine.operators.row.pages import ColumnReader, ColumnWriter, stamped
from panestream.engine.operators.row.state import RowStore
from panestream.engine.storage.state_tables import StateTables, integers, named_columns
from panestream.errors import InvalidPlanError, StateFormatError

WINDOWS, ELEMENTS, KEYS = "windows", "elements", "keys"
_TIMES = pa.list_(pa.int64())


@dataclass(slots=True)
class _Windows:
    keys: list[Any] = field(default_factory=list)
    states: list[WindowState] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    references: list[list[int] | None] = field(default_factory=list)
    element_keys: list[Any] = field(default_factory=list)
    element_numbers: list[int] = field(default_factory=list)
    elements: list[Any] = field(default_factory=list)


class RowTables:
    """Reads and writes the tables of a plan's key groups. ``row_type`` is the type of the elements."""

    def __init__(self, plan: RowPlan, keys: pa.Schema, row_type: RowType) -> None:
        self._plan = plan
        self._keys = keys
        self._row_type = row_type
        self._timed = plan.window.evictor is not None
        self._texts = ValueTexts(Codec(plan.element_type, plan.window.pickled_state), plan.element_type)

    # -- out -----------------------------------------------------------------------------------------------------------

    def tables(self, store: RowStore) -> dict[str, pa.Table]:
        """Return the tables of a key group, reading all its pages. The store must not call user code when it reads a window."""
        rows, owners = _Windows(), []
        for owner in store.all_keys():
            self._add(rows, owner, store)
            if owner.global_values:
                owners.append(owner)
        keys = self._key_columns([owner.key for owner in owners])
        values = self.texts_of([owner.global_values for owner in owners], "global:")
        tables = {WINDOWS: self._windows(rows), KEYS: _table([*keys, ("values", values)])}
        if self._plan.keeps_elements:
            tables[ELEMENTS] = self._elements(rows)
        return tables

    def _add(self, rows: _Windows, owner: KeyState, store: RowStore) -> None:
        """Add the windows of a key, and their elements; an element in several windows is added once."""
        number_of: dict[int, int] = {}
        held: list[Any] = []
        for place, state in enumerate(owner.window_states.values()):
            references = None
            if self._plan.keeps_elements and state.contents is not EMPTY:
                references = []
                for element in store.elements(owner.page, state.contents):
                    number = number_of.setdefault(id(element), len(held))
                    if number == len(held):
                        held.append(element)
                    references.append(number)
            rows.keys.append(owner.key)
            rows.states.append(state)
            rows.places.append(place)
            rows.references.append(references)
        rows.element_keys += [owner.key] * len(held)
        rows.element_numbers += range(len(held))
        rows.elements += held

    def _windows(self, rows: _Windows) -> pa.Table:
        states = rows.states
        filled = [state.contents is not EMPTY for state in states]
        columns = [
            *self._key_columns(rows.keys),
            ("start", pa.array([state.start for state in states], pa.int64())),
            ("end", pa.array([state.end for state in states], pa.int64())),
            ("place", pa.array(rows.places, pa.int64())),
            ("filled", pa.array(filled, pa.bool_())),
        ]
        if self._plan.keeps_elements:
            columns.append(("elements", pa.array(rows.references, _TIMES)))
        else:
            columns.append(("contents", self.texts_of([state.contents for state in states], "contents", filled)))
        columns += [
            ("event_timers", pa.array([sorted(state.event_timers.times) for state in states], _TIMES)),
            (
                "processing_timers",
                pa.array([sorted(state.processing_timers.times if state.processing_timers else ()) for state in states], _TIMES),
            ),
            ("firings", pa.array([state.firings for state in states], pa.int64())),
            ("trigger", self.texts_of([state.trigger_values for state in states], "trigger:")),
            ("window", self.texts_of([state.window_values or {} for state in states], "window:")),
        ]
        return _table(columns)

    def _elements(self, rows: _Windows) -> pa.Table:
        values: Sequence[Any] = rows.elements
        columns = [*self._key_columns(rows.element_keys), ("element", pa.array(rows.element_numbers, pa.int64()))]
        if self._timed:
            columns.append(("time", pa.array([time for _, time in values], pa.int64())))
            values = [value for value, _ in values]
        # A user's evictor may have made elements that are not rows, or do not fit the columns.
        whole = [type(value) is self._row_type.element for value in values]
        width = len(self._row_type.schema)
        nothing = (None,) * width
        try:
            arrays = self._row_type.columns([value if row else nothing for value, row in zip(values, whole, strict=True)])
        except InvalidPlanError:
            whole = [False] * len(values)
            arrays = self._row_type.columns([nothing] * len(values))
        columns += [(f"column {place}", array) for place, array in enumerate(arrays)]
        columns.append(("value", self.texts_of(values, "value", [not row for row in whole])))
        return _table(columns)

    def _key_columns(self, keys: Sequence[Any]) -> list[tuple[str, pa.Array]]:
        parts: Iterable[Sequence[Any]] = (
            [keys] if len(self._keys) == 1 else zip(*keys, strict=True) if keys else [()] * len(self._keys)
        )
        return [
            (named.name, arrow_column(part, typed))
            for named, typed, part in zip(key_fields(self._keys), self._keys, parts, strict=False)
        ]

    def texts_of(self, values: Sequence[Any], name: str, there: Sequence[bool] | None = None) -> pa.Array:
        """Return values as texts, null if absent (by default, if empty); ``name`` is used in errors."""
        wanted = [bool(value) for value in values] if there is None else there
        texts = iter(self._texts.write([value for value, known in zip(values, wanted, strict=True) if known], name))
        return pa.array([next(texts) if known else None for known in wanted], pa.string())

    # -- in ------------------------------------------------------------------------------------------------------------

    def fill(
        self,
        saved: StateTables,
        store: RowStore,
        set_cleanup: Callable[[WindowState], None],
        taken_over: Callable[[Any], Any] | None = None,
    ) -> None:
        """Fill a new store, which the caller commits. ``taken_over`` converts accumulators if the aggregates have changed."""
        elements = self._read_elements(saved) if self._plan.keeps_elements else {}
        windows = saved.table(WINDOWS)
        windows = windows.take(pa.array(np.argsort(integers(windows, "place"), kind="stable")))
        names = ["start", "end", "filled", "event_timers", "processing_timers", "firings"]
        plain = (column.to_pylist() for column in named_columns(windows, names))
        contents = self._read_elements_of(windows) if self._plan.keeps_elements else self._read(windows, "contents")
        states = (self._read(windows, "trigger"), self._read(windows, "window"))
        for key, start, end, filled, event, processing, firings, held, trigger, own in zip(
            self._read_keys(windows), *plain, contents, *states, strict=True
        ):
            owner = store.get_or_create(key)
            state = store.new_window_state(owner, start, end)
            owner.window_states[state.bounds] = state
            if filled and taken_over is not None:
                state.contents = taken_over(held)
            elif filled:
                state.contents = (
                    ElementList([elements[owner.key, number] for number in held]) if self._plan.keeps_elements else held
                )
            state.event_timers.times.update(event)
            if processing:
                state.get_or_create_processing_timers().times.update(processing)
            state.firings, state.trigger_values, state.window_values = firings, trigger or {}, own
            set_cleanup(state)
            if state.processing_timers is not None:
                store.processing_queue.load(state.processing_timers)
        keys = saved.table(KEYS)
        for key, values in zip(self._read_keys(keys), self._read(keys, "values"), strict=True):
            store.get_or_create(key).global_values = values

    # -- looking -------------------------------------------------------------------------------------------------------

    def keys_of(self, table: pa.Table) -> list[Any]:
        """Return the key of each row in the operator's form."""
        return list(map(canonical_key, self._read_keys(table)))

    def values_of(self, texts: pa.Array) -> list[Any]:
        """Return the values of texts; None for null."""
        values = iter(self._texts.read(texts.drop_null().to_pylist()))
        return [next(values) if there else None for there in texts.is_valid().to_pylist()]

    @staticmethod
    def parts_of(text: str | None) -> list[tuple[str, str]]:
        """Return name and text of each state of a trigger or function."""
        return [] if text is None else state_texts(text)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read_elements(self, saved: StateTables) -> dict[tuple[Any, int], Any]:
        table = saved.table(ELEMENTS)
        names = [f"column {place}" for place in range(len(self._row_type.schema))]
        typed = [
            as_type(column, declared.type)
            for column, declared in zip(named_columns(table, names), self._row_type.schema, strict=True)
        ]
        rows = self._row_type.from_columns(list(map(python_values, typed)), table.num_rows)
        (texts,) = named_columns(table, ["value"])
        odd = iter(self._texts.read(texts.drop_null().to_pylist()))
        values = [next(odd) if is_odd else row for row, is_odd in zip(rows, texts.is_valid().to_pylist(), strict=True)]
        if self._timed:
            values = list(map(stamped, zip(values, integers(table, "time").tolist(), strict=True)))
        return dict(zip(zip(self.keys_of(table), integers(table, "element").tolist(), strict=True), values, strict=True))

    @staticmethod
    def _read_elements_of(windows: pa.Table) -> list[list[int] | None]:
        (column,) = named_columns(windows, ["elements"])
        found: list[list[int] | None] = column.to_pylist()
        return found

    def _read(self, table: pa.Table, name: str) -> list[Any]:
        return self.values_of(named_columns(table, [name])[0])

    def _read_keys(self, table: pa.Table) -> list[Any]:
        names = [named.name for named in key_fields(self._keys)]
        columns = [
            key_values(as_type(column, typed.type)) for column, typed in zip(named_columns(table, names), self._keys, strict=True)
        ]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _table(columns: Sequence[tuple[str, pa.Array]]) -> pa.Table:
    return pa.Table.from_arrays([array for _, array in columns], names=[name for name, _ in columns])


_SETS: dict[type, str] = {set: "$set", frozenset: "$frozenset"}
_MAPS: dict[type, str] = {dict: "$map", Counter: "$counter"}
_LARGEST = 1 << 256
"""Larger integers are not written as JSON numbers: people do not read them, and Python is slow to write them or refuses to."""


class ValueTexts:
    """Writes and reads values; ``codec`` handles those without JSON form."""

    def __init__(self, codec: Codec, element_type: type | None = None) -> None:
        self._codec = codec
        self._element_type = element_type
        self._readers: dict[str, Callable[[Any], Any]] = {
            "$tuple": lambda items: tuple(map(self._value, items)),
            "$set": lambda items: set(map(self._value, items)),
            "$frozenset": lambda items: frozenset(map(self._value, items)),
            "$map": lambda pairs: dict(self._pairs(pairs)),
            "$counter": lambda pairs: Counter(dict(self._pairs(pairs))),
            "$row": self._row,
            "$columns": self._from_columns,
        }

    def write(self, values: Sequence[Any], name: str) -> list[str]:
        """Return a text per value, or raise InvalidPlanError if state cannot hold one; ``name`` is its column, for errors."""
        return [_text(self._json(value, name)) for value in values]

    def read(self, texts: Iterable[str]) -> list[Any]:
        """Return the values that were given to :meth:`write`.

        Raises StateFormatError for texts of another format, and InvalidPlanError for pickles that are not allowed.
        """
        return [self._value(json.loads(text)) for text in texts]

    # -- writing -------------------------------------------------------------------------------------------------------

    def _json(self, value: Any, name: str) -> Any:
        kind = type(value)
        if _has_json(value):
            return value
        if kind in (list, tuple, self._element_type):
            items = [self._json(item, name) for item in value]
            return items if kind is list else {"$tuple" if kind is tuple else "$row": items}
        if kind in _SETS:
            return {_SETS[kind]: sorted((self._json(item, name) for item in value), key=repr)}
        if kind in _MAPS:
            if kind is dict and all(type(key) is str and not key.startswith("$") and _has_json(key) for key in value):
                return {key: self._json(item, name) for key, item in value.items()}
            return {_MAPS[kind]: [[self._json(key, name), self._json(item, name)] for key, item in value.items()]}
        writer = ColumnWriter(self._codec)
        writer.values(name, [value])
        return {"$columns": b64encode(writer.finish({"name": name})).decode()}

    # -- reading -------------------------------------------------------------------------------------------------------

    def _value(self, found: Any) -> Any:
        if isinstance(found, list):
            return list(map(self._value, found))
        if not isinstance(found, dict):
            return found
        tag = next(iter(found), "")
        if not tag.startswith("$"):
            return {key: self._value(item) for key, item in found.items()}
        reader = self._readers.get(tag)
        if reader is None:
            raise StateFormatError(f"the saved state holds a value under the tag {tag!r}, which this version does not know")
        return reader(found[tag])

    def _pairs(self, pairs: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
        return ((self._value(key), self._value(item)) for key, item in pairs)

    def _row(self, items: Iterable[Any]) -> Any:
        if self._element_type is None:
            raise StateFormatError("the saved state holds rows of the input: it must be read with the columns that they have")
        make: Callable[[Iterable[Any]], Any] = self._element_type._make  # type: ignore[attr-defined]
        return make(map(self._value, items))

    def _from_columns(self, text: str) -> Any:
        reader = ColumnReader(b64decode(text), self._codec)
        return reader.values(reader.header["name"])[0]


def state_texts(text: str) -> list[tuple[str, str]]:
    """Return the keys of a JSON dict with string keys, each with the text of its value, without decoding the values.

    >>> state_texts('{"seen": {"$set": ["a"]}, "last": 3}')
    [('seen', '{"$set": ["a"]}'), ('last', '3')]
    """
    found = json.loads(text)
    pairs = found["$map"] if "$map" in found else found.items()
    return [(str(name), _text(value)) for name, value in pairs]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _has_json(value: Any) -> bool:
    """Return whether a scalar survives JSON unchanged; NaN and lone surrogates do not."""
    kind = type(value)
    if kind is str:
        try:
            value.encode()
        except UnicodeError:
            return False
        return True
    return value is None or kind is bool or (kind is int and abs(value) < _LARGEST) or (kind is float and math.isfinite(value))
