"""Declared aggregates for the row operator, which handles them as one user function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.aggregation import KeptRows
from panestream.engine.aggregates.complete import described
from panestream.engine.aggregates.registry import Accumulator, RowLayout, implementation_of
from panestream.engine.kernels.parts import complete_parts, known_from_the_start
from panestream.windowing.aggregates import Aggregate, Complete
from panestream.windowing.functions import AggregateFunction

TIME = "__time"
"""The name of the last value of each element: its event time."""


class DeclaredFunction(AggregateFunction):
    """Declared aggregates as a function of elements that hold their inputs and, last, the event time.

    Each aggregate has an accumulator in plain Python. Sketches and users' columnar aggregates do not have one: their rows are
    stored, and the columnar kernel aggregates them when the window fires. Raises InvalidPlanError for unsupported input types.
    """

    def __init__(self, aggregates: Sequence[Aggregate], input_types: Mapping[str, pa.DataType]) -> None:
        self.aggregates = tuple(aggregates)
        aggregation = Aggregation.build(aggregates, input_types, pa.schema([]))
        results = {field.name: field.type for field in aggregation.output_schema}
        layout = RowLayout({text: place for place, text in enumerate(aggregation.inputs)}, input_types, results)
        self._parts = [_accumulator(aggregate, layout) for aggregate in aggregates]
        self._adders = [part.add for part in self._parts]

    @property
    def described(self) -> list[str]:
        """Descriptions of the parts of an accumulator, independent of the names of the results."""
        by_name = {recipe.name: recipe for recipe in self.aggregates}
        return [described(recipe, by_name) for recipe in self.aggregates]

    def taking_over(self, header: Mapping[str, Any]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """Return a converter of accumulators saved with ``header`` to these aggregates; new aggregates start without rows."""
        places, complete = {of: place for place, of in enumerate(header["accumulators"])}, complete_parts(header)
        own = [
            (places.get(of), part, isinstance(recipe, Complete) and not known_from_the_start(complete, of))
            for part, recipe, of in zip(self._parts, self.aggregates, self.described, strict=True)
        ]

        def taken_over(accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(
                [accumulator[place] if place is not None else False if lacking else part.start() for place, part, lacking in own]
            )

        return taken_over

    def create_accumulator(self) -> tuple[Any, ...]:
        return tuple([part.start() for part in self._parts])

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        row = tuple(value)  # field access on the element is slower
        return tuple([add(state, row) for add, state in zip(self._adders, accumulator, strict=True)])

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.merge(one, other) for part, one, other in zip(self._parts, a, b, strict=True)])

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.result(state) for part, state in zip(self._parts, accumulator, strict=True)])


def _accumulator(aggregate: Aggregate, layout: RowLayout) -> Accumulator:
    implementation = implementation_of(aggregate)
    accumulator = implementation.accumulator(aggregate, layout)
    if accumulator is None:
        return KeptRows(aggregate, layout, null_without_rows=implementation.null_without_rows)
    return accumulator
