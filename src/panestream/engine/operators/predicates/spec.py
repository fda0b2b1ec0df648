"""Windows by predicates over declared aggregates: values and what rows begin and end cross the exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.operators.predicates.operator import PredicateOperator, PredicateSettings, label_of
from panestream.engine.operators.predicates.views import predicate_views
from panestream.engine.plan import Chunk, OperatorSpec, WindowPlan
from panestream.engine.runtime.timed_rows import ROWS, pack_timed, timed_schema
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.windowing.time import format_duration


@dataclass(frozen=True, slots=True)
class PredicateSpec(PredicateSettings, OperatorSpec):
    """Windows of event time by predicates, declared aggregates."""

    @property
    def name(self) -> str:
        return "predicates"

    @property
    def result_schema(self) -> pa.Schema:
        return self.bare.output_schema

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.bare.inputs, *map(label_of, self.windows.predicates))

    @property
    def follows_arrival(self) -> bool:
        return self.bare.follows_arrival

    @property
    def fires_by_time(self) -> bool | None:
        return self.windows.gap is not None

    @property
    def late_by_time(self) -> int | None:
        return 0

    @property
    def why_no_firings(self) -> str | None:
        return "each of these windows fires once"

    @property
    def why_no_changes(self) -> str | None:
        return "each of these windows fires once, and no later result takes its place"

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        return pack_timed(plan, chunk, self.part_schema(plan, ROWS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Keys, event time, what aggregates take, the predicates; for a late output the whole row."""
        return timed_schema(plan, [*self.bare.input_types, *[pa.bool_()] * len(self.windows.predicates)])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> PredicateOperator:
        return PredicateOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return predicate_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        partial = list(self.bare.partial_schema)
        return {
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in partial),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        return {
            "predicates": [
                "rows of each key in the order of their times, when the watermark has passed them; rows behind it are late",
                self._told(),
            ],
            "aggregates": [f"{aggregate!r}; {aggregate.merge_rule}" for aggregate in self.aggregates],
            "exchange": [
                "values cross the shuffle with what their rows begin and end",
                *(["whole rows cross beside them, for the late output"] if plan.late_tag else []),
            ],
            "state": [
                "open windows, and partials of each key and instant that waits for the watermark, in pages by hash of the key"
                if streaming
                else "none: a batch computes all windows at once; one without an end is not emitted"
            ],
        }

    def _told(self) -> str:
        windows = self.windows
        begin = "a row that is in none yet" if windows.start is None else f"a row where {windows.start}"
        ends = [] if windows.end is None else [f"behind a row where {windows.end}"]
        ends += [] if windows.start is None else ["before the next start"]
        ends += [] if windows.gap is None else [f"{format_duration(windows.gap)} after the last row"]
        return f"a window begins with {begin}, and ends {' or '.join(ends)}"


__all__ = ["PredicateSpec"]
