"""Approximate quantiles, and exact counts of the values between given edges.

Values for quantiles are stored if there are few, and as a t-digest of Apache DataSketches otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, FirstColumn, unsupported
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implements
from panestream.engine.aggregates.sketches import PartialSketch, any_held, library
from panestream.engine.kernels.columns import (
    Floats,
    Ints,
    Vector,
    array_of,
    list_of,
    list_parts,
    numbers,
    offsets_of,
    spans,
    take,
    words,
)
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ordering import order_codes, stable_order
from panestream.engine.kernels.ranges import Ranges, sum_ranges
from panestream.windowing.aggregates import ApproxQuantile, ApproxQuantiles, Histogram

_MOST_VALUES = 1 << 22
"""Number of values of (key, window) pairs that are sorted at a time."""
_PREAMBLE = 32
"""Bytes of a digest before its centroids."""
_CENTROID = np.dtype([("mean", "<f8"), ("weight", "<i8")])


@implements(ApproxQuantile, ApproxQuantiles)
class QuantilesImplementation(Implementation["ApproxQuantile | ApproxQuantiles"]):
    """``agg.approx_quantile``, ``agg.approx_quantiles``; stores rows when run row by row."""

    def plan(self, recipe: ApproxQuantile | ApproxQuantiles, planner: AggregationPlanner) -> None:
        library()
        planner.number(recipe, recipe.expr)
        several = isinstance(recipe, ApproxQuantiles)
        probabilities = recipe.probabilities if isinstance(recipe, ApproxQuantiles) else (recipe.probability,)
        partial = planner.partial(PartialQuantiles(planner.source(recipe.expr), recipe.k, probabilities, several))
        planner.result(FirstColumn, recipe, pa.list_(pa.float64()) if several else pa.float64(), partial)


@dataclass(frozen=True, slots=True)
class PartialQuantiles(PartialSketch):
    """The finite values in order of arrival, or their t-digest, and the numbers of -infinity, infinity and NaN values.

    Digests only support finite numbers, so other values, which are below or above all finite ones, are counted separately. A
    digest has about ``k`` centroids, and ``several`` makes the result a list.
    """

    k: int
    probabilities: tuple[float, ...]
    several: bool

    @property
    def limit(self) -> int:
        return 2 * self.k  # where a list is about as large as a digest

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        beyond = [(name, pa.int64()) for name in ("below", "above", "nan")]
        return (("values", pa.list_(pa.float64())), ("digest", pa.binary()), *beyond)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        values, ids = column.floats, groups.ids if column.rows is None else groups.ids[column.rows]
        finite = np.isfinite(values)
        beyond = [np.zeros(groups.size, np.int64)] * 3
        if not finite.all():
            kinds = (values == -np.inf, values == np.inf, np.isnan(values))
            beyond = [np.bincount(ids[kind], minlength=groups.size) for kind in kinds]
            values, ids = values[finite], ids[finite]
        order = stable_order(ids)
        packed = self.packed(groups.size, ids[order], values[order], pa.float64(), None, ids)
        return [*packed, *(array_of(counts, pa.int64()) for counts in beyond)]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        items, lengths = list_parts(columns[0])
        ids = np.repeat(groups.ids, lengths)
        order = stable_order(ids)
        packed = self.packed(groups.size, ids[order], numbers(items)[order], pa.float64(), columns[1], groups.ids)
        return [*packed, *(array_of(groups.add(numbers(counts)), pa.int64()) for counts in columns[2:])]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        beyond = [ranges.sums(numbers(counts)) for counts in columns[2:]]
        lists, held = (take(column, ranges.order) for column in columns[:2])
        return [self._results(lists, held, beyond, ranges.start, ranges.end)]

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        places = np.arange(len(rows))
        return [self._results(columns[0], columns[1], [numbers(counts) for counts in columns[2:]], places, places + 1)]

    def _results(self, lists: pa.Array, held: pa.Array, beyond: list[Ints], start: Ints, end: Ints) -> pa.Array:
        """Return the quantiles of each range of panes."""
        lengths = list_parts(lists)[1]
        counts = sum_ranges(lengths, start, end)
        many = (counts > self.limit) | any_held(held, start, end)
        found = np.full((len(start), len(self.probabilities)), np.nan)
        for pairs in in_portions(np.flatnonzero(~many), counts):
            found[pairs] = self._exact(lists, start[pairs], counts[pairs], [part[pairs] for part in beyond])
        if many.any():
            pairs = np.flatnonzero(many)
            digests = self.folded(lists, held, start[pairs], end[pairs], False, _centroids)
            for pair, (means, ranks, count) in zip(pairs.tolist(), digests, strict=True):
                found[pair] = self._interpolated(means, ranks, count, *(int(part[pair]) for part in beyond))
        valid = many | (counts + sum(beyond) > 0)
        if not self.several:
            return array_of(found[:, 0], pa.float64(), valid)
        flat = array_of(found[valid].reshape(-1), pa.float64())
        quantiles = list_of(flat, np.full(int(valid.sum()), len(self.probabilities)))
        return quantiles if valid.all() else take(quantiles, np.cumsum(valid) - 1, valid)

    def _exact(self, lists: pa.Array, start: Ints, counts: Ints, beyond: list[Ints]) -> Floats:
        """Return quantiles of ranges without digests, interpolated between the two neighbouring values."""
        offsets = offsets_of(list_parts(lists)[1])
        values = numbers(list_parts(lists)[0])[spans(offsets[start], counts)]
        owner = np.repeat(np.arange(len(counts)), counts)
        values = values[stable_order(owner, order_codes(array_of(values, pa.float64())).codes)]
        first = offsets_of(counts)[:-1]
        total = counts + sum(beyond)
        found = np.empty((len(counts), len(self.probabilities)))
        for place, probability in enumerate(self.probabilities):
            position = probability * np.maximum(total - 1, 0)
            low, high = (
                _at(values, first, counts, beyond, rank.astype(np.int64)) for rank in (np.floor(position), np.ceil(position))
            )
            share = position % 1
            found[:, place] = np.where(low == high, low, low * (1 - share) + high * share)
        return found

    def _interpolated(self, means: Floats, ranks: Floats, count: int, below: int, above: int, nan: int) -> Floats:
        """Return quantiles from a digest: a centroid represents values around its mean, and the middle one has its rank."""
        position = np.array(self.probabilities) * (count + below + above + nan - 1)
        found: Floats = np.interp(position - below, ranks, means)
        found[position < below] = -np.inf
        found[position > below + count - 1] = np.inf
        found[position > below + count + above - 1] = np.nan
        return found

    def made(self, held: Iterable[bytes], items: Vector) -> bytes:
        digest = library().tdigest_double(self.k)
        for one in held:
            digest.merge(library().tdigest_double.deserialize(one))
        digest.update(items)
        data: bytes = digest.serialize()
        return data

    def loaded(self, held: bytes | None, items: Vector) -> Any:
        if held is not None:
            return library().tdigest_double.deserialize(held)
        digest = library().tdigest_double(self.k)
        digest.update(items)
        return digest

    def joined(self, a: Any, b: Any) -> Any:
        digest = library().tdigest_double(self.k)
        digest.merge(a)
        digest.merge(b)
        return digest


def _at(values: Floats, first: Ints, counts: Ints, beyond: Sequence[Ints], rank: Ints) -> Floats:
    """Return the value of a rank, counted from 0, in each span of ordered values with infinities and NaN around it."""
    below, above, _ = beyond
    place = rank - below
    found = np.full(len(rank), np.nan)
    found[place < 0] = -np.inf
    found[(place >= counts) & (place < counts + above)] = np.inf
    inside = (place >= 0) & (place < counts)
    found[inside] = values[(first + place)[inside]]
    return found


def _centroids(digest: Any) -> tuple[Floats, Floats, int]:
    """Return means, ranks of their middle values, and the number of values, read from a digest's published format.

    The digest's own quantiles are not used: DataSketches 5.2 interpolates with swapped weights (apache/datasketches-java#755),
    which makes ranks wrong by up to 0.024 with the default k, ten times the necessary error.
    """
    data = digest.serialize()
    smallest, largest = np.frombuffer(data, "<f8", 2, _PREAMBLE - 16)
    centroids = np.frombuffer(data, _CENTROID, offset=_PREAMBLE)
    ends = np.cumsum(centroids["weight"])
    middles = ends - (centroids["weight"] + 1) / 2
    count = int(ends[-1])
    return np.concatenate([[smallest], centroids["mean"], [largest]]), np.concatenate([[0], middles, [count - 1]]), count


def in_portions(pairs: Ints, counts: Ints) -> list[Ints]:
    """Split pairs into portions with a bounded number of values."""
    portion = np.cumsum(counts[pairs]) // _MOST_VALUES
    return np.split(pairs, np.flatnonzero(np.diff(portion)) + 1) if len(pairs) else []


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
