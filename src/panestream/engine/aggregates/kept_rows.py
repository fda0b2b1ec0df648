"""Row-by-row execution of aggregates without accumulators: stores rows and aggregates them as columns when a window fires."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator import Accumulator, Row, RowLayout
from panestream.engine.aggregates.aggregation import Aggregation
from panestream.engine.kernels.python_values import arrow_column, python_values
from panestream.windowing.aggregates import Aggregate


class KeptRows(Accumulator):
    """The rows themselves, for aggregates without a simple Python form.

    ``null_without_rows`` makes the result of no rows null, rather than the result of a row of nulls.
    """

    def __init__(self, aggregate: Aggregate, layout: RowLayout, *, null_without_rows: bool) -> None:
        self._places = [layout.at(expr) for expr in dict.fromkeys(aggregate.inputs)]
        self._fields = [pa.field(expr, layout.types[expr]) for expr in dict.fromkeys(aggregate.inputs)]
        self._aggregation = Aggregation.build([aggregate], layout.types, pa.schema([]))
        self._null_without_rows = null_without_rows

    def start(self) -> Any:
        return []

    def add(self, state: Any, row: Row) -> Any:
        state.append((*(row[at] for at in self._places), row[-1]))
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        if not state and self._null_without_rows:
            return None
        *columns, times = zip(*(state or [(*(None for _ in self._places), 0)]), strict=True)
        values = [arrow_column(column, field) for column, field in zip(columns, self._fields, strict=True)]
        at = np.asarray(times, np.int64)
        partials = self._aggregation.partials(
            [], np.zeros(len(at), np.int64), values, at if self._aggregation.needs_timestamps else None
        )
        _, results = self._aggregation.windows(partials, np.zeros(1, np.int64), np.ones(1, np.int64))
        return python_values(results.column(0))[0]
