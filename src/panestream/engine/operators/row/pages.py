"""Pages at rest: their windows with accumulators or references to elements, states, timers; and the states of their keys."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter, join_parts, split_parts
from panestream.engine.operators.row.keys import canonical_key
from panestream.engine.operators.row.window_states import EMPTY, ElementList, KeyState, Page, WindowState

Cells = dict[str, Any]


class PageCodec:
    """Turns pages into bytes and back.

    Args:
        codec: for keys, accumulators and states.
        keeps_elements: whether windows hold elements, or one accumulator each.
        event_time: the kind of time by which windows end. Nearly all have one timer: at their last instant, of that kind.
    """

    def __init__(self, codec: Codec, keeps_elements: bool, event_time: bool) -> None:
        self._codec = codec
        self._keeps_elements = keeps_elements
        self._event_time = event_time

    # ---------------------------------------------------------------- writing

    def encode(self, page: Page) -> bytes:
        """The bytes of a page whose elements are all at rest."""
        return join_parts([self._windows(page), self._keys(page)])

    def _windows(self, page: Page) -> bytes:
        slots = list(page.slots())
        writer = ColumnWriter(self._codec)
        writer.values("key", [slot.owner.key for slot in slots])
        writer.integers("start", [slot.start for slot in slots])
        writer.integers("end", [slot.end for slot in slots])
        writer.booleans("filled", [slot.contents is not EMPTY for slot in slots])
        if self._keeps_elements:
            writer.integer_lists("elements", [_flat(slot.contents) for slot in slots])
        else:
            writer.values("contents", [None if slot.contents is EMPTY else slot.contents for slot in slots])
        usual = list(map(self._has_usual_timers, slots))
        writer.booleans("usual timers", usual)
        if not all(usual):
            others = [None if known else slot for slot, known in zip(slots, usual, strict=True)]
            writer.integer_lists("event_timers", [sorted(slot.event_timers.times) if slot else [] for slot in others])
            writer.integer_lists(
                "processing_timers",
                [sorted(slot.processing_timers.times) if slot and slot.processing_timers else [] for slot in others],
            )
        writer.counts("firings", [slot.firings for slot in slots])
        _write_cells(writer, "trigger:", [slot.trigger_cells for slot in slots])
        _write_cells(writer, "window:", [slot.window_cells or {} for slot in slots])
        return writer.finish({"segments": sorted(page.segments.items())})

    def _has_usual_timers(self, slot: WindowState) -> bool:
        times, clock = slot.event_timers.times, slot.processing_timers
        if slot.end is None:
            return not times and (clock is None or not clock.times)
        if not self._event_time:
            return not times and clock is not None and len(clock.times) == 1 and slot.max_timestamp in clock.times
        return len(times) == 1 and slot.max_timestamp in times and (clock is None or not clock.times)

    def _keys(self, page: Page) -> bytes:
        owners = [owner for owner in page.keys.values() if owner.cells]
        if not owners:
            return b""
        writer = ColumnWriter(self._codec)
        writer.values("key", [owner.key for owner in owners])
        _write_cells(writer, "global:", [owner.cells for owner in owners])
        return writer.finish()

    # ---------------------------------------------------------------- reading

    def decode(self, page: Page, data: bytes, new_slot: Callable[[KeyState, int | None, int | None], WindowState]) -> None:
        """Fills an empty page from its bytes.

        Args:
            page: the page.
            data: what :meth:`encode` made.
            new_slot: makes a window of a key, given its bounds.
        """
        windows, keys = split_parts(data)
        reader = ColumnReader(windows, self._codec)
        page.segments = {int(segment): size for segment, size in reader.header["segments"]}
        known = page.keys
        starts, ends = reader.integers("start"), reader.integers("end")
        found: list[WindowState] = []
        for key, start, end in zip(reader.values("key"), starts, ends, strict=True):
            owner = known.get(key)
            if owner is None:
                one = canonical_key(key)  # a NaN that was read is not the one that is looked for
                owner = known.get(one) or known.setdefault(one, KeyState(one, page))
            slot = new_slot(owner, start, end)
            owner.slots[None if end is None else (start, end)] = slot
            found.append(slot)
        self._read_contents(reader, found)
        self._read_timers(reader, found)
        for slot, firings in zip(found, reader.counts("firings"), strict=True):
            slot.firings = firings
        for slot, cells in zip(found, _read_cells(reader, "trigger:"), strict=False):
            slot.trigger_cells = cells
        for slot, cells in zip(found, _read_cells(reader, "window:"), strict=False):
            slot.window_cells = cells or None
        if keys:
            self._read_keys(page, keys)

    def _read_contents(self, reader: ColumnReader, slots: list[WindowState]) -> None:
        filled = reader.booleans("filled")
        contents: list[Any]
        if self._keeps_elements:
            contents = [
                _list_of(numbers) if there else None
                for numbers, there in zip(reader.integer_lists("elements"), filled, strict=True)
            ]
        else:
            contents = reader.values("contents")
        for slot, value, there in zip(slots, contents, filled, strict=True):
            if there:
                slot.contents = value

    def _read_timers(self, reader: ColumnReader, slots: list[WindowState]) -> None:
        usual = reader.booleans("usual timers")
        event, processing = reader.integer_lists("event_timers"), reader.integer_lists("processing_timers")
        for at, slot in enumerate(slots):
            if not usual[at]:
                slot.event_timers.times.update(event[at])
                if processing[at]:
                    slot.clock_timers().times.update(processing[at])
            elif slot.end is not None:
                timers = slot.event_timers if self._event_time else slot.clock_timers()
                timers.times.add(slot.max_timestamp)

    def _read_keys(self, page: Page, data: bytes) -> None:
        reader = ColumnReader(data, self._codec)
        for found, cells in zip(reader.values("key"), _read_cells(reader, "global:"), strict=True):
            key = canonical_key(found)
            owner = page.keys.get(key) or page.keys.setdefault(key, KeyState(key, page))
            owner.cells = cells


def _write_cells(writer: ColumnWriter, prefix: str, cells: list[Cells]) -> None:
    for name in sorted(set(chain.from_iterable(cells))):
        writer.values(prefix + name, [found.get(name) for found in cells])


def _read_cells(reader: ColumnReader, prefix: str) -> list[Cells]:
    """The cells of each row; nothing at all where no row has any."""
    names = reader.value_names(prefix)
    if not names:
        return []
    own = [name[len(prefix) :] for name in names]
    rows = zip(*map(reader.values, names), strict=True)
    return [{name: value for name, value in zip(own, row, strict=True) if value is not None} for row in rows]


def _flat(contents: Any) -> list[int]:
    if contents is EMPTY:
        return []
    chunks = contents.chunks
    return list(chunks[0]) if len(chunks) == 1 else [number for chunk in chunks for number in chunk]


def _list_of(numbers: list[int]) -> ElementList:
    found = ElementList([])
    found.chunks = [(numbers[at], numbers[at + 1], numbers[at + 2]) for at in range(0, len(numbers), 3)]
    return found
