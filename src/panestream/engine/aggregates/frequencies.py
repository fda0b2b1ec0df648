"""Aggregates of how often each value occurs: mode, entropy, exact quantiles and sets, all from one partial aggregate."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.quantiles import in_portions
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, ValueOrder, implements
from panestream.engine.kernels.columns import (
    Floats,
    Ints,
    array_of,
    floats_of,
    list_of,
    list_parts,
    numbers,
    offsets_of,
    spans,
    take,
)
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ordering import order_codes, runs, stable_order
from panestream.engine.kernels.ranges import Ranges, sum_ranges
from panestream.windowing.aggregates import CollectSet, Entropy, Median, Mode, Percentile, Percentiles

_Quantiles = (Percentile, Percentiles, Median)


@implements(Mode, Entropy, CollectSet, *_Quantiles)
class FrequencyImplementation(Implementation["Mode | Entropy | CollectSet | Percentile | Percentiles | Median"]):
    """``agg.mode``, ``agg.entropy``, ``agg.collect_set``, ``agg.percentile``, ``agg.percentiles``, ``agg.median``."""

    def plan(self, recipe: Mode | Entropy | CollectSet | Percentile | Percentiles | Median, planner: AggregationPlanner) -> None:
        type_ = planner.number(recipe, recipe.expr) if isinstance(recipe, _Quantiles) else planner.ordered(recipe, recipe.expr)
        partial = planner.partial(PartialFrequencies(planner.source(recipe.expr), type_))
        if isinstance(recipe, Mode):
            planner.result(ModeResult, recipe, type_, partial)
        elif isinstance(recipe, Entropy):
            planner.result(EntropyResult, recipe, pa.float64(), partial)
        elif isinstance(recipe, CollectSet):
            planner.result(SetResult, recipe, pa.list_(type_), partial)
        else:
            several = isinstance(recipe, Percentiles)
            result = pa.list_(pa.float64()) if several else pa.float64()
            planner.result(QuantilesResult, recipe, result, partial, probabilities=_probabilities(recipe), several=several)

    def accumulator(
        self, recipe: Mode | Entropy | CollectSet | Percentile | Percentiles | Median, layout: RowLayout
    ) -> Accumulator:
        at, type_ = layout.at(recipe.expr), layout.type_of(recipe.expr)
        if isinstance(recipe, Mode):
            return ModeAccumulator(at, type_)
        if isinstance(recipe, Entropy):
            return EntropyAccumulator(at, type_)
        if isinstance(recipe, CollectSet):
            return SetAccumulator(at, type_)
        return QuantilesAccumulator(at, type_, _probabilities(recipe), isinstance(recipe, Percentiles))


def _probabilities(recipe: Percentile | Percentiles | Median) -> tuple[float, ...]:
    if isinstance(recipe, Percentiles):
        return recipe.probabilities
    return (recipe.probability,) if isinstance(recipe, Percentile) else (0.5,)


@dataclass(frozen=True, slots=True)
class PartialFrequencies(PartialAggregate):
    """Each distinct value in ascending order, and how often it occurs.

    The finalized form has four columns of different lengths: the values and counts of all panes, in the order of key and pane,
    and the first and last pane of each window. Results process some windows at a time, because overlapping windows repeat values.
    """

    type: pa.DataType

    grows: ClassVar[str] = "every distinct value"
    needs_rows: ClassVar[bool] = True
    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("values", pa.list_(self.type)), ("counts", pa.list_(pa.int64())))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        ids = groups.ids if column.rows is None else groups.ids[column.rows]
        return self._lists(groups.size, ids, column.present, np.ones(len(ids), np.int64))

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, lengths = list_parts(columns[0])
        return self._lists(groups.size, np.repeat(groups.ids, lengths), values, numbers(list_parts(columns[1])[0]))

    @staticmethod
    def _lists(size: int, ids: Ints, values: pa.Array, counts: Ints) -> list[pa.Array]:
        values, counts, owner = counted(ids, values, counts)
        lengths = np.bincount(owner, minlength=size)
        return [list_of(values, lengths), list_of(array_of(counts, pa.int64()), lengths)]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        return [*(take(column, ranges.order) for column in columns), *map(pa.array, (ranges.start, ranges.end))]

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        places = np.arange(len(columns[0]))
        return [*columns, pa.array(places), pa.array(places + 1)]


def counted(owner: Ints, values: pa.Array, counts: Ints) -> tuple[pa.Array, Ints, Ints]:
    """Add the counts of equal values of each owner; return values, counts and owners, ordered by owner and value."""
    codes = order_codes(values)
    order = stable_order(owner, codes.codes)
    owner, ordered = owner[order], codes.codes[order]
    first = np.flatnonzero(runs(owner) | runs(ordered))
    added = np.add.reduceat(counts[order], first) if len(first) else counts[:0]
    return codes.decode(ordered[first], None), added, owner[first]


class FrequencyResult(Result):
    """A result of the counts of values of each window."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        lists, counts, start, end = partials[0]
        values, lengths = list_parts(lists)
        of_value, first, until = numbers(list_parts(counts)[0]), numbers(start), numbers(end)
        offsets, sizes = offsets_of(lengths), sum_ranges(lengths, first, until)
        made = []
        for windows in in_portions(np.arange(len(first)), sizes) or [np.arange(0)]:
            items = spans(offsets[first[windows]], sizes[windows])
            owner = np.repeat(np.arange(len(windows)), sizes[windows])
            own = values.take(pa.array(items)), of_value[items], owner
            if bool((until[windows] - first[windows] > 1).any()):
                own = counted(owner, own[0], own[1])
            made.append(self.of(*own, len(windows)))
        return pa.concat_arrays(made)

    @abstractmethod
    def of(self, values: pa.Array, counts: Ints, owner: Ints, windows: int) -> pa.Array:
        """Return the results of some windows; ``values`` are distinct and ascending for each owner, which is a window."""


class ModeResult(FrequencyResult):
    """mode(expr)"""

    __slots__ = ()

    def of(self, values: pa.Array, counts: Ints, owner: Ints, windows: int) -> pa.Array:
        order = stable_order(owner, -counts)
        first = order[runs(owner[order])] if len(order) else order
        places = np.full(windows, -1)
        places[owner[first]] = first
        return take(values, np.maximum(places, 0), places >= 0)


class EntropyResult(FrequencyResult):
    """entropy(expr)"""

    __slots__ = ()

    def of(self, values: pa.Array, counts: Ints, owner: Ints, windows: int) -> pa.Array:
        total = np.bincount(owner, counts, windows)
        shares = counts / total[owner]
        bits = np.bincount(owner, -shares * np.log2(shares), windows)
        return array_of(bits + 0.0, pa.float64(), total > 0)


class SetResult(FrequencyResult):
    """collect_set(expr)"""

    __slots__ = ()

    def of(self, values: pa.Array, counts: Ints, owner: Ints, windows: int) -> pa.Array:
        return list_of(values, np.bincount(owner, minlength=windows))


@dataclass(frozen=True, slots=True)
class QuantilesResult(FrequencyResult):
    """percentile(expr, probability), percentiles(expr, probabilities), median(expr)"""

    probabilities: tuple[float, ...]
    several: bool

    def of(self, values: pa.Array, counts: Ints, owner: Ints, windows: int) -> pa.Array:
        total = np.bincount(owner, counts, windows).astype(np.int64)
        before, valid = offsets_of(total)[:-1], total > 0
        floats, ends = floats_of(values), np.cumsum(counts)
        found = np.zeros((windows, len(self.probabilities)))
        for place, probability in enumerate(self.probabilities):
            position = probability * (total[valid] - 1)
            low, high = (
                _at(floats, ends, before[valid] + rank.astype(np.int64)) for rank in (np.floor(position), np.ceil(position))
            )
            share = position % 1
            with np.errstate(invalid="ignore"):
                found[valid, place] = np.where(low == high, low, low * (1 - share) + high * share)
        if not self.several:
            return array_of(found[:, 0], pa.float64(), valid)
        flat = array_of(found[valid].reshape(-1), pa.float64())
        lists = list_of(flat, np.full(int(valid.sum()), len(self.probabilities)))
        return take(lists, np.maximum(np.cumsum(valid) - 1, 0), valid)


def _at(values: Floats, ends: Ints, ranks: Ints) -> Floats:
    found: Floats = values[np.searchsorted(ends, ranks, "right")] + 0.0
    return found


class FrequencyAccumulator(Accumulator):
    """How often each value occurs. The two zeros are equal, and NaN is stored as None."""

    def __init__(self, at: int, type_: pa.DataType) -> None:
        self._at = at
        self._floats = pa.types.is_floating(type_)
        self._order = ValueOrder(type_)

    def start(self) -> Any:
        return {}

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is not None:
            key = (None if math.isnan(value) else value + 0.0) if self._floats else value
            state[key] = state.get(key, 0) + 1
        return state

    def merge(self, a: Any, b: Any) -> Any:
        for value, count in b.items():
            a[value] = a.get(value, 0) + count
        return a

    @staticmethod
    def _ascending(state: Any) -> list[tuple[Any, int]]:
        """Return values and counts in ascending order, NaN last."""
        numbers = sorted((value, count) for value, count in state.items() if value is not None)
        return numbers + [(math.nan, count) for value, count in state.items() if value is None]


class ModeAccumulator(FrequencyAccumulator):
    """The most frequent value."""

    def result(self, state: Any) -> Any:
        return max(self._ascending(state), key=lambda pair: pair[1])[0] if state else None  # max returns the first of equals


class EntropyAccumulator(FrequencyAccumulator):
    """The entropy of the values in bits."""

    def result(self, state: Any) -> Any:
        total = sum(state.values())
        return -sum(count / total * math.log2(count / total) for count in state.values()) + 0.0 if state else None


class SetAccumulator(FrequencyAccumulator):
    """The distinct values."""

    def result(self, state: Any) -> Any:
        return [value for value, _ in self._ascending(state)]


class QuantilesAccumulator(FrequencyAccumulator):
    """Values between which shares of all values are."""

    def __init__(self, at: int, type_: pa.DataType, probabilities: Sequence[float], several: bool) -> None:
        super().__init__(at, type_)
        self._probabilities = probabilities
        self._several = several

    def result(self, state: Any) -> Any:
        if not state:
            return None
        values = [float(value) for value, count in self._ascending(state) for _ in range(count)]
        found = []
        for probability in self._probabilities:
            rank, share = divmod(probability * (len(values) - 1), 1)
            low, high = values[int(rank)], values[min(int(rank) + (share > 0), len(values) - 1)]
            found.append(low if low == high else low * (1 - share) + high * share)
        return found if self._several else found[0]
