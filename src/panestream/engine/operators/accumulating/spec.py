"""Accumulating panes: whole rows by pane, for any function over the rows of a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.operators.accumulating.operator import KEPT, AccumulatingOperator, AccumulatingSettings
from panestream.engine.operators.accumulating.views import accumulating_views
from panestream.engine.plan import Chunk, OperatorSpec, WindowPlan, stable_repr
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews


@dataclass(frozen=True, slots=True)
class AccumulatingSpec(AccumulatingSettings, OperatorSpec):
    """Tumbling, sliding and cumulating windows of event time, default trigger, a function over rows."""

    @property
    def name(self) -> str:
        return "accumulating panes"

    @property
    def result_schema(self) -> pa.Schema:
        return self.result

    @property
    def takes_rows(self) -> bool:
        return True

    @property
    def shows_processing_time(self) -> bool:
        return self.function.sees_time

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"windows", "results"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        if chunk.rows is None:
            raise RuntimeError("accumulating panes need whole rows, the exchange brought none")
        columns = [*chunk.keys, pa.array(self.grid.panes_of(chunk.times)), pa.array(chunk.times), *chunk.rows.columns]
        yield KEPT, pa.Table.from_arrays(columns, names=self.part_schema(plan, KEPT).names)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        return self.kept_schema

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> AccumulatingOperator:
        return AccumulatingOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return accumulating_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        return {
            "function": "all elements",
            "rows": ", ".join(f"{field.name} {field.type}" for field in self.rows),
            "results": ", ".join(f"{field.name} {field.type}" for field in self.result),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        kept = "each row once, however many windows it lies in: a block per micro-batch and key group, while panes stay open"
        return {
            "function": [stable_repr(self.function), self.function.described],
            **({} if self.evictor is None else {"evictor": [repr(self.evictor)]}),
            "exchange": ["rows cross the shuffle whole, in columns"],
            "state": [kept if streaming else "none: a batch fires every window at the end of input"],
        }
