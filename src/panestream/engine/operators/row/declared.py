"""Declared aggregates for the row operator, which knows them as one function of a user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregation import Aggregation
from panestream.engine.elements import arrow_column, python_values
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.functions import AggregateFunction

TIME = "__time"
"""The last value of each element: its event time."""


class DeclaredFunction(AggregateFunction):
    """Declared aggregates over elements whose values are the aggregates' inputs and, last, the event time.

    The accumulator is the elements themselves, aggregated when the window fires: right for every aggregate, by the same code as
    the columnar operators.
    """

    def __init__(self, aggregates: Sequence[Aggregate], input_types: Mapping[str, pa.DataType]) -> None:
        self._aggregation = Aggregation.build(aggregates, input_types, pa.schema([]))
        self._fields = [pa.field(text, input_types[text]) for text in self._aggregation.inputs]

    def create_accumulator(self) -> tuple[Any, ...]:
        return ()

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*accumulator, tuple(value))

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return a + b

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        columns = list(zip(*accumulator, strict=True))
        values = [arrow_column(column, field) for column, field in zip(columns, self._fields, strict=False)]
        times = np.asarray(columns[-1], np.int64)
        panes = np.zeros(len(times), np.int64)
        partials = self._aggregation.partials([], panes, values, times if self._aggregation.needs_timestamps else None)
        _, results = self._aggregation.windows(partials, np.zeros(1, np.int64), np.ones(1, np.int64))
        return tuple(python_values(column)[0] for column in results.columns)
