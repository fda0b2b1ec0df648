"""All values of a window, as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator import Accumulator, Row, RowLayout
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, sparse
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import FirstColumn
from panestream.engine.kernels.columns import Ints, array_of, list_of, list_parts, numbers, offsets_of, spans
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import CollectList


@implements(CollectList)
class ListImplementation(Implementation[CollectList]):
    """``agg.collect_list``."""

    def plan(self, recipe: CollectList, planner: AggregationPlanner) -> None:
        type_ = planner.type_of(recipe.expr)
        partial = planner.partial(PartialList(planner.source(recipe.expr), type_))
        planner.result(FirstColumn, recipe, pa.list_(type_), partial)

    def accumulator(self, recipe: CollectList, layout: RowLayout) -> Accumulator:
        return ListAccumulator(layout.at(recipe.expr))


@dataclass(frozen=True, slots=True)
class PartialList(PartialAggregate):
    """All values that are not null, with their event times, ordered by event time and then arrival."""

    type: pa.DataType

    grows: ClassVar[str] = "every value"
    orders_by_time: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True

    @property
    def follows_arrival(self) -> bool:
        return True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("values", pa.list_(self.type)), ("times", pa.list_(pa.int64())))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        ids, times = groups.ids, batch.known_times
        if column.rows is not None:
            ids, times = ids[column.rows], times[column.rows]
        return self._collect(groups.size, ids, column.present, times)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, lengths = list_parts(columns[0])
        times, _ = list_parts(columns[1])
        return self._collect(groups.size, np.repeat(groups.ids, lengths), values, numbers(times))

    def _collect(self, size: int, ids: Ints, values: pa.Array, times: Ints) -> list[pa.Array]:
        order = stable_order(ids, times)
        lengths = np.bincount(ids, minlength=size)
        indices = pa.array(order)
        return [list_of(values.take(indices), lengths), list_of(array_of(times[order], pa.int64()), lengths)]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        in_order = pa.array(ranges.order)
        values, lengths = list_parts(columns[0].take(in_order))
        times = numbers(list_parts(columns[1].take(in_order))[0])
        offsets = offsets_of(lengths)
        key = np.repeat(ranges.key_of_place, lengths)
        start = offsets[ranges.start]
        lengths = offsets[ranges.end] - start
        items = spans(start, lengths)
        if bool(((times[1:] < times[:-1]) & (key[1:] == key[:-1])).any()):
            # Panes of processing time need not be in the order of event time.
            items = items[stable_order(np.repeat(np.arange(len(lengths)), lengths), times[items])]
        return [list_of(values.take(pa.array(items)), lengths)]


class ListAccumulator(Accumulator):
    """All values with their times, in the order of arrival."""

    def __init__(self, at: int) -> None:
        self._at = at

    def start(self) -> Any:
        return []

    def add(self, state: Any, row: Row) -> Any:
        if row[self._at] is not None:
            state.append((row[-1], row[self._at]))
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        return [value for _, value in sorted(state, key=itemgetter(0))]
