"""Partials of a key group's open panes at several resolutions, so that long windows read only a few rows per key.

Rows ahead of the watermark are *arrivals*: they may come in any order and in many micro-batches. A pane is *settled* when the
watermark has passed its end: its partials are merged once and stored at resolution 0. Four settled neighbours at one resolution
(the *nodes* ``4*i .. 4*i+3``) are merged into one node of the next. A window then combines its first and last few panes and ever
larger nodes between them, at most eight of each size, whatever its length. Every row is merged a fixed number of times. Nothing
is subtracted, so this works for every aggregate and without rounding errors.

A row behind the watermark, if some window still accepts it, is appended to every existing node of its pane and merged when read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.panes import Int64s
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import PaneBlocks, pane_range
from panestream.engine.storage.state import State

FAN_OUT = 4
_LONG = 24
"""Windows with fewer panes are read pane by pane."""
_SETTLED_ROWS = 1 << 14
"""Maximum number of rows in a merged run of settled panes. The runs hardly overlap, so merging only saves calls."""


def resolutions(longest: int) -> int:
    """Return how many resolutions pay off for windows of at most this many panes.

    >>> [resolutions(panes) for panes in (1, 12, 60, 3600)]
    [1, 1, 3, 6]
    """
    count = 1
    while longest >= _LONG and 2 * FAN_OUT**count <= longest:
        count += 1
    return count


@dataclass(slots=True)
class Rollups:
    """The panes of one key group. ``arrivals`` has the partials of panes that are not settled.

    Attributes:
        levels: settled partials by node. The node's number ``pane`` is the pane divided by ``FAN_OUT ** level``.
        settled: the first pane that is not settled.
        built: for each level, the first node that is not built, which for level 0 is :attr:`settled`.
    """

    aggregation: Aggregation
    arrivals: PaneBlocks
    levels: list[PaneBlocks]
    settled: int = -BEYOND_ALL
    built: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, state: State, aggregation: Aggregation, longest: int, levels: int) -> Rollups:
        """Return empty panes over a state, for a longest window of ``longest`` panes and ``levels`` resolutions."""
        schema, merge = aggregation.partial_schema, aggregation.merge
        arrivals = PaneBlocks(state, "panes", schema, merge, hole=longest)
        kept = [
            PaneBlocks(state, f"settled {level}", schema, merge, _SETTLED_ROWS, max(longest // FAN_OUT**level, 1))
            for level in range(levels)
        ]
        return cls(aggregation, arrivals, kept, built=[-BEYOND_ALL] * levels)

    def stores(self) -> list[PaneBlocks]:
        """Return all blocks, always in the same order."""
        return [self.arrivals, *self.levels]

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, cuts: Int64s) -> list[pa.Table]:
        """Return the partials of the panes from the first to the last of ``cuts``, in arrival order.

        The ``pane`` of a row is one of its merged panes, and no row contains panes from both sides of a cut.
        """
        low, end = np.minimum(cuts[:-1], self.settled), np.minimum(cuts[1:], self.settled)
        some = low < end
        parts = []
        for level, (lows, ends) in enumerate(self._nodes(low[some], end[some])):
            scale = FAN_OUT**level
            for table in self.levels[level].read_spans(lows, ends):
                panes = table.column("pane").to_numpy()
                parts.append(_with_panes(table, panes * scale) if level else table)
        if int(cuts[-1]) > self.settled:
            parts += self.arrivals.read(max(int(cuts[0]), self.settled), int(cuts[-1]))
        return parts

    def _nodes(self, low: Int64s, end: Int64s) -> Iterator[tuple[Int64s, Int64s]]:
        """Cut spans of settled panes into the largest nodes available; yield the spans of nodes of each level."""
        for level in range(len(self.levels)):
            if level + 1 == len(self.levels):
                yield _spans([low], [end])
                return
            inner_low = -(-low // FAN_OUT)
            inner_end = np.minimum(end // FAN_OUT, self.built[level + 1])
            up = inner_low < inner_end
            rest_low, rest_end = low[~up], end[~up]
            below, above = inner_low[up] * FAN_OUT, inner_end[up] * FAN_OUT
            yield _spans([rest_low, low[up], above], [rest_end, below, end[up]])
            low, end = inner_low[up], inner_end[up]

    def spans(self) -> tuple[Int64s, Int64s]:
        """Return the first and last panes of all blocks, ascending; the spans may overlap.

        Within a span, no hole is as long as the longest window.
        """
        blocks = [*self.levels[0].index, *self.arrivals.index]
        found = np.asarray(sorted((block.low, block.high) for block in blocks), np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    # -- writing -------------------------------------------------------------------------------------------------------

    def roll_up(self, fresh: pa.Table, until: int, first_live: int) -> None:
        """Add the rows of a micro-batch (sorted by pane), settle panes before ``until`` and drop those before ``first_live``."""
        self._patch(pane_range(fresh, first_live, self.settled))
        first, until = max(self.settled, first_live), max(self.settled, until)
        if first < until:
            parts = [*self.arrivals.read(first, until), pane_range(fresh, first, until)]
            parts = [part for part in parts if part.num_rows]
            if parts:
                self.levels[0].append(parts[0] if len(parts) == 1 else self.aggregation.merge(parts))
        self.settled = self.built[0] = until
        self.arrivals.drop_before(until)
        self.arrivals.append(pane_range(fresh, until, None))
        self.arrivals.compact(until)
        self._build(first_live)

    def _patch(self, behind: pa.Table) -> None:
        """Add rows of previously settled panes to all nodes of their panes."""
        if not behind.num_rows:
            return
        self.levels[0].append(behind)
        for level in range(1, len(self.levels)):
            behind = self._coarser(behind)
            self.levels[level].append(pane_range(behind, None, self.built[level]))

    def _build(self, first_live: int) -> None:
        """Build the nodes whose panes are all settled, and drop those that no window needs."""
        for level, store in enumerate(self.levels):
            first_needed = -(-first_live // FAN_OUT**level)
            if level:
                first, until = max(self.built[level], first_needed), self.built[level - 1] // FAN_OUT
                if first < until:
                    parts = self.levels[level - 1].read(first * FAN_OUT, until * FAN_OUT)
                    if parts:
                        store.append(self._coarser(pa.concat_tables(parts)))
                self.built[level] = max(self.built[level], until)
            store.drop_before(first_needed)
            store.compact(first_needed)

    def _coarser(self, table: pa.Table) -> pa.Table:
        return self.aggregation.merge([_with_panes(table, table.column("pane").to_numpy() // FAN_OUT)])


def _with_panes(table: pa.Table, panes: Int64s) -> pa.Table:
    place = table.schema.get_field_index("pane")
    return table.set_column(place, table.schema.field(place), pa.array(panes))


def _spans(low: list[Int64s], end: list[Int64s]) -> tuple[Int64s, Int64s]:
    """Return the spans in order, without empty ones, with neighbours joined."""
    lows, ends = np.concatenate(low), np.concatenate(end)
    some = lows < ends
    order = np.argsort(lows[some], kind="stable")
    lows, ends = lows[some][order], ends[some][order]
    if not len(lows):
        return lows, ends
    begins = np.concatenate(([True], lows[1:] != ends[:-1]))
    closes = np.concatenate((begins[1:], [True]))
    return lows[begins], ends[closes]
