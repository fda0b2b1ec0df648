"""Completeness of aggregates in a window: how many rows of a pane are missing in each partial because it was added later.

Aggregates that need the same partial share it and its missing rows, so a new aggregate over existing partials is complete. Row by
row, each aggregate has its own accumulator and depends on that alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implementation_of, implements
from panestream.engine.kernels.columns import Ints, array_of, numbers
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.parts import missing_data_of
from panestream.engine.kernels.ranges import Ranges
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.windowing.aggregates import Aggregate, Complete


def told_of(recipe: Complete, aggregates: Mapping[str, Aggregate]) -> Aggregate:
    """Return the aggregate that a report refers to; raise InvalidPlanError for unknown names and for other reports."""
    target = aggregates.get(recipe.output)
    if target is None:
        others = [name for name, other in aggregates.items() if not isinstance(other, Complete)]
        raise InvalidPlanError(f"{recipe!r}: no result is called {recipe.output!r}; {did_you_mean(recipe.output, others)}")
    if isinstance(target, Complete):
        raise InvalidPlanError(f"{recipe!r}: {recipe.output!r} checks another result. Name that result")
    return target


@implements(Complete)
class CompleteImplementation(Implementation[Complete]):
    """``agg.complete``."""

    def plan(self, recipe: Complete, planner: AggregationPlanner) -> None:
        target = told_of(recipe, planner.aggregates)
        alone = AggregationPlanner(planner.types)
        implementation_of(target).plan(target, alone)
        missing = [planner.partial(PartialMissing(0, partial.described(alone.inputs))) for partial in alone.partials]
        planner.result(CompleteResult, recipe, pa.bool_(), *missing)

    def accumulator(self, recipe: Complete, layout: RowLayout) -> Accumulator:
        return CompleteAccumulator()


@dataclass(frozen=True, slots=True)
class PartialMissing(PartialAggregate):
    """The number of rows of the pane that came before a partial was added; ``of`` is the description of that partial."""

    of: str

    expressions: ClassVar[tuple[str, ...]] = ()
    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("missing", pa.int64()),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        return self.nothing(groups.size)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(groups.add(numbers(columns[0])), pa.int64())]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(ranges.sums(numbers(columns[0])), pa.int64())]

    def nothing(self, count: int) -> list[pa.Array]:
        return [array_of(np.zeros(count, np.int64), pa.int64())]

    def without(self, rows: Ints, *, known: bool) -> list[pa.Array]:
        return self.nothing(len(rows)) if known else [array_of(rows, pa.int64())]

    def described(self, inputs: Sequence[str]) -> str:
        return missing_data_of(self.of)

    def sql(self, names: Sequence[str]) -> tuple[str, ...]:
        return ("count(NULL)",)


class CompleteResult(Result):
    """complete(output)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        complete = np.ones(len(rows), np.bool_)
        for missing in partials:
            complete &= numbers(missing[0]) == 0
        return pa.array(complete)


class CompleteAccumulator(Accumulator):
    """The accumulator of ``agg.complete``: True if the other aggregate existed from a window's first row."""

    def start(self) -> Any:
        return True

    def add(self, state: Any, row: Row) -> Any:
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a and b

    def result(self, state: Any) -> Any:
        return state


def described(recipe: Aggregate, aggregates: Mapping[str, Aggregate]) -> str:
    """Describe a part of an accumulator of ``aggregates`` (by result name), independent of the name of its result."""
    if isinstance(recipe, Complete):
        return missing_data_of(described(told_of(recipe, aggregates), aggregates))
    return repr(replace(recipe, output_name=None))
