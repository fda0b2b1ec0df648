"""Which pages there are, which key lies where, and when each page is next due: what the meta record knows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter
from panestream.engine.operators.row.timers import NEVER

PAGE_BYTES = 32 * 1024
"""Pages are split when they are larger than this on average. A call to Spark's state store costs a millisecond, however small the
page; so does taking so many bytes apart."""
FEWEST_KEYS = 16
"""But not below so many keys a page, on average: every page has some bytes that do not get fewer."""


class Entry(NamedTuple):
    """One page at rest.

    Attributes:
        modulus: of how many pages it was one when it was written: it has the keys whose hash, modulo this, is its number.
        event, processing: at or before its next timers; NEVER where it has none.
        size: in bytes.
        keys: how many there are.
    """

    modulus: int
    event: int
    processing: int
    size: int
    keys: int


class PageIndex:
    """The pages of one key group. Their number is doubled as the state grows, and a page follows when it is next written.

    So pages of several generations lie side by side: page ``p`` of ``n`` becomes pages ``p`` and ``p + n`` of ``2 n``. No two
    pages of whatever generation have a key in common.

    Attributes:
        modulus: how many pages keys are divided into now.
        entries: the pages at rest, by number.

    >>> index = PageIndex(4)
    >>> index.claim(13)
    (1, 4)
    >>> index.modulus = 8
    >>> index.claim(13), index.claim(6)
    ((1, 4), (6, 8))
    """

    __slots__ = ("_claimed", "_moduli", "_smallest", "entries", "modulus")

    def __init__(self, smallest: int) -> None:
        """No pages yet; there will be ``smallest`` while the state is small."""
        self._smallest = smallest
        self.modulus = smallest
        self.entries: dict[int, Entry] = {}
        self._claimed: dict[int, int] = {}
        self._moduli = [smallest]

    def claim(self, hashed: int) -> tuple[int, int]:
        """Number and modulus of the page of a key: the one that has it, or would if it were there; else a new one."""
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
        """The page was written."""
        self.entries[number] = entry
        self._claimed[number] = entry.modulus

    def remove(self, number: int) -> bool:
        """The page is empty; says whether it was at rest."""
        self._claimed.pop(number, None)
        return self.entries.pop(number, None) is not None

    def due(self, event: int, processing: int) -> Iterator[int]:
        """The pages that have a timer up to and including these times."""
        return (number for number, entry in self.entries.items() if entry.event <= event or entry.processing <= processing)

    def grow(self) -> None:
        """Decides how many pages there are from the next write on."""
        size = sum(entry.size for entry in self.entries.values())
        keys = sum(entry.keys for entry in self.entries.values())
        if not keys:
            self.modulus = self._smallest
        while size > self.modulus * PAGE_BYTES and keys >= 2 * self.modulus * FEWEST_KEYS:
            self.modulus *= 2
        self._moduli = sorted({*self._claimed.values(), self.modulus})

    def write(self, writer: ColumnWriter) -> None:
        """Adds the columns of the index to the meta record."""
        pages = sorted(self.entries.items())
        writer.integers("page", [number for number, _ in pages])
        writer.integers("modulus", [entry.modulus for _, entry in pages])
        writer.integers("event", [None if entry.event == NEVER else entry.event for _, entry in pages])
        writer.integers("processing", [None if entry.processing == NEVER else entry.processing for _, entry in pages])
        writer.integers("size", [entry.size for _, entry in pages])
        writer.integers("keys", [entry.keys for _, entry in pages])

    def read(self, reader: ColumnReader, modulus: int) -> None:
        """Takes the index from the meta record."""
        self.modulus = modulus
        columns = map(reader.integers, ("page", "modulus", "event", "processing", "size", "keys"))
        for number, of, event, processing, size, keys in zip(*columns, strict=True):
            due = (NEVER if event is None else event, NEVER if processing is None else processing)
            self.put(number, Entry(of, *due, size, keys))
        self._moduli = sorted({*self._claimed.values(), self.modulus})
