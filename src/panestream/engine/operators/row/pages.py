"""Encoding of pages: windows with accumulators or references to elements, their states and timers, and the states of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from panestream.engine.operators.row.codec import Codec, canonical_key
from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter, join_parts, split_parts
from panestream.engine.operators.row.contents import EMPTY, NEVER, ElementList, KeyPage, KeyState, WindowState
from panestream.windowing.state import StateValues


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
        _write_state_values(writer, "trigger:", [window_state.trigger_values for window_state in window_states])
        _write_state_values(writer, "window:", [window_state.window_values or {} for window_state in window_states])
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
        _write_state_values(writer, "global:", [owner.global_values for owner in owners])
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
        for window_state, values in zip(window_states, _read_state_values(reader, "trigger:"), strict=False):
            window_state.trigger_values = values
        for window_state, values in zip(window_states, _read_state_values(reader, "window:"), strict=False):
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
        for written, values in zip(reader.values("key"), _read_state_values(reader, "global:"), strict=True):
            key = canonical_key(written)
            owner = page.keys.get(key) or page.keys.setdefault(key, KeyState(key, page))
            owner.global_values = values


def _write_state_values(writer: ColumnWriter, prefix: str, rows: list[StateValues]) -> None:
    for name in sorted(set(chain.from_iterable(rows))):
        writer.values(prefix + name, [values.get(name) for values in rows])


def _read_state_values(reader: ColumnReader, prefix: str) -> list[StateValues]:
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
