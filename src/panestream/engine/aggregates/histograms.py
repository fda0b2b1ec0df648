"""Exact counts of the values between given edges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator import Accumulator, Row, RowLayout
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate
from panestream.engine.aggregates.planning import AggregationPlanner, unsupported
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import FirstColumn
from panestream.engine.kernels.columns import Ints, Vector, array_of, list_of, list_parts, numbers, words
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import Histogram


@implements(Histogram)
class HistogramImplementation(Implementation[Histogram]):
    """``agg.histogram``."""

    def plan(self, recipe: Histogram, planner: AggregationPlanner) -> None:
        type_ = planner.number(recipe, recipe.expr)
        if pa.types.is_decimal(type_) and type_.precision > 18:
            raise unsupported(recipe, recipe.expr, type_, "a decimal of up to 18 digits, or another number")
        partial = PartialHistogram(planner.source(recipe.expr), recipe.edges)
        planner.result(FirstColumn, recipe, pa.list_(pa.int64()), planner.partial(partial))

    def accumulator(self, recipe: Histogram, layout: RowLayout) -> Accumulator:
        return HistogramAccumulator(layout.at(recipe.expr), layout.type_of(recipe.expr), recipe.edges)


@dataclass(frozen=True, slots=True)
class PartialHistogram(PartialAggregate):
    """Counts of values below the first of the ascending ``edges``, between neighbours, and from the last one on."""

    edges: tuple[int | float | Decimal, ...]

    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("bins", pa.list_(pa.int64())),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        values, edges = _comparable(column.present, self.edges)
        ids = groups.ids if column.rows is None else groups.ids[column.rows]
        # A value's bin is the number of edges at or below it. NumPy sorts NaN above all numbers, too.
        bins = np.searchsorted(edges, values, side="right")
        counts = np.bincount(ids * self._width + bins, minlength=groups.size * self._width)
        return [self._lists(counts)]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [self._lists(np.stack([groups.add(counts) for counts in self._bins(columns[0])], axis=1))]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [self._lists(np.stack([ranges.sums(counts) for counts in self._bins(columns[0])], axis=1))]

    @property
    def _width(self) -> int:
        return len(self.edges) + 1

    def _bins(self, lists: pa.Array) -> list[Ints]:
        """Return one vector per bin."""
        matrix = numbers(list_parts(lists)[0]).reshape(-1, self._width)
        return list(np.ascontiguousarray(matrix.T))

    def _lists(self, counts: Ints) -> pa.Array:
        flat = counts.reshape(-1)
        return list_of(array_of(flat, pa.int64()), np.full(len(flat) // self._width, self._width))


class HistogramAccumulator(Accumulator):
    """Counts of the values between edges."""

    def __init__(self, at: int, type_: pa.DataType, edges: Sequence[Any]) -> None:
        self._at = at
        # Floats are compared as floats; for other types, an edge of 0.1 means exactly a tenth.
        self._edges = [float(edge) if pa.types.is_floating(type_) else Decimal(str(edge)) for edge in edges]

    def start(self) -> Any:
        return [0] * (len(self._edges) + 1)

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is not None:
            state[-1 if value != value else bisect_right(self._edges, value)] += 1  # noqa: PLR0124 - the test for NaN
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return [one + other for one, other in zip(a, b, strict=True)]

    def result(self, state: Any) -> Any:
        return list(state)


def _comparable(array: pa.Array, edges: Sequence[int | float | Decimal]) -> tuple[Vector, Vector]:
    """Return values and edges as numbers with the same order."""
    if pa.types.is_floating(array.type):
        return numbers(array).astype(np.float64, copy=False), np.array([float(edge) for edge in edges])
    scale = 0
    if pa.types.is_decimal(array.type):
        values, scale = np.ascontiguousarray(words(array)[:, 0]), array.type.scale
    else:
        values = numbers(array).astype(np.int64, copy=False)
    # An integer is at or above an edge if it is at or above the next integer. str makes 0.1 a tenth.
    whole = [ceil(Fraction(str(edge)) * 10**scale) for edge in edges]
    # Edges above all int64 are omitted, because no value reaches them; all values reach edges below int64.
    return values, np.array([max(edge, -(2**63)) for edge in whole if edge < 2**63], np.int64)
