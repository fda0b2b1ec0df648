"""The row operator on columns: a key group's micro-batch goes in and comes out as Arrow tables.

Declared aggregates run here as the accumulators of one function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.aggregation import KeptRows
from panestream.engine.aggregates.complete import described
from panestream.engine.aggregates.registry import Accumulator, RowLayout, implementation_of
from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import interleaved, stable_order
from panestream.engine.kernels.panes import Int64s
from panestream.engine.kernels.parts import complete_parts, known_from_the_start
from panestream.engine.kernels.python_values import Place, RowType, arrow_column, python_values, result_columns
from panestream.engine.operators.row.codec import key_values
from panestream.engine.operators.row.contents import AggregateRows, RowPlan
from panestream.engine.operators.row.key_watermarks import PerKeyOperator
from panestream.engine.operators.row.state import RowStore
from panestream.engine.operators.row.tables import RowTables
from panestream.engine.operators.row.window_operator import FiredResult, Output, RowOperator
from panestream.engine.plan import FIRING_COLUMNS, FIRINGS, INSERT, MAIN, OPS, UPDATE_AFTER, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import (
    GroupOperator,
    TimeStep,
    collector_paused,
    firing_columns,
    side_schema,
    window_rows,
)
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import State
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import PlanMismatchError
from panestream.windowing.aggregates import Aggregate, Complete
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.failures import at_window
from panestream.windowing.functions import AggregateFunction
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import GlobalWindow, TimeWindow

INPUTS = "inputs"
_AT_A_TIME = 16_384
"""Number of rows converted to Python objects at a time. Objects that are not stored are freed before the next rows."""


@dataclass(slots=True)
class _Arrived:
    """The arrived rows in the order of processing, except ``whole``, which has the whole rows in the order of arrival.

    ``order`` has the place of each row in the order of arrival, and ``late`` the places of rows that no window took, if the plan
    has an output for them.
    """

    keys: list[Any]
    times: Int64s
    columns: list[pa.Array]
    order: Int64s
    whole: pa.Table
    late: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RowSettings:
    """The row operator's part of the query.

    Attributes:
        row_plan: the operator's plan. Elements are whole input rows, or ``input_texts`` and the event time.
        input_texts: the columns or SQL expressions that make up an element. None for the whole input row.
        returned: the columns that the function returns if they differ from ``result`` (a reduced row also has the keys).
    """

    row_plan: RowPlan
    result: pa.Schema
    element_schema: pa.Schema
    input_texts: tuple[str, ...] | None = None
    returned: pa.Schema | None = None

    @property
    def declared(self) -> DeclaredFunction | None:
        """The declared aggregates if the state stores their accumulators; None otherwise."""
        function = self.row_plan.function
        if self.row_plan.keeps_elements or not isinstance(function, AggregateRows):
            return None
        return function.function if isinstance(function.function, DeclaredFunction) else None

    def results(self, values: Sequence[Any], place: Place | None = None) -> list[pa.Array]:
        """Return the function's return values as result columns; ``place`` returns key and window of a row, for errors."""
        if self.returned is None:
            return result_columns(values, self.result, place)
        columns = dict(zip(self.returned.names, result_columns(values, self.returned, place), strict=True))
        return [columns[name] for name in self.result.names]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Objects shared by the operators of all key groups of a plan, so that plan and row type are built and checked once."""

    plan: WindowPlan
    row_type: RowType
    row_plan: RowPlan


_last_prepared: list[_Prepared] = []
"""The prepared plan last run in this process. It is not pickled with the plan: row types cannot be pickled."""


def _prepared(plan: WindowPlan, settings: RowSettings) -> _Prepared:
    for prepared in _last_prepared:
        if prepared.plan is plan:
            return prepared
    row_type = RowType(settings.element_schema)
    row_plan = replace(
        settings.row_plan,
        element_type=row_type.element,
        late_output=plan.late_tag,
        numbers_firings=plan.with_firing and not plan.changelog,
        keeps_emitted=plan.changelog,
        key_watermarks=plan.watermark.of_keys,
    )
    prepared = _Prepared(plan, row_type, row_plan)
    _last_prepared[:] = [prepared]
    return prepared


def row_tables(plan: WindowPlan, settings: RowSettings) -> RowTables:
    """Return the reader and writer of the state tables of a plan's key groups."""
    prepared = _prepared(plan, settings)
    return RowTables(prepared.row_plan, plan.key_schema, prepared.row_type)


@dataclass(frozen=True, slots=True)
class _RowStorage:
    """Storage in the row operator's own pages. Its meta record has time and closing, because it also runs without a plan."""

    operator: RowOperator
    state: SealedState

    def load(self) -> Mapping[str, Any] | None:
        meta = self.operator.store.meta
        return meta if "identity" in meta else None

    def save(self, header: Mapping[str, Any]) -> None:
        # The record holds the micro-batch number, so it is written in every micro-batch, as in all operators.
        kept = {name: header[name] for name in ("identity", "watermarks", "incomplete") if name in header}
        self.operator.store.meta.update({**kept, "micro_batch": self.state.micro_batch})
        self.operator.commit()

    def sizes(self) -> Sequence[int]:
        return self.operator.store.sizes()


def row_operator(plan: RowPlan, state: State, key_group: int = 0) -> RowOperator:
    """Return the row operator of a plan."""
    return (RowOperator if plan.key_watermarks is None else PerKeyOperator)(plan, state, key_group)


class RowGroupOperator(GroupOperator[_Arrived | None]):
    """The row operator of a key group. It tracks event time and processing time itself, because a query may use both."""

    _key_by_key: ClassVar[bool] = True
    """True if rows are processed key by key. A key's windows are then in the processor's cache, which saves a third of the time.
    Results are the same: keys are independent, and the rows of each stay in order."""

    def __init__(self, plan: WindowPlan, settings: RowSettings, state: SealedState, group: int) -> None:
        self._settings = settings
        prepared = _prepared(plan, settings)
        self._row_type = prepared.row_type
        self._row_plan = prepared.row_plan
        self._operator = self._operator_of(prepared.row_plan, state, group)
        # A window can exceed the limit only if all elements together do; otherwise no window needs the check.
        if self._operator.store.bytes_of_elements > plan.most_bytes:
            self._operator.store.most_bytes = plan.most_bytes
        super().__init__(plan, state, _RowStorage(self._operator, state))

    @staticmethod
    def _operator_of(plan: RowPlan, state: State, group: int) -> RowOperator:
        """Return the operator that this one runs on columns."""
        return row_operator(plan, state, group)

    def process(self, batch: GroupInput) -> GroupOutput:
        with collector_paused():
            output = super().process(batch)
            self._operator.store.release()
            return output

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _own_header(self) -> Mapping[str, Any]:
        meta = self._operator.store.meta
        shift = {"stagger": meta["stagger"]} if "stagger" in meta else {}
        counters = {"total": {"late_dropped": self._operator.late_dropped}, "equal": shift}
        declared = self._settings.declared
        return {"counters": counters, **({} if declared is None else {"accumulators": declared.described})}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        # Not the operator's own store: it would call the user's code for windows that a shorter lateness has closed.
        store = RowStore(self._row_plan, self._state, lambda _: True)
        try:
            return self._as_tables().tables(store)
        finally:
            store.release()

    def _write_tables(self, saved: StateTables) -> None:
        counters = saved.header["counters"]
        operator = self._operator
        operator.begin_at(self._tracker.watermark, self._processing_time, self._closing.until)
        operator.late_dropped = counters["total"]["late_dropped"]
        operator.store.meta.update(counters["equal"])
        self._as_tables().fill(saved, operator.store, operator.set_cleanup, self._taken_over(saved))

    def _taken_over(self, saved: StateTables) -> Callable[[Any], Any] | None:
        """Return the converter from saved accumulators to these aggregates, or None if they are the same or user-defined."""
        declared, parts = self._settings.declared, saved.header.get("accumulators")
        if (declared is None) != (parts is None):
            raise PlanMismatchError(
                "the saved state holds accumulators of "
                + ("a user function, but now aggregates are declared" if parts is None else "declared aggregates")
                + ": neither can take over the other's. Start with the old ones, or without saved state"
            )
        if declared is None or parts is None or parts == declared.described:
            return None
        return declared.taking_over(saved.header)

    def _as_tables(self) -> RowTables:
        return row_tables(self._plan, self._settings)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> _Arrived | None:
        arrived = self._arrived(batch.of(INPUTS), batch.origins.get(INPUTS, []))
        # The operator judges, adds and fires row by row.
        emitted = self._operator.process(self._elements_of(arrived), step.after, batch.batch_time or None)
        self._emit(emitted, output)
        if (
            step.end_of_input
            and self._plan.operator.capabilities.uses_processing_time
            and not (self._plan.operator.capabilities.has_windows and isinstance(self._plan.assigner, GlobalWindows))
        ):
            # A batch cannot wait for a clock: windows that are open at the end of the input fire then, and timers of keys.
            self._operator.advance_processing_time(MAX_TIMESTAMP)
            self._emit(self._operator.drain(), output)
        self._emit_changes(output)
        self._emit_late(emitted.late_dropped + len(emitted.late), self._late_rows(arrived), output)
        metrics, came = output.metrics, len(arrived.keys) if arrived else 0
        metrics.outside_rows, metrics.firings = self._operator.outside, self._operator.firing_counts
        metrics.windowed_rows = came - metrics.late_rows - metrics.outside_rows
        return arrived

    def _fire(self, fresh: _Arrived | None, step: TimeStep, output: GroupOutput) -> _Arrived | None:
        return fresh

    def _close(self, fresh: _Arrived | None, step: TimeStep) -> None:
        pass

    def _wake_up(self, step: TimeStep) -> int | None:
        return self._operator.next_processing_time_timer()

    def _kept_windows(self) -> int | None:
        return self._operator.store.window_count

    def _emit(self, emitted: Output, output: GroupOutput) -> None:
        if emitted.fired and not self._plan.changelog:
            firing = [
                pa.array(column, field.type)
                for column, field in zip(zip(*emitted.firings, strict=True), FIRING_COLUMNS, strict=False)
            ]
            rows = self._rows(MAIN, emitted.fired, self._settings.results, firing)
            self._emit_main(rows, len(emitted.fired), output)
        for tag, fired in emitted.side_outputs.items():
            columns_of = partial(result_columns, schema=side_schema(self._plan, tag))
            if fired:
                output.emit(tag, self._rows(tag, fired, columns_of))

    def _emit_changes(self, output: GroupOutput) -> None:
        """Emit the changes of a micro-batch, if the plan asks for a changelog."""
        taken = self._operator.take_changes()
        changes = [] if taken is None else list(taken.rows())
        if not changes:
            return
        fired = [
            (key, GlobalWindow() if row.start is None or row.end is None else TimeWindow(row.start, row.end), row.value, 0)
            for key, row, _ in changes
        ]
        kinds, numbers, last, ops = (
            np.array(column)
            for column in zip(
                *((FIRINGS.index(row.firing), row.number, row.is_last, OPS.index(op)) for _, row, op in changes), strict=True
            )
        )
        rows = self._rows(MAIN, fired, self._settings.results, firing_columns(self._plan, kinds, numbers, last, ops))
        self._emit_main(rows, sum(op in (INSERT, UPDATE_AFTER) for _, _, op in changes), output)

    def _arrived(self, tables: Sequence[pa.Table], origins: Sequence[int]) -> _Arrived | None:
        if not tables:
            return None
        table = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
        width, rows = len(self._plan.key_schema), table.num_rows
        order, keys = self._in_order(tables, origins, [one_chunk(column) for column in table.columns[:width]])
        values = len(self._row_type.schema)
        taken, as_it_came = pa.array(order), bool((order == np.arange(rows)).all())
        columns = [one_chunk(table.column(width + 1 + position)) for position in range(values)]
        columns = columns if as_it_came else [column.take(taken) for column in columns]
        times = table.column(width).to_numpy()[order]
        first_whole = width + 1 + (0 if self._plan.operator.capabilities.takes_rows else values)
        whole = table.select(range(first_whole, table.num_columns))
        return _Arrived(keys, times, columns, order, whole)

    def _elements_of(self, arrived: _Arrived | None) -> Iterable[tuple[Any, int, Any]]:
        """Return key, event time and element of each row, in the order of processing."""
        return chain.from_iterable(self._in_pieces(arrived)) if arrived else ()

    def _in_pieces(self, arrived: _Arrived) -> Iterator[Iterable[tuple[Any, int, Any]]]:
        """Yield key, event time and element of each row, in pieces; late rows of a piece are known when the next is requested."""
        for start in range(0, len(arrived.keys), _AT_A_TIME):
            keys = arrived.keys[start : start + _AT_A_TIME]
            columns = [column.slice(start, len(keys)) for column in arrived.columns]
            elements = self._row_type.from_columns(list(map(python_values, columns)), len(keys))
            self._operator.store.arrived(elements, columns)
            known = len(self._operator.late_so_far())
            yield zip(keys, arrived.times[start : start + _AT_A_TIME].tolist(), elements, strict=True)
            # The operator references late elements, so no other object can have their identity.
            late = {id(element) for _, _, element in self._operator.late_so_far()[known:]}
            if late:
                arrived.late += [start + place for place, element in enumerate(elements) if id(element) in late]

    def _first_order(self, tables: Sequence[pa.Table]) -> tuple[Int64s, bool]:
        """Return the order of rows, and whether the rows of each key may be processed together."""
        return np.arange(sum(table.num_rows for table in tables)), self._key_by_key

    def _in_order(self, tables: Sequence[pa.Table], origins: Sequence[int], keys: Sequence[pa.Array]) -> tuple[Int64s, list[Any]]:
        """Return the processing order of rows, as places in the order of arrival, and their keys in that order."""
        width, rows = len(keys), sum(table.num_rows for table in tables)
        (order, key_by_key), codes = self._first_order(tables), None
        nested = any(pa.types.is_nested(column.type) for column in keys)
        side_by_side = len(set(origins)) > 1 and self._operator.plan.window.merges
        if keys and not nested and (key_by_key or side_by_side):
            codes = encode_keys(keys, rows).codes.astype(np.int64)
        if side_by_side:
            times = [table.column(width).to_numpy() for table in tables]
            order = interleaved(_codes_of(keys, rows) if codes is None else codes, times, origins)
        if codes is None or not key_by_key:
            return order, _keys_of([column.take(pa.array(order)) for column in keys], rows)
        codes = codes[order]
        by_key = stable_order(codes)
        changes = np.flatnonzero(np.diff(codes[by_key], prepend=-1))
        order = order[by_key]
        distinct = _keys_of([column.take(pa.array(order[changes])) for column in keys], len(changes))
        counts = np.diff(changes, append=rows).tolist()
        # All rows of a key share one key object.
        return order, list(chain.from_iterable(map(repeat, distinct, counts)))

    def _rows(
        self,
        tag: str,
        fired: Sequence[FiredResult],
        columns_of: Callable[..., list[pa.Array]],
        firing: Sequence[pa.Array] = (),
    ) -> pa.Table:
        by_row = [one[0] for one in fired]
        columns: Iterator[Sequence[Any]] = iter([by_row] if len(self._plan.key_schema) == 1 else zip(*by_row, strict=True))
        keys = [arrow_column(next(columns), field) for field in self._plan.key_schema]
        results = columns_of([one[2] for one in fired], place=lambda at: at_window(*fired[at][:2]))
        if not self._plan.operator.capabilities.has_windows:
            return window_rows(self._plan, keys, (), results, firing, tag=tag)
        spans = [one[1] if isinstance(one[1], TimeWindow) else None for one in fired]
        starts = pa.array([None if span is None else span.start for span in spans], pa.int64())
        ends = pa.array([None if span is None else span.end for span in spans], pa.int64())
        return window_rows(self._plan, keys, (starts, ends), results, firing, tag=tag)

    def _late_rows(self, arrived: _Arrived | None) -> Iterator[pa.Table]:
        """Yield the whole rows of late elements, in the order of arrival."""
        if arrived is None or not arrived.late:
            return
        places = arrived.order[arrived.late]
        rows = arrived.whole.take(pa.array(np.sort(places)))
        yield pa.Table.from_arrays(rows.columns, schema=self._plan.row_schema)


def _codes_of(columns: Sequence[pa.Array], rows: int) -> Int64s:
    """Return equal numbers for equal keys; also handles nested keys, which :func:`encode_keys` does not, and empty keys."""
    known: dict[Any, int] = {}
    return np.fromiter((known.setdefault(key, len(known)) for key in _keys_of(columns, rows)), np.int64, rows)


def _keys_of(columns: Sequence[pa.Array], rows: int) -> list[Any]:
    """Return keys as the row operator uses them: values if there is one column, tuples if there are several."""
    values = list(map(key_values, columns))
    return values[0] if len(values) == 1 else list(zip(*values, strict=True)) if values else [()] * rows


TIME = "__time"
"""The name of the last value of each element: its event time."""


class DeclaredFunction(AggregateFunction):
    """Declared aggregates as a function of elements that hold their inputs and, last, the event time.

    Each aggregate has an accumulator in plain Python. Sketches and users' columnar aggregates do not have one: their rows are
    stored, and the columnar kernel aggregates them when the window fires. Raises InvalidPlanError for unsupported input types.
    """

    def __init__(self, aggregates: Sequence[Aggregate], input_types: Mapping[str, pa.DataType]) -> None:
        self.aggregates = tuple(aggregates)
        aggregation = Aggregation.build(aggregates, input_types, pa.schema([]))
        results = {field.name: field.type for field in aggregation.output_schema}
        layout = RowLayout({text: place for place, text in enumerate(aggregation.inputs)}, input_types, results)
        self._parts = [_accumulator(aggregate, layout) for aggregate in aggregates]
        self._adders = [part.add for part in self._parts]

    @property
    def described(self) -> list[str]:
        """Descriptions of the parts of an accumulator, independent of the names of the results."""
        by_name = {recipe.name: recipe for recipe in self.aggregates}
        return [described(recipe, by_name) for recipe in self.aggregates]

    def taking_over(self, header: Mapping[str, Any]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """Return a converter of accumulators saved with ``header`` to these aggregates; new aggregates start without rows."""
        places, complete = {of: place for place, of in enumerate(header["accumulators"])}, complete_parts(header)
        own = [
            (places.get(of), part, isinstance(recipe, Complete) and not known_from_the_start(complete, of))
            for part, recipe, of in zip(self._parts, self.aggregates, self.described, strict=True)
        ]

        def taken_over(accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(
                [accumulator[place] if place is not None else False if lacking else part.start() for place, part, lacking in own]
            )

        return taken_over

    def create_accumulator(self) -> tuple[Any, ...]:
        return tuple([part.start() for part in self._parts])

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        row = tuple(value)  # field access on the element is slower
        return tuple([add(state, row) for add, state in zip(self._adders, accumulator, strict=True)])

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.merge(one, other) for part, one, other in zip(self._parts, a, b, strict=True)])

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.result(state) for part, state in zip(self._parts, accumulator, strict=True)])


def _accumulator(aggregate: Aggregate, layout: RowLayout) -> Accumulator:
    implementation = implementation_of(aggregate)
    accumulator = implementation.accumulator(aggregate, layout)
    if accumulator is None:
        return KeptRows(aggregate, layout, null_without_rows=implementation.null_without_rows)
    return accumulator
