"""Pages: keyed rows in a key group's state, read and written only if a micro-batch touches them.

A page holds the rows of all keys whose hash is in its range, so the pages of a batch's keys are found for whole columns at once.
A page that grows too large is cut into two or more, and neighbours that shrink are joined, so the number of pages follows the
state. The index has a few numbers per page, among them the time at which its first row is due. It belongs to the operator's meta
record, so learning that nothing is due reads nothing else.
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
from panestream.engine.storage.blocks import StoredBlocks
from panestream.engine.storage.state import State
from panestream.errors import StateDamagedError
from panestream.windowing.time import MAX_TIMESTAMP

_SPACE, _META = "pages", "meta"
MOST_ROWS = 8192
"""A page with more rows is cut. A call costs as much as about 10 KiB: larger pages save little and cost more for a few keys."""
MOST_BYTES = 1 << 20
_INDEX = ("low", "key", "due", "rows", "size")


@dataclass(frozen=True, slots=True)
class PageEntry:
    """An index entry that describes a page.

    Attributes:
        low: the smallest hash of the page, which ends at the next page's.
        key: its key in the state, or -1 if it is empty and not stored.
        due: the time at which the first of its rows needs attention.
    """

    low: int
    key: int = -1
    due: int = MAX_TIMESTAMP
    rows: int = 0
    size: int = 0


@dataclass(slots=True)
class KeyedPages:
    """The pages of one key group, ordered by ``low`` in ``index``. Together they cover all hashes."""

    state: State
    schema: pa.Schema
    index: list[PageEntry] = field(default_factory=lambda: [PageEntry(0)])
    next_key: int = 0

    def load(self) -> dict[str, Any] | None:
        """Read the index from the meta record and return its header, or None if the key group is new."""
        saved = self.state.get(_META, 0)
        if saved is None:
            return None
        rows, header = payload.decode_numbers(saved)
        self.index = [PageEntry(*values) for values in rows]
        self.next_key = header["next_page"]
        return header

    def save(self, header: Mapping[str, Any]) -> None:
        """Write the meta record, after the pages."""
        rows = [astuple(page) for page in self.index]
        self.state.put(_META, 0, payload.encode_numbers(_INDEX, rows, {**header, "next_page": self.next_key}))

    def kept(self) -> dict[str, Any]:
        """Return the index for the meta record of another storage (JSON values); see :class:`BlocksAndPages`."""
        return {"index": [astuple(page) for page in self.index], "next_page": self.next_key}

    def resume(self, kept: Mapping[str, Any]) -> None:
        """Take the index from :meth:`kept`."""
        self.index, self.next_key = [PageEntry(*values) for values in kept["index"]], kept["next_page"]

    def sizes(self) -> list[int]:
        return [page.size for page in self.index if page.rows]

    def holding(self, hashes: Ints) -> Mask:
        """Return which pages keys with these hashes belong to."""
        touched = np.zeros(len(self.index), np.bool_)
        touched[self._page_of(hashes)] = True
        return touched

    def due(self, time: int) -> Mask:
        return np.fromiter((page.due <= time for page in self.index), np.bool_, len(self.index))

    def read(self, wanted: Mask) -> pa.Table:
        tables = [self._load(self.index[place]) for place in np.flatnonzero(wanted) if self.index[place].rows]
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def write(self, read: Mask, changed: Ints, table: pa.Table, hashes: Ints, due: Ints) -> None:
        """Write all current rows (``table``) of the pages that were read, and no others, to their pages.

        Only the pages of keys with ``changed`` hashes are written: those with new, changed or deleted rows. ``hashes`` and
        ``due`` have each row's hash of the key and the time at which it needs attention.
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
                # The first part replaces the page; the others are new.
                key = draft.page.key if low == draft.page.low else -1
                index.append(self._put(low, key, table.slice(begin, end - begin), due[begin:end]))
        # An empty page leaves its range to the page before it.
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


@dataclass(frozen=True, slots=True)
class BlocksAndPages:
    """Blocks and pages of one key group, with the meta record of the blocks."""

    blocks: StoredBlocks
    pages: KeyedPages

    def load(self) -> dict[str, Any] | None:
        header = self.blocks.load()
        if header is not None:
            self.pages.resume(header["pages"])
        return header

    def save(self, header: Mapping[str, Any]) -> None:
        self.blocks.save({**header, "pages": self.pages.kept()})

    def sizes(self) -> list[int]:
        return [*self.blocks.sizes(), *self.pages.sizes()]


@dataclass(slots=True)
class _Draft:
    """A page, unchanged or with the new rows ``begin`` to ``end``; ``absorbed`` has the state keys of pages merged into it."""

    page: PageEntry
    begin: int = 0
    end: int = 0
    dirty: bool = False
    absorbed: tuple[int, ...] = ()


def _joined(drafts: Iterable[_Draft]) -> list[_Draft]:
    """Join neighbours that must be written and are small together."""
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
    """Return the parts of a page to be written, as first hash, first row and end. Keys with the same hash stay together."""
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
