"""The first, largest, smallest and last value together, made of the partials of these four."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from panestream.engine.aggregates.extremes import ExtremeAccumulator, PartialExtreme, PartialPick, PickAccumulator
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implements
from panestream.engine.kernels.columns import Ints, as_type
from panestream.windowing.aggregates import Ohlc


@implements(Ohlc)
class OhlcImplementation(Implementation[Ohlc]):
    """``agg.ohlc``."""

    def plan(self, recipe: Ohlc, planner: AggregationPlanner) -> None:
        type_, source = planner.ordered(recipe, recipe.expr), planner.source(recipe.expr)
        parts = (
            PartialPick(source, type_, None, pa.int64(), False, False, True),
            PartialExtreme(source, type_, True),
            PartialExtreme(source, type_, False),
            PartialPick(source, type_, None, pa.int64(), True, True, True),
        )
        struct = pa.struct([(name, type_) for name in recipe.struct_fields])
        planner.result(OhlcResult, recipe, struct, *map(planner.partial, parts))

    def accumulator(self, recipe: Ohlc, layout: RowLayout) -> Accumulator:
        at, type_ = layout.at(recipe.expr), layout.type_of(recipe.expr)
        parts = (
            PickAccumulator([at], layout.time, pa.int64(), largest=False, skip_nulls=True),
            ExtremeAccumulator(at, type_, True),
            ExtremeAccumulator(at, type_, False),
            PickAccumulator([at], layout.time, pa.int64(), largest=True, last_of_equals=True, skip_nulls=True),
        )
        return OhlcAccumulator(recipe.struct_fields, parts)


class OhlcResult(Result):
    """ohlc(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        fields = list(self.type)
        arrays = [as_type(columns[0], field.type) for columns, field in zip(partials, fields, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=arrays[0].is_null())


class OhlcAccumulator(Accumulator):
    """The accumulators of the four values."""

    def __init__(self, names: Sequence[str], parts: Sequence[Accumulator]) -> None:
        self._names = tuple(names)
        self._parts = tuple(parts)

    def start(self) -> Any:
        return [part.start() for part in self._parts]

    def add(self, state: Any, row: Row) -> Any:
        return [part.add(own, row) for part, own in zip(self._parts, state, strict=True)]

    def merge(self, a: Any, b: Any) -> Any:
        return [part.merge(one, other) for part, one, other in zip(self._parts, a, b, strict=True)]

    def result(self, state: Any) -> Any:
        if state[0] is None:
            return None
        return {name: part.result(own) for name, part, own in zip(self._names, self._parts, state, strict=True)}
