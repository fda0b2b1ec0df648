"""Count windows over declared aggregates: values cross the exchange in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.operators.counts.operator import INPUTS, CountOperator, CountSettings
from panestream.engine.operators.counts.views import count_views
from panestream.engine.plan import Chunk, OperatorSpec, WindowPlan
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews

_INSTANT = pa.timestamp("us")
"""What event times travel as: the payload drops the decimal places that they have in common."""


@dataclass(frozen=True, slots=True)
class CountSpec(CountSettings, OperatorSpec):
    """Count windows and the count trigger on global windows, declared aggregates."""

    @property
    def name(self) -> str:
        return "counts"

    @property
    def result_schema(self) -> pa.Schema:
        return self.aggregation.output_schema

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.aggregation.inputs

    @property
    def fires_by_time(self) -> bool | None:
        return False

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        times = [pa.array(chunk.times).view(_INSTANT)] if self.aggregation.needs_timestamps else []
        columns = [*chunk.keys, *times, *chunk.values]
        if not columns:
            # Rows of one key that are only counted: something must say how many they are.
            columns = [pa.nulls(len(chunk.times))]
        yield INPUTS, pa.Table.from_arrays(columns, schema=self.part_schema(plan, INPUTS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Keys, event time where an aggregate needs it, values."""
        types = [*plan.key_schema.types, *([_INSTANT] if self.aggregation.needs_timestamps else []), *self.input_types]
        return pa.schema([(str(place), type_) for place, type_ in enumerate(types or [pa.null()])])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> CountOperator:
        return CountOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return count_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        partial = list(self.aggregation.partial_schema)
        return {
            "count windows": str(self.shape),
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in partial),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        shape = self.shape
        per_window = "" if shape.panes_per_window is None else f", {shape.panes_per_window} to a window"
        return {
            "counts": [f"{shape}; an incomplete rest is not emitted"],
            "panes": [f"{shape.panes_per_slide} to a slide{per_window}"],
            "aggregates": [f"{aggregate!r}; {aggregate.merge_rule}" for aggregate in self.aggregates],
            "exchange": ["keys and values cross the shuffle unreduced, in the order of arrival, which decides"],
            "state": [
                "open panes, in pages by hash of the key: a micro-batch reads those of its keys"
                if streaming
                else "none: a batch fires every complete window"
            ],
        }
