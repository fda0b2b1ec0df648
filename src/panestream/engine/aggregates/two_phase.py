"""Users' aggregate and reduce functions in two phases: rows are added before the shuffle, accumulators are merged after it.

Operators treat it as a declared aggregate whose partial is the accumulator. ``reduce`` calls the function's ``add`` for each row,
once for all windows of the row. ``merge`` and ``combine`` call its ``merge``, and results come from ``get_result``.
Accumulators become Arrow columns in the form of ``create_accumulator``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from traceback import TracebackException
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import KEEPS, Batch, PartialAggregate, sparse, words_of
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.python_values import RowType, arrow_column, python_values, result_columns
from panestream.engine.kernels.ranges import Ranges, State
from panestream.errors import InvalidPlanError, PanestreamError
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.failures import BAR, WindowFunctionError, users_lines

_Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class AccumulatorColumns:
    """Converts accumulators to columns and back. Decoded accumulators are not shared, so they may be changed.

    ``schema`` has one column for each part of an accumulator, or one for all of it. The empty accumulator ``example``
    distinguishes tuples, lists, dicts and sets, which are equal in columns.
    """

    schema: pa.Schema
    example: Any

    def __post_init__(self) -> None:
        self._kind()

    def encode(self, accumulators: Sequence[Any]) -> list[pa.Array]:
        """Return the columns, or raise InvalidPlanError if an accumulator does not fit them."""
        names, width = self.schema.names, len(self.schema)
        rows = [_parts(accumulator, names, self._whole()) for accumulator in accumulators]
        columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * width
        fields = [field.with_name(f"{field.name} of the accumulator") for field in self.schema]
        return [
            arrow_column([_plain(value, field.type) for value in column], field)
            for column, field in zip(columns, fields, strict=True)
        ]

    def decode(self, columns: Sequence[pa.Array]) -> list[Any]:
        values = [python_values(column) for column in columns]
        if self._whole():
            convert = _reader(self.example, self.schema.field(0).type)
            return list(map(convert, values[0])) if convert is not None else values[0]
        make = self._kind()
        named = isinstance(self.example, dict)
        for place, field in enumerate(self.schema if self.example is not None else ()):
            convert = _reader(self.example[field.name if named else place], field.type)
            if convert is not None:
                values[place] = list(map(convert, values[place]))
        return list(map(make, zip(*values, strict=True)))

    def _whole(self) -> bool:
        """Return whether the only column is the whole accumulator rather than a part."""
        if len(self.schema) != 1:
            return False
        name, type_ = self.schema.names[0], self.schema.field(0).type
        if isinstance(self.example, (tuple, list)):
            return pa.types.is_nested(type_) and not (isinstance(self.example, tuple) and len(self.example) == 1)
        return not (isinstance(self.example, dict) and set(self.example) == {name} and not pa.types.is_map(type_))

    def _kind(self) -> Callable[[tuple[Any, ...]], Any]:
        """Return the function that makes an accumulator from its parts."""
        example, names = self.example, self.schema.names
        if self._whole():
            return lambda parts: parts[0]
        if example is None or isinstance(example, (tuple, list)):
            if example is not None and len(example) != len(names):
                raise InvalidPlanError(
                    f"accumulator_type has {len(names)} columns ({', '.join(names)}), create_accumulator() returns {example!r}: "
                    f"write a column for each of its {len(example)} values"
                )
            if example is None:
                return _none_of_nulls
            return getattr(type(example), "_make", type(example))
        if isinstance(example, dict):
            # Columns are matched by name, in the order in which the function created them.
            wrong = set(example) ^ set(names)
            if wrong:
                raise InvalidPlanError(
                    f"accumulator_type has the columns {', '.join(names)}, create_accumulator() returns {example!r}: "
                    "write a column for each of its keys with the same name, or one map<...> for all keys"
                )
            return lambda parts: dict(zip(names, parts, strict=True))
        raise InvalidPlanError(
            f"create_accumulator() returns {example!r}, but accumulator_type {', '.join(names)} does not describe it. Return a "
            f"tuple, a list or a dict with a value for each, or declare one column for all of it"
        )


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Like :class:`AccumulatorColumns`, for reduce functions, whose accumulators are rows."""

    row_type: RowType

    def encode(self, accumulators: Sequence[Any]) -> list[pa.Array]:
        return self.row_type.columns(accumulators)

    def decode(self, columns: Sequence[pa.Array]) -> list[Any]:
        return self.row_type.from_columns(list(map(python_values, columns)), len(columns[0]))


def _parts(accumulator: Any, names: Sequence[str], whole: bool) -> Sequence[Any]:
    """Return the value of each column."""
    if whole:
        return (accumulator,)
    if accumulator is None:
        return (None,) * len(names)
    if isinstance(accumulator, dict) and set(accumulator) == set(names):
        return [accumulator[name] for name in names]
    if isinstance(accumulator, (tuple, list)) and len(accumulator) == len(names):
        return accumulator
    raise InvalidPlanError(
        f"an accumulator must have {len(names)} values ({', '.join(names)}), as accumulator_type says; got {accumulator!r}"
    )


def _none_of_nulls(parts: tuple[Any, ...]) -> Any:
    return None if all(part is None for part in parts) else parts


def _plain(value: Any, type_: pa.DataType) -> Any:
    """Return a value in Arrow's form: sets as lists, in the same order in every process, and lists of struct type as tuples."""
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return sorted(value, key=repr)
    if isinstance(value, (tuple, list)):
        if pa.types.is_struct(type_):
            fields = list(type_) if len(value) == type_.num_fields else []  # otherwise Arrow reports the expected number
            return tuple(_plain(one, field.type) for one, field in zip(value, fields, strict=True)) if fields else tuple(value)
        return [_plain(one, type_.value_type) for one in value] if _is_list(type_) else value
    if isinstance(value, dict):
        if pa.types.is_map(type_):
            return {name: _plain(one, type_.item_type) for name, one in value.items()}
        if pa.types.is_struct(type_):
            known = {field.name: field.type for field in type_}
            return {name: _plain(one, known.get(name, pa.null())) for name, one in value.items()}
    return value


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _reader(example: Any, type_: pa.DataType) -> _Convert | None:
    """Return the function that converts an Arrow value to the example's form, or None if it already has that form."""
    if isinstance(example, (set, frozenset, tuple)) and _is_list(type_):
        kind = type(example)
        return lambda value: None if value is None else kind(value)
    if isinstance(example, dict) and pa.types.is_map(type_) and type(example) is not dict:
        return lambda value: None if value is None else _filled(example, value)
    if isinstance(example, (tuple, list)) and pa.types.is_struct(type_):
        make = getattr(type(example), "_make", type(example))
        inner = [(part.name, _reader(one, part.type) or _same) for one, part in zip(example, type_, strict=False)]
        return lambda value: None if value is None else make([convert(value[name]) for name, convert in inner])
    return None


def _filled(example: dict[Any, Any], value: dict[Any, Any]) -> dict[Any, Any]:
    """Return a Counter, defaultdict or similar dict with the items."""
    made = copy.copy(example)
    made.clear()
    made.update(value)
    return made


def _same(value: Any) -> Any:
    return value


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
            "a reduce function needs all rows, but earlier rows are not stored, so it cannot be added to open windows. Start "
            "without saved state"
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
