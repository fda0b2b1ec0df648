"""Picks: values of the row that is first or last by something: event time (first, last) or an expression (max_by, arg_max, …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregation.columns import Ints, Mask, array_of, take, valid_of
from panestream.engine.aggregation.grouping import LARGEST, Groups
from panestream.engine.aggregation.lanes import Batch, Lane, smaller
from panestream.engine.aggregation.ordering import order_codes
from panestream.engine.aggregation.ranges import Ranges
from panestream.engine.aggregation.sorting import stable_order


@dataclass(frozen=True, slots=True)
class PickLane(Lane):
    """The values of the chosen row, and what it was chosen by (null: no row can be chosen).

    Attributes:
        type: of the value.
        by: the number of the expression to choose by; None: event time.
        by_type: its type.
        largest: whether the largest ``by`` is chosen, or the smallest.
        last_of_equals: whether of equal ``by`` the row that arrived last is chosen, or the first.
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
        return (("value", self.type), *others, ("by", self.by_type))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        values = [batch.values[source].array for source in (self.source, *(source for source, _ in self.more))]
        if self.by is None:
            if batch.times is None:
                raise ValueError("an aggregate orders by event time: timestamps are needed")
            by = array_of(batch.times, pa.int64())
        else:
            by = batch.values[self.by].array
        return self._choose(groups, values, by, self.skip_nulls)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return self._choose(groups, columns[:-1], columns[-1], False)

    def _choose(self, groups: Groups, values: Sequence[pa.Array], by: pa.Array, skip_nulls: bool) -> list[pa.Array]:
        codes, valid = self._oriented(by)
        if skip_nulls:
            has_value = valid_of(values[0])
            valid = has_value if valid is None else valid if has_value is None else valid & has_value
        rows = None if valid is None else np.flatnonzero(valid)
        return self._rows(groups.pick(codes if rows is None else codes[rows], self.last_of_equals, rows), [*values, by])

    def over(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        codes, valid = self._oriented(columns[-1])
        count = len(codes)
        # Rank the rows by (code, arrival): the best of a range is then its smallest rank, and the rank leads back to the row.
        order = count - 1 - stable_order(codes[::-1]) if self.last_of_equals else stable_order(codes)
        ranks = np.empty(count, np.int64)
        ranks[order] = np.arange(count)
        if valid is not None:
            ranks[~valid] = LARGEST
        (least,) = ranges.fold((ranks,), (int(LARGEST),), smaller, idempotent=True)
        if count == 0:
            return list(columns)
        # `by` says whether there is such a row, which a struct of its values must know.
        wanted = columns[:1] if self.by is None else columns
        return self._rows(np.where(least == LARGEST, -1, order[np.minimum(least, count - 1)]), wanted)

    def _oriented(self, by: pa.Array) -> tuple[Ints, Mask | None]:
        codes = order_codes(by)
        return (~codes.codes if self.largest else codes.codes), codes.valid

    @staticmethod
    def _rows(chosen: Ints, columns: Sequence[pa.Array]) -> list[pa.Array]:
        valid = chosen >= 0
        return [take(column, chosen, None if bool(valid.all()) else valid) for column in columns]
