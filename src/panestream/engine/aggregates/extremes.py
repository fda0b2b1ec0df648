"""The smallest and largest value, and values of one row: the first, last, smallest or largest (first, max_by, arg_max, …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import Batch, Input, PartialAggregate, smaller
from panestream.engine.aggregates.planning import AggregationPlanner, FirstColumn, Result
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, ValueOrder, implements
from panestream.engine.kernels.columns import Ints, Mask, array_of, as_type, numbers, take, valid_of
from panestream.engine.kernels.grouping import LARGEST, Groups
from panestream.engine.kernels.ordering import order_codes, stable_order
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import ArgMax, ArgMin, First, Last, Max, MaxBy, Min, MinBy


@implements(Min, Max)
class ExtremeImplementation(Implementation["Min | Max"]):
    """``agg.min``, ``agg.max``."""

    def plan(self, recipe: Min | Max, planner: AggregationPlanner) -> None:
        type_ = planner.ordered(recipe, recipe.expr)
        partial = PartialExtreme(planner.source(recipe.expr), type_, isinstance(recipe, Max))
        planner.result(FirstColumn, recipe, type_, planner.partial(partial))

    def accumulator(self, recipe: Min | Max, layout: RowLayout) -> Accumulator:
        return ExtremeAccumulator(layout.at(recipe.expr), layout.type_of(recipe.expr), isinstance(recipe, Max))


@dataclass(frozen=True, slots=True)
class PartialExtreme(PartialAggregate):
    """The smallest or largest value, or null without values."""

    type: pa.DataType
    largest: bool

    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("max" if self.largest else "min", self.type),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        return self._reduce(groups, batch.values[self.source])

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return self._reduce(groups, Input(columns[0]))

    def _reduce(self, groups: Groups, column: Input) -> list[pa.Array]:
        codes, rows = self._oriented(column), column.rows
        valid = None if rows is None else groups.count(rows) > 0
        least = groups.smallest(codes if rows is None else codes[rows], rows)
        return [column.codes.decode(~least if self.largest else least, valid)]

    def nothing(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, type_) for _, type_ in self.columns]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        column, valid = Input(columns[0]), None
        codes = self._oriented(column)
        mask = column.codes.valid
        if mask is not None:
            codes = np.where(mask, codes, LARGEST)
            valid = ranges.sums(mask.astype(np.int64)) > 0
        (least,) = ranges.fold((codes,), (int(LARGEST),), smaller, idempotent=True)
        return [column.codes.decode(~least if self.largest else least, valid)]

    def sql(self, names: Sequence[str]) -> tuple[str, ...] | None:
        if not pa.types.is_integer(self.type) and not pa.types.is_temporal(self.type):
            return None
        return (f"{'max' if self.largest else 'min'}({names[self.source]})",)

    def _oriented(self, column: Input) -> Ints:
        # ~ reverses the order of all int64 without overflow, so that the minimum kernel serves both.
        return ~column.codes.codes if self.largest else column.codes.codes


class ExtremeAccumulator(Accumulator):
    """The smallest or largest value."""

    def __init__(self, at: int, type_: pa.DataType, largest: bool) -> None:
        self._at = at
        self._order = ValueOrder(type_)
        self._largest = largest
        self._floats = pa.types.is_floating(type_)

    def add(self, state: Any, row: Row) -> Any:
        return self.merge(state, row[self._at])

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if (self._order.less(a, b) if self._largest else self._order.less(b, a)) else a

    def result(self, state: Any) -> Any:
        return state + 0.0 if self._floats and state is not None else state  # SQL has one zero


@implements(First, Last)
class FirstLastImplementation(Implementation["First | Last"]):
    """``agg.first``, ``agg.last``: picked by event time."""

    def plan(self, recipe: First | Last, planner: AggregationPlanner) -> None:
        type_, last = planner.type_of(recipe.expr), isinstance(recipe, Last)
        partial = PartialPick(planner.source(recipe.expr), type_, None, pa.int64(), last, last, recipe.ignore_nulls)
        planner.result(FirstColumn, recipe, type_, planner.partial(partial))

    def accumulator(self, recipe: First | Last, layout: RowLayout) -> Accumulator:
        last, at = isinstance(recipe, Last), layout.at(recipe.expr)
        return PickAccumulator([at], layout.time, pa.int64(), largest=last, last_of_equals=last, skip_nulls=recipe.ignore_nulls)


@implements(MinBy, MaxBy)
class PickByImplementation(Implementation["MinBy | MaxBy"]):
    """``agg.min_by``, ``agg.max_by``: picked by an expression."""

    def plan(self, recipe: MinBy | MaxBy, planner: AggregationPlanner) -> None:
        type_, by_type = planner.type_of(recipe.expr), planner.ordered(recipe, recipe.by)
        source, by = planner.source(recipe.expr), planner.source(recipe.by)
        partial = PartialPick(source, type_, by, by_type, isinstance(recipe, MaxBy), False, False)
        planner.result(FirstColumn, recipe, type_, planner.partial(partial))

    def accumulator(self, recipe: MinBy | MaxBy, layout: RowLayout) -> Accumulator:
        by, by_type = layout.at(recipe.by), layout.type_of(recipe.by)
        return PickAccumulator([layout.at(recipe.expr)], by, by_type, largest=isinstance(recipe, MaxBy), time=layout.time)


@implements(ArgMin, ArgMax)
class PickRowImplementation(Implementation["ArgMin | ArgMax"]):
    """``agg.arg_min``, ``agg.arg_max``: several values of the row, as a struct."""

    def plan(self, recipe: ArgMin | ArgMax, planner: AggregationPlanner) -> None:
        by_type, largest = planner.ordered(recipe, recipe.by), isinstance(recipe, ArgMax)
        first, *more = [(planner.source(expr), planner.type_of(expr)) for expr in recipe.exprs]
        partial = PartialPick(*first, planner.source(recipe.by), by_type, largest, False, False, tuple(more))
        struct = pa.struct([(expr, planner.type_of(expr)) for expr in recipe.exprs])
        planner.result(StructResult, recipe, struct, planner.partial(partial))

    def accumulator(self, recipe: ArgMin | ArgMax, layout: RowLayout) -> Accumulator:
        largest, values = isinstance(recipe, ArgMax), [layout.at(expr) for expr in recipe.exprs]
        by, by_type = layout.at(recipe.by), layout.type_of(recipe.by)
        return PickAccumulator(values, by, by_type, largest=largest, time=layout.time, fields=recipe.exprs)


@dataclass(frozen=True, slots=True)
class PartialPick(PartialAggregate):
    """The values of the chosen row, and the value that it was chosen by (null if no row can be chosen).

    If several rows are equal by an expression, the one with the earliest event time is chosen, so that the order of merging panes
    does not matter.

    Attributes:
        by: the number of the expression to choose by, or None for event time.
        largest: whether the largest ``by`` is chosen, rather than the smallest.
        last_of_equals: whether the last arrival is chosen for equal ``by`` (and event time), rather than the first.
        skip_nulls: whether rows whose value is null are skipped.
        more: numbers and types of further expressions to store.
    """

    type: pa.DataType
    by: int | None
    by_type: pa.DataType
    largest: bool
    last_of_equals: bool
    skip_nulls: bool
    more: tuple[tuple[int, pa.DataType], ...] = ()

    expressions: ClassVar[tuple[str, ...]] = ("source", "by", "more")
    orders_by_time: ClassVar[bool] = True
    merges_exactly: ClassVar[bool] = True

    @property
    def follows_arrival(self) -> bool:
        return True

    @property
    def keeps_order(self) -> bool:
        return True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        others = [(f"value {place}", type_) for place, (_, type_) in enumerate(self.more, start=2)]
        times = [] if self.by is None else [("time", pa.int64())]
        return (("value", self.type), *others, ("by", self.by_type), *times)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        values = [batch.values[source].array for source in (self.source, *(source for source, _ in self.more))]
        times = array_of(batch.known_times, pa.int64())
        own = [times] if self.by is None else [batch.values[self.by].array, times]
        return self._choose(groups, values, own, self.skip_nulls)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values = 1 + len(self.more)
        return self._choose(groups, columns[:values], columns[values:], False)

    def _choose(self, groups: Groups, values: Sequence[pa.Array], own: Sequence[pa.Array], skip_nulls: bool) -> list[pa.Array]:
        """Return the columns of the chosen rows; ``own`` has the compared values, and the times unless these are compared."""
        codes, valid = self._oriented(own[0])
        if skip_nulls:
            has_value = valid_of(values[0])
            valid = has_value if valid is None else valid if has_value is None else valid & has_value
        rows = None if valid is None else np.flatnonzero(valid)
        given = codes if rows is None else codes[rows]
        chosen = groups.pick(given, self.last_of_equals, rows)
        if self.by is not None:
            chosen = self._earliest(groups, chosen, codes, given, rows, own[1])
        return self._rows(chosen, [*values, *own])

    @staticmethod
    def _earliest(groups: Groups, chosen: Ints, codes: Ints, given: Ints, rows: Ints | None, times: pa.Array) -> Ints:
        """Among rows with the code of a chosen row, choose the earliest."""
        equals = np.flatnonzero(given == groups.spread(codes[chosen], rows))
        if len(equals) == int((chosen >= 0).sum()):
            return chosen
        rows = equals if rows is None else rows[equals]
        return groups.pick(numbers(times)[rows], False, rows)

    def nothing(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, type_) for _, type_ in self.columns]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        codes, valid = self._oriented(columns[1 + len(self.more)])
        count = len(codes)
        # Rank the rows by (code, time, arrival): the best row of a range has its smallest rank.
        if self.last_of_equals:
            order = count - 1 - stable_order(codes[::-1])
        else:
            order = stable_order(codes) if self.by is None else stable_order(codes, numbers(columns[-1]))
        ranks = np.empty(count, np.int64)
        ranks[order] = np.arange(count)
        if valid is not None:
            ranks[~valid] = LARGEST
        (least,) = ranges.fold((ranks,), (int(LARGEST),), smaller, idempotent=True)
        if count == 0:
            return list(columns)
        # The last column records whether there is such a row, which a struct of its values depends on.
        wanted = columns[:1] if self.by is None else columns
        return self._rows(np.where(least == LARGEST, -1, order[np.minimum(least, count - 1)]), wanted)

    def _oriented(self, by: pa.Array) -> tuple[Ints, Mask | None]:
        codes = order_codes(by)
        return (~codes.codes if self.largest else codes.codes), codes.valid

    @staticmethod
    def _rows(chosen: Ints, columns: Sequence[pa.Array]) -> list[pa.Array]:
        valid = chosen >= 0
        return [take(column, chosen, None if bool(valid.all()) else valid) for column in columns]


class StructResult(Result):
    """arg_min, arg_max: the values of a row, or null if the partial's last column is null because no row was chosen."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        fields = list(self.type)
        values, own = partials[0][: len(fields)], partials[0][-1]
        arrays = [as_type(value, field.type) for value, field in zip(values, fields, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=own.is_null())


class PickAccumulator(Accumulator):
    """Values of the first or last row by some value. ``values``, ``by`` and ``time`` are places.

    Args:
        values: the values to return.
        by: the compared value.
        by_type: its type.
        largest: whether the row with the largest ``by`` is picked, rather than the smallest.
        time: the event time, by which the earliest of equal rows is picked. None if ``by`` is the time.
        last_of_equals: whether the last of rows equal in ``by`` and time is picked, rather than the first.
        skip_nulls: whether rows whose value is null are skipped.
        fields: the names of the values if they form a struct.
    """

    def __init__(
        self,
        values: Sequence[int],
        by: int,
        by_type: pa.DataType,
        *,
        largest: bool,
        time: int | None = None,
        last_of_equals: bool = False,
        skip_nulls: bool = False,
        fields: Sequence[str] | None = None,
    ) -> None:
        self._values = tuple(values)
        self._by = by
        self._order = ValueOrder(by_type)
        self._largest = largest
        self._time = by if time is None else time
        self._last_of_equals = last_of_equals
        self._skip_nulls = skip_nulls
        self._fields = fields

    def add(self, state: Any, row: Row) -> Any:
        if row[self._by] is None or (self._skip_nulls and row[self._values[0]] is None):
            return state
        return self.merge(state, (row[self._by], row[self._time], *(row[at] for at in self._values)))

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        smaller, larger = self._order.less(b[0], a[0]), self._order.less(a[0], b[0])
        better, worse = (larger, smaller) if self._largest else (smaller, larger)
        if not better and not worse and a[1] != b[1]:
            return a if a[1] < b[1] else b
        return b if better or (self._last_of_equals and not worse) else a

    def result(self, state: Any) -> Any:
        if state is None:
            return None
        return state[2] if self._fields is None else dict(zip(self._fields, state[2:], strict=True))
