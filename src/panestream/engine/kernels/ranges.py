"""Ranges: the panes of many overlapping windows, combined at a cost independent of the panes per window.

Partials, one row per (key, pane), are arranged along an axis on which every (key, window) is one range ``[start, end)``:

* *sparse*: rows sorted by key and pane on one axis, with a range for each (key, window) that has rows;
* *dense*: a matrix of panes by keys, with a range of panes for each window, the same for all keys.

Values that can be subtracted exactly (integers) use the difference of two running sums. All others are folded over spans of
doubling length: a range combines at most log2(length) of them. Neither way visits a window's panes one by one.

**The invariant.** Windows are numbered so that neither their first panes nor their ends ever move back. So the windows that
contain a row are an interval ``[from_window, until_window)``, and from one row of a key to its next both ends of that interval
stay or grow. A row *opens* its windows that do not contain the row before it (of its key), and *closes* its windows that do not
contain the row after it. Each (key, window) that has rows is opened once and closed once. As the intervals never move back, the
openings, written down row by row, are the (key, window) pairs in order, and so are the closings. So the i-th opening and the i-th
closing are the same pair. With windows 0 = panes 0 to 2, 1 = panes 2 to 4, 2 = panes 4 to 7::

    place in the order of key and pane     0     1     2     3  |  4     5
    key                                    a     a     a     a  |  b     b
    pane                                   1     2     4     7  |  2     3
    its windows [from, until)            [0,1) [0,2) [1,3) [2,3)| [0,2) [1,2)
    opens                                  0     1     2     -  | 0,1    -
    closes                                 -     0     1     2  |  0     1

    pair 0 = (a, window 0) = [0, 2)        o-----c
    pair 1 = (a, window 1) = [1, 3)              o-----c
    pair 2 = (a, window 2) = [2, 4)                    o-----c
    pair 3 = (b, window 0) = [4, 5)                                oc
    pair 4 = (b, window 1) = [4, 6)                                o-----c

A fold over the resulting ranges of places (or over the panes of the matrix)::

    [3, 10) is 7 = 1 + 2 + 4 places:   [3] [4 5] [6 7 8 9]          its spans, shortest first, so that order is kept
    if overlaps do no harm:            [3 4 5 6]                    two spans of the largest power of two that fits
                                             [6 7 8 9]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from panestream.engine.kernels.columns import Ints, Vector
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ordering import stable_order

State = tuple[Vector, ...]
Combine = Callable[[State, State], State]
"""A function that combines the states of earlier and later panes, elementwise; it must be associative."""

SLAB_CELLS = 1 << 17
"""The number of matrix cells per step, which fits a core's cache."""
MOST_PAIRS = 1 << 22
"""The number of (key, window) pairs per step."""


class Ranges(ABC):
    """The (key, window) pairs with input rows (counted in ``rows``), by window and key code, and ways to combine partials."""

    windows: Ints
    codes: Ints
    rows: Ints

    @abstractmethod
    def sums(self, values: Ints) -> Ints:
        """Return the sum per pair of int64 ``values`` (one per partial row), modulo 2**64: right if the true sum fits."""

    @abstractmethod
    def fold(self, columns: State, identity: tuple[Any, ...], combine: Combine, idempotent: bool = False) -> State:
        """Combine states that cannot be subtracted, per pair. The axis of partial rows is the first of each array in ``columns``.

        ``identity`` is the neutral state. If ``idempotent``, a state may be combined with itself, which is cheaper.
        """

    @property
    @abstractmethod
    def longest(self) -> int:
        """The largest number of partial rows in a pair."""


@dataclass(slots=True)
class SparseRanges(Ranges):
    """Ranges over partial rows in the order of key and pane.

    Attributes:
        order: the partial rows in the order of key and pane. All attributes "per row" use this order.
        start, end: the range of each pair in this order.
        first_window: per row, the first window whose first row of the key is this row.
        first_pair: per row, the place of that window's pair among all pairs in the order of key and window.
        until_window: per row, the end of the windows that contain it.
        from_window: per row, the first window that contains it.
        by_window: the pairs in the order of key and window → in the order of window and key.
        key_of_place: per row, its key code.
    """

    windows: Ints
    codes: Ints
    rows: Ints
    order: Ints
    start: Ints
    end: Ints
    from_window: Ints
    until_window: Ints
    first_window: Ints
    first_pair: Ints
    by_window: Ints
    key_of_place: Ints

    @property
    def longest(self) -> int:
        return int((self.end - self.start).max(initial=0))

    def sums(self, values: Ints) -> Ints:
        return sum_ranges(values[self.order], self.start, self.end)

    def fold(self, columns: State, identity: tuple[Any, ...], combine: Combine, idempotent: bool = False) -> State:
        return self.fold_in_order(tuple(c[self.order] for c in columns), identity, combine, idempotent)

    def fold_in_order(self, columns: State, identity: tuple[Any, ...], combine: Combine, idempotent: bool = False) -> State:
        """Fold like :meth:`fold`, but over states that are already in the order of key and pane."""
        return fold_ranges(columns, self.start, self.end, identity, combine, idempotent)


@dataclass(slots=True)
class PlaceRanges(Ranges):
    """Ranges ``[start, end)`` over ordered partial rows of a single key, each range a pair with at least one row."""

    windows: Ints
    codes: Ints
    rows: Ints
    start: Ints
    end: Ints

    @classmethod
    def of(cls, rows: Ints, start: Ints, end: Ints) -> PlaceRanges:
        """Return ranges of partial rows that summarise ``rows`` input rows each."""
        return cls(np.arange(len(start)), np.zeros(len(start), np.int64), sum_ranges(rows, start, end), start, end)

    @property
    def longest(self) -> int:
        return int((self.end - self.start).max(initial=0))

    def sums(self, values: Ints) -> Ints:
        return sum_ranges(values, self.start, self.end)

    def fold(self, columns: State, identity: tuple[Any, ...], combine: Combine, idempotent: bool = False) -> State:
        return fold_ranges(columns, self.start, self.end, identity, combine, idempotent)


@dataclass(slots=True)
class DenseRanges(Ranges):
    """Ranges over the rows of a matrix of panes by keys.

    Attributes:
        shape: panes, keys.
        cells: the cell of each partial row, or None if row i is cell i.
        start, end: the first pane (row of the matrix) of each window, and the pane after its last.
        present: the cells of the matrix of windows by keys that have rows, or None for all.
    """

    windows: Ints
    codes: Ints
    rows: Ints
    shape: tuple[int, int]
    cells: Ints | None
    start: Ints
    end: Ints
    present: Ints | None

    @property
    def longest(self) -> int:
        return int((self.end - self.start).max(initial=0))

    def sums(self, values: Ints) -> Ints:
        return self._present_only(self.all_sums(values))

    def fold(self, columns: State, identity: tuple[Any, ...], combine: Combine, idempotent: bool = False) -> State:
        matrices = tuple(self._matrix(c, e) for c, e in zip(columns, identity, strict=True))
        results = tuple(np.empty((len(self.start), self.shape[1]), c.dtype) for c in columns)
        for slab in self._slabs():
            part = tuple(np.ascontiguousarray(m[:, slab]) for m in matrices)
            for result, folded in zip(
                results, fold_ranges(part, self.start, self.end, identity, combine, idempotent), strict=True
            ):
                result[:, slab] = folded
        return tuple(self._present_only(r) for r in results)

    def all_sums(self, values: Ints) -> Ints:
        """Return the sums of all windows and keys, with or without rows: shape (windows, keys)."""
        matrix = self._matrix(values, 0)
        sums = np.empty((len(self.start), self.shape[1]), np.int64)
        for slab in self._slabs():
            sums[:, slab] = sum_ranges(matrix[:, slab], self.start, self.end)
        return sums

    def _matrix(self, values: Vector, empty: float) -> Vector:
        if self.cells is None:
            return values.reshape(self.shape)
        flat = np.full(self.shape[0] * self.shape[1], empty, values.dtype)
        flat[self.cells] = values
        return flat.reshape(self.shape)

    def _slabs(self) -> list[slice]:
        width = max(1, SLAB_CELLS // max(self.shape[0], 1))
        return [slice(left, left + width) for left in range(0, self.shape[1], width)]

    def _present_only(self, matrix: Vector) -> Vector:
        flat = matrix.reshape(-1)
        return flat if self.present is None else flat[self.present]


def windows_of(panes: Ints, first_pane: Ints, end_pane: Ints) -> tuple[Ints, Ints]:
    """Return the first window that contains each pane and the one after the last. No window does if the first is not smaller."""
    if len(panes) == 0:
        return panes, panes
    least, most = int(panes.min()), int(panes.max())
    if most - least > max(len(panes), 1 << 12):
        return np.searchsorted(end_pane, panes, "right"), np.searchsorted(first_pane, panes, "right")
    places = panes - least  # each pane is looked up once, not each row
    return _up_to(end_pane, least, most)[places], _up_to(first_pane, least, most)[places]


def _up_to(bounds: Ints, least: int, most: int) -> Ints:
    """Return for each number from ``least`` to ``most`` how many bounds are not larger, by counting instead of searching."""
    counts = np.bincount(np.clip(bounds, least, most + 1) - least, minlength=most - least + 2)
    return np.cumsum(counts[:-1])


def sparse_ranges(groups: Groups, rows: Ints, first_pane: Ints, end_pane: Ints) -> Iterator[SparseRanges]:
    """Yield the pairs of partials whose row i is group i, some windows at a time so that memory stays bounded.

    The starts and ends of ranges follow from the invariant in the module's docstring, without a search.
    """
    order = stable_order(groups.codes)
    codes = groups.codes[order]
    from_window, until_window = (found[order] for found in windows_of(groups.panes, first_pane, end_pane))
    first_window = _opened(codes, from_window, until_window)
    count = len(first_pane)
    opens = first_window < until_window
    steps = np.bincount(first_window[opens], minlength=count + 1) - np.bincount(until_window[opens], minlength=count + 1)
    pairs = np.cumsum(np.cumsum(steps))  # up to and including each window
    limit = max(MOST_PAIRS, 4 * len(rows))
    edges = [0, *np.searchsorted(pairs[:count], np.arange(limit, pairs[-1], limit)).tolist(), count]
    for left, right in pairwise(edges):
        if left == 0 and right == count:
            yield _some_windows(order, codes, rows, from_window, until_window)
        elif left < right:
            yield _some_windows(order, codes, rows, from_window.clip(left, right), until_window.clip(left, right))


def _some_windows(order: Ints, codes: Ints, rows: Ints, from_window: Ints, until_window: Ints) -> SparseRanges:
    first_window, last_window = _opened(codes, from_window, until_window), until_window.copy()
    np.minimum(until_window[:-1], from_window[1:], out=last_window[:-1], where=codes[1:] == codes[:-1])
    opens = np.maximum(until_window - first_window, 0)
    closes = np.maximum(last_window - from_window, 0)
    places = np.arange(len(codes))
    start, end = np.repeat(places, opens), np.repeat(places, closes) + 1
    first_pair = np.cumsum(opens) - opens
    windows = np.arange(len(start)) + np.repeat(first_window - first_pair, opens)
    by_window = stable_order(windows)
    start, end = start[by_window], end[by_window]
    ranges = SparseRanges(
        windows[by_window], codes[start], rows, order, start, end,
        from_window, until_window, first_window, first_pair, by_window, codes,
    )  # fmt: skip
    ranges.rows = ranges.sums(rows)
    return ranges


def _opened(codes: Ints, from_window: Ints, until_window: Ints) -> Ints:
    """Return per row in the order of key and pane the first window that contains it but not its key's row before."""
    first_window = from_window.copy()
    np.maximum(from_window[1:], until_window[:-1], out=first_window[1:], where=codes[1:] == codes[:-1])
    return first_window


def dense_ranges(groups: Groups, rows: Ints, first_pane: Ints, end_pane: Ints, keys: int) -> DenseRanges:
    """Return the pairs of partials whose row i is group i if the groups' slots are the cells of a matrix of panes by keys."""
    least, span = int(groups.panes[0]), int(groups.panes[-1]) - int(groups.panes[0]) + 1
    start = _clip(first_pane, least, span)
    end = _clip(end_pane, least, span)
    used = np.flatnonzero(start < end)
    nothing = np.zeros(0, np.int64)
    cells = groups.occupied
    if not groups.is_matrix:
        cells = (groups.panes - least) * keys + groups.codes
    ranges = DenseRanges(nothing, nothing, nothing, (span, keys), cells, start[used], end[used], None)
    counts = ranges.all_sums(rows).reshape(-1)
    taken = counts != 0
    if bool(taken.all()):
        ranges.rows, ranges.windows = counts, np.repeat(used, keys)
        ranges.codes = np.tile(np.arange(keys), len(used))
        return ranges
    ranges.present = where = np.flatnonzero(taken)
    window = where // keys
    ranges.rows, ranges.windows, ranges.codes = counts[where], used[window], where - window * keys
    return ranges


def sum_ranges(values: Vector, start: Ints, end: Ints) -> Vector:
    """Return ``values[start[i]:end[i]].sum(axis=0)`` for every i, by running sums; integers only."""
    running = np.zeros((len(values) + 1, *values.shape[1:]), values.dtype)
    np.cumsum(values, axis=0, out=running[1:])
    sums: Vector = running.take(end, axis=0)
    sums -= running.take(start, axis=0)
    return sums


def fold_ranges(columns: State, start: Ints, end: Ints, identity: tuple[Any, ...], combine: Combine, idempotent: bool) -> State:
    """Apply ``combine`` over ``[start[i], end[i])`` of the first axis for every i, in order; further axes are carried along.

    A range may be empty, which gives ``identity``. If ``idempotent``, two overlapping spans make a range.
    """
    lengths = end - start
    result = tuple(np.full((len(start), *c.shape[1:]), e, c.dtype) for c, e in zip(columns, identity, strict=True))
    cursor, span, longest, level = start.copy(), 1, int(lengths.max(initial=0)), columns
    while span <= longest:
        if idempotent:
            ours = np.flatnonzero((lengths >= span) & (lengths < 2 * span))
            parts = _at(level, start[ours])
            if span > 1:
                parts = combine(parts, _at(level, end[ours] - span))
        else:
            ours = np.flatnonzero(lengths & span)
            parts = _at(level, cursor[ours])
            if span > 1:
                parts = combine(_at(result, ours), parts)
            cursor[ours] += span
        for whole, part in zip(result, parts, strict=True):
            whole[ours] = part
        span *= 2
        if span <= longest:
            left = len(level[0]) - span // 2
            level = combine(tuple(c[:left] for c in level), tuple(c[span // 2 :] for c in level))
    return result


def _at(columns: State, places: Ints) -> State:
    return tuple(c.take(places, axis=0) for c in columns)


def _clip(panes: Ints, least: int, span: int) -> Ints:
    # clip before subtracting: window bounds may be anywhere in int64
    return np.clip(panes, least, least + span) - least
