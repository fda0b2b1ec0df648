"""Lists: all values of a window, its k largest values, or the values of its k largest rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, FirstColumn
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, ValueOrder, implements
from panestream.engine.kernels.columns import (
    Ints,
    Vector,
    array_of,
    both_valid,
    list_of,
    list_parts,
    numbers,
    offsets_of,
    spans,
    valid_of,
)
from panestream.engine.kernels.grouping import LARGEST, Groups
from panestream.engine.kernels.ordering import order_codes, stable_order
from panestream.engine.kernels.ranges import Ranges, SparseRanges, State
from panestream.windowing.aggregates import CollectList, TopK


@implements(CollectList)
class ListImplementation(Implementation[CollectList]):
    """``agg.collect_list``."""

    def plan(self, recipe: CollectList, planner: AggregationPlanner) -> None:
        type_ = planner.type_of(recipe.expr)
        partial = planner.partial(PartialList(planner.source(recipe.expr), type_))
        planner.result(FirstColumn, recipe, pa.list_(type_), partial)

    def accumulator(self, recipe: CollectList, layout: RowLayout) -> Accumulator:
        return ListAccumulator(layout.at(recipe.expr))


@dataclass(frozen=True, slots=True)
class PartialList(PartialAggregate):
    """All values that are not null, with their event times, ordered by event time and then arrival."""

    type: pa.DataType

    grows: ClassVar[str] = "every value"
    orders_by_time: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True

    @property
    def follows_arrival(self) -> bool:
        return True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("values", pa.list_(self.type)), ("times", pa.list_(pa.int64())))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        ids, times = groups.ids, batch.known_times
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
        values, _, items, lengths = self.in_ranges(sparse(ranges), columns)
        return [list_of(values.take(pa.array(items)), lengths)]

    @staticmethod
    def in_ranges(ranges: SparseRanges, columns: Sequence[pa.Array]) -> tuple[pa.Array, Ints, Ints, Ints]:
        """Return all values and times, the places of the values of each range in the order of time, and their numbers."""
        in_order = pa.array(ranges.order)
        values, lengths = list_parts(columns[0].take(in_order))
        times = numbers(list_parts(columns[1].take(in_order))[0])
        offsets = offsets_of(lengths)
        key = np.repeat(ranges.key_of_place, lengths)
        start = offsets[ranges.start]
        lengths = offsets[ranges.end] - start
        items = spans(start, lengths)
        if bool(((times[1:] < times[:-1]) & (key[1:] == key[:-1])).any()):
            # Panes of processing time need not be in the order of event time.
            items = items[stable_order(np.repeat(np.arange(len(lengths)), lengths), times[items])]
        return values, times, items, lengths


class ListAccumulator(Accumulator):
    """All values with their times, in the order of arrival."""

    def __init__(self, at: int) -> None:
        self._at = at

    def start(self) -> Any:
        return []

    def add(self, state: Any, row: Row) -> Any:
        if row[self._at] is not None:
            state.append((row[-1], row[self._at]))
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        return [value for _, value in sorted(state, key=itemgetter(0))]


_NETWORK = 32
"""Maximum number of ranks merged by comparing whole columns; more are merged by sorting rows."""


@implements(TopK)
class TopKImplementation(Implementation[TopK]):
    """``agg.top_k``."""

    def plan(self, recipe: TopK, planner: AggregationPlanner) -> None:
        type_, source = planner.type_of(recipe.expr), planner.source(recipe.expr)
        by_type = planner.ordered(recipe, recipe.expr if recipe.by is None else recipe.by)
        by = None if recipe.by is None else planner.source(recipe.by)
        partial = PartialTopK(source, type_, recipe.k, by, by_type)
        planner.result(FirstColumn, recipe, pa.list_(type_), planner.partial(partial))

    def accumulator(self, recipe: TopK, layout: RowLayout) -> Accumulator:
        by = recipe.expr if recipe.by is None else recipe.by
        return TopKAccumulator(layout.at(recipe.expr), layout.at(by), layout.type_of(by), recipe.k)


@dataclass(frozen=True, slots=True)
class PartialTopK(PartialAggregate):
    """The k largest values, or the values with the k largest ``by``; ties go to the earliest event time, then arrival.

    ``by`` is the number of an expression, or None for the values themselves.
    """

    type: pa.DataType
    k: int
    by: int | None
    by_type: pa.DataType

    expressions: ClassVar[tuple[str, ...]] = ("source", "by")
    orders_by_time: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    merges_exactly: ClassVar[bool] = True

    @property
    def follows_arrival(self) -> bool:
        return self.by is not None  # otherwise equal rows have the same value

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        own = (("top", pa.list_(self.type)), ("times", pa.list_(pa.int64())))
        return own if self.by is None else (*own, ("by", pa.list_(self.by_type)))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        times, valid = batch.known_times, valid_of(column.array)
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
        # In the order of key and pane, so that for equal times the earlier pane comes first, as in a merge.
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


class TopKAccumulator(Accumulator):
    """The best rows, best first: ``(by, time, value)``."""

    def __init__(self, at: int, by: int, by_type: pa.DataType, k: int) -> None:
        self._at = at
        self._by = by
        self._order = ValueOrder(by_type)
        self._k = k

    def start(self) -> Any:
        return []

    def add(self, state: Any, row: Row) -> Any:
        if row[self._by] is not None and row[self._at] is not None:
            self._insert(state, (row[self._by], row[-1], row[self._at]))
        return state

    def _insert(self, state: list[Row], new: Row) -> None:
        place = len(state)
        while place and self._is_better(new, state[place - 1]):
            place -= 1
        if place < self._k:
            state.insert(place, new)
            del state[self._k :]

    def _is_better(self, a: Row, b: Row) -> bool:
        if self._order.less(b[0], a[0]):
            return True
        return bool(a[1] < b[1]) and not self._order.less(a[0], b[0])

    def merge(self, a: Any, b: Any) -> Any:
        for one in b:
            self._insert(a, tuple(one))
        return a

    def result(self, state: Any) -> Any:
        return [value for _, _, value in state]


def _best_first(by: pa.Array, times: Ints) -> tuple[Ints, Ints]:
    return ~order_codes(by).codes, times


def _best_by_sort(a: State, b: State) -> State:
    """Return the smallest ranks of two states, each a matrix of rows by ranks."""
    both: Vector = np.concatenate([a[0], b[0]], axis=1)
    both.sort(axis=1)
    return (both[:, : a[0].shape[1]],)


def _best_by_network(a: State, b: State) -> State:
    """Return the smallest ranks of two states, each a power of two of columns in ascending order.

    The smaller of a's first and b's last, a's second and b's second to last, and so on, are the smallest ranks. They form a
    bitonic sequence, which half-cleaners sort (Batcher's merge), comparing whole columns.
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
