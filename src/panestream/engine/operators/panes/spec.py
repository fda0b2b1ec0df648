"""Aligned panes over declared aggregates: pre-aggregated per (key, pane) before the shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.calendar_grid import LineGrid, ZonedGrid
from panestream.engine.kernels.slicing import EvenGrid, PaneGrid
from panestream.engine.operators.panes.operator import GAPS, PARTIALS, ROWS, PaneOperator, PaneSettings
from panestream.engine.operators.panes.rollups import FAN_OUT
from panestream.engine.operators.panes.views import pane_views
from panestream.engine.plan import Chunk, OperatorSpec, WindowPlan
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.windowing.time import format_duration

_GAPS_SCHEMA = pa.schema([("time", pa.int64())])


@dataclass(frozen=True, slots=True)
class PaneSpec(PaneSettings, OperatorSpec):
    """Tumbling, sliding and cumulating windows, one kind or several, default or continuous trigger, declared aggregates."""

    @property
    def name(self) -> str:
        return "aligned panes"

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.aggregation.inputs)[: len(self.aggregation.inputs) - (2 if self.interval else 0)]

    @property
    def follows_arrival(self) -> bool:
        # A continuous trigger starts with the row that opens a window: its hidden aggregates find that row.
        return self.aggregation.follows_arrival

    @property
    def fires_once(self) -> bool:
        return self.interval is None and not self.fires_again and not self.fires_at_rows

    @property
    def why_no_firings(self) -> str | None:
        return None

    @property
    def why_no_changes(self) -> str | None:
        return "a purging trigger fires parts of a window, none of which takes the place of another" if self.purges else None

    @property
    def uses_processing_time(self) -> bool:
        return self.by_processing_time

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials", "panes", "windows"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        times, keys, values = chunk.times, chunk.keys, chunk.values
        if self.by_processing_time:
            # The operator knows the clock, and so the pane: one for all rows of a micro-batch.
            if len(times):
                yield PARTIALS, self._partials(keys, np.zeros(len(times), np.int64), values, times)
            return
        panes = self.grid.panes_of(times)
        if plan.late_tag is not None and chunk.rows is not None:
            yield ROWS, chunk.rows.append_column("__pane", pa.array(panes)).append_column("__time", pa.array(times))
        if self.grid.has_gaps:
            gap = self.grid.in_gap(panes)
            if gap.any():
                yield GAPS, pa.table({"time": np.sort(times[gap])})
                inside = pa.array(~gap)
                keys, values = [key.filter(inside) for key in keys], [value.filter(inside) for value in values]
                times, panes = times[~gap], panes[~gap]
        if len(times):
            yield PARTIALS, self._partials(keys, panes, values, times)

    def _partials(self, keys: list[pa.Array], panes: np.ndarray, values: list[pa.Array], times: np.ndarray) -> pa.Table:
        if self.interval is not None:
            # The operator makes numbers of the whole stream of these, which are numbers within the chunk.
            values = [*values, pa.array(times), pa.array(np.arange(len(times)))]
        return self.aggregation.partials(keys, panes, values, times if self.aggregation.needs_timestamps else None)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        if kind == PARTIALS:
            return self.aggregation.partial_schema
        if kind == GAPS or plan.row_schema is None:
            return _GAPS_SCHEMA
        return pa.schema([*plan.row_schema, pa.field("__pane", pa.int64()), pa.field("__time", pa.int64())])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> PaneOperator:
        return PaneOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return pane_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        partial = list(self.aggregation.partial_schema)[len(self.aggregation.key_schema) :]
        return {
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in partial),
            "panes": f"second layout, {self.levels} resolutions",
            **({"purges": "true"} if self.purges else {}),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        return {
            "panes": self._panes(),
            "firing": self._firing(plan),
            "aggregates": [
                f"{aggregate!r}: {'invertible' if aggregate.invertible else 'not invertible'}; {aggregate.merge_rule}"
                for aggregate in self.aggregates
            ],
            "exchange": [
                "pre-aggregated per (key, pane) before the shuffle",
                *(f"{what} crosses it all the same" for what in self.aggregation.crossing),
                *(
                    ["whole rows cross the shuffle too, for the late output"]
                    if plan.late_tag and not self.by_processing_time
                    else []
                ),
            ],
            "state": self._state(plan) if streaming else ["none: a batch fires every window at the end of input"],
        }

    def _firing(self, plan: WindowPlan) -> list[str]:
        time = "the clock" if self.by_processing_time else "the watermark"
        lines = [f"a window fires when {time} reaches its end"]
        if self.interval is not None:
            purged = "; what has fired is dropped" if self.interval.purging else ""
            lines.append(f"and at every {format_duration(self.interval.length)} before it, once a micro-batch{purged}")
        if self.fires_at_rows:
            lines.append("and before it, for the keys concerned, in each micro-batch that brings rows for it")
        if plan.allowed_lateness:
            lines.append("and again, for the keys concerned, in each micro-batch that brings rows for it after its end")
        return lines

    def _state(self, plan: WindowPlan) -> list[str]:
        lines = ["one block of partials per micro-batch and key group, appended, only for panes that stay open; merged by eights"]
        if self.grid.overlaps or plan.allowed_lateness:
            sizes = ", ".join(str(FAN_OUT**level) for level in range(self.levels))
            lines.append(f"panes that time has passed are kept merged, {sizes} at a time; a window reads at most eight of each")
        if plan.keeps_emitted:
            lines.append("what was emitted for windows that may fire again" + (", with its values" if plan.changelog else ""))
        return lines

    def _panes(self) -> list[str]:
        grid = self.grid
        if not isinstance(grid, EvenGrid):
            return [_of_calendar(grid)]
        if len(grid.windows) == 1 and grid.has_gaps:
            return [f"a pane for each window ({format_duration(grid.windows[0].longest)})"]
        if len(grid.edges) == 1:
            lengths = [one.longest // grid.period for one in grid.windows]
            most = " and ".join(str(length) for length in lengths)
            kept = f"{most} to a window" if len(lengths) == 1 else f"{most} to a window, shared"
            return [f"{format_duration(grid.period)} each, {kept}"]
        if len(grid.edges) == 2:
            first, second = format_duration(grid.edges[1]), format_duration(grid.period - grid.edges[1])
            if len(grid.windows) == 1:
                return [f"two to a slide, {first} and {second}, since the slide does not divide the size"]
            return [f"two every {format_duration(grid.period)}, {first} and {second}: one between any two edges of windows"]
        return [f"{len(grid.edges)} of unequal length every {format_duration(grid.period)}: one between any two edges of windows"]


def _of_calendar(grid: PaneGrid) -> str:
    """Panes of a calendar in words."""
    if isinstance(grid, ZonedGrid):
        wall, most = grid.wall, f"at most {grid.longest} to a window"
        if isinstance(wall, LineGrid):
            return f"{wall.line.months} month{'s' if wall.line.months > 1 else ''} of the zone's calendar each, {most}"
        if isinstance(wall, EvenGrid) and len(wall.edges) == 1:
            return f"{format_duration(wall.period)} of the zone's clock each, {most}"
        return f"one between any two edges of windows on the zone's clock, {most}"
    return f"one between any two edges of windows, at most {grid.longest} to a window"


__all__ = ["PaneSpec"]
