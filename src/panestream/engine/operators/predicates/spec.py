"""Windows by predicates over declared aggregates: the values and predicates of rows cross the exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found
from panestream.engine.aggregates.standing import standing
from panestream.engine.operators.predicates.cuts import OPEN
from panestream.engine.operators.predicates.operator import STEPS, PredicateOperator, PredicateSettings, label_of
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan
from panestream.engine.query import WindowSpec
from panestream.engine.rule import Supported, WindowRequest, on_columns_only
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, share
from panestream.engine.runtime.timed_rows import ROWS, pack_timed, timed_schema
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns, with_types
from panestream.windowing.assigners import PredicateWindows
from panestream.windowing.time import MAX_TIMESTAMP, format_duration


@dataclass(frozen=True, slots=True)
class PredicateSpec(PredicateSettings, OperatorSpec):
    """Event-time windows by predicates with declared aggregates."""

    @property
    def name(self) -> str:
        return "predicates"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            order_sensitive=self.bare.follows_arrival,
            fires_by_time=self.windows.gap is not None,
            late_by_time=0,
            no_firings="each of these windows fires once",
            no_changelog="each of these windows fires once, and no later result takes its place",
        )

    @property
    def result_schema(self) -> pa.Schema:
        return self.bare.output_schema

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.bare.inputs, *map(label_of, self.windows.predicates))

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        return pack_timed(plan, chunk, self.part_schema(plan, ROWS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return keys, event time, aggregate inputs, predicates, and the whole row for a late output."""
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


def predicates_rule(window: WindowSpec, asked: WindowRequest) -> Supported | None:
    """Plan windows by predicates over declared aggregates; raise InvalidPlanError for unsupported queries."""
    assigner = window.assigner
    if not isinstance(assigner, PredicateWindows):
        return None
    asked = on_columns_only(window, asked, "windows by predicates")
    bare = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    return Supported(PredicateSpec(assigner, tuple(asked.aggregates), bare, asked.keys))


def predicate_views(plan: WindowPlan, settings: PredicateSettings, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group, as :func:`~panestream.engine.operators.panes.spec.pane_views` does.

    The end of an open window is unknown: the view shows a gap after its last row, or an instant after it without a gap. A waiting
    step is shown as a window of its instant, because its window is not determined yet.
    """
    table, bare, gap = saved.table(STEPS), settings.bare, settings.windows.gap
    each = np.arange(table.num_rows)
    columns = [pa.array(each), *named_columns(table, ["rows"]), *partials_found(table, saved.header, bare)]
    found = standing(bare, with_types(columns, bare.partial_schema), each, each + 1)
    starts, times, is_open = integers(table, "start"), integers(table, "time"), integers(table, "flags") & OPEN > 0
    due = np.where(is_open, MAX_TIMESTAMP if gap is None else times + gap, times)
    rows = WindowRows(
        keys=key_columns(table, plan.key_schema),
        count=table.num_rows,
        starts=pa.array(starts),
        ends=pa.array(times + np.where(is_open, 1 if gap is None else gap, 1)),
        results=found.results,
        rows=found.rows,
        due=due,
        closes=due,
        size=share(table.nbytes, found.rows),
    )
    schemas = ViewSchemas(plan, group)
    return schemas.with_windows(schemas.windows_of(rows))


__all__ = ["PredicateSpec", "predicate_views", "predicates_rule"]
