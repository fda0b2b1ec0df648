"""Record what the row operator does, element by element, and trace batch queries with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, TableOfRows, TablePerWindow
from panestream.engine.operators.row.contents import EMPTY, KeepRows, KeyState, RowPlan, WindowState
from panestream.engine.operators.row.key_watermarks import PerKeyOperator
from panestream.engine.operators.row.operator import RowGroupOperator
from panestream.engine.operators.row.spec import RowSpec, row_spec
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows, FunctionOfTables, WindowRequest
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep, collector_paused
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState, State
from panestream.errors import InvalidPlanError
from panestream.tracing.events import Cause, Fate, Firing, TimeMoved, Trace, TracedElement, TracedWindow, UnusableRow
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.evictors import Elements as EvictorElements
from panestream.windowing.functions import WindowFunction
from panestream.windowing.triggers import TriggerResult
from panestream.windowing.triggers.after import fires_by_time
from panestream.windowing.windows import TimeWindow, Window


@dataclass(slots=True)
class _OpenWindow:
    """A window while it is recorded; ``held`` has its current elements, and ``ever`` all elements it ever held."""

    traced: TracedWindow
    held: list[int] = field(default_factory=list)
    ever: list[int] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)


class TracedOperator(RowOperator):
    """The row operator, working element by element and recording everything for :meth:`trace`.

    It keeps every element in memory, so it is for tests, examples and questions rather than for jobs.
    """

    def __init__(self, plan: RowPlan, state: State, key_group: int = 0) -> None:
        """Start from a state. The contents of windows that are already in the state remain unknown."""
        self._step = 0
        self._elements: list[TracedElement] = []
        self._windows: list[_OpenWindow] = []
        self._open: dict[int, _OpenWindow] = {}  # keyed by id() of a live WindowState
        self._alive: dict[int, WindowState] = {}  # keeps them alive, so that no id() is reused
        self._watermarks: list[TimeMoved] = []
        self._clocks: list[TimeMoved] = []
        self._arriving: int | None = None
        self._fate: Fate = "taken"
        self._taken: list[int] = []
        self._refused: list[Window] = []
        self._cause: Cause | None = None
        self._purging = False
        self._evicted: list[tuple[int, ...]] = []
        super().__init__(plan, state, key_group)
        self._fast_timers = None

    def _use(self, assigner: WindowAssigner) -> WindowAssigner:
        super()._use(assigner)
        self._fast = None  # the loops over many rows do not report each row
        return assigner

    def trace(self, *, in_microseconds: bool = True) -> Trace:
        """Return the trace of everything recorded until now."""
        window = self.plan.window
        return Trace(
            elements=tuple(self._elements),
            windows=tuple(replace(each.traced, elements=tuple(each.ever), firings=tuple(each.firings)) for each in self._windows),
            watermarks=tuple(self._watermarks),
            clocks=tuple(self._clocks),
            is_event_time=self.is_event_time,
            allowed_lateness=window.allowed_lateness,
            in_microseconds=in_microseconds,
            description=_described(window.assigner, window.trigger, window.evictor),
            merges=isinstance(window.assigner, MergingWindowAssigner),
            fires_by_time=fires_by_time(window.firing_trigger, event_time=self.is_event_time),
        )

    # ---------------------------------------------------------------- elements

    def element(self, key: Any, timestamp: int, element: Any) -> None:
        number, step = len(self._elements), self._next_step()
        watermark, clock, closed = self.watermark, self.processing_time, self.closed
        # Take its place now, because timers that run because of it come after it.
        self._elements.append(TracedElement(number, step, key, timestamp, element, watermark, clock, closed, "taken", ()))
        self._arriving, self._taken, self._refused, self._fate = number, [], [], "taken"
        self._cause = Cause("element", timestamp, number)
        try:
            super().element(key, timestamp, element)
        finally:
            self._cause = self._arriving = None
            windows = tuple(dict.fromkeys(self._current(taken) for taken in self._taken))
            self._elements[number] = replace(
                self._elements[number], fate=self._fate, windows=windows, refused=tuple(self._refused)
            )

    def not_taken(self, key: Any, timestamp: int, element: Any) -> None:
        outside = self.outside
        super().not_taken(key, timestamp, element)
        self._fate = "outside" if self.outside > outside else "late"

    def _find_plain(self, owner: KeyState, window: Window) -> WindowState | None:
        return self._found(super()._find_plain(owner, window), window)

    def _find_merging(self, owner: KeyState, window: Window) -> WindowState | None:
        return self._found(super()._find_merging(owner, window), window)

    def _found(self, window_state: WindowState | None, window: Window) -> WindowState | None:
        """Record that a window takes the arriving element, before its trigger is called, or that the window is closed."""
        if window_state is None:
            self._refused.append(window)
            return None
        known, number = self._known(window_state), self._arriving
        assert number is not None  # noqa: S101 - windows are looked up only when an element arrives
        known.held.append(number)
        known.ever.append(number)
        self._taken.append(known.traced.number)
        return window_state

    # ---------------------------------------------------------------- windows

    def open_window_state(self, owner: KeyState, bounds: tuple[int, int] | None) -> WindowState | None:
        window_state = super().open_window_state(owner, bounds)
        if window_state is not None:
            self._known(window_state)
        return window_state

    def _merge(self, result: TimeWindow, old: list[WindowState]) -> WindowState:
        members = [self._known(window_state) for window_state in old]
        # The operator takes over contents in this order, from the windows that have any.
        merged = super()._merge(result, old)
        known = self._known(merged)
        known.held = [number for member in members for number in member.held]
        known.ever = [number for member in members for number in member.ever]
        numbers = tuple(member.traced.number for member in members)
        known.traced = replace(known.traced, merged_from=numbers)
        for window_state, member in zip(old, members, strict=True):
            member.traced = replace(member.traced, merged_into=known.traced.number)
            self._forget(window_state)
        return merged

    def close(self, window_state: WindowState) -> None:
        known = self._known(window_state)
        super().close(window_state)
        known.traced = replace(
            known.traced, cleared=self._next_step(), cleared_watermark=self.watermark, cleared_clock=self.processing_time
        )
        self._forget(window_state)

    def _known(self, window_state: WindowState) -> _OpenWindow:
        known = self._open.get(id(window_state))
        if known is None:
            traced = TracedWindow(len(self._windows), window_state.owner.key, window_state.window, self._next_step())
            known = self._open[id(window_state)] = _OpenWindow(traced)
            self._alive[id(window_state)] = window_state
            self._windows.append(known)
        return known

    def _forget(self, window_state: WindowState) -> None:
        del self._open[id(window_state)], self._alive[id(window_state)]

    def _current(self, number: int) -> int:
        """Return the window that a window has merged into by now."""
        while (into := self._windows[number].traced.merged_into) is not None:
            number = into
        return number

    # ---------------------------------------------------------------- firing

    def _obey(self, window_state: WindowState, result: TriggerResult) -> None:
        self._purging = result is TriggerResult.FIRE_AND_PURGE
        super()._obey(window_state, result)
        self._purging = False
        if isinstance(result, TriggerResult) and result & 2:
            known = self._known(window_state)
            known.held.clear()
            if not result & 1:
                known.traced = replace(known.traced, purges=(*known.traced.purges, self._next_step()))

    def fire(self, window_state: WindowState) -> None:
        if window_state.contents is EMPTY:
            return
        known, before, self._evicted = self._known(window_state), len(self._fired), []
        which = self._which_firing(window_state)
        elements, cause = tuple(known.held), self._cause
        assert cause is not None  # noqa: S101 - a trigger is called only for an element or a timer
        step = self._next_step()
        super().fire(window_state)
        evicted = (*self._evicted, (), ())
        results = tuple(value for _, _, value, _ in self._fired[before:])
        known.firings.append(
            Firing(
                known.traced.number,
                len(known.firings),
                step,
                which,
                cause,
                self._purging,
                elements,
                evicted[0],
                evicted[1],
                results,
                self.watermark,
                self.processing_time,
            )
        )

    def _stay(self, method: str, elements: EvictorElements, window_state: WindowState) -> EvictorElements:
        kept = super()._stay(method, elements, window_state)
        known = self._known(window_state)
        numbers = {id(element): number for element, number in zip(elements, known.held, strict=True)}
        known.held = [numbers[id(element)] for element in kept if id(element) in numbers]
        staying = set(known.held)
        self._evicted.append(tuple(number for number in numbers.values() if number not in staying))
        return kept

    def _on_timer(self, window_state: WindowState, time: int, called: bool, event_time: bool) -> None:
        outer = self._cause
        self._cause = Cause("event-time timer" if event_time else "processing-time timer", time)
        super()._on_timer(window_state, time, called, event_time)
        self._cause = outer

    # ---------------------------------------------------------------- time

    def advance_watermark(self, watermark: int) -> None:
        if watermark > self.watermark:
            self._watermarks.append(TimeMoved(self._next_step(), watermark))
        super().advance_watermark(watermark)

    def advance_processing_time(self, time: int) -> None:
        if time > self.processing_time:
            self._clocks.append(TimeMoved(self._next_step(), time))
        super().advance_processing_time(time)

    def _next_step(self) -> int:
        self._step += 1
        return self._step


class _TracedPerKeyOperator(TracedOperator, PerKeyOperator):
    def advance_watermark(self, watermark: int) -> None:
        PerKeyOperator.advance_watermark(self, watermark)

    def _run_timers(self, owner: KeyState) -> None:
        self._watermarks.append(TimeMoved(self._next_step(), self.watermark, (owner.key,)))
        super()._run_timers(owner)


def traced_operator(plan: RowPlan, state: State, key_group: int = 0) -> TracedOperator:
    """Return the recording row operator of a plan."""
    return (TracedOperator if plan.key_watermarks is None else _TracedPerKeyOperator)(plan, state, key_group)


def _described(assigner: WindowAssigner, *others: Any) -> str:
    """Return the parts as in code. Functions and objects with a default ``repr`` appear by name, without a memory address."""
    text = ", ".join(repr(part) for part in (assigner, *others) if part is not None)
    text = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", text).replace("<lambda>", "lambda")
    return re.sub(r"<(?:[\w.<>]*\.)?(\w+) object at 0x[0-9a-f]+>", r"\1()", text)


LATE, INVALID = "late", "invalid"
_NO_RESULTS = (
    "Results of windows: the function gets the windows of all keys at once (all_windows=True), which a trace does not support."
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


def row_operator_of(window: WindowQuery, asked: WindowRequest) -> RowSpec:
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
    whole = with_whole_rows(replace(plan, split=None, top=None, with_firing=False, changelog=False), rows)
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


def with_whole_rows(plan: WindowPlan, rows: pa.Schema) -> WindowPlan:
    """Return a plan with one key group, whole rows, and outputs for late and invalid rows."""
    late, invalid = plan.late_tag or LATE, plan.invalid_tag or INVALID
    return replace(plan, groups=1, row_schema=rows, late_tag=late, invalid_tag=invalid)


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
    for micro_batch in micro_batches(rows, rows_per_batch):
        parts = [part for _, part in pack(query.plan, columns, micro_batch)]
        batch = gather(query.plan, parts, end_of_input=rows_per_batch is None)
        unusable += [row for table in batch.invalid for row in row_type.rows(table)]
        group.process(batch)
    trace = group.traced()
    values = [row for table in group.whole for row in row_type.rows(table.rename_columns(query.rows.names))]
    elements = tuple(replace(element, value=value) for element, value in zip(trace.elements, values, strict=True))
    named = trace if query.names is None else _with_names(trace, query.names)
    return replace(
        named,
        elements=elements,
        unusable=tuple(UnusableRow(row, query.refuses) for row in unusable),
        missing=query.missing,
    )


def micro_batches(rows: Sequence[pa.RecordBatch], size: int | None) -> Iterator[list[pa.RecordBatch]]:
    """Yield the rows in micro-batches of ``size`` rows, or in one if that is None."""
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
        replace(window, firings=tuple(replace(firing, results=named(firing.results)) for firing in window.firings))
        for window in trace.windows
    )
    return replace(trace, windows=windows)


class _TracedGroup(RowGroupOperator):
    """A key group's operator that runs all micro-batches without saving state in between; ``whole`` has the rows in order."""

    _key_by_key: ClassVar[bool] = False  # a trace shows rows in order of arrival

    def __init__(self, plan: WindowPlan, spec: RowSpec, state: SealedState, group: int) -> None:
        self.whole: list[pa.Table] = []
        super().__init__(plan, spec, state, group)

    @staticmethod
    def _operator_of(plan: RowPlan, state: State, group: int) -> RowOperator:
        return traced_operator(plan, state, group)

    def traced(self) -> Trace:
        assert isinstance(self._operator, TracedOperator)  # noqa: S101 - it makes one
        return self._operator.trace()

    def process(self, batch: GroupInput) -> GroupOutput:
        with collector_paused():
            return GroupOperator.process(self, batch)

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Any:
        arrived = super()._ingest(batch, step, output)
        self.whole += [arrived.whole] if arrived else []
        return arrived

    def _save(self) -> None:
        pass


class _NoResults(WindowFunction):
    """A placeholder for a function that cannot be called here."""

    def apply(self, key: Any, window: Any, elements: Any) -> list[Any]:
        return []
