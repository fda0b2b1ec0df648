"""What is shown of aligned panes: a row for each key and open window, whatever panes it is made of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.standing import Standing, standing
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.pairs import numbered, places_of
from panestream.engine.kernels.slicing import AlignedWindows
from panestream.engine.operators.panes.operator import PaneSettings
from panestream.engine.operators.panes.tables import EMITTED, PANES, PaneTables, emitted_for
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, reached_by, share
from panestream.engine.runtime.watermarks import BEYOND_ALL, Closing, LatenessPolicy, closing_times, last_ended
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP


def pane_views(plan: WindowPlan, settings: PaneSettings, saved: StateTables, group: int) -> StateViews:
    """The views of a key group.

    Args:
        plan: the query.
        settings: what its operator knows of it.
        saved: its state.
        group: its number.
    """
    grid, width = settings.grid, len(settings.result_schema)
    reached = reached_by(saved, by_processing_time=settings.by_processing_time)
    closing = Closing(0 if settings.by_processing_time else plan.allowed_lateness, saved.header["closed"])
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
    """When windows fire next: at their end, or where a continuous trigger is, not before its next multiple."""
    due = last
    if settings.interval is not None and reached not in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        due = np.minimum(last, settings.interval.next_after(reached))
    return np.where(last > reached, due, MAX_TIMESTAMP)


def _fired(
    plan: WindowPlan, saved: StateTables, kind: int, one: AlignedWindows, found: Standing, windows: Ints
) -> tuple[Ints | None, Ints | None]:
    """How often windows have fired, and how the last time; None: it is not kept."""
    none = np.zeros(len(windows), np.int64), np.full(len(windows), -1)
    if plan.operator.fires_once:
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


__all__ = ["pane_views"]
