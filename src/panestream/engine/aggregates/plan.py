"""From recipes to partials and results: SQL's type rules, and which aggregates share a partial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import results
from panestream.engine.aggregates.bins import PartialHistogram
from panestream.engine.aggregates.digests import PartialQuantiles
from panestream.engine.aggregates.exact_sums import PartialSum, PartialWideSum
from panestream.engine.aggregates.lists import PartialDistinct, PartialList, PartialTopK
from panestream.engine.aggregates.partials import (
    PartialAggregate,
    PartialCount,
    PartialExtreme,
    PartialFloatSum,
    PartialMoments,
    PartialWeightedSums,
)
from panestream.engine.aggregates.picks import PartialPick
from panestream.engine.aggregates.results import Result
from panestream.engine.aggregates.sketches import PartialHll, PartialSketch, library
from panestream.engine.aggregates.user import PartialUser
from panestream.engine.kernels.ordering import is_orderable
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregates import Aggregate

_MAX_DIGITS = 38


@dataclass(slots=True)
class Draft:
    """Partials and results of a list of aggregates, as they are collected.

    Attributes:
        types: the type of each expression.
        inputs: the distinct expressions, in order.
        partials: the distinct partials.
        results: one per aggregate.
    """

    types: Mapping[str, pa.DataType]
    inputs: list[str] = field(default_factory=list)
    partials: list[PartialAggregate] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def add(self, aggregate: Aggregate) -> None:
        """Plans one aggregate.

        Raises:
            InvalidPlanError: it cannot be computed from its types.
        """
        rule = _RULES.get(type(aggregate))
        if rule is None:
            raise InvalidPlanError(
                f"{aggregate!r} is not a declared aggregate; take one of panestream.agg, e.g. agg.sum('price')"
            )
        rule(self, aggregate)

    def source(self, expr: str) -> int:
        """The number of an expression."""
        if expr not in self.inputs:
            self.inputs.append(expr)
        return self.inputs.index(expr)

    def type_of(self, expr: str) -> pa.DataType:
        """The type of an expression, dictionaries seen through."""
        if expr not in self.types:
            raise InvalidPlanError(f"no type is known for the expression {expr!r}; {did_you_mean(expr, self.types)}")
        found = self.types[expr]
        return found.value_type if pa.types.is_dictionary(found) else found

    def partial(self, partial: PartialAggregate) -> int:
        """The number of a partial; an equal one is shared."""
        if partial not in self.partials:
            self.partials.append(partial)
        return self.partials.index(partial)

    def result(self, kind: Callable[..., Result], aggregate: Aggregate, type_: pa.DataType, *partials: int, **more: Any) -> None:
        """Adds the result column of an aggregate."""
        self.results.append(kind(aggregate.name, repr(aggregate), type_, partials, **more))


def orders_by_time(partial: PartialAggregate) -> bool:
    """Whether a partial needs event times."""
    return isinstance(partial, PartialList | PartialTopK | PartialPick)


def follows_arrival(partial: PartialAggregate) -> bool:
    """Whether of rows with equal event times it matters which arrived first; of users' own aggregates nobody knows."""
    if isinstance(partial, PartialTopK):
        return partial.by is not None  # else equals are the same value
    return isinstance(partial, PartialList | PartialPick | PartialUser)


def needs_rows(partial: PartialAggregate) -> bool:
    """Whether a partial is combined over windows row by row, not as a matrix."""
    return isinstance(partial, PartialList | PartialTopK | PartialDistinct | PartialSketch | PartialUser)


def check_key(name: str, type_: pa.DataType) -> None:
    """Raises InvalidPlanError for a key whose values cannot be told apart by hash."""
    if pa.types.is_struct(type_):
        for part in type_:
            check_key(f"{name}.{part.name}", part.type)
        return
    if not is_hashable(type_):
        raise InvalidPlanError(
            f"key {name!r} has the type {type_}, which cannot be grouped by; cast it, e.g. to string with to_json"
        )


def is_hashable(type_: pa.DataType) -> bool:
    """Whether Arrow can tell the values of a type apart."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    try:
        pc.dictionary_encode(pa.array([], type_), null_encoding="encode")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


def _unsupported(aggregate: Aggregate, expr: str, type_: pa.DataType, wanted: str) -> InvalidPlanError:
    return InvalidPlanError(f"{aggregate!r} cannot take {expr!r} of type {type_}: it needs {wanted}; cast the expression")


def _ordered(draft: Draft, aggregate: Aggregate, expr: str) -> pa.DataType:
    type_ = draft.type_of(expr)
    if not is_orderable(type_):
        raise _unsupported(aggregate, expr, type_, "an orderable type (number, string, binary, boolean, date or timestamp)")
    return type_


def _count(draft: Draft, aggregate: recipes.Count) -> None:
    if aggregate.expr is None:
        draft.result(results.RowCount, aggregate, pa.int64())
    else:
        draft.type_of(aggregate.expr)
        draft.result(results.ValueCount, aggregate, pa.int64(), draft.partial(PartialCount(draft.source(aggregate.expr))))


def _is_number(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_signed_integer(type_) or types.is_float32(type_) or types.is_float64(type_) or types.is_decimal128(type_)
    )


def _number(draft: Draft, aggregate: Aggregate, expr: str) -> pa.DataType:
    type_ = draft.type_of(expr)
    if not _is_number(type_):
        raise _unsupported(aggregate, expr, type_, "a number (integer, decimal, float or double)")
    return type_


def _partial_sum(draft: Draft, aggregate: Aggregate, expr: str) -> tuple[pa.DataType, int, int]:
    """The type of the values, and the partials of their sum and their number."""
    type_, source = draft.type_of(expr), draft.source(expr)
    partial: PartialAggregate
    if pa.types.is_signed_integer(type_) or (pa.types.is_decimal128(type_) and type_.precision <= 18):
        partial = PartialSum(source)
    elif pa.types.is_decimal128(type_):
        partial = PartialWideSum(source)
    elif pa.types.is_float32(type_) or pa.types.is_float64(type_):
        partial = PartialFloatSum(source)
    else:
        raise _unsupported(aggregate, expr, type_, "a number (integer, decimal, float or double)")
    return type_, draft.partial(partial), draft.partial(PartialCount(source))


def _sum(draft: Draft, aggregate: recipes.Sum) -> None:
    type_, total, count = _partial_sum(draft, aggregate, aggregate.expr)
    if pa.types.is_decimal(type_):
        kind, type_ = results.DecimalSum, pa.decimal128(min(_MAX_DIGITS, type_.precision + 10), type_.scale)
        draft.result(kind, aggregate, type_, total, count)
    elif pa.types.is_floating(type_):
        draft.result(results.FloatSum, aggregate, pa.float64(), total, count)
    else:
        draft.result(results.IntSum, aggregate, pa.int64(), total, count)


def _mean(draft: Draft, aggregate: recipes.Mean) -> None:
    type_, total, count = _partial_sum(draft, aggregate, aggregate.expr)
    if pa.types.is_decimal(type_):
        to = pa.decimal128(min(_MAX_DIGITS, type_.precision + 4), min(_MAX_DIGITS, type_.scale + 4))
        draft.result(results.DecimalMean, aggregate, to, total, count, scale=type_.scale)
    else:
        draft.result(results.FloatMean, aggregate, pa.float64(), total, count)


def _extreme(draft: Draft, aggregate: recipes.Min | recipes.Max) -> None:
    type_ = _ordered(draft, aggregate, aggregate.expr)
    partial = PartialExtreme(draft.source(aggregate.expr), type_, isinstance(aggregate, recipes.Max))
    draft.result(results.Column, aggregate, type_, draft.partial(partial))


def _spread(draft: Draft, aggregate: recipes.Var | recipes.Stddev) -> None:
    _number(draft, aggregate, aggregate.expr)
    kind = results.Variance if isinstance(aggregate, recipes.Var) else results.Deviation
    draft.result(kind, aggregate, pa.float64(), draft.partial(PartialMoments(draft.source(aggregate.expr))))


def _by_time(draft: Draft, aggregate: recipes.First | recipes.Last) -> None:
    type_, last = draft.type_of(aggregate.expr), isinstance(aggregate, recipes.Last)
    partial = PartialPick(draft.source(aggregate.expr), type_, None, pa.int64(), last, last, aggregate.ignore_nulls)
    draft.result(results.Column, aggregate, type_, draft.partial(partial))


def _by_value(draft: Draft, aggregate: recipes.MinBy | recipes.MaxBy) -> None:
    type_, by_type = draft.type_of(aggregate.expr), _ordered(draft, aggregate, aggregate.by)
    source, by = draft.source(aggregate.expr), draft.source(aggregate.by)
    partial = PartialPick(source, type_, by, by_type, isinstance(aggregate, recipes.MaxBy), False, False)
    draft.result(results.Column, aggregate, type_, draft.partial(partial))


def _distinct(draft: Draft, aggregate: recipes.CountDistinct) -> None:
    type_ = draft.type_of(aggregate.expr)
    if not is_hashable(type_):
        raise _unsupported(aggregate, aggregate.expr, type_, "a type whose values can be hashed, not a nested one")
    draft.result(
        results.DistinctCount, aggregate, pa.int64(), draft.partial(PartialDistinct(draft.source(aggregate.expr), type_))
    )


def _items(draft: Draft, aggregate: recipes.CollectList) -> None:
    type_ = draft.type_of(aggregate.expr)
    draft.result(results.Column, aggregate, pa.list_(type_), draft.partial(PartialList(draft.source(aggregate.expr), type_)))


def _top(draft: Draft, aggregate: recipes.TopK) -> None:
    type_, source = draft.type_of(aggregate.expr), draft.source(aggregate.expr)
    by_type = _ordered(draft, aggregate, aggregate.expr if aggregate.by is None else aggregate.by)
    by = None if aggregate.by is None else draft.source(aggregate.by)
    draft.result(results.Column, aggregate, pa.list_(type_), draft.partial(PartialTopK(source, type_, aggregate.k, by, by_type)))


def _row(draft: Draft, aggregate: recipes.ArgMin | recipes.ArgMax) -> None:
    by_type = _ordered(draft, aggregate, aggregate.by)
    first, *more = [(draft.source(expr), draft.type_of(expr)) for expr in aggregate.exprs]
    largest = isinstance(aggregate, recipes.ArgMax)
    partial = PartialPick(*first, draft.source(aggregate.by), by_type, largest, False, False, tuple(more))
    struct = pa.struct([(expr, draft.type_of(expr)) for expr in aggregate.exprs])
    draft.result(results.Struct, aggregate, struct, draft.partial(partial))


def _weighted(draft: Draft, aggregate: recipes.WeightedMean) -> None:
    for expr in aggregate.inputs:
        _number(draft, aggregate, expr)
    partial = PartialWeightedSums(draft.source(aggregate.expr), draft.source(aggregate.weight))
    draft.result(results.WeightedMean, aggregate, pa.float64(), draft.partial(partial))


def _histogram(draft: Draft, aggregate: recipes.Histogram) -> None:
    type_ = _number(draft, aggregate, aggregate.expr)
    if pa.types.is_decimal(type_) and type_.precision > 18:
        raise _unsupported(aggregate, aggregate.expr, type_, "a decimal of up to 18 digits, or another number")
    partial = PartialHistogram(draft.source(aggregate.expr), aggregate.edges)
    draft.result(results.Column, aggregate, pa.list_(pa.int64()), draft.partial(partial))


def _approx_distinct(draft: Draft, aggregate: recipes.ApproxCountDistinct) -> None:
    library()
    type_ = draft.type_of(aggregate.expr)
    if not is_orderable(type_):
        raise _unsupported(aggregate, aggregate.expr, type_, "a number, string, binary, boolean, date or timestamp")
    # The error of a union of HyperLogLog sketches is 1.04 / sqrt(registers).
    lg_k = max(7, ceil(2 * log2(1.04 / aggregate.relative_sd)))
    draft.result(results.Column, aggregate, pa.int64(), draft.partial(PartialHll(draft.source(aggregate.expr), lg_k)))


def _quantiles(draft: Draft, aggregate: recipes.ApproxQuantile | recipes.ApproxQuantiles) -> None:
    library()
    _number(draft, aggregate, aggregate.expr)
    several = isinstance(aggregate, recipes.ApproxQuantiles)
    probabilities = aggregate.probabilities if isinstance(aggregate, recipes.ApproxQuantiles) else (aggregate.probability,)
    partial = PartialQuantiles(draft.source(aggregate.expr), aggregate.k, probabilities, several)
    draft.result(results.Column, aggregate, pa.list_(pa.float64()) if several else pa.float64(), draft.partial(partial))


def _user(draft: Draft, aggregate: recipes.User) -> None:
    for expr in aggregate.exprs:
        draft.type_of(expr)
    sources = tuple(draft.source(expr) for expr in aggregate.exprs)
    partial = PartialUser(sources[0], aggregate.written, sources)
    draft.result(results.Column, aggregate, aggregate.written.result_type, draft.partial(partial))


_RULES: Mapping[type[Aggregate], Callable[[Draft, Any], None]] = {
    recipes.Count: _count,
    recipes.Sum: _sum,
    recipes.Mean: _mean,
    recipes.Min: _extreme,
    recipes.Max: _extreme,
    recipes.Var: _spread,
    recipes.Stddev: _spread,
    recipes.First: _by_time,
    recipes.Last: _by_time,
    recipes.MinBy: _by_value,
    recipes.MaxBy: _by_value,
    recipes.CountDistinct: _distinct,
    recipes.CollectList: _items,
    recipes.TopK: _top,
    recipes.ArgMin: _row,
    recipes.ArgMax: _row,
    recipes.WeightedMean: _weighted,
    recipes.Histogram: _histogram,
    recipes.ApproxCountDistinct: _approx_distinct,
    recipes.ApproxQuantile: _quantiles,
    recipes.ApproxQuantiles: _quantiles,
    recipes.User: _user,
}


def draft(aggregates: Sequence[Aggregate], types: Mapping[str, pa.DataType]) -> Draft:
    """Plans a list of aggregates."""
    plan = Draft(types)
    for aggregate in aggregates:
        if not isinstance(aggregate, Aggregate):
            raise InvalidPlanError(
                f"{aggregate!r} is not a declared aggregate; take one of panestream.agg, e.g. agg.sum('price')"
            )
        for expr in aggregate.inputs:
            plan.source(expr)
        plan.add(aggregate)
    return plan
