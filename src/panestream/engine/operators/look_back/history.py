"""The history of look-backs: the parts of emitted and waiting rows that later rows still need.

Rows are stored as partials by key and instant. They are *settled* when time has passed them, because no row can arrive between
them. Settled partials are in blocks by pane of time, and each pane also has one partial per key. If no window of a micro-batch
begins or ends in a pane, only that partial is read::

    time       ----+--------+--------+--------+--------+--------+---->
    panes          |   raw  | merged | merged | merged |   raw  |  recent
    first window       [..........................................]
    last window           [.........................................]

So a micro-batch reads the panes in which its windows begin and end, and one partial per key and pane in between.

Results equal those from single rows bit for bit only if partials merge exactly in any grouping, unlike floating-point sums and
user-defined merges. Without exact merging there are no panes, and the whole look-back is read. It is also read while
micro-batches are not small compared with the look-back, because most panes would contain edges.

The column ``pane`` of the blocks is the instant itself, or the beginning of a merged pane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.ordering import runs
from panestream.engine.operators.columnar import integers_of
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import MAX_MERGED_ROWS, PaneBlocks, pane_range
from panestream.engine.storage.sealed_state import SealedState
from panestream.windowing.assigners.look_back import LookBackWindows
from panestream.windowing.time import MIN_TIMESTAMP

RECENT, SETTLED, MERGED = "history", "settled", "slices"
"""State spaces, whose names are part of the format of state: recent rows (not passed by time, or in an unfinished pane), settled
rows, and merged panes."""
_IN_A_LOOK_BACK = 64
"""Number of panes in a look-back. A micro-batch reads two or three panes of rows, and up to this many partials per key. More
panes mean fewer rows and more partials. For keys with thousands of rows, both are a few hundredths of the rows."""
SHORTEST = 8
"""Shortest look-back with panes, in units of time: a pane has two instants, and some must be between the edges."""
_SMALL = 4
"""Panes settle in micro-batches in which time advances by less than this fraction of the look-back."""
_BLOCK_ROWS = 1 << 12
"""Panes with fewer rows share a block: an extra call costs more than this many rows."""
_MOST_BLOCKS = 4
"""Maximum number of blocks written when a micro-batch settles panes."""
_WORTH = 2
"""A pane gets merged partials if it has at least this many times more rows."""


class Span(NamedTuple):
    """Spans of time in one store."""

    blocks: PaneBlocks
    low: Ints
    end: Ints

    @property
    def rows(self) -> int:
        """The number of rows in the blocks that :meth:`scan` reads."""
        return sum(block.rows for block in self.blocks.in_spans(self.low, self.end))

    def scan(self) -> Iterator[pa.Table]:
        """Yield the rows, block by block."""
        return self.blocks.scan_spans(self.low, self.end)


def pane_length(keyed: Aggregation, longest: int) -> int:
    """Return the length of panes for the longest look-back, or 0 for reading all rows without panes."""
    return max(2, -(-longest // _IN_A_LOOK_BACK)) if keyed.merges_exactly and longest >= SHORTEST else 0


class RowsByTime:
    """The history of a key group. ``keyed`` aggregates by key and instant, and ``longest`` is the longest look-back."""

    def __init__(self, state: SealedState, keyed: Aggregation, longest: int) -> None:
        self._keyed = keyed
        self._longest = longest
        self._length = pane_length(keyed, longest)
        hole = max(longest, 1)
        self._recent, self._settled, self._merged = (
            PaneBlocks(state, space, keyed.partial_schema, keyed.merge, MAX_MERGED_ROWS, hole)
            for space in (RECENT, SETTLED, MERGED)
        )
        self.stores = (self._recent, self._settled, self._merged)
        self._until = -BEYOND_ALL
        self._plain: Ints = np.zeros(0, np.int64)

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Restore the values of :meth:`kept`; the stores already have their indexes."""
        self._length, self._until = saved["slice"], saved["settled"]
        self._plain = np.asarray(saved["plain"], np.int64)

    def kept(self) -> dict[str, Any]:
        """Return values for the meta record: pane length, end of the settled time, panes without merged partials."""
        return {"slice": self._length, "settled": self._until, "plain": self._plain.tolist()}

    # -- reading -------------------------------------------------------------------------------------------------------

    def near(self, times: Ints, look_backs: Sequence[LookBackWindows]) -> list[Span]:
        """Return the history, at least one span, for look-backs from ``times``, which must be later than all emitted rows."""
        least, most = int(times.min()), int(times.max())
        first = least - max(one.size for one in look_backs)
        end = most + max(one.following for one in look_backs) + 1
        recent = _span(self._recent, max(first, self._until), end)
        until = min(end, self._until)
        if first >= until or not (self._settled.index or self._merged.index):
            return [recent]
        if not self._merged.index:
            return [_span(self._settled, first, until), recent]
        raw = np.union1d(self._edges(times, look_backs), self._plain)
        starts, ends = runs(raw - np.arange(len(raw))), np.ones(len(raw), np.bool_)
        ends[:-1] = starts[1:]
        low = np.clip(raw[starts] * self._length, first, until)
        high = np.clip((raw[ends] + 1) * self._length, first, until)
        between, upto = np.append(first, high), np.append(low, until)
        some, merged = low < high, between < upto
        return [
            Span(self._settled, low[some], high[some]),
            Span(self._merged, between[merged], upto[merged]),
            recent,
        ]

    def _edges(self, times: Ints, look_backs: Sequence[LookBackWindows]) -> Ints:
        """Return the panes, ascending, in which rows are or windows begin or end; possibly too many, never too few."""
        length, least, most = self._length, int(times.min()), int(times.max())
        own = np.unique(times // length)
        low, high = np.maximum(own * length, least), np.minimum((own + 1) * length - 1, most)
        found = [own]
        for one in look_backs:
            for shift in (-one.size, one.following):
                found += [(low + shift) // length, (high + shift) // length]
        return np.unique(np.concatenate(found))

    def all_from(self, first: int) -> pa.Table:
        """Return the partials from a time on, one per key and instant."""
        recent = self._recent.read(max(first, self._until), BEYOND_ALL)
        return self._keyed.merge([*self._settled.read(first, BEYOND_ALL), *recent])

    # -- writing -------------------------------------------------------------------------------------------------------

    def add(self, fresh: pa.Table, before: int, passed: int, needed: int) -> None:
        """Add the rows of a micro-batch as partials by key and instant, sorted by time.

        No row at or before ``before`` could arrive when it started, nor at or before ``passed`` at its end. Nothing before
        ``needed`` is read again.
        """
        if self._length and passed != MIN_TIMESTAMP and (passed - before) * _SMALL < self._longest:
            until = min((passed + 1) // self._length * self._length, BEYOND_ALL)
            if until > self._until:
                # Settle before writing, so that each row is written once.
                over = [*self._recent.read(max(self._until, needed), until), pane_range(fresh, needed, until)]
                self._until = until
                self._settle([table for table in over if table.num_rows], needed)
        first = max(needed, self._until)
        self._recent.drop_before(first)
        self._recent.append(pane_range(fresh, first, None))
        self._recent.compact(first)
        self._settled.drop_before(needed)
        self._merged.drop_before(needed)
        self._merged.compact(needed)
        if self._length:
            self._plain = self._plain[self._plain >= needed // self._length]

    def put(self, history: pa.Table) -> None:
        """Add the history of a new key group; it settles with the next micro-batch."""
        self._recent.append(history)

    def _settle(self, tables: Sequence[pa.Table], needed: int) -> None:
        """Write whole panes: their rows, and merged partials if these are far fewer."""
        if not tables:
            return
        rows = self._keyed.merge(tables)
        numbers_ = integers_of(rows, "pane") // self._length
        begins = np.flatnonzero(runs(numbers_))
        at = rows.schema.get_field_index("pane")
        # Sorted by time, so that a key's earlier instants come first.
        merged = self._keyed.merge([rows.set_column(at, rows.schema.field(at), pa.array(numbers_ * self._length))])
        of, fewer = np.unique(integers_of(merged, "pane") // self._length, return_counts=True)
        many = np.diff(np.append(begins, len(numbers_)))
        self._plain = np.union1d(self._plain, of[fewer * _WORTH > many])
        # If a pane begins before ``needed``, some window begins in it, so that it is never read as a whole.
        whole = ~np.isin(integers_of(merged, "pane") // self._length, self._plain) & (integers_of(merged, "pane") >= needed)
        self._merged.append(merged.filter(pa.array(whole)))
        least = max(_BLOCK_ROWS, len(numbers_) // _MOST_BLOCKS)
        cuts = begins[runs(begins // least)].tolist()
        for begin, end in zip(cuts, [*cuts[1:], len(numbers_)], strict=True):
            self._settled.append(rows.slice(begin, end - begin))


def _span(blocks: PaneBlocks, low: int, end: int) -> Span:
    lows, ends = ([low], [end]) if low < end else ([], [])
    return Span(blocks, np.asarray(lows, np.int64), np.asarray(ends, np.int64))
