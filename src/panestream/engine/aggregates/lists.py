"""Partials that hold values themselves, as Arrow lists: all of them, the distinct ones, or the k largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates.partials import Batch, PartialAggregate
from panestream.engine.kernels.columns import (
    Ints,
    Vector,
    array_of,
    both_valid,
    list_of,
    list_parts,
    normal_floats,
    numbers,
    offsets_of,
    valid_of,
)
from panestream.engine.kernels.grouping import LARGEST, Groups
from panestream.engine.kernels.ordering import order_codes
from panestream.engine.kernels.ranges import Ranges, SparseRanges, State
from panestream.engine.kernels.sorting import runs, stable_order

_NETWORK = 32
"""Up to so many ranks are merged by comparing whole columns; more by sorting rows."""


@dataclass(frozen=True, slots=True)
class PartialList(PartialAggregate):
    """All values that are not null, with their event times, by event time and then arrival.

    Attributes:
        type: of the values.
    """

    type: pa.DataType

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("values", pa.list_(self.type)), ("times", pa.list_(pa.int64())))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        ids, times = groups.ids, times_of(batch)
        if column.rows is not None:
            ids, times = ids[column.rows], times[column.rows]
        return self._collect(groups.size, ids, column.present, times)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, lengths = list_parts(columns[0])
        times, _ = list_parts(columns[1])
        return self._collect(groups.size, np.repeat(groups.ids, lengths), values, numbers(times))

    def _collect(self, size: int, ids: Ints, values: pa.Array, times: Ints) -> list[pa.Array]:
        order = stable_order(ids, times)
        lengths = np.bincount(ids, minlength=size)
        indices = pa.array(order)
        return [list_of(values.take(indices), lengths), list_of(array_of(times[order], pa.int64()), lengths)]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        in_order = pa.array(ranges.order)
        values, lengths = list_parts(columns[0].take(in_order))
        times = numbers(list_parts(columns[1].take(in_order))[0])
        offsets = offsets_of(lengths)
        key = np.repeat(ranges.key_of_place, lengths)
        start = offsets[ranges.start]
        lengths = offsets[ranges.end] - start
        items = spans(start, lengths)
        if bool(((times[1:] < times[:-1]) & (key[1:] == key[:-1])).any()):
            # Panes of processing time: their order need not be that of event time.
            items = items[stable_order(np.repeat(np.arange(len(lengths)), lengths), times[items])]
        return [list_of(values.take(pa.array(items)), lengths)]


@dataclass(frozen=True, slots=True)
class PartialDistinct(PartialAggregate):
    """Each distinct value once, in the order of first arrival; over windows only their number.

    Attributes:
        type: of the values.
    """

    type: pa.DataType

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("distinct", pa.list_(self.type)),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        return self._distinct(groups.size, groups.ids if column.rows is None else groups.ids[column.rows], column.present)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, lengths = list_parts(columns[0])
        return self._distinct(groups.size, np.repeat(groups.ids, lengths), values)

    @staticmethod
    def _distinct(size: int, ids: Ints, values: pa.Array) -> list[pa.Array]:
        encoded = pc.dictionary_encode(normal_floats(values))
        width = max(len(encoded.dictionary), 1)
        pairs = np.sort(ids * width + numbers(encoded.indices))
        pairs = pairs[runs(pairs)]
        owner = pairs // width
        distinct = encoded.dictionary.take(pa.array(pairs - owner * width))
        return [list_of(distinct, np.bincount(owner, minlength=size))]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        values, lengths = list_parts(columns[0].take(pa.array(ranges.order)))
        codes = numbers(pc.dictionary_encode(values).indices).astype(np.int64)
        return [array_of(distinct_over(ranges, codes, lengths), pa.int64())]


@dataclass(frozen=True, slots=True)
class PartialTopK(PartialAggregate):
    """The k largest values, or the values with the k largest ``by``; of equals those of the earliest event time, then arrival.

    Attributes:
        type: of the values.
        k: how many.
        by: the number of the expression to order by; None: the values themselves.
        by_type: its type.
    """

    type: pa.DataType
    k: int
    by: int | None
    by_type: pa.DataType

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        own = (("top", pa.list_(self.type)), ("times", pa.list_(pa.int64())))
        return own if self.by is None else (*own, ("by", pa.list_(self.by_type)))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        times, valid = times_of(batch), valid_of(column.array)
        by = column.array if self.by is None else batch.values[self.by].array
        valid = both_valid(valid, valid_of(by))
        if valid is None:
            return self._keep(groups.size, groups.ids, column.array, times, by)
        rows = np.flatnonzero(valid)
        indices = pa.array(rows)
        return self._keep(groups.size, groups.ids[rows], column.array.take(indices), times[rows], by.take(indices))

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, lengths = list_parts(columns[0])
        times, by = self._times_and_by(columns, values)
        return self._keep(groups.size, np.repeat(groups.ids, lengths), values, times, by)

    def _times_and_by(self, columns: Sequence[pa.Array], values: pa.Array) -> tuple[Ints, pa.Array]:
        return numbers(list_parts(columns[1])[0]), values if self.by is None else list_parts(columns[2])[0]

    def _keep(self, size: int, ids: Ints, values: pa.Array, times: Ints, by: pa.Array) -> list[pa.Array]:
        order = stable_order(ids, *_best_first(by, times))
        counts = np.bincount(ids, minlength=size)
        lengths = np.minimum(counts, self.k)
        kept = order[spans(np.cumsum(counts) - counts, lengths)]
        return self._lists(kept, lengths, values, times, by)

    def _lists(self, items: Ints, lengths: Ints, values: pa.Array, times: Ints, by: pa.Array) -> list[pa.Array]:
        indices = pa.array(items)
        lists = [list_of(values.take(indices), lengths), list_of(array_of(times[items], pa.int64()), lengths)]
        return lists if self.by is None else [*lists, list_of(by.take(indices), lengths)]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        # In the order of key and pane, so that of equal times the earlier pane's comes first, as in a merge.
        in_order = pa.array(ranges.order)
        columns = [column.take(in_order) for column in columns]
        values, lengths = list_parts(columns[0])
        times, by = self._times_and_by(columns, values)
        order = stable_order(*_best_first(by, times))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        width = min(self.k, int(lengths.max(initial=0)) * max(ranges.longest, 1))
        if width <= _NETWORK:
            width = 1 << max(width - 1, 0).bit_length()
        place = np.arange(len(ranks)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        best = np.full((width, len(lengths)), LARGEST)
        best[place, np.repeat(np.arange(len(lengths)), lengths)] = ranks
        if width <= _NETWORK:
            folded = np.stack(ranges.fold_in_order(tuple(best), (int(LARGEST),) * width, _best_by_network), axis=1)
        else:
            (folded,) = ranges.fold_in_order((np.ascontiguousarray(best.T),), (int(LARGEST),), _best_by_sort)
        folded = folded[:, : self.k]
        kept = folded != LARGEST
        return [list_of(values.take(pa.array(order[folded[kept]])), kept.sum(axis=1))]


def distinct_over(ranges: SparseRanges, codes: Ints, lengths: Ints) -> Ints:
    """How many distinct codes each pair has: for each key and code, the windows that contain any of its panes, each once.

    Args:
        ranges: the pairs.
        codes: the codes of all partial rows, end to end, in the order of key and pane.
        lengths: how many each of these rows has; no row has a code twice.
    """
    place = np.repeat(np.arange(len(lengths)), lengths)  # in the order of key and pane
    order = stable_order(codes)  # by value, then key and pane
    codes, place = codes[order], place[order]
    key = ranges.key_of_place[place]
    begin, until = ranges.from_window[place], ranges.until_window[place]
    same = (codes[1:] == codes[:-1]) & (key[1:] == key[:-1])
    # Windows that contain this pane but not the value's pane before it.
    fresh = begin.copy()
    np.maximum(begin[1:], until[:-1], out=fresh[1:], where=same)
    news = np.maximum(until - fresh, 0)
    pair = ranges.first_pair[place] + fresh - ranges.first_window[place]
    count = len(ranges.windows)
    kept = news > 0
    steps = np.bincount(pair[kept], minlength=count + 1) - np.bincount((pair + news)[kept], minlength=count + 1)
    found: Ints = np.cumsum(steps)[:count][ranges.by_window]
    return found


def times_of(batch: Batch) -> Ints:
    """The event times of a batch, which must be there."""
    if batch.times is None:
        raise ValueError("an aggregate orders by event time: timestamps are needed")
    return batch.times


def spans(start: Ints, lengths: Ints) -> Ints:
    """``start[0], start[0] + 1, ...`` (``lengths[0]`` of them), then ``start[1], ...``, and so on."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(start - (ends - lengths), lengths) + np.arange(total)


def _best_first(by: pa.Array, times: Ints) -> tuple[Ints, Ints]:
    return ~order_codes(by).codes, times


def _best_by_sort(a: State, b: State) -> State:
    """The smallest ranks of two states, each a matrix of rows by ranks."""
    both: Vector = np.concatenate([a[0], b[0]], axis=1)
    both.sort(axis=1)
    return (both[:, : a[0].shape[1]],)


def _best_by_network(a: State, b: State) -> State:
    """The smallest ranks of two states, each a power of two of columns in ascending order.

    The smaller of a's first and b's last, a's second and b's last but one, ... are the smallest of all and form a bitonic
    sequence; half-cleaners sort it (Batcher's merge), every comparison on whole columns.
    """
    width = len(a)
    best = [np.minimum(low, high) for low, high in zip(a, reversed(b), strict=True)]
    step = width // 2
    while step:
        for place in range(width):
            if not place & step:
                low, high = best[place], best[place + step]
                best[place], best[place + step] = np.minimum(low, high), np.maximum(low, high)
        step //= 2
    return tuple(best)


def sparse(ranges: Ranges) -> SparseRanges:
    """Ranges as partials want them that look at partial rows one after the other (``needs_rows`` says so)."""
    if not isinstance(ranges, SparseRanges):
        raise TypeError("partials of lists are combined over sparse ranges")
    return ranges
