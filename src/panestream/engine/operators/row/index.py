"""The index of pages in the meta record: which pages exist, which keys they hold, and when each is next due."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter
from panestream.engine.operators.row.timers import NEVER

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
