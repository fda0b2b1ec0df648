"""An append-only store of rows by pane, in a key group's state.

Every micro-batch appends a *run* of its rows, sorted by pane, in *blocks* of bounded size. A new row never rewrites a block; a
block is deleted when its last pane is closed. Many small runs are merged into larger ones (eight of a level make one of the
next), so that a long window fed by many batches is read in a few calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.panes import Int64s
from panestream.engine.storage import payload
from panestream.engine.storage.state import State
from panestream.errors import StateDamagedError

Merge = Callable[[Sequence[pa.Table]], pa.Table]
"""A function that merges several tables, in the order of arrival, into one sorted by pane."""
_META = "meta"
_INDEX = ("store", "key", "order", "level", "low", "high", "rows", "size")
_FAN_IN = 8
_BLOCK_ROWS = 1 << 16
"""The largest number of rows in a block of several panes, so that reading a few panes does not load thousands of rows."""
_BLOCK_BYTES = 16 << 20
"""The largest size of any block, because a value is copied several times on its way to the store."""
_MERGED_BYTES = 64 << 20
"""Larger runs are not merged: merging saves calls, and these are few compared with the bytes."""
MAX_MERGED_ROWS = 1 << 18
"""The usual limit of rows above which runs of whole rows are not merged: merging only saves calls."""
_NO_LEVEL = 99
"""The level of runs that are never merged again."""


class Block(NamedTuple):
    """An index entry that describes a block.

    Attributes:
        order: the number of its run, in the order of arrival (a merged run takes the place of its first part).
        level: how often its rows were merged.
        low, high: its first and last pane.
    """

    key: int
    order: int
    level: int
    low: int
    high: int
    rows: int
    size: int


@dataclass(slots=True)
class PaneBlocks:
    """The blocks of one kind of rows. :class:`StoredBlocks` keeps :attr:`index` and :attr:`next_key` in the meta record.

    Attributes:
        space: the space of the blocks in the state.
        schema: the columns of the rows, with ``pane`` among them.
        most_rows: the limit above which runs are not merged (there is also a limit of bytes), or None to merge all.
        hole: the number of panes without rows at which a block ends.
    """

    state: State
    space: str
    schema: pa.Schema
    merge: Merge
    most_rows: int | None = None
    hole: int = 1 << 40
    index: list[Block] = field(default_factory=list)
    next_key: int = 0
    _loaded: dict[int, pa.Table] = field(default_factory=dict)

    def read(self, first_pane: int, end_pane: int) -> list[pa.Table]:
        """Return the rows with ``first_pane <= pane < end_pane``, a table for each block that has any, in arrival order."""
        parts = []
        for block in self.index:
            if block.low < end_pane and block.high >= first_pane:
                part = pane_range(self._load(block), first_pane, end_pane)
                if part.num_rows:
                    parts.append(part)
        return parts

    def read_spans(self, low: Int64s, end: Int64s) -> list[pa.Table]:
        """Read several spans of panes ``[low[i], end[i])``, ascending and disjoint."""
        parts = [_spans_of(self._load(block), low, end) for block in self.in_spans(low, end)]
        return [part for part in parts if part.num_rows]

    def in_spans(self, low: Int64s, end: Int64s) -> list[Block]:
        """Return the blocks that :meth:`read_spans` reads."""
        if not self.index or not len(low):
            return []
        last = np.searchsorted(low, np.asarray([block.high for block in self.index]), "right") - 1
        wanted = (last >= 0) & (end[last] > np.asarray([block.low for block in self.index]))
        return [self.index[place] for place in np.flatnonzero(wanted).tolist()]

    def bytes_of(self, first_pane: int, end_pane: int) -> int:
        """Return the total bytes of the blocks that :meth:`read` would read."""
        return sum(block.size for block in self.index if block.low < end_pane and block.high >= first_pane)

    def scan(self, first_pane: int, end_pane: int) -> Iterator[pa.Table]:
        """Yield the tables of :meth:`read` without keeping blocks in memory."""
        for block in self.index:
            if block.low < end_pane and block.high >= first_pane:
                yield pane_range(self._passing(block), first_pane, end_pane)

    def scan_spans(self, low: Int64s, end: Int64s) -> Iterator[pa.Table]:
        """Yield the tables of :meth:`read_spans` without keeping blocks in memory."""
        for block in self.in_spans(low, end):
            yield _spans_of(self._passing(block), low, end)

    def append(self, table: pa.Table) -> None:
        """Add the rows of a micro-batch (sorted by pane)."""
        if table.num_rows:
            self._write(table, order=self.next_key, level=0)

    def replace(self, table: pa.Table) -> None:
        """Replace all stored rows by others (sorted by pane)."""
        self._remove(self.index)
        self.append(table)

    def drop_before(self, first_live_pane: int) -> None:
        """Remove the blocks whose last pane is closed."""
        self._remove([block for block in self.index if block.high < first_live_pane])

    def compact(self, first_live_pane: int) -> None:
        """Merge the runs of a level that has too many, and drop closed panes from them."""
        level = 0
        while level <= max((block.level for block in self.index if block.level < _NO_LEVEL), default=-1):
            parts = [block for block in self.index if block.level == level]
            if len({block.order for block in parts}) >= _FAN_IN:
                self._merge(parts, first_live_pane, level)
            level += 1

    def _merge(self, parts: list[Block], first_live_pane: int, level: int) -> None:
        rows, size = sum(block.rows for block in parts), sum(block.size for block in parts)
        if self.most_rows is not None and (rows > self.most_rows or size > _MERGED_BYTES):
            left = {block.key for block in parts}
            final = [block._replace(level=_NO_LEVEL) for block in parts]
            self.index = sorted([*(b for b in self.index if b.key not in left), *final], key=_arrival)
            return
        tables = [pane_range(self._load(block), first_live_pane, None) for block in parts]
        merged = self.merge(tables)
        order = min(block.order for block in parts)
        self._remove(parts)
        if merged.num_rows:
            self._write(merged, order, level + 1)

    def _load(self, block: Block) -> pa.Table:
        # Cached, so that a block that fires and is merged in the same micro-batch is read once.
        if block.key not in self._loaded:
            value = self.state.get(self.space, block.key)
            if value is None:
                raise StateDamagedError(f"block {block.key} of the index is missing from the state", None, self.space, block.key)
            self._loaded[block.key] = payload.decode(value, self.schema)[0]
        return self._loaded[block.key]

    def _passing(self, block: Block) -> pa.Table:
        """Return a block without keeping it in memory, unless it was there already."""
        known = block.key in self._loaded
        table = self._load(block)
        if not known:
            del self._loaded[block.key]
        return table

    def _write(self, table: pa.Table, order: int, level: int) -> None:
        panes = table.column("pane").to_numpy()
        written = []
        for start, end in _by_bytes(table, _cuts(panes, self.hole)):
            part = table.slice(start, end - start)
            value = payload.encode(part)
            block = Block(self.next_key, order, level, int(panes[start]), int(panes[end - 1]), end - start, len(value))
            self.state.put(self.space, block.key, value)
            self._loaded[block.key] = part
            self.next_key += 1
            written.append(block)
        self.index = sorted([*self.index, *written], key=_arrival)

    def _remove(self, blocks: Iterable[Block]) -> None:
        gone = {block.key for block in blocks}
        for key in sorted(gone):
            self.state.remove(self.space, key)
            self._loaded.pop(key, None)
        self.index = [block for block in self.index if block.key not in gone]


@dataclass(frozen=True, slots=True)
class StoredBlocks:
    """All blocks of a key group, and the meta record with their index. The stores always have the same order."""

    state: State
    stores: Sequence[PaneBlocks]

    def load(self) -> dict[str, Any] | None:
        """Read the indexes from the meta record and return its header, or None if the key group is new."""
        saved = self.state.get(_META, 0)
        if saved is None:
            return None
        rows, header = payload.decode_numbers(saved)
        for number, *block in rows:
            self.stores[number].index.append(Block(*block))
        for store, key in zip(self.stores, header["next_keys"], strict=True):
            store.next_key = key
        return header

    def save(self, header: Mapping[str, Any]) -> None:
        """Write the meta record, after the blocks."""
        rows = [(number, *block) for number, store in enumerate(self.stores) for block in store.index]
        header = {**header, "next_keys": [store.next_key for store in self.stores]}
        self.state.put(_META, 0, payload.encode_numbers(_INDEX, rows, header))

    def sizes(self) -> list[int]:
        return [block.size for store in self.stores for block in store.index]


def _arrival(block: Block) -> tuple[int, int]:
    return block.order, block.low


def _cuts(panes: Int64s, hole: int) -> list[tuple[int, int]]:
    """Return where to cut sorted rows into blocks: at holes, and between panes if there are too many rows."""
    edges = [0, *(np.flatnonzero(np.diff(panes) > hole) + 1).tolist(), len(panes)]
    cuts = []
    for begin, end in pairwise(edges):
        start = begin
        while end - start > _BLOCK_ROWS:
            # The last whole pane that still fits; a single larger one is not divided.
            pane = panes[start + _BLOCK_ROWS]
            cut = int(np.searchsorted(panes, pane))
            if cut <= start:
                cut = int(np.searchsorted(panes, pane, "right"))
            if cut >= end:
                break
            cuts.append((start, cut))
            start = cut
        cuts.append((start, end))
    return cuts


def _by_bytes(table: pa.Table, cuts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Divide cuts further if rows are so large that a block would have too many bytes."""
    whole = table.nbytes
    for begin, end in cuts:
        size = whole if whole <= _BLOCK_BYTES else table.slice(begin, end - begin).nbytes
        rows = max(1, (end - begin) * _BLOCK_BYTES // max(size, _BLOCK_BYTES))
        for start in range(begin, end, rows):
            yield start, min(start + rows, end)


def _spans_of(table: pa.Table, low: Int64s, end: Int64s) -> pa.Table:
    """Return the rows of a table sorted by pane that are in some spans."""
    panes = table.column("pane").to_numpy()
    span = np.searchsorted(low, panes, "right") - 1
    inside = (span >= 0) & (panes < end[span])
    return table if inside.all() else table.filter(pa.array(inside))


def sorted_by_pane(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables sorted by pane, in the given order within a pane."""
    table = pa.concat_tables(tables)
    panes = table.column("pane").to_numpy()
    return table if bool((panes[1:] >= panes[:-1]).all()) else table.take(pa.array(stable_order(panes))).combine_chunks()


def pane_range(table: pa.Table, first_pane: int | None, end_pane: int | None) -> pa.Table:
    """Return the rows with ``first_pane <= pane < end_pane`` (None for no bound) of a table sorted by pane, without a copy."""
    panes = table.column("pane").to_numpy()
    start = 0 if first_pane is None else int(np.searchsorted(panes, first_pane))
    end = len(panes) if end_pane is None else int(np.searchsorted(panes, end_pane))
    return table.slice(start, max(end - start, 0))
