"""Payloads of the row operator: pages of keys with their windows, states and timers; chunks of elements; their columns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, count, pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.python_values import RowType, python_values
from panestream.engine.operators.row.codec import Codec, Kind, NotPlainError, canonical_key, narrowed, pickled_parts
from panestream.engine.operators.row.contents import EMPTY, NEVER, ElementList, KeyPage, KeyState, WindowState
from panestream.engine.storage import payload
from panestream.errors import InvalidPlanError
from panestream.windowing.evictors import TimestampedValue
from panestream.windowing.state import StateValues

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
    "broadcast": "the broadcast state",
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
        f"{_where(name)} holds a {error}{inside}, which cannot be stored as columns between micro-batches: {advice}, of numbers, "
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


class PageCodec:
    """Converts pages to bytes and back. With ``keeps_elements``, windows hold elements rather than one accumulator each.

    ``event_time`` is the kind of time that ends windows: nearly all have one timer of that kind, at their last instant.
    """

    def __init__(self, codec: Codec, keeps_elements: bool, event_time: bool) -> None:
        self._codec = codec
        self._keeps_elements = keeps_elements
        self._event_time = event_time

    # ---------------------------------------------------------------- writing

    def encode(self, page: KeyPage) -> bytes:
        """Return the bytes of a page whose elements are all stored."""
        return join_parts([self._windows(page), self._keys(page)])

    def _windows(self, page: KeyPage) -> bytes:
        window_states = list(page.window_states())
        writer = ColumnWriter(self._codec)
        writer.values("key", [window_state.owner.key for window_state in window_states])
        writer.integers("start", [window_state.start for window_state in window_states])
        writer.integers("end", [window_state.end for window_state in window_states])
        writer.booleans("filled", [window_state.contents is not EMPTY for window_state in window_states])
        if self._keeps_elements:
            writer.integer_lists("elements", [_flat(window_state.contents) for window_state in window_states])
        else:
            writer.values(
                "contents", [None if window_state.contents is EMPTY else window_state.contents for window_state in window_states]
            )
        usual = list(map(self._has_usual_timers, window_states))
        writer.booleans("usual timers", usual)
        if not all(usual):
            others = [None if known else window_state for window_state, known in zip(window_states, usual, strict=True)]
            writer.integer_lists(
                "event_timers", [sorted(window_state.event_timers.times) if window_state else [] for window_state in others]
            )
            writer.integer_lists(
                "processing_timers",
                [
                    sorted(window_state.processing_timers.times) if window_state and window_state.processing_timers else []
                    for window_state in others
                ],
            )
        writer.counts("firings", [window_state.firings for window_state in window_states])
        write_state_values(writer, "trigger:", [window_state.trigger_values for window_state in window_states])
        write_state_values(writer, "window:", [window_state.window_values or {} for window_state in window_states])
        return writer.finish({"segments": sorted(page.chunks.items())})

    def _has_usual_timers(self, window_state: WindowState) -> bool:
        times, processing, last = window_state.event_timers.times, window_state.processing_timers, window_state.max_timestamp
        if window_state.end is None:
            return not times and (processing is None or not processing.times)
        if not self._event_time:
            return not times and processing is not None and len(processing.times) == 1 and last in processing.times
        return len(times) == 1 and last in times and (processing is None or not processing.times)

    def _keys(self, page: KeyPage) -> bytes:
        owners = [owner for owner in page.keys.values() if owner.global_values]
        if not owners:
            return b""
        writer = ColumnWriter(self._codec)
        writer.values("key", [owner.key for owner in owners])
        write_state_values(writer, "global:", [owner.global_values for owner in owners])
        return writer.finish()

    # ---------------------------------------------------------------- reading

    def decode(
        self, page: KeyPage, data: bytes, new_window_state: Callable[[KeyState, int | None, int | None], WindowState]
    ) -> None:
        """Fill an empty page from bytes of :meth:`encode`; ``new_window_state`` makes a window of a key and bounds."""
        windows, keys = split_parts(data)
        reader = ColumnReader(windows, self._codec)
        page.chunks = {int(chunk): size for chunk, size in reader.header["segments"]}
        known = page.keys
        starts, ends = reader.integers("start"), reader.integers("end")
        window_states: list[WindowState] = []
        for key, start, end in zip(reader.values("key"), starts, ends, strict=True):
            owner = known.get(key)
            if owner is None:
                canonical = canonical_key(key)  # a NaN read from state is not the NaN object used for lookups
                owner = known.get(canonical) or known.setdefault(canonical, KeyState(canonical, page))
            window_state = new_window_state(owner, start, end)
            owner.window_states[None if end is None else (start, end)] = window_state
            window_states.append(window_state)
        self._read_contents(reader, window_states)
        self._read_timers(reader, window_states)
        for window_state, firings in zip(window_states, reader.counts("firings"), strict=True):
            window_state.firings = firings
        for window_state, values in zip(window_states, read_state_values(reader, "trigger:"), strict=False):
            window_state.trigger_values = values
        for window_state, values in zip(window_states, read_state_values(reader, "window:"), strict=False):
            window_state.window_values = values or None
        if keys:
            self._read_keys(page, keys)

    def _read_contents(self, reader: ColumnReader, window_states: list[WindowState]) -> None:
        filled = reader.booleans("filled")
        contents: list[Any]
        if self._keeps_elements:
            contents = [
                _list_of(numbers) if there else None
                for numbers, there in zip(reader.integer_lists("elements"), filled, strict=True)
            ]
        else:
            contents = reader.values("contents")
        for window_state, value, there in zip(window_states, contents, filled, strict=True):
            if there:
                window_state.contents = value

    def _read_timers(self, reader: ColumnReader, window_states: list[WindowState]) -> None:
        usual = reader.booleans("usual timers")
        event, processing = reader.integer_lists("event_timers"), reader.integer_lists("processing_timers")
        for at, window_state in enumerate(window_states):
            if not usual[at]:
                window_state.event_timers.times.update(event[at])
                if processing[at]:
                    window_state.get_or_create_processing_timers().times.update(processing[at])
            elif window_state.end is not None:
                timers = window_state.event_timers if self._event_time else window_state.get_or_create_processing_timers()
                timers.times.add(window_state.max_timestamp)

    def _read_keys(self, page: KeyPage, data: bytes) -> None:
        reader = ColumnReader(data, self._codec)
        for written, values in zip(reader.values("key"), read_state_values(reader, "global:"), strict=True):
            key = canonical_key(written)
            owner = page.keys.get(key) or page.keys.setdefault(key, KeyState(key, page))
            owner.global_values = values


def write_state_values(writer: ColumnWriter, prefix: str, rows: list[StateValues]) -> None:
    """Add a column for each state, with the names after ``prefix``."""
    for name in sorted(set(chain.from_iterable(rows))):
        writer.values(prefix + name, [values.get(name) for values in rows])


def read_state_values(reader: ColumnReader, prefix: str) -> list[StateValues]:
    """Return the state values of each row, or an empty list if no row has any."""
    names = reader.value_names(prefix)
    if not names:
        return []
    own = [name[len(prefix) :] for name in names]
    rows = zip(*map(reader.values, names), strict=True)
    return [{name: value for name, value in zip(own, row, strict=True) if value is not None} for row in rows]


def _flat(contents: Any) -> list[int]:
    if contents is EMPTY:
        return []
    parts = contents.parts
    return list(parts[0]) if len(parts) == 1 else [number for part in parts for number in part]


def _list_of(numbers: list[int]) -> ElementList:
    elements = ElementList([])
    elements.parts = [(numbers[at], numbers[at + 1], numbers[at + 2]) for at in range(0, len(numbers), 3)]
    return elements


PAGE_BYTES = 32 * 1024
"""Average page size in bytes above which pages are split. A call to Spark's state store costs a millisecond, however small the
page; decoding this many bytes takes as long."""
FEWEST_KEYS = 16
"""Minimum average number of keys in a page for a split, because each page has a fixed overhead in bytes."""


class Entry(NamedTuple):
    """The index entry of a stored page; ``size`` is in bytes.

    Attributes:
        modulus: the number of pages when it was written. The page holds the keys whose hash modulo this is its number.
        event, processing: a lower bound of its next timers, or NEVER if it does not have one.
    """

    modulus: int
    event: int
    processing: int
    size: int
    keys: int


class PageIndex:
    """The pages of one key group. Their number doubles as the state grows, and a page follows when it is next written.

    Pages of several generations therefore coexist: page ``p`` of ``n`` becomes pages ``p`` and ``p + n`` of ``2 n``. No two pages
    have a key in common, whatever their generations. ``modulus`` is the current number of pages, and ``smallest`` the initial
    one.

    >>> index = PageIndex(4)
    >>> index.claim(13)
    (1, 4)
    >>> index.modulus = 8
    >>> index.claim(13), index.claim(6)
    ((1, 4), (6, 8))
    """

    __slots__ = ("_claimed", "_moduli", "_smallest", "entries", "modulus")

    def __init__(self, smallest: int) -> None:
        self._smallest = smallest
        self.modulus = smallest
        self.entries: dict[int, Entry] = {}
        self._claimed: dict[int, int] = {}
        self._moduli = [smallest]

    def claim(self, hashed: int) -> tuple[int, int]:
        """Return number and modulus of the page responsible for a key's hash, or of a new page."""
        for modulus in self._moduli:
            number = hashed % modulus
            if self._claimed.get(number) == modulus:
                return number, modulus
        number = hashed % self.modulus
        self._claimed[number] = self.modulus
        if self.modulus not in self._moduli:
            self._moduli.append(self.modulus)
        return number, self.modulus

    def put(self, number: int, entry: Entry) -> None:
        self.entries[number] = entry
        self._claimed[number] = entry.modulus

    def remove(self, number: int) -> bool:
        """Remove an empty page and return whether it was stored."""
        self._claimed.pop(number, None)
        return self.entries.pop(number, None) is not None

    def due(self, event: int, processing: int) -> Iterator[int]:
        """Return the pages that have a timer at or before these times."""
        return (number for number, entry in self.entries.items() if entry.event <= event or entry.processing <= processing)

    def grow(self) -> None:
        """Update the number of pages for the following writes."""
        size = sum(entry.size for entry in self.entries.values())
        keys = sum(entry.keys for entry in self.entries.values())
        if not keys:
            self.modulus = self._smallest
        while size > self.modulus * PAGE_BYTES and keys >= 2 * self.modulus * FEWEST_KEYS:
            self.modulus *= 2
        self._moduli = sorted({*self._claimed.values(), self.modulus})

    def write(self, writer: ColumnWriter) -> None:
        pages = sorted(self.entries.items())
        writer.integers("page", [number for number, _ in pages])
        writer.integers("modulus", [entry.modulus for _, entry in pages])
        writer.integers("event", [None if entry.event == NEVER else entry.event for _, entry in pages])
        writer.integers("processing", [None if entry.processing == NEVER else entry.processing for _, entry in pages])
        writer.integers("size", [entry.size for _, entry in pages])
        writer.integers("keys", [entry.keys for _, entry in pages])

    def read(self, reader: ColumnReader, modulus: int) -> None:
        self.modulus = modulus
        columns = map(reader.integers, ("page", "modulus", "event", "processing", "size", "keys"))
        for number, of, event, processing, size, keys in zip(*columns, strict=True):
            due = (NEVER if event is None else event, NEVER if processing is None else processing)
            self.put(number, Entry(of, *due, size, keys))
        self._moduli = sorted({*self._claimed.values(), self.modulus})
