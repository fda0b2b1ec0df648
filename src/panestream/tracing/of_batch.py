"""Traces of batch queries: the row operator processes the rows and records what happens to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, TableOfRows, TablePerWindow
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.operators.row.operator import RowGroupOperator
from panestream.engine.operators.row.spec import RowSpec, row_spec
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowPlan
from panestream.engine.query import WindowSpec
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows, FunctionOfTables, WindowRequest
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep, collector_paused
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.tracing.events import Trace, UnusableRow
from panestream.tracing.recorder import TracedOperator
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.functions import WindowFunction

LATE, INVALID = "late", "invalid"
_NO_RESULTS = (
    "What windows gave: the function is handed the windows of all keys at once (all_windows=True), which a trace does not do."
)


@dataclass(frozen=True, slots=True)
class TracedQuery:
    """A query prepared for tracing.

    Attributes:
        plan: a plan for the row operator with one key group, whole rows, and outputs for late and invalid rows.
        names: names of the values of a result, or None if a result is the single value that the function returned.
        refuses: whether the query itself fails on a row without a usable event time.
        missing: sentences that name what the trace cannot show.
    """

    plan: WindowPlan
    rows: pa.Schema
    spec: RowSpec
    names: tuple[str, ...] | None
    refuses: bool
    missing: tuple[str, ...] = ()


def row_operator_of(window: WindowSpec, asked: WindowRequest) -> RowSpec:
    """Return a row operator for any query, or raise InvalidPlanError if it has several kinds of windows."""
    if isinstance(window.assigner, SeveralWindows):
        raise InvalidPlanError(
            f"several windows in one query ({', '.join(window.assigner.labels)}) cannot be traced together: trace a query with "
            "one of them, .window(assigner)"
        )
    if not isinstance(asked, FunctionOfTables):
        return row_spec(window, asked, ())
    function = asked.function
    on_rows = TableOfRows(function, asked.rows, asked.results) if isinstance(function, TablePerWindow) else _NoResults()
    return row_spec(window, FunctionOfRows(KeepRows(on_rows), asked.results, asked.rows, function), ())


def traced_query(plan: WindowPlan, asked: WindowRequest, rows: pa.Schema) -> TracedQuery:
    """Prepare a query for tracing; the plan must have the operator that :func:`row_operator_of` returned."""
    spec = plan.operator
    assert isinstance(spec, RowSpec)  # noqa: S101 - see the docstring
    in_one = replace(plan, groups=1, split=None, top=None, with_firing=False, changelog=False)
    whole = replace(in_one, row_schema=rows, late_tag=plan.late_tag or LATE, invalid_tag=plan.invalid_tag or INVALID)
    declared = isinstance(asked, DeclaredAggregates) and asked.then is None
    unknown = isinstance(asked, FunctionOfTables) and isinstance(asked.function, AllWindows)
    return TracedQuery(
        whole,
        rows,
        spec,
        tuple(spec.result_schema.names) if declared else None,
        plan.invalid_tag is None,
        (_NO_RESULTS,) if unknown else (),
    )


def trace_of_batch(
    query: TracedQuery, columns: PackColumns, rows: Sequence[pa.RecordBatch], *, rows_per_batch: int | None = None
) -> Trace:
    """Return the trace of a query over rows in order of arrival.

    The rows form a stream of micro-batches of ``rows_per_batch`` rows, or one batch if that is None. In one batch, all windows
    fire at its end. A failing user function raises WindowFunctionError.
    """
    group = _TracedGroup(query.plan, query.spec, SealedState(MemoryState(), 0, query.spec.name), 0)
    unusable: list[Any] = []
    row_type = RowType(query.rows)
    for micro_batch in _micro_batches(rows, rows_per_batch):
        parts = [part for _, part in pack(query.plan, columns, micro_batch)]
        batch = gather(query.plan, parts, end_of_input=rows_per_batch is None)
        unusable += [row for table in batch.invalid for row in row_type.rows(table)]
        group.process(batch)
    trace = group.traced()
    values = [row for table in group.whole for row in row_type.rows(table.rename_columns(query.rows.names))]
    elements = tuple(replace(one, value=value) for one, value in zip(trace.elements, values, strict=True))
    named = trace if query.names is None else _with_names(trace, query.names)
    return replace(
        named,
        elements=elements,
        unusable=tuple(UnusableRow(row, query.refuses) for row in unusable),
        missing=query.missing,
    )


def _micro_batches(rows: Sequence[pa.RecordBatch], size: int | None) -> Iterator[list[pa.RecordBatch]]:
    if size is None or not rows:
        yield list(rows)
        return
    table = pa.Table.from_batches(rows)
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size).combine_chunks().to_batches()


def _with_names(trace: Trace, names: Sequence[str]) -> Trace:
    """Turn results of declared aggregates into dicts."""

    def named(results: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dict(zip(names, result, strict=True)) for result in results)

    windows = tuple(
        replace(window, firings=tuple(replace(one, results=named(one.results)) for one in window.firings))
        for window in trace.windows
    )
    return replace(trace, windows=windows)


class _TracedGroup(RowGroupOperator):
    """A key group's operator that runs all micro-batches without saving state in between; ``whole`` has the rows in order."""

    _runs: ClassVar[type[RowOperator]] = TracedOperator
    _key_by_key: ClassVar[bool] = False  # a trace shows rows in order of arrival

    def __init__(self, plan: WindowPlan, spec: RowSpec, state: SealedState, group: int) -> None:
        self.whole: list[pa.Table] = []
        super().__init__(plan, spec, state, group)

    def traced(self) -> Trace:
        assert isinstance(self._operator, TracedOperator)  # noqa: S101 - it makes one
        return self._operator.trace()

    def process(self, batch: GroupInput) -> GroupOutput:
        with collector_paused():
            return GroupOperator.process(self, batch)

    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Any:
        arrived = super()._take_in(batch, step, output)
        self.whole += [arrived.whole] if arrived else []
        return arrived

    def _save(self) -> None:
        pass


class _NoResults(WindowFunction):
    """A placeholder for a function that cannot be called here."""

    def apply(self, key: Any, window: Any, elements: Any) -> list[Any]:
        return []


__all__ = ["TracedQuery", "row_operator_of", "trace_of_batch", "traced_query"]
