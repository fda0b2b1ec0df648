"""The row operator's specification: rows cross the exchange unreduced, in columns, and become Python objects after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, key_fields
from panestream.engine.operators.row.changes import EMITTED
from panestream.engine.operators.row.contents import PROGRESS, AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.operator import INPUTS, TIME, DeclaredFunction, RowGroupOperator, RowSettings, row_tables
from panestream.engine.operators.row.tables import ELEMENTS, KEYS, WINDOWS, RowTables
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan, WindowQuery, stable_repr
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows
from panestream.engine.runtime.state_views import (
    EVENT_TIME,
    INSTANT,
    OF_KEY,
    OF_TRIGGER,
    OF_WINDOW,
    PROCESSING_TIME,
    ViewSchemas,
    WindowRows,
    instants,
    share,
)
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, named_columns
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.triggers import PurgingTrigger
from panestream.windowing.triggers.after import fires_by_time
from panestream.windowing.triggers.composition import all_parts


@dataclass(frozen=True, slots=True)
class RowSpec(RowSettings, OperatorSpec):
    """The row operator, for any assigner, trigger, evictor and function.

    ``kind`` is the part of the function that a checkpoint depends on: its code may change, its stored state may not.
    ``described``, ``reasons`` (against columnar operators) and ``advice`` (to reduce rows before the shuffle) are for
    ``explain()``.
    """

    by_processing_time: bool = False
    reasons: tuple[str, ...] = ()
    described: str = ""
    kind: str = ""
    advice: str = ""
    _known: Capabilities | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return "row operator"

    @property
    def capabilities(self) -> Capabilities:
        if self._known is None:
            object.__setattr__(self, "_known", self._capabilities())
        return cast("Capabilities", self._known)

    def _capabilities(self) -> Capabilities:
        window = self.row_plan.window
        return Capabilities(
            takes_rows=self.input_texts is None,
            fires_by_time=fires_by_time(window.firing_trigger, event_time=window.assigner.is_event_time),
            evicts=window.evictor is not None,
            no_changelog=self._why_no_changelog(),
            no_key_watermarks=None if window.assigner.is_event_time else "these windows do not end by event time",
            uses_processing_time=self.by_processing_time,
            shows_processing_time=True,
        )

    def _why_no_changelog(self) -> str | None:
        window, function = self.row_plan.window, self.row_plan.function
        parts, why_not = list(all_parts(window.firing_trigger)), None
        if self.declared is None or (isinstance(function, AggregateRows) and function.then is not None):
            why_not = "the row operator's functions may return any number of rows, none of which replaces another"
        elif any(isinstance(part, PurgingTrigger) for part in parts):
            why_not = "a purging trigger fires parts of a window, none of which takes the place of another"
        elif any(not type(part).__module__.startswith("panestream.") for part in parts):
            why_not = "a user-defined trigger may purge a window, and later results then do not replace earlier ones"
        elif window.every_firing:
            why_not = "every firing was asked for, and a changelog has the last one of each micro-batch"
        return why_not and f"{why_not}. Reasons for the row operator: {'; '.join(self.reasons)}"

    @property
    def result_schema(self) -> pa.Schema:
        return self.result

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.input_texts or ()

    @property
    def changeable(self) -> frozenset[str]:
        # Each declared aggregate finds its part of an accumulator by description; stored elements cannot change.
        return frozenset({"results", *(("function", "elements") if self.declared is not None else ())})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        whole = list(chunk.rows.columns) if chunk.rows is not None and plan.row_schema is not None else []
        times = pa.array(chunk.times)
        # An element that is not the whole row consists of the inputs and, last, its event time.
        values = [] if self.input_texts is None else [*chunk.values, times]
        schema = self.part_schema(plan, INPUTS)
        yield INPUTS, pa.Table.from_arrays([*chunk.keys, times, *values, *whole], names=schema.names)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return keys, event time, the element's values unless it is the row, and the whole row if needed."""
        columns = [*plan.key_schema, pa.field("__time", pa.int64())]
        if self.input_texts is not None:
            columns += self.element_schema
        if plan.row_schema is not None and (self.input_texts is None or plan.late_tag is not None):
            columns += plan.row_schema
        return pa.schema([pa.field(f"{position}", field.type) for position, field in enumerate(columns)])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> RowGroupOperator:
        return RowGroupOperator(plan, self, state, group)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return row_views(plan, self, row_tables(plan, self), saved, group)

    def reached(self, plan: WindowPlan, saved: StateTables) -> tuple[int, int]:
        watermark, closed = OperatorSpec.reached(self, plan, saved)
        of_keys = plan.watermark.of_keys
        if of_keys is None:
            return watermark, closed
        stored = row_tables(plan, self).values_of(named_columns(saved.table(KEYS), ["values"])[0])
        times = [values[PROGRESS][:2] for values in stored if PROGRESS in values]
        floor = max(watermark - of_keys.idle_after, MIN_TIMESTAMP)
        return max([floor, *(own for own, _ in times)]), max([closed, *(until for _, until in times)])

    def identity(self) -> Mapping[str, str]:
        return {
            "function": self.kind,
            "results": ", ".join(f"{field.name} {field.type}" for field in self.result),
            "elements": ", ".join(f"{field.name} {field.type}" for field in self.element_schema),
            "evicts": str(self.row_plan.window.evictor is not None),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        kept = "all elements of each window" if self.row_plan.keeps_elements else "one accumulator per key and window"
        kept += ", with its last result" if plan.changelog else ""
        kept += ", the newest event time of each key until it is idle" if plan.watermark.of_keys is not None else ""
        sections = {
            "operator": [f"not columnar: {reason}" for reason in self.reasons],
            "trigger": [stable_repr(self.row_plan.window.firing_trigger)],
            "function": [self.described],
            "exchange": ["rows cross the shuffle unreduced, in columns", *([self.advice] if self.advice else [])],
            "state": [
                f"{kept}, in {self.row_plan.pages} pages per key group or more, as it grows; touched and due pages are read and "
                f"written{'; other values are pickled' if self.row_plan.window.pickled_state else ''}"
                if streaming
                else "in memory: a batch"
            ],
        }
        if self.row_plan.window.evictor is not None:
            sections["evictor"] = [stable_repr(self.row_plan.window.evictor)]
        return sections


def row_spec(window: WindowQuery, asked: DeclaredAggregates | FunctionOfRows, reasons: Sequence[str]) -> RowSpec:
    """Return the row operator of a query, or raise InvalidPlanError; ``reasons`` explain why no columnar operator runs it."""
    if isinstance(asked, DeclaredAggregates):
        return _declared(window, asked, reasons)
    function = asked.function
    return RowSpec(
        RowPlan(window, function),
        asked.results,
        asked.rows,
        returned=asked.rows if isinstance(function, ReduceRows) and function.then is None else None,
        by_processing_time=window.uses_processing_time,
        reasons=tuple(reasons),
        described=stable_repr(asked.described),
        kind=_kind_of(function),
    )


def _declared(window: WindowQuery, asked: DeclaredAggregates, reasons: Sequence[str]) -> RowSpec:
    aggregation = Aggregation.build(asked.aggregates, asked.types, asked.keys)
    gap = getattr(window.assigner, "gap", None)
    # The assigner reads the gap of each row from the element.
    texts = tuple(dict.fromkeys((*aggregation.inputs, *([gap.label] if isinstance(gap, GapColumn) else []), *asked.columns)))
    elements = [*(pa.field(text, asked.types[text]) for text in texts), pa.field(TIME, pa.int64())]
    function = DeclaredFunction(tuple(asked.aggregates), asked.types)
    written = ", ".join(repr(aggregate) for aggregate in asked.aggregates)
    return RowSpec(
        RowPlan(window, AggregateRows(function, asked.then)),
        aggregation.output_schema if asked.results is None else asked.results,
        pa.schema(elements),
        texts,
        by_processing_time=window.uses_processing_time,
        reasons=tuple(reasons),
        described=written,
        kind=written,
    )


def _kind_of(function: ReduceRows | AggregateRows | KeepRows) -> str:
    """Return the part of a function that the state depends on; accumulators depend on the aggregate function's class."""
    if isinstance(function, AggregateRows):
        return f"aggregate with {type(function.function).__qualname__}"
    return "reduce" if isinstance(function, ReduceRows) else "all elements"


def row_views(plan: WindowPlan, settings: RowSettings, tables: RowTables, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group."""
    return _RowViews(plan, settings, tables, saved, ViewSchemas(plan, group, settings.element_schema)).views()


class _RowViews:
    def __init__(
        self, plan: WindowPlan, settings: RowSettings, tables: RowTables, saved: StateTables, schemas: ViewSchemas
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._tables = tables
        self._saved = saved
        self._schemas = schemas
        self._windows = saved.table(WINDOWS)
        self._key_names = [field.name for field in key_fields(plan.key_schema)]

    def views(self) -> StateViews:
        elements = {"elements": self._elements()} if ELEMENTS in self._saved.tables else {}
        return self._schemas.with_windows(self._shown(), user_state=self._user_state(), timers=self._timers(), **elements)

    def _shown(self) -> pa.Table:
        windows, window = self._windows, self._settings.row_plan.window
        starts, ends = named_columns(windows, ["start", "end"])
        event, processing = (self._lists(name) for name in ("event_timers", "processing_timers"))
        lateness = window.allowed_lateness if window.assigner.is_event_time else 0
        last = [MAX_TIMESTAMP if end is None else end - 1 for end in ends.to_pylist()]
        closes = [min(one, MAX_TIMESTAMP - lateness) + lateness for one in last]
        # The cleanup timer after a window's end does not fire it, and no timer does if only rows make it fire.
        by_time = fires_by_time(window.firing_trigger, event_time=window.assigner.is_event_time)
        going = [time if lateness or by_time is False else None for time in closes]
        due = [
            min((time for time in (*some, *others) if time != goes), default=MAX_TIMESTAMP)
            for some, others, goes in zip(event, processing, going, strict=True)
        ]
        keeps = "elements" in windows.column_names
        rows = np.asarray([len(one or ()) for one in self._lists("elements")], np.int64) if keeps else None
        contents = None if keeps else named_columns(windows, ["contents"])[0]
        size = sum(table.nbytes for table in self._saved.tables.values())
        numbered = self._plan.with_firing
        return self._schemas.windows_of(
            WindowRows(
                keys=named_columns(windows, self._key_names),
                count=windows.num_rows,
                starts=starts.cast(INSTANT),
                ends=ends.cast(INSTANT),
                results=None if contents is None else self._results(contents),
                contents=contents,
                rows=rows,
                firings=integers(windows, "firings") if numbered else None,
                due=np.asarray(due, np.int64),
                closes=np.asarray(closes, np.int64),
                size=share(size, np.ones(windows.num_rows, np.int64) if rows is None else rows + 1),
            )
        )

    def _results(self, contents: pa.Array) -> list[pa.Array] | None:
        """Return the current results of declared aggregates, or None if a user function makes the results."""
        declared, then = self._settings.declared, getattr(self._settings.row_plan.function, "then", None)
        if declared is None or then is not None:
            return None
        empty = declared.create_accumulator
        accumulators = self._tables.values_of(contents)
        return self._settings.results([declared.get_result(empty() if one is None else one) for one in accumulators])

    def _elements(self) -> pa.Table:
        """Return each element once, with the windows that hold it."""
        table = self._saved.table(ELEMENTS)
        numbered = zip(self._codes(table), integers(table, "element").tolist(), strict=True)
        place = {one: at for at, one in enumerate(numbered)}
        held: list[list[dict[str, Any]]] = [[] for _ in range(table.num_rows)]
        bounds = (column.cast(INSTANT).to_pylist() for column in named_columns(self._windows, ["start", "end"]))
        for key, numbers, start, end in zip(self._codes(self._windows), self._lists("elements"), *bounds, strict=True):
            for number in numbers or ():
                held[place[key, number]].append({"start": start, "end": end})
        schema = self._schemas.elements
        columns = {
            "windows": pa.array(held, schema.field("windows").type),
            "place": pa.array(integers(table, "element")),
            "time": instants(integers(table, "time")) if "time" in table.column_names else None,
            "value": named_columns(table, ["value"])[0],
        }
        rows = named_columns(table, [f"column {at}" for at in range(len(self._settings.element_schema))])
        return self._schemas.elements_of(named_columns(table, self._key_names), table.num_rows, columns, rows)

    def _user_state(self) -> pa.Table:
        keys, windows = self._saved.table(KEYS), self._windows
        parts = [
            self._states(windows, "trigger", OF_TRIGGER, bounded=True),
            self._states(windows, "window", OF_WINDOW, bounded=True),
            self._states(keys, "values", OF_KEY, bounded=False),
        ]
        return pa.concat_tables(parts)

    def _states(self, table: pa.Table, column: str, of: str, *, bounded: bool) -> pa.Table:
        rows: list[int] = []
        names: list[str] = []
        values: list[str] = []
        for row, text in enumerate(named_columns(table, [column])[0].to_pylist()):
            for name, value in self._tables.parts_of(text):
                if name in (EMITTED, PROGRESS):
                    continue
                rows.append(row)
                names.append(name)
                values.append(value)
        taken = table.take(pa.array(rows, pa.int64()))
        columns: dict[str, Any] = {"of": pa.array([of] * len(rows), pa.string()), "name": pa.array(names, pa.string())}
        columns["value"] = pa.array(values, pa.string())
        return self._schemas.user_state_of(
            named_columns(taken, self._key_names), len(rows), columns | (self._bounds(taken) if bounded else {})
        )

    def _timers(self) -> pa.Table:
        parts = []
        for name, kind in (("event_timers", EVENT_TIME), ("processing_timers", PROCESSING_TIME)):
            times = self._lists(name)
            rows = np.repeat(np.arange(len(times)), [len(one) for one in times])
            taken = self._windows.take(pa.array(rows))
            due: Ints = np.asarray([time for one in times for time in one], np.int64)
            columns = {"kind": pa.array([kind] * len(rows), pa.string()), "time": instants(due), **self._bounds(taken)}
            parts.append(self._schemas.timers_of(named_columns(taken, self._key_names), len(rows), columns))
        return pa.concat_tables(parts)

    def _bounds(self, table: pa.Table) -> dict[str, Any]:
        starts, ends = named_columns(table, ["start", "end"])
        return {"window_start": starts.cast(INSTANT), "window_end": ends.cast(INSTANT)}

    def _lists(self, name: str) -> list[Any]:
        found: list[Any] = named_columns(self._windows, [name])[0].to_pylist()
        return found

    def _codes(self, table: pa.Table) -> Sequence[Any]:
        return self._tables.keys_of(table)
