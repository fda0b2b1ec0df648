"""An append-only store of partials over a key group's state: the panes that are still open.

Every micro-batch appends one *block*: the partials of all panes that it touched and left open, sorted by pane. A block is
never rewritten because of a row; it goes when its last pane is closed. When there are many small blocks they are merged into
larger ones (eight of a level make one of the next), so that a long window fed by many batches is read in a few calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from panestream.engine import payload
from panestream.engine.aggregation import Aggregation
from panestream.engine.state import State

_SPACE = "panes"
_FAN_IN = 8


@dataclass(frozen=True, slots=True)
class Block:
    """One entry of the index: where a block is, and what it holds.

    Attributes:
        key: its key in the state.
        order: its place in the order of arrival (a merged block stands where its first part stood).
        level: how often its rows were merged.
        low, high: the first and the last pane in it.
        rows: partials in it.
        size: bytes.
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
    """The blocks of one key group. The caller keeps :attr:`index` in its meta record."""

    state: State
    aggregation: Aggregation
    index: list[Block] = field(default_factory=list)
    next_key: int = 0
    _loaded: dict[int, pa.Table] = field(default_factory=dict)

    def read(self, first_pane: int, end_pane: int) -> list[pa.Table]:
        """The partials of the panes ``first_pane <= pane < end_pane``, a table for each block that has any, in arrival order."""
        parts = []
        for block in self.index:
            if block.low < end_pane and block.high >= first_pane:
                part = pane_range(self._load(block), first_pane, end_pane)
                if part.num_rows:
                    parts.append(part)
        return parts

    def append(self, table: pa.Table) -> None:
        """Adds the partials of a micro-batch (sorted by pane)."""
        if table.num_rows:
            self._write(table, order=self.next_key, level=0)

    def drop_before(self, first_live_pane: int) -> None:
        """Removes the blocks whose last pane is closed."""
        dead = [block for block in self.index if block.high < first_live_pane]
        self._remove(dead)

    def compact(self, first_live_pane: int) -> None:
        """Merges the blocks of a level where there are too many of them; closed panes in them go."""
        level = 0
        while level <= max((block.level for block in self.index), default=-1):
            parts = [block for block in self.index if block.level == level]
            if len(parts) >= _FAN_IN:
                tables = [pane_range(self._load(block), first_live_pane, None) for block in parts]
                merged = self.aggregation.merge(tables)
                order = parts[0].order
                self._remove(parts)
                self._write(merged, order, level + 1)
            level += 1

    def _load(self, block: Block) -> pa.Table:
        # A block that fires and is merged in the same micro-batch is read once.
        if block.key not in self._loaded:
            value = self.state.get(_SPACE, block.key)
            if value is None:
                raise RuntimeError(f"block {block.key} of the index is not in the state: the checkpoint is damaged")
            self._loaded[block.key] = payload.decode(value, self.aggregation.partial_schema)[0]
        return self._loaded[block.key]

    def _write(self, table: pa.Table, order: int, level: int) -> None:
        value = payload.encode(table)
        panes = table.column("pane")
        block = Block(self.next_key, order, level, panes[0].as_py(), panes[-1].as_py(), table.num_rows, len(value))
        self.state.put(_SPACE, block.key, value)
        self._loaded[block.key] = table
        self.next_key += 1
        self.index = sorted([*self.index, block], key=lambda known: known.order)

    def _remove(self, blocks: Iterable[Block]) -> None:
        gone = {block.key for block in blocks}
        for key in sorted(gone):
            self.state.remove(_SPACE, key)
            self._loaded.pop(key, None)
        self.index = [block for block in self.index if block.key not in gone]


def pane_range(table: pa.Table, first_pane: int | None, end_pane: int | None) -> pa.Table:
    """The rows of a table sorted by pane with ``first_pane <= pane < end_pane`` (None: no bound), without a copy."""
    panes = table.column("pane").to_numpy()
    start = 0 if first_pane is None else int(np.searchsorted(panes, first_pane))
    end = len(panes) if end_pane is None else int(np.searchsorted(panes, end_pane))
    return table.slice(start, max(end - start, 0))
