"""Bins: exact counts of the values between given edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partials import Batch, PartialAggregate
from panestream.engine.kernels.columns import Ints, Vector, array_of, list_of, list_parts, numbers, words
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges


@dataclass(frozen=True, slots=True)
class PartialHistogram(PartialAggregate):
    """How many values lie below the first edge, between each two, and from the last edge on: a list as long as there are bins.

    Attributes:
        edges: ascending.
    """

    edges: tuple[int | float | Decimal, ...]

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("bins", pa.list_(pa.int64())),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        values, edges = _comparable(column.present, self.edges)
        ids = groups.ids if column.rows is None else groups.ids[column.rows]
        # The number of edges that are not larger is the number of the bin. numpy, too, puts NaN above all numbers.
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
        """One vector per bin."""
        matrix = numbers(list_parts(lists)[0]).reshape(-1, self._width)
        return list(np.ascontiguousarray(matrix.T))

    def _lists(self, counts: Ints) -> pa.Array:
        flat = counts.reshape(-1)
        return list_of(array_of(flat, pa.int64()), np.full(len(flat) // self._width, self._width))


def _comparable(array: pa.Array, edges: Sequence[int | float | Decimal]) -> tuple[Vector, Vector]:
    """Values and edges as numbers that compare as they do themselves."""
    if pa.types.is_floating(array.type):
        return numbers(array).astype(np.float64, copy=False), np.array([float(edge) for edge in edges])
    scale = 0
    if pa.types.is_decimal(array.type):
        values, scale = np.ascontiguousarray(words(array)[:, 0]), array.type.scale
    else:
        values = numbers(array).astype(np.int64, copy=False)
    # An integer is at or above an edge if it is at or above the next integer. str: 0.1 is a tenth.
    whole = [ceil(Fraction(str(edge)) * 10**scale) for edge in edges]
    # Edges above all int64 are left out, as nothing reaches them; everything reaches those below.
    return values, np.array([max(edge, -(2**63)) for edge in whole if edge < 2**63], np.int64)
