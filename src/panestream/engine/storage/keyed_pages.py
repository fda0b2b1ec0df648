"""Pages: keyed rows over a key group's state, read and written where a micro-batch touches them.

A page holds the rows of all keys whose hash lies in its range, so the pages of a batch's keys are found for whole columns at
once. A page that has grown too large is cut in two or more, neighbours that have shrunk become one: the number of pages follows
the state. The index (a few numbers per page, among them when the first of its rows is due) belongs in the operator's meta
record, so nothing is read to find out that nothing is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.storage import payload
from panestream.engine.storage.state import State
from panestream.errors import StateDamagedError
from panestream.windowing.time import MAX_TIMESTAMP

_SPACE, _META = "pages", "meta"
MOST_ROWS = 8192
"""A page with more rows is cut. A call costs as much as some 10 KiB: larger pages save little, and cost where few keys come."""
MOST_BYTES = 1 << 20
_INDEX = ("low", "key", "due", "rows", "size")


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One entry of the index.

    Attributes:
        low: the smallest hash that belongs here; the next page's is where it ends.
        key: its key in the state; -1: it has no rows, and is not there.
        due: when the first of its rows asks to be looked at.
        rows, size: how many rows, and bytes.
    """

    low: int
    key: int = -1
    due: int = MAX_TIMESTAMP
    rows: int = 0
    size: int = 0


@dataclass(slots=True)
class KeyedPages:
    """The pages of one key group.

    Attributes:
        state: where they rest.
        schema: of their rows.
        index: all pages by ``low``; together they cover all hashes.
        next_key: the next key in the state that is free.
    """

    state: State
    schema: pa.Schema
    index: list[PageEntry] = field(default_factory=lambda: [PageEntry(0)])
    next_key: int = 0

    def load(self) -> dict[str, Any] | None:
        """Reads the meta record, and the index in it; returns its header. None: the key group is new."""
        saved = self.state.get(_META, 0)
        if saved is None:
            return None
        rows, header = payload.decode_numbers(saved)
        self.index = [PageEntry(*values) for values in rows]
        self.next_key = header["next_page"]
        return header

    def save(self, header: Mapping[str, Any]) -> None:
        """Writes the meta record; the pages are written already."""
        rows = [astuple(page) for page in self.index]
        self.state.put(_META, 0, payload.encode_numbers(_INDEX, rows, {**header, "next_page": self.next_key}))

    def sizes(self) -> list[int]:
        """The bytes of each page that has rows."""
        return [page.size for page in self.index if page.rows]

    def holding(self, hashes: Ints) -> Mask:
        """Which pages keys with these hashes belong to."""
        touched = np.zeros(len(self.index), np.bool_)
        touched[self._page_of(hashes)] = True
        return touched

    def due(self, time: int) -> Mask:
        """Which pages have a row that is due."""
        return np.fromiter((page.due <= time for page in self.index), np.bool_, len(self.index))

    def read(self, wanted: Mask) -> pa.Table:
        """The rows of some pages, by page."""
        tables = [self._load(self.index[place]) for place in np.flatnonzero(wanted) if self.index[place].rows]
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def write(self, read: Mask, changed: Ints, table: pa.Table, hashes: Ints, due: Ints) -> None:
        """Puts rows where they belong.

        Args:
            read: the pages that were read.
            changed: hashes of the keys with rows that are new, changed or gone. Only their pages are written.
            table: all rows of all pages that were read, as they are now, and no others.
            hashes: of their keys.
            due: when each asks to be looked at.
        """
        order = stable_order(hashes)
        hashes, due = hashes[order], due[order]
        table = table.take(pa.array(order)).combine_chunks()
        lows = np.array([page.low for page in self.index], np.int64)
        ends = np.searchsorted(hashes, [*lows[1:], np.iinfo(np.int64).max])
        begins = np.concatenate(([0], ends[:-1]))
        dirty = self.holding(changed)
        drafts: list[_Draft] = []
        for place, page in enumerate(self.index):
            begin, end = int(begins[place]), int(ends[place])
            if not read[place]:
                drafts.append(_Draft(page))
            elif not dirty[place]:
                drafts.append(_Draft(replace(page, due=int(due[begin:end].min(initial=MAX_TIMESTAMP)))))
            else:
                drafts.append(_Draft(page, begin, end, dirty=True))
        self._replace(drafts, table, hashes, due)

    def _replace(self, drafts: Iterable[_Draft], table: pa.Table, hashes: Ints, due: Ints) -> None:
        index: list[PageEntry] = []
        for draft in _joined(drafts):
            if not draft.dirty:
                index.append(draft.page)
                continue
            for key in draft.absorbed:
                self.state.remove(_SPACE, key)
            for low, begin, end in _cut(draft, table, hashes):
                # The first part takes the place of the page; the others are new.
                key = draft.page.key if low == draft.page.low else -1
                index.append(self._put(low, key, table.slice(begin, end - begin), due[begin:end]))
        # What holds nothing leaves its range to the page before it.
        kept = [page for page in index if page.rows] or [PageEntry(0)]
        kept[0] = replace(kept[0], low=0)
        self.index = kept

    def _put(self, low: int, key: int, rows: pa.Table, due: Ints) -> PageEntry:
        if not rows.num_rows:
            if key >= 0:
                self.state.remove(_SPACE, key)
            return PageEntry(low)
        if key < 0:
            key, self.next_key = self.next_key, self.next_key + 1
        value = payload.encode(rows)
        self.state.put(_SPACE, key, value)
        return PageEntry(low, key, int(due.min()), rows.num_rows, len(value))

    def _load(self, page: PageEntry) -> pa.Table:
        value = self.state.get(_SPACE, page.key)
        if value is None:
            raise StateDamagedError(f"page {page.key} of the index is missing from the state", None, _SPACE, page.key)
        return payload.decode(value, self.schema)[0]

    def _page_of(self, hashes: Ints) -> Ints:
        lows = np.array([page.low for page in self.index], np.int64)
        found: Ints = np.searchsorted(lows, hashes, side="right") - 1
        return found


@dataclass(slots=True)
class _Draft:
    """What becomes of a page: it stays as it is, or is written with the rows ``begin`` to ``end``.

    Attributes:
        absorbed: the keys in the state of pages that have become part of it.
    """

    page: PageEntry
    begin: int = 0
    end: int = 0
    dirty: bool = False
    absorbed: tuple[int, ...] = ()


def _joined(drafts: Iterable[_Draft]) -> list[_Draft]:
    """Neighbours that are to be written, and small together, as one."""
    joined: list[_Draft] = []
    for draft in drafts:
        last = joined[-1] if joined else None
        if last is not None and last.dirty and draft.dirty and draft.end - last.begin <= MOST_ROWS // 4:
            keys = (last.page.key, draft.page.key)
            kept = next((key for key in keys if key >= 0), -1)
            gone = tuple(key for key in keys if key >= 0 and key != kept)
            page = replace(last.page, key=kept)
            joined[-1] = _Draft(page, last.begin, draft.end, dirty=True, absorbed=(*last.absorbed, *gone))
        else:
            joined.append(draft)
    return joined


def _cut(draft: _Draft, table: pa.Table, hashes: Ints) -> list[tuple[int, int, int]]:
    """The parts of a page that is to be written: first hash, first row, end. Keys of the same hash stay together."""
    rows = draft.end - draft.begin
    size = table.slice(draft.begin, rows).nbytes if rows else 0
    parts = 1
    if rows > MOST_ROWS or size > MOST_BYTES:
        parts = min(max(-(-2 * rows // MOST_ROWS), -(-2 * size // MOST_BYTES)), rows)
    at = draft.begin + np.arange(1, parts) * rows // parts
    lows = np.unique(hashes[at])
    begins = np.searchsorted(hashes, lows)
    keep = begins > draft.begin
    lows, begins = lows[keep], begins[keep]
    starts = [draft.begin, *begins.tolist()]
    return list(zip([draft.page.low, *lows.tolist()], starts, [*starts[1:], draft.end], strict=True))
