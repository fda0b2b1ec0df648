"""Picks: values of the row that is first or last by something: event time (first, last) or an expression (max_by, arg_max, …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partials import Batch, PartialAggregate, smaller
from panestream.engine.kernels.columns import Ints, Mask, array_of, numbers, take, valid_of
from panestream.engine.kernels.grouping import LARGEST, Groups
from panestream.engine.kernels.ordering import order_codes
from panestream.engine.kernels.ranges import Ranges
from panestream.engine.kernels.sorting import stable_order


@dataclass(frozen=True, slots=True)
class PartialPick(PartialAggregate):
    """The values of the chosen row, and what it was chosen by (null: no row can be chosen).

    Of rows that are equal by a value the one with the earliest event time is chosen, so that it does not matter which panes were
    merged before which.

    Attributes:
        type: of the value.
        by: the number of the expression to choose by; None: event time.
        by_type: its type.
        largest: whether the largest ``by`` is chosen, or the smallest.
        last_of_equals: whether of equal ``by`` (and event time) the row that arrived last is chosen, or the first.
        skip_nulls: leave out rows whose value is null.
        more: further expressions to keep of the row: their numbers and types.
    """

    type: pa.DataType
    by: int | None
    by_type: pa.DataType
    largest: bool
    last_of_equals: bool
    skip_nulls: bool
    more: tuple[tuple[int, pa.DataType], ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        others = [(f"value {place}", type_) for place, (_, type_) in enumerate(self.more, start=2)]
        times = [] if self.by is None else [("time", pa.int64())]
        return (("value", self.type), *others, ("by", self.by_type), *times)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        values = [batch.values[source].array for source in (self.source, *(source for source, _ in self.more))]
        if batch.times is None:
            raise ValueError("an aggregate orders by event time: timestamps are needed")
        times = array_of(batch.times, pa.int64())
        own = [times] if self.by is None else [batch.values[self.by].array, times]
        return self._choose(groups, values, own, self.skip_nulls)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values = 1 + len(self.more)
        return self._choose(groups, columns[:values], columns[values:], False)

    def _choose(self, groups: Groups, values: Sequence[pa.Array], own: Sequence[pa.Array], skip_nulls: bool) -> list[pa.Array]:
        """The columns of the chosen rows; ``own``: what is compared, and the times unless these are compared."""
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
        """Of rows with the code of a chosen one those of the earliest time."""
        equals = np.flatnonzero(given == groups.spread(codes[chosen], rows))
        if len(equals) == int((chosen >= 0).sum()):
            return chosen
        rows = equals if rows is None else rows[equals]
        return groups.pick(numbers(times)[rows], False, rows)

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        codes, valid = self._oriented(columns[1 + len(self.more)])
        count = len(codes)
        # Rank the rows by (code, time, arrival): the best of a range is then its smallest rank, which leads back to the row.
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
        # The last column says whether there is such a row, which a struct of its values must know.
        wanted = columns[:1] if self.by is None else columns
        return self._rows(np.where(least == LARGEST, -1, order[np.minimum(least, count - 1)]), wanted)

    def _oriented(self, by: pa.Array) -> tuple[Ints, Mask | None]:
        codes = order_codes(by)
        return (~codes.codes if self.largest else codes.codes), codes.valid

    @staticmethod
    def _rows(chosen: Ints, columns: Sequence[pa.Array]) -> list[pa.Array]:
        valid = chosen >= 0
        return [take(column, chosen, None if bool(valid.all()) else valid) for column in columns]
