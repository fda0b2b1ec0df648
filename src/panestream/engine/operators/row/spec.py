"""The row operator's specification: rows cross the exchange unreduced, in columns, and become Python objects after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.row.declared import TIME, DeclaredFunction
from panestream.engine.operators.row.operator import INPUTS, RowGroupOperator, RowSettings, row_tables
from panestream.engine.operators.row.row_plan import AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.views import row_views
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan, stable_repr
from panestream.engine.query import WindowSpec
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.triggers.after import fires_by_time


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

    @property
    def name(self) -> str:
        return "row operator"

    @property
    def capabilities(self) -> Capabilities:
        window = self.row_plan.window
        return Capabilities(
            takes_rows=self.input_texts is None,
            fires_by_time=fires_by_time(window.firing_trigger, event_time=window.assigner.is_event_time),
            evicts=window.evictor is not None,
            no_changelog=(
                "the row operator's functions may return any number of rows, none of which takes the place of another; it runs "
                f"the query for: {'; '.join(self.reasons)}"
            ),
            uses_processing_time=self.by_processing_time,
            shows_processing_time=True,
        )

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

    def identity(self) -> Mapping[str, str]:
        return {
            "function": self.kind,
            "results": ", ".join(f"{field.name} {field.type}" for field in self.result),
            "elements": ", ".join(f"{field.name} {field.type}" for field in self.element_schema),
            "evicts": str(self.row_plan.window.evictor is not None),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        kept = "all elements of each window" if self.row_plan.keeps_elements else "one accumulator per key and window"
        sections = {
            "operator": [f"not columnar: {reason}" for reason in self.reasons],
            "trigger": [stable_repr(self.row_plan.window.firing_trigger)],
            "function": [self.described],
            "exchange": ["rows cross the shuffle unreduced, in columns", *([self.advice] if self.advice else [])],
            "state": [
                f"{kept}, in {self.row_plan.pages} pages per key group or more, as it grows; touched and due pages are read and "
                f"written{'; what has no columns is pickled' if self.row_plan.window.pickled_state else ''}"
                if streaming
                else "in memory: a batch"
            ],
        }
        if self.row_plan.window.evictor is not None:
            sections["evictor"] = [stable_repr(self.row_plan.window.evictor)]
        return sections


def row_spec(window: WindowSpec, asked: DeclaredAggregates | FunctionOfRows, reasons: Sequence[str]) -> RowSpec:
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


def _declared(window: WindowSpec, asked: DeclaredAggregates, reasons: Sequence[str]) -> RowSpec:
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


__all__ = ["RowSpec", "row_spec"]
