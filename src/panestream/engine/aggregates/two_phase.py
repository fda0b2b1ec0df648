"""Users' aggregate and reduce functions in two phases: rows are added before the shuffle, accumulators are merged after it.

Operators treat it as a declared aggregate whose partial is the accumulator. ``reduce`` calls the function's ``add`` for each row,
once for all windows of the row. ``merge`` and ``combine`` call its ``merge``, and results come from ``get_result``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from traceback import TracebackException
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator_columns import AccumulatorColumns, RowColumns
from panestream.engine.aggregates.partial_aggregate import KEEPS, Batch, PartialAggregate, sparse, words_of
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import Result
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.python_values import RowType, python_values, result_columns
from panestream.engine.kernels.ranges import Ranges, State
from panestream.errors import InvalidPlanError, PanestreamError
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.failures import BAR, WindowFunctionError, users_lines

ReduceFunction: TypeAlias = Callable[[Any, Any], Any]
_NOTHING: Any = object()
"""The accumulator of a group without rows."""


@dataclass(frozen=True, slots=True, repr=False)
class InTwoPhases(Aggregate):
    """A user function over rows.

    Attributes:
        written: an aggregate or reduce function.
        rows: the input columns, all of which make up an element.
        accumulators: the columns of an accumulator, or of a row for a reduce function.
        results: the columns of its results, of which one aggregate may have several.
    """

    written: AggregateFunction | ReduceFunction
    rows: pa.Schema
    accumulators: pa.Schema
    results: pa.Schema

    function: ClassVar[str] = "two_phase"
    plain_arguments: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "rows are added before the shuffle, accumulators merged by the function's own merge after it"

    def __post_init__(self) -> None:
        written = self.written
        if isinstance(written, AggregateFunction):
            if type(written).merge is AggregateFunction.merge:
                raise InvalidPlanError(
                    f"{type(written).__name__} needs merge(a, b): with accumulator_type it is given two of them"
                )
            AccumulatorColumns(self.accumulators, written.create_accumulator())

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.rows.names)

    def __repr__(self) -> str:
        # A checkpoint depends on this: the function's code may change, its accumulator may not.
        if isinstance(self.written, AggregateFunction):
            return f"aggregate with {type(self.written).__qualname__}"
        return "reduce"


@implements(InTwoPhases)
class TwoPhaseImplementation(Implementation[InTwoPhases]):
    """Plans one partial, and a result for each column."""

    def plan(self, recipe: InTwoPhases, planner: AggregationPlanner) -> None:
        sources = tuple(planner.source(name) for name in recipe.rows.names)
        partial = PartialAccumulator(sources[0], recipe.written, sources, recipe.rows, recipe.accumulators, recipe.results)
        number = planner.partial(partial)
        planner.results += [
            ColumnAt(field.name, repr(recipe), field.type, (number,), place) for place, field in enumerate(recipe.results)
        ]


@dataclass(frozen=True, slots=True)
class ColumnAt(Result):
    """Column number ``place`` of a function's results."""

    place: int

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return partials[0][self.place]


@dataclass(frozen=True, slots=True)
class PartialAccumulator(PartialAggregate):
    """The accumulator of a key and pane; over windows, its results.

    ``written`` is the user's function, and ``sources`` are the numbers of the expressions that make a row.
    """

    written: AggregateFunction | ReduceFunction
    sources: tuple[int, ...]
    rows: pa.Schema
    accumulators: pa.Schema
    results: pa.Schema

    needs_rows: ClassVar[bool] = True
    is_users: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return tuple((field.name, field.type) for field in self.accumulators)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        arrays = [batch.values[source].array for source in self.sources]
        columns = [python_values(array, name) for array, name in zip(arrays, self.rows.names, strict=True)]
        rows = _row_type(self.rows).from_columns(columns, len(groups.ids))
        written, row = self.written, None
        try:
            # Two loops: another call for every row would cost a third of the time.
            if isinstance(written, AggregateFunction):
                add = written.add
                accumulators = [written.create_accumulator() for _ in range(groups.size)]
                for group, row in zip(groups.ids.tolist(), rows, strict=True):
                    accumulators[group] = add(row, accumulators[group])
            else:
                accumulators = [_NOTHING] * groups.size
                for group, row in zip(groups.ids.tolist(), rows, strict=True):
                    known = accumulators[group]
                    accumulators[group] = row if known is _NOTHING else written(known, row)
        except Exception as error:
            raise self._failed("add", f"the row {row!r}", error) from error
        return self.in_columns().encode(accumulators)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        merge, merged = self._merging(), [_NOTHING] * groups.size
        for group, accumulator in zip(groups.ids.tolist(), self.in_columns().decode(columns), strict=True):
            known = merged[group]
            merged[group] = accumulator if known is _NOTHING else merge(known, accumulator)
        return self.in_columns().encode(merged)

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        order = pa.array(ranges.order)
        partials, merge = _Growing([column.take(order) for column in columns]), self._merging()

        def combine(a: State, b: State) -> State:
            known = np.flatnonzero(a[0] >= 0)
            # Decoded again for each merge: merge may change its arguments, and other windows need the originals.
            lefts, rights = (self.in_columns().decode(partials.take(side[0][known])) for side in (a, b))
            merged = [merge(left, right) for left, right in zip(lefts, rights, strict=True)]
            combined = b[0].copy()
            combined[known] = partials.add(self.in_columns().encode(merged))
            return (combined,)

        # The fold works on accumulator numbers, with -1 for none.
        (numbers,) = ranges.fold_in_order((np.arange(len(ranges.order)),), (-1,), combine)
        return self._results(partials.take(numbers))

    def described(self, inputs: Sequence[str]) -> str:
        # Row columns are omitted, because they may change: state only contains accumulators.
        return f"{words_of(self.written)}{KEEPS}{words_of(self.accumulators)}"

    def nothing(self, count: int) -> list[pa.Array]:
        written = self.written
        if isinstance(written, AggregateFunction):
            return self.in_columns().encode([written.create_accumulator() for _ in range(count)])
        if not count:
            return super(PartialAccumulator, self).nothing(0)
        raise InvalidPlanError(
            "a reduce function makes its result of rows, and those that came before are gone: it cannot be added to windows that "
            "are open. Start from no saved state"
        )

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return self._results(columns)

    def _results(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        accumulators = self.in_columns().decode(columns)
        written = self.written
        if not isinstance(written, AggregateFunction):
            # A reduced row also has the keys, which already precede the results.
            by_name = dict(zip(self.rows.names, result_columns(accumulators, self.rows), strict=True))
            return [by_name[name] for name in self.results.names]
        return result_columns(list(self._called("get_result", map(written.get_result, accumulators))), self.results)

    def _merging(self) -> Callable[[Any, Any], Any]:
        written = self.written
        function = written.merge if isinstance(written, AggregateFunction) else written

        def merge(a: Any, b: Any) -> Any:
            try:
                return function(a, b)
            except Exception as error:
                raise self._failed("merge", f"the accumulators {a!r} and {b!r}", error) from error

        return merge

    def _called(self, method: str, results: Iterable[Any]) -> Iterable[Any]:
        try:
            yield from results
        except Exception as error:
            raise self._failed(method, "a window that fires", error) from error

    def in_columns(self) -> AccumulatorColumns | RowColumns:
        """Return the converter between accumulators and columns."""
        if isinstance(self.written, AggregateFunction):
            return AccumulatorColumns(self.accumulators, self.written.create_accumulator())
        return RowColumns(_row_type(self.rows))

    def _failed(self, method: str, at: str, error: Exception) -> Exception:
        """Return the error with its place. Key and window are unknown here, but the row contains its key."""
        if isinstance(error, PanestreamError):
            return error
        what = f"{type(self.written).__name__}.{method}" if isinstance(self.written, AggregateFunction) else "the reduce function"
        summary = "".join(TracebackException.from_exception(error, lookup_lines=False).format_exception_only()).strip()
        headline = f"{what} raised {summary.splitlines()[0]} (at {at})"
        return WindowFunctionError("\n".join([headline, *(BAR + line for line in users_lines(error))]))


@lru_cache(maxsize=4)
def _row_type(schema: pa.Schema) -> RowType:
    """Return the row class, cached because making it takes longer than processing many rows."""
    return RowType(schema)


class _Growing:
    """Accumulators in columns, added in batches and found by number."""

    def __init__(self, first: list[pa.Array]) -> None:
        self._lots = [first]
        self._count = len(first[0])

    def add(self, more: list[pa.Array]) -> Ints:
        """Add accumulators and return their numbers."""
        self._lots.append(more)
        self._count += len(more[0])
        return np.arange(self._count - len(more[0]), self._count)

    def take(self, numbers: Ints) -> list[pa.Array]:
        if len(self._lots) > 1:
            self._lots = [[pa.concat_arrays(list(column)) for column in zip(*self._lots, strict=True)]]
        return [column.take(pa.array(numbers)) for column in self._lots[0]]


__all__ = ["InTwoPhases", "PartialAccumulator"]
