"""The three steps of every aggregating operator: rows → partials per (key, pane) → merged partials → windows.

Aggregates without accumulators run row by row here too: rows are stored, and aggregated as columns when a window fires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.counts import RowCountResult
from panestream.engine.aggregates.partial_aggregate import Batch, Input, PartialAggregate
from panestream.engine.aggregates.planning import AggregationPlanner, Result, check_key
from panestream.engine.aggregates.registry import Accumulator, Row, RowLayout, implementation_of
from panestream.engine.kernels.columns import Ints, array_of, as_type, numbers, plain
from panestream.engine.kernels.grouping import Groups, Keys, by_key_group, encode_keys, group, key_groups_of
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.python_values import arrow_column, python_values
from panestream.engine.kernels.ranges import PlaceRanges, Ranges, dense_ranges, sparse_ranges, windows_of
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import Aggregate

_quiet = np.errstate(invalid="ignore", over="ignore")
"""Infinity minus infinity is NaN and overflow is infinity: these are results of a sum, not warnings."""
Layout = Literal["auto", "dense", "sparse"]
_RESERVED = ("window_start", "window_end")
_ROOMY = 4
"""Maximum number of cells per filled cell in a matrix of windows by keys."""
_FEW_KEYS = 16
"""With fewer columns, a matrix is slower than sorted rows: running sums down its columns waste cache lines."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Declared aggregates over one set of keys, planned and picklable.

    Attributes:
        inputs: the distinct SQL expressions, in the order of the value columns.
        needs_timestamps: whether an aggregate orders rows by event time.
        output_schema: name and type of the results, in the order of the aggregates.
        partial_schema: the key columns, ``pane`` (int64), ``rows`` (int64, the number of input rows) and the columns of the
            partials. A key column called ``pane`` or ``rows`` becomes ``key.pane`` or ``key.rows``.
        partial_aggregates: the partials per key and pane, shared by aggregates that need the same.
    """

    inputs: tuple[str, ...]
    needs_timestamps: bool
    output_schema: pa.Schema
    partial_schema: pa.Schema
    key_schema: pa.Schema
    partial_aggregates: tuple[PartialAggregate, ...]
    results: tuple[Result, ...]
    input_types: tuple[pa.DataType, ...]

    @classmethod
    def build(cls, aggregates: Sequence[Aggregate], input_types: Mapping[str, pa.DataType], key_schema: pa.Schema) -> Aggregation:
        """Plan at least one aggregate; ``key_schema`` is empty for one group of all rows.

        ``input_types`` has the Arrow type of every expression that they need.

        Raises:
            InvalidPlanError: a result has the name of another result, of a key, or of ``window_start`` or ``window_end``, or an
                aggregate or key does not support its type.
        """
        if not aggregates:
            raise InvalidPlanError("nothing to aggregate: give at least one, e.g. agg.count()")
        for key in key_schema:
            check_key(key.name, key.type)
        implementations = [implementation_of(aggregate) for aggregate in aggregates]
        plan = AggregationPlanner(input_types, {aggregate.name: aggregate for aggregate in aggregates})
        for aggregate, implementation in zip(aggregates, implementations, strict=True):
            for expr in aggregate.inputs:
                plan.source(expr)
            implementation.plan(aggregate, plan)
        _check_names([result.name for result in plan.results], key_schema.names)
        partials = tuple(plan.partials)
        fields = [pa.field(_key_name(key.name), key.type) for key in key_schema]
        fields += [pa.field("pane", pa.int64(), nullable=False), pa.field("rows", pa.int64(), nullable=False)]
        for number, partial in enumerate(partials):
            fields += [pa.field(f"#{number}.{name}", type_) for name, type_ in partial.columns]
        output = pa.schema([pa.field(result.name, result.type) for result in plan.results])
        timed = any(partial.orders_by_time for partial in partials)
        types = tuple(input_types[expr] for expr in plan.inputs)
        return cls(tuple(plan.inputs), timed, output, pa.schema(fields), key_schema, partials, tuple(plan.results), types)

    @_quiet
    def partials(self, keys: Sequence[pa.Array], panes: Ints, values: Sequence[pa.Array], timestamps: Ints | None) -> pa.Table:
        """Reduce input rows to one row of :attr:`partial_schema` per (key, pane), ordered by pane and by key in a fixed order.

        ``panes`` may be any int64, and ``values`` are the columns of :attr:`inputs` in their order. ``timestamps`` are event
        times, required if :attr:`needs_timestamps`.
        """
        return self._reduced(encode_keys(keys, len(panes)), panes, values, timestamps)[0]

    @_quiet
    def partials_of_key_groups(
        self, keys: Sequence[pa.Array], panes: Ints, values: Sequence[pa.Array], timestamps: Ints | None, key_groups: Ints
    ) -> list[tuple[int, pa.Table]] | None:
        """Return the :meth:`partials` of each key group that has rows, with its number.

        ``key_groups`` has the key group of each row. Return None if a key has rows in several key groups, as in a split query.
        """
        coded = encode_keys(keys, len(panes))
        of_key = key_groups_of(coded, key_groups)
        if of_key is None:
            return None
        table, groups = self._reduced(coded, panes, values, timestamps)
        return by_key_group(table, of_key[groups.codes])

    def _reduced(self, coded: Keys, panes: Ints, values: Sequence[pa.Array], timestamps: Ints | None) -> tuple[pa.Table, Groups]:
        panes = np.ascontiguousarray(panes, np.int64)
        times = None if timestamps is None else np.ascontiguousarray(timestamps, np.int64)
        if self.needs_timestamps and times is None:
            raise ValueError("an aggregate orders rows by event time: partials() needs timestamps")
        batch = Batch([Input(plain(value)) for value in values], times)
        groups = group(coded, panes)
        columns = [partial.reduce(groups, batch) for partial in self.partial_aggregates]
        return self._table(coded.take(groups.codes), groups.panes, groups.counts, columns), groups

    @_quiet
    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge partials, given in order of arrival, to one row per (key, pane).

        The result is ordered by pane and by key in a fixed order.
        """
        if not tables:
            return self.partial_schema.empty_table()
        partials = _Partials.of(self, pa.concat_tables(tables) if len(tables) > 1 else tables[0])
        keys = partials.keys()
        groups = group(keys, partials.panes)
        partials = partials.merged(groups, self.partial_aggregates)
        return self._table(keys.take(groups.codes), groups.panes, partials.rows, partials.columns)

    @_quiet
    def windows(self, table: pa.Table, first_pane: Ints, end_pane: Ints, layout: Layout = "auto") -> tuple[Ints, pa.Table]:
        """Combine the partials of panes to windows.

        Args:
            table: of :attr:`partial_schema`, in any order. Several rows per (key, pane) count in the order of the table.
            first_pane: the first pane of each window, non-decreasing.
            end_pane: the pane after the last of each window, non-decreasing.
            layout: forces a layout for overlapping windows, for tests.

        Returns:
            The window of each output row, and a table of key columns and results. It has one row per (window, key) with input
            rows, ordered by window and by key in a fixed order.

        Raises:
            AggregateOverflowError: a result does not fit its type.
        """
        first_pane, end_pane = np.ascontiguousarray(first_pane, np.int64), np.ascontiguousarray(end_pane, np.int64)
        partials = _Partials.of(self, table)
        if self.keeps_order and bool((partials.panes[1:] < partials.panes[:-1]).any()):
            # Between equal rows, the earliest pane and then the first arrival decides, however partials were merged before.
            partials = partials.take(stable_order(partials.panes))
        opened, until = windows_of(partials.panes, first_pane, end_pane)
        inside = opened < until
        if not inside.all():
            partials, opened, until = partials.take(np.flatnonzero(inside)), opened[inside], until[inside]
        keys = partials.keys()
        if bool((end_pane[:-1] <= first_pane[1:]).all()):
            # Windows do not overlap: the window itself can serve as the pane.
            groups = group(keys, opened)
            merged, kept = partials.merged(groups, self.partial_aggregates), self._kept
            finals = [
                columns if number in kept else partial.finalize(columns, merged.rows)
                for number, (partial, columns) in enumerate(zip(self.partial_aggregates, merged.columns, strict=True))
            ]
            return groups.panes, self._results(keys, groups.codes, finals, merged.rows)
        if self._kept:
            raise ValueError("partials are kept of windows that do not overlap")
        groups = group(keys, partials.panes)
        if layout == "auto":
            # If the matrix has many more cells than rows can fill, it would be mostly empty.
            roomy = len(first_pane) * keys.count > _ROOMY * int((until - opened).sum())
            layout = "dense" if groups.is_matrix and keys.count >= _FEW_KEYS and not roomy else "sparse"
        partials = partials.merged(groups, self.partial_aggregates)
        windows, tables = [], []
        for ranges in self._ranges(groups, keys, partials.rows, first_pane, end_pane, layout):
            windows.append(ranges.windows)
            tables.append(self._combined(keys, partials, ranges))
        return (windows[0], tables[0]) if len(tables) == 1 else (np.concatenate(windows), pa.concat_tables(tables))

    @_quiet
    def over_places(self, table: pa.Table, start: Ints, end: Ints) -> pa.Table:
        """Combine ranges of partials, like :meth:`windows` for partials whose pane is their place.

        Row ``i`` of ``table``, which must not have keys, has pane ``i``. The non-empty ranges from ``start`` to before ``end``
        must not decrease. Raises AggregateOverflowError if a result does not fit its type.
        """
        if any(partial.needs_rows for partial in self.partial_aggregates) or self._kept:
            return self.windows(table, start, end)[1]
        partials = _Partials.of(self, table)
        return self._combined(partials.keys(), partials, PlaceRanges.of(partials.rows, start, end))

    def _combined(self, keys: Keys, partials: _Partials, ranges: Ranges) -> pa.Table:
        """Return the results of ranges of partials."""
        finals = [
            partial.combine(ranges, columns, partials.rows)
            for partial, columns in zip(self.partial_aggregates, partials.columns, strict=True)
        ]
        return self._results(keys, ranges.codes, finals, ranges.rows)

    @property
    def follows_arrival(self) -> bool:
        """True if the order of arrival matters for rows with equal event times."""
        return any(partial.follows_arrival for partial in self.partial_aggregates)

    @property
    def merges_exactly(self) -> bool:
        """True if partials may be merged in any order-preserving grouping without changing a bit of the results."""
        return all(partial.merges_exactly for partial in self.partial_aggregates)

    @property
    def runs_users_code(self) -> bool:
        """True if user code merges partials or computes results from them."""
        return any(partial.is_users for partial in self.partial_aggregates)

    @property
    def crossing(self) -> tuple[str, ...]:
        """Descriptions of data that crosses the exchange unreduced, such as every value of a column."""
        found = (f"{one.grows} of {self.inputs[one.source]}" for one in self.partial_aggregates if one.grows)
        return tuple(dict.fromkeys(found))

    @property
    def keeps_order(self) -> bool:
        """True if the order of rows matters."""
        return any(partial.keeps_order for partial in self.partial_aggregates)

    @property
    def _kept(self) -> frozenset[int]:
        """The partials that results need in merged rather than finalized form."""
        return frozenset(number for result in self.results if result.takes_partials for number in result.partials)

    def _ranges(
        self, groups: Groups, keys: Keys, rows: Ints, first_pane: Ints, end_pane: Ints, layout: Layout
    ) -> Iterator[Ranges]:
        if groups.size == 0 or any(partial.needs_rows for partial in self.partial_aggregates):
            layout = "sparse"
        if layout == "dense":
            return iter([dense_ranges(groups, rows, first_pane, end_pane, keys.count)])
        return sparse_ranges(groups, rows, first_pane, end_pane)

    def _table(self, keys: list[pa.Array], panes: Ints, rows: Ints, partials: Sequence[Sequence[pa.Array]]) -> pa.Table:
        columns = [as_type(key, field.type) for key, field in zip(keys, self.key_schema, strict=True)]
        columns += [array_of(panes, pa.int64()), array_of(rows, pa.int64())]
        columns += chain.from_iterable(partials)
        return pa.Table.from_arrays(columns, schema=self.partial_schema)

    def _results(self, keys: Keys, codes: Ints, finals: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Table:
        columns = [as_type(key, field.type) for key, field in zip(keys.take(codes), self.key_schema, strict=True)]
        columns += [result.finish([finals[number] for number in result.partials], rows) for result in self.results]
        return pa.Table.from_arrays(columns, schema=pa.schema([*self.key_schema, *self.output_schema]))


@dataclass(frozen=True, slots=True)
class _Partials:
    """The columns of a partial table, each contiguous; ``columns`` are grouped by partial aggregate."""

    key_columns: list[pa.Array]
    panes: Ints
    rows: Ints
    columns: list[list[pa.Array]]

    @classmethod
    def of(cls, aggregation: Aggregation, table: pa.Table) -> _Partials:
        columns = [plain(column) for column in table.columns]
        width = len(aggregation.key_schema)
        keys, panes, rows, rest = columns[:width], numbers(columns[width]), numbers(columns[width + 1]), columns[width + 2 :]
        left = iter(rest)
        own = [list(islice(left, len(partial.columns))) for partial in aggregation.partial_aggregates]
        return cls(keys, panes, rows, own)

    def keys(self) -> Keys:
        return encode_keys(self.key_columns, len(self.panes))

    def take(self, rows: Ints) -> _Partials:
        indices = pa.array(rows)
        keys = [column.take(indices) for column in self.key_columns]
        taken = [[column.take(indices) for column in own] for own in self.columns]
        return _Partials(keys, self.panes[rows], self.rows[rows], taken)

    def merged(self, groups: Groups, kinds: Sequence[PartialAggregate]) -> _Partials:
        """Merge to one row per group, in the order of groups. Key columns stay as they are, because later steps ignore them."""
        if groups.size < len(self.panes):
            merged = [partial.merge(groups, own, self.rows) for partial, own in zip(kinds, self.columns, strict=True)]
            return _Partials(self.key_columns, groups.panes, groups.add(self.rows), merged)
        if bool((groups.slots[1:] > groups.slots[:-1]).all()):
            return self
        ids = groups.ids
        order = np.empty(len(ids), np.int64)
        order[ids] = np.arange(len(ids))
        indices = pa.array(order)
        moved = [[column.take(indices) for column in own] for own in self.columns]
        return _Partials(self.key_columns, groups.panes, self.rows[order], moved)


def _key_name(name: str) -> str:
    return f"key.{name}" if name in ("pane", "rows") or name.startswith("#") else name


def _check_names(results: Sequence[str], keys: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in keys:
        if name in seen:
            raise InvalidPlanError(f"two key columns are called {name!r}; give one another name")
        if name in _RESERVED:
            raise InvalidPlanError(f"a key column is called {name!r}, which is the name of a column that panestream adds")
        seen.add(name)
    for name in results:
        if name in _RESERVED:
            raise InvalidPlanError(f"the name {name!r} is taken by the window itself; choose another with .alias(...)")
        if name in keys:
            raise InvalidPlanError(f"the aggregate {name!r} has the name of a key column; choose another with .alias(...)")
        if name in seen:
            raise InvalidPlanError(f"two aggregates are called {name!r}; choose other names with .alias(...)")
        seen.add(name)


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


_ROWS = "__rows"


@dataclass(frozen=True, slots=True)
class Standing:
    """Current state of windows; ``which`` is the place of each in the query, and ``rows`` its number of input rows.

    ``results`` is None if user code would compute them, which is not called.
    """

    which: Ints
    keys: list[pa.Array]
    results: list[pa.Array] | None
    rows: Ints


def standing(aggregation: Aggregation, partials: pa.Table, first_pane: Ints, end_pane: Ints) -> Standing:
    """Return the windows over partials that are sorted by pane; ``first_pane`` and ``end_pane`` must not decrease."""
    width, users = len(aggregation.key_schema), aggregation.runs_users_code
    asked = aggregation
    if users:
        bare = pa.schema(list(aggregation.partial_schema)[: width + 2])
        asked = replace(aggregation, partial_schema=bare, partial_aggregates=(), results=(), output_schema=pa.schema([]))
    count = RowCountResult(_ROWS, "count()", pa.int64(), ())
    output = asked.output_schema.append(pa.field(_ROWS, pa.int64()))
    asked = replace(asked, results=(*asked.results, count), output_schema=output)
    which, table = asked.windows(partials.select(range(len(asked.partial_schema))), first_pane, end_pane)
    columns = [plain(column) for column in table.columns]
    return Standing(which, columns[:width], None if users else columns[width:-1], numbers(columns[-1]))
