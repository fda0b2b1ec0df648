"""User-defined aggregates over columns, and checks of their functions' return values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import KEEPS, Batch, PartialAggregate, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, FirstColumn
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.kernels.columns import Ints, plain
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges, State
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import ColumnAggregate, User


@implements(User)
class UserImplementation(Implementation[User]):
    """``agg.user``; stores rows when run row by row."""

    null_without_rows: ClassVar[bool] = True  # the functions may rely on a row in every group

    def plan(self, recipe: User, planner: AggregationPlanner) -> None:
        for expr in recipe.exprs:
            planner.type_of(expr)
        sources = tuple(planner.source(expr) for expr in recipe.exprs)
        partial = planner.partial(PartialUser(sources[0], recipe.written, sources))
        planner.result(FirstColumn, recipe, recipe.written.result_type, partial)


@dataclass(frozen=True, slots=True)
class PartialUser(PartialAggregate):
    """The partial of a :class:`~panestream.windowing.aggregates.ColumnAggregate`; over windows, its result.

    ``sources`` are the numbers of the expressions passed to the aggregate.
    """

    written: ColumnAggregate
    sources: tuple[int, ...]

    needs_rows: ClassVar[bool] = True
    is_users: ClassVar[bool] = True

    @property
    def follows_arrival(self) -> bool:
        return True  # unknown, so assumed

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("partial", self.written.partial_type),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        values = [batch.values[source].array for source in self.sources]
        made = self.written.partial(values, groups.ids, groups.size)
        return [self._checked(made, "partial", self.written.partial_type, groups.size)]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [self._merged(columns[0], groups.ids, groups.size)]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        partials = _Numbered(columns[0].take(pa.array(ranges.order)))

        def combine(a: State, b: State) -> State:
            known = np.flatnonzero(a[0] >= 0)
            pairs = partials.take(np.concatenate([a[0][known], b[0][known]]))
            combined = b[0].copy()
            combined[known] = partials.add(self._merged(pairs, np.tile(np.arange(len(known)), 2), len(known)))
            return (combined,)

        # The fold works on partial numbers, with -1 for none.
        (numbers,) = ranges.fold_in_order((np.arange(len(ranges.order)),), (-1,), combine)
        return self._final(partials.take(numbers))

    def described(self, inputs: Sequence[str]) -> str:
        given = ", ".join(inputs[source] for source in self.sources)
        written = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(self.written))
        return f"{written} of {given}{KEEPS}{self.written.partial_type}"

    def nothing(self, count: int) -> list[pa.Array]:
        if not count:
            return [pa.array([], self.written.partial_type)]
        raise InvalidPlanError(
            f"{self.written!r} needs all rows, but earlier rows are not stored, so it cannot be added to open windows. Start "
            f"without it, or without saved state"
        )

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return self._final(columns[0])

    def _merged(self, partials: pa.Array, ids: Ints, size: int) -> pa.Array:
        if size == 0:
            return partials
        return self._checked(self.written.merge(partials, ids, size), "merge", self.written.partial_type, size)

    def _final(self, partials: pa.Array) -> list[pa.Array]:
        return [self._checked(self.written.final(partials), "final", self.written.result_type, len(partials))]

    def _checked(self, made: Any, method: str, type_: pa.DataType, length: int) -> pa.Array:
        where = f"{self.written!r}.{method} returned"
        if isinstance(made, np.ndarray):
            made = pa.array(made)
        if not isinstance(made, pa.Array | pa.ChunkedArray):
            raise InvalidPlanError(f"{where} {type(made).__name__}: it must return an Arrow array of {type_}, or a numpy array")
        made = plain(made)
        if made.type != type_:
            declared = "result_type" if method == "final" else "partial_type"
            raise InvalidPlanError(f"{where} an array of {made.type}, but {declared} is {type_}: cast it to self.{declared}")
        if len(made) != length:
            raise InvalidPlanError(f"{where} {len(made)} rows, not {length}: one for each group, in their order")
        return made


class _Numbered:
    """Partials added in batches and found by number."""

    def __init__(self, first: pa.Array) -> None:
        self._chunks = [first]
        self._count = len(first)

    def add(self, more: pa.Array) -> Ints:
        """Add partials and return their numbers."""
        self._chunks.append(more)
        self._count += len(more)
        return np.arange(self._count - len(more), self._count)

    def take(self, numbers: Ints) -> pa.Array:
        if len(self._chunks) > 1:
            self._chunks = [pa.concat_arrays(self._chunks)]
        return self._chunks[0].take(pa.array(numbers))
