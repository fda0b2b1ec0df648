"""The history of look-backs: what of rows that are out, or will be, later rows still look back to.

Rows rest as partials by key and instant. Those that time has passed are *settled*: no row comes between them any more. Settled
partials lie in blocks by slice of time, and of each slice there is one partial for each key besides. Of a slice in which no
window of a micro-batch begins or ends, that partial is all there is to read::

    time       ----+--------+--------+--------+--------+--------+---->
    slices         |   raw  | merged | merged | merged |   raw  |  recent
    first window       [..........................................]
    last window           [.........................................]

So a micro-batch reads the slices in which its windows begin and end; for the time between, of a key a partial for each slice.

That gives the bits that rows alone give only where partials may be merged in any grouping: not sums of floating point, nor what
a user's function merges. Of these there are no slices, and the whole look-back is read. It is, too, while micro-batches are not
small beside the look-back: most slices would have edges in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, numbers, plain
from panestream.engine.kernels.ordering import runs
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import PaneBlocks, pane_range
from panestream.engine.storage.sealed_state import SealedState
from panestream.windowing.assigners.look_back import LookBackWindows
from panestream.windowing.time import MIN_TIMESTAMP

RECENT, SETTLED, SLICES = "history", "settled", "slices"
"""The spaces of state: rows that time has not passed or whose slice is not over; those that are settled; merged ones."""
MOST_MERGED = 1 << 18
"""Runs of rows are merged up to so many: merging saves calls, and nothing else."""
_IN_A_LOOK_BACK = 64
"""So many slices make a look-back. A micro-batch reads two or three slices of rows, and for each key up to so many partials: the
more slices, the less of the one and the more of the other. Where a key has thousands of rows, both are some hundredths."""
SHORTEST = 8
"""Units of time in the shortest look-back that has slices: a slice has two instants, and some must lie between the edges."""
_SMALL = 4
"""Slices settle in micro-batches in which time moves by less than this part of the look-back."""
_BLOCK_ROWS = 1 << 12
"""Slices with fewer rows lie in a block together: a call more costs more than so many rows."""
_MOST_BLOCKS = 4
"""What settles with one micro-batch is cut into few blocks, however many slices it has."""
_WORTH = 2
"""A slice has partials of its own where its rows are so many times as many."""


class Span(NamedTuple):
    """Some spans of time in one store."""

    blocks: PaneBlocks
    low: Ints
    end: Ints

    @property
    def rows(self) -> int:
        """How many rows the blocks have that :meth:`scan` reads."""
        return sum(block.rows for block in self.blocks.in_spans(self.low, self.end))

    def scan(self) -> Iterator[pa.Table]:
        """The rows, block after block."""
        return self.blocks.scan_spans(self.low, self.end)


def slice_length(keyed: Aggregation, longest: int) -> int:
    """How long slices are; 0: there are none, all is read.

    Args:
        keyed: the aggregates.
        longest: how far rows look back.
    """
    return max(2, -(-longest // _IN_A_LOOK_BACK)) if keyed.merges_exactly and longest >= SHORTEST else 0


class History:
    """The history of a key group.

    Args:
        state: of the key group.
        keyed: the aggregates by key and instant.
        longest: how far rows look back.
    """

    def __init__(self, state: SealedState, keyed: Aggregation, longest: int) -> None:
        self._keyed = keyed
        self._longest = longest
        self._length = slice_length(keyed, longest)
        hole = max(longest, 1)
        self._recent, self._settled, self._slices = (
            PaneBlocks(state, space, keyed.partial_schema, keyed.merge, MOST_MERGED, hole) for space in (RECENT, SETTLED, SLICES)
        )
        self.stores = (self._recent, self._settled, self._slices)
        self._until = -BEYOND_ALL
        self._plain: Ints = np.zeros(0, np.int64)

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Goes on from what :meth:`kept` gave; the stores have their indexes already."""
        self._length, self._until = saved["slice"], saved["settled"]
        self._plain = np.asarray(saved["plain"], np.int64)

    def kept(self) -> dict[str, Any]:
        """What the meta record keeps: the length of slices; up to where all is settled; the slices that have no partials."""
        return {"slice": self._length, "settled": self._until, "plain": self._plain.tolist()}

    # -- reading -------------------------------------------------------------------------------------------------------

    def near(self, times: Ints, look_backs: Sequence[LookBackWindows]) -> list[Span]:
        """What rows at some times need of it, the look-backs of each; at least one.

        Args:
            times: of the rows. All are later than what was emitted before.
            look_backs: all that the query has.
        """
        least, most = int(times.min()), int(times.max())
        first = least - max(one.size for one in look_backs)
        end = most + max(one.following for one in look_backs) + 1
        recent = _span(self._recent, max(first, self._until), end)
        until = min(end, self._until)
        if first >= until or not (self._settled.index or self._slices.index):
            return [recent]
        if not self._slices.index:
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
            Span(self._slices, between[merged], upto[merged]),
            recent,
        ]

    def _edges(self, times: Ints, look_backs: Sequence[LookBackWindows]) -> Ints:
        """The slices in which rows lie, or their windows begin or end; ascending. Now and then one more, never one less."""
        length, least, most = self._length, int(times.min()), int(times.max())
        own = np.unique(times // length)
        low, high = np.maximum(own * length, least), np.minimum((own + 1) * length - 1, most)
        found = [own]
        for one in look_backs:
            for shift in (-one.size, one.following):
                found += [(low + shift) // length, (high + shift) // length]
        return np.unique(np.concatenate(found))

    def all_from(self, first: int) -> pa.Table:
        """The partials from a time on, one for each key and instant."""
        recent = self._recent.read(max(first, self._until), BEYOND_ALL)
        return self._keyed.merge([*self._settled.read(first, BEYOND_ALL), *recent])

    # -- writing -------------------------------------------------------------------------------------------------------

    def add(self, fresh: pa.Table, before: int, passed: int, needed: int) -> None:
        """Adds what a micro-batch brought.

        Args:
            fresh: partials by key and instant, sorted by time.
            before: up to this time no row could come any more when it began.
            passed: the same when it is over.
            needed: what is older is looked back to by none.
        """
        if self._length and passed != MIN_TIMESTAMP and (passed - before) * _SMALL < self._longest:
            until = min((passed + 1) // self._length * self._length, BEYOND_ALL)
            if until > self._until:
                # Before it is settled, so that it is written once.
                over = [*self._recent.read(max(self._until, needed), until), pane_range(fresh, needed, until)]
                self._until = until
                self._settle([table for table in over if table.num_rows], needed)
        first = max(needed, self._until)
        self._recent.drop_before(first)
        self._recent.append(pane_range(fresh, first, None))
        self._recent.compact(first)
        self._settled.drop_before(needed)
        self._slices.drop_before(needed)
        self._slices.compact(needed)
        if self._length:
            self._plain = self._plain[self._plain >= needed // self._length]

    def put(self, history: pa.Table) -> None:
        """Adds the history of a key group that has none; it is settled with the next micro-batch."""
        self._recent.append(history)

    def _settle(self, tables: Sequence[pa.Table], needed: int) -> None:
        """Writes whole slices: their rows, and partials of them where these are far fewer."""
        if not tables:
            return
        rows = self._keyed.merge(tables)
        numbers_ = _panes(rows) // self._length
        begins = np.flatnonzero(runs(numbers_))
        at = rows.schema.get_field_index("pane")
        # By time, so that of each key earlier instants come before later ones.
        merged = self._keyed.merge([rows.set_column(at, rows.schema.field(at), pa.array(numbers_ * self._length))])
        of, fewer = np.unique(_panes(merged) // self._length, return_counts=True)
        many = np.diff(np.append(begins, len(numbers_)))
        self._plain = np.union1d(self._plain, of[fewer * _WORTH > many])
        # Where a slice begins before what is needed, some window begins in it: never is all of it read.
        whole = ~np.isin(_panes(merged) // self._length, self._plain) & (_panes(merged) >= needed)
        self._slices.append(merged.filter(pa.array(whole)))
        least = max(_BLOCK_ROWS, len(numbers_) // _MOST_BLOCKS)
        cuts = begins[runs(begins // least)].tolist()
        for begin, end in zip(cuts, [*cuts[1:], len(numbers_)], strict=True):
            self._settled.append(rows.slice(begin, end - begin))


def _span(blocks: PaneBlocks, low: int, end: int) -> Span:
    lows, ends = ([low], [end]) if low < end else ([], [])
    return Span(blocks, np.asarray(lows, np.int64), np.asarray(ends, np.int64))


def _panes(table: pa.Table) -> Ints:
    panes: Ints = numbers(plain(table.column("pane")))
    return panes


__all__ = ["MOST_MERGED", "RECENT", "SETTLED", "SHORTEST", "SLICES", "History", "Span", "slice_length"]
