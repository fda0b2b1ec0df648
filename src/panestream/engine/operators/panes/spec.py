"""Aligned panes over declared aggregates: pre-aggregated per (key, pane) before the shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.standing import Standing, standing
from panestream.engine.kernels.calendar_grid import LineGrid, ZonedGrid, calendar_grid
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.pairs import numbered, places_of
from panestream.engine.kernels.slicing import AlignedWindows, CumulatingWindows, EvenGrid, EvenWindows, PaneGrid, SlidingWindows
from panestream.engine.operators.panes.calendars import CALENDAR, calendar_windows
from panestream.engine.operators.panes.firing import HIDDEN, HIDDEN_TYPES, Interval
from panestream.engine.operators.panes.operator import GAPS, PARTIALS, ROWS, PaneOperator, PaneSettings
from panestream.engine.operators.panes.rollups import FAN_OUT
from panestream.engine.operators.panes.tables import EMITTED, PANES, PaneTables, emitted_for
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan
from panestream.engine.query import WindowSpec
from panestream.engine.reduction import AT_EVERY_ROW
from panestream.engine.rule import PYTHON, DeclaredAggregates, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, reached_by, share
from panestream.engine.runtime.watermarks import BEYOND_ALL, ClosedWindows, LatenessPolicy, closing_times, last_ended
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

_GAPS_SCHEMA = pa.schema([("time", pa.int64())])


@dataclass(frozen=True, slots=True)
class PaneSpec(PaneSettings, OperatorSpec):
    """Aligned windows (tumbling, sliding, cumulating, calendar) of one or several kinds, with declared aggregates."""

    @property
    def name(self) -> str:
        return "aligned panes"

    @property
    def capabilities(self) -> Capabilities:
        parts = "a purging trigger fires parts of a window, none of which takes the place of another"
        return Capabilities(
            # A continuous trigger starts with the row that opens a window, which its hidden aggregates find.
            order_sensitive=self.aggregation.follows_arrival,
            fires_once=self.interval is None and not self.fires_again and not self.fires_at_rows,
            no_changelog=parts if self.purges else None,
            uses_processing_time=self.by_processing_time,
            shows_processing_time=self.by_processing_time,
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.aggregation.inputs)[: len(self.aggregation.inputs) - (2 if self.interval else 0)]

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials", "panes", "windows"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        times, keys, values = chunk.times, chunk.keys, chunk.values
        if self.by_processing_time:
            # Only the operator has the clock, and so the pane, which is the same for all rows of a micro-batch.
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

    def pack_key_groups(self, plan: WindowPlan, chunk: Chunk, key_groups: Ints) -> list[tuple[int, str, pa.Table]] | None:
        if plan.late_tag is not None or self.interval is not None or self.grid.has_gaps or self.aggregation.runs_users_code:
            return None
        times = chunk.times
        panes = np.zeros(len(times), np.int64) if self.by_processing_time else self.grid.panes_of(times)
        stamps = times if self.aggregation.needs_timestamps else None
        tables = self.aggregation.partials_of_key_groups(chunk.keys, panes, chunk.values, stamps, key_groups)
        return [(number, PARTIALS, table) for number, table in tables]

    def _partials(self, keys: list[pa.Array], panes: np.ndarray, values: list[pa.Array], times: np.ndarray) -> pa.Table:
        if self.interval is not None:
            # The operator converts these numbers within the chunk to numbers within the stream.
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
    if isinstance(grid, ZonedGrid):
        wall, most = grid.wall, f"at most {grid.longest} to a window"
        if isinstance(wall, LineGrid):
            return f"{wall.line.months} month{'s' if wall.line.months > 1 else ''} of the zone's calendar each, {most}"
        if isinstance(wall, EvenGrid) and len(wall.edges) == 1:
            return f"{format_duration(wall.period)} of the zone's clock each, {most}"
        return f"one between any two edges of windows on the zone's clock, {most}"
    return f"one between any two edges of windows, at most {grid.longest} to a window"


_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
_CUMULATING = (CumulatingEventTimeWindows, CumulatingProcessingTimeWindows)


def panes_rule(window: WindowSpec, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan aligned windows over declared aggregates. As the last rule, it explains why panes do not run unsupported queries."""
    reasons = why_not_panes(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append(PYTHON)
    if reasons or not isinstance(asked, DeclaredAggregates):
        return Unsupported(reasons)
    return Supported(_spec(window, asked))


def _spec(window: WindowSpec, asked: DeclaredAggregates) -> PaneSpec:
    aggregates, assigner = tuple(asked.aggregates), window.assigner
    if isinstance(assigner, SeveralWindows) and "window" in [*asked.keys.names, *(one.name for one in aggregates)]:
        raise InvalidPlanError("results of several windows have a column 'window' with the label: rename the other one")
    interval = interval_of(window)
    hidden = HIDDEN if interval is not None else ()
    aggregation = Aggregation.build([*aggregates, *hidden], {**asked.types, **(HIDDEN_TYPES if hidden else {})}, asked.keys)
    by_processing_time = not assigner.is_event_time
    again = bool(window.allowed_lateness) and not by_processing_time
    grid, at_every_row = pane_grid(assigner), _trigger(window) == AT_EVERY_ROW
    return PaneSpec(grid, aggregates, aggregation, by_processing_time, interval, again, at_every_row)


def why_not_panes(window: WindowSpec) -> list[str]:
    """Return why windows cannot run as aligned panes of declared aggregates; empty if they can."""
    reasons = why_not_aligned(window.assigner)
    if window.evictor is not None:
        reasons.append("an evictor needs all elements")
    if window.every_firing:
        reasons.append("every firing was asked for")
    return reasons or _why_not_trigger(window)


def why_not_aligned(assigner: WindowAssigner) -> list[str]:
    """Return why windows do not have panes; empty if they do."""
    if isinstance(assigner, SeveralWindows):
        return [reason for one in assigner.assigners for reason in why_not_aligned(one)]
    if not isinstance(assigner, (*_TUMBLING, *_SLIDING, *_CUMULATING, *CALENDAR)):
        return [f"{type(assigner).__name__} are not aligned windows"]
    if getattr(assigner, "stagger", WindowStagger.ALIGNED) is not WindowStagger.ALIGNED:
        return ["staggered windows differ between key groups"]
    return []


def pane_grid(assigner: WindowAssigner) -> PaneGrid:
    """Return the panes of aligned windows."""
    assigners = assigner.assigners if isinstance(assigner, SeveralWindows) else (assigner,)
    windows = [_aligned(one) for one in assigners]
    even = [one for one in windows if isinstance(one, EvenWindows)]
    return EvenGrid.over(even) if len(even) == len(windows) else calendar_grid(windows)


def _aligned(assigner: WindowAssigner) -> AlignedWindows:
    if isinstance(assigner, CALENDAR):
        return calendar_windows(assigner)
    if isinstance(assigner, _TUMBLING):
        return SlidingWindows(assigner.size, assigner.size, assigner.offset)
    if isinstance(assigner, _SLIDING):
        return SlidingWindows(assigner.size, assigner.slide, assigner.offset)
    if isinstance(assigner, _CUMULATING):
        return CumulatingWindows(assigner.size, assigner.step, assigner.offset)
    raise TypeError(f"{assigner!r} has no panes")


def _why_not_trigger(window: WindowSpec) -> list[str]:
    trigger, by_processing_time = _trigger(window), not window.assigner.is_event_time
    purging = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    at_end = ProcessingTimeTrigger if by_processing_time else EventTimeTrigger
    continuous = ContinuousProcessingTimeTrigger if by_processing_time else ContinuousEventTimeTrigger
    if inner == AT_EVERY_ROW and not purging and not by_processing_time:
        return []
    if type(inner) not in (at_end, continuous):
        return [f"the trigger {trigger!r} looks at single rows, or at another time than its windows"]
    if purging and window.allowed_lateness and not by_processing_time:
        return ["a purging trigger fires every late row by itself"]
    if purging and isinstance(inner, continuous) and pane_grid(window.assigner).overlaps:
        return ["a purging trigger takes rows out of one of several overlapping windows"]
    return []


def interval_of(window: WindowSpec) -> Interval | None:
    """Return the continuous trigger, or None if windows fire at their end."""
    trigger = _trigger(window)
    purging = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if isinstance(inner, (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)):
        return Interval(inner.interval, purging)
    return None


def _trigger(window: WindowSpec) -> Trigger:
    return window.trigger or window.assigner.get_default_trigger()


def pane_views(plan: WindowPlan, settings: PaneSettings, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group."""
    grid, width = settings.grid, len(settings.result_schema)
    reached = reached_by(saved, by_processing_time=settings.by_processing_time)
    closing = ClosedWindows(0 if settings.by_processing_time else plan.allowed_lateness, saved.header["closed"])
    closed = closing.at(reached)
    own = PaneTables(plan.key_schema, grid, LatenessPolicy(grid, closing), closed)
    partials = own.unmerged(saved, settings.aggregation)
    times = np.unique(grid.starts_of(partials.column("pane").to_numpy()))
    schemas, parts = ViewSchemas(plan, group), []
    for kind, one in enumerate(grid.windows):
        windows = one.over(times, times, last_ended(one, closed), BEYOND_ALL)
        starts, ends = one.start_of(windows), one.end_of(windows)
        found = standing(settings.aggregation, partials, grid.panes_of(starts), grid.panes_of(ends))
        which = found.which
        last = ends[which] - 1
        firings, last_firing = _fired(plan, saved, kind, one, found, windows[which])
        rows = WindowRows(
            keys=found.keys,
            count=len(which),
            starts=pa.array(starts[which]),
            ends=pa.array(ends[which]),
            kinds=np.full(len(which), kind),
            results=None if found.results is None else found.results[:width],
            rows=found.rows,
            firings=firings,
            last_firing=last_firing,
            due=_due(settings, last, reached),
            closes=closing_times(last, closing.lateness),
            size=share(saved.table(PANES).nbytes, found.rows),
        )
        parts.append(schemas.windows_of(rows))
    return schemas.with_windows(pa.concat_tables(parts))


def _due(settings: PaneSettings, last: Ints, reached: int) -> Ints:
    """Return when windows fire next: at their end, or with a continuous trigger not before its next multiple."""
    due = last
    if settings.interval is not None and reached not in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        due = np.minimum(last, settings.interval.next_after(reached))
    return np.where(last > reached, due, MAX_TIMESTAMP)


def _fired(
    plan: WindowPlan, saved: StateTables, kind: int, one: AlignedWindows, found: Standing, windows: Ints
) -> tuple[Ints | None, Ints | None]:
    """Return the numbers of firings and the kinds of the last ones, or None if these are not stored."""
    none = np.zeros(len(windows), np.int64), np.full(len(windows), -1)
    if plan.operator.capabilities.fires_once:
        return none
    if EMITTED not in saved.tables:
        return None, None
    table = emitted_for(saved, plan.labels, kind)
    keys = [pa.chunked_array([column]) for column in key_columns(table, plan.key_schema)]
    emitted = one.first_ending_after(integers(table, "end") - 1)
    ours, theirs, _ = numbered([pa.chunked_array([key]) for key in found.keys], keys, windows, emitted)
    places = places_of(ours, theirs)
    known = places >= 0
    firings, last_firing = none
    firings[known] = integers(table, "number")[places[known]] + 1
    last_firing[known] = integers(table, "firing")[places[known]]
    return firings, last_firing


__all__ = ["PaneSpec", "interval_of", "pane_grid", "pane_views", "panes_rule", "why_not_aligned", "why_not_panes"]
