"""What is shown of sessions: those that are open."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.saved_partials import partials_found
from panestream.engine.aggregates.standing import standing
from panestream.engine.operators.sessions.exchange import SESSIONS
from panestream.engine.operators.sessions.local import SessionSettings
from panestream.engine.plan import FIRINGS, LATE, ON_TIME, WindowPlan
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, reached_by, share
from panestream.engine.runtime.watermarks import closing_times
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns, with_types
from panestream.windowing.time import MAX_TIMESTAMP


def session_views(plan: WindowPlan, settings: SessionSettings, saved: StateTables, group: int) -> StateViews:
    """The views of a key group; the arguments are those of :func:`~panestream.engine.operators.panes.views.pane_views`."""
    table, aggregation = saved.table(SESSIONS), settings.aggregation
    reached = reached_by(saved, by_processing_time=settings.by_processing_time)
    lateness = 0 if settings.by_processing_time else plan.allowed_lateness
    each = np.arange(table.num_rows)
    columns = [pa.array(each), *named_columns(table, ["rows"]), *partials_found(table, saved.header, aggregation)]
    found = standing(aggregation, with_types(columns, aggregation.partial_schema), each, each + 1)
    starts, ends, fired = (integers(table, name) for name in ("start", "end", "fired"))
    last, late = ends - 1, integers(table, "late")
    words = np.where(fired == 0, -1, np.where(late > 0, FIRINGS.index(LATE), FIRINGS.index(ON_TIME)))
    kept = plan.keeps_emitted
    rows = WindowRows(
        keys=key_columns(table, plan.key_schema),
        count=table.num_rows,
        starts=pa.array(starts),
        ends=pa.array(ends),
        results=found.results,
        rows=found.rows,
        firings=fired if kept else None,
        last_firing=words if kept else None,
        due=np.where(last > reached, last, MAX_TIMESTAMP),
        closes=closing_times(last, lateness),
        size=share(table.nbytes, found.rows),
    )
    schemas = ViewSchemas(plan, group)
    return schemas.with_windows(schemas.windows_of(rows))


__all__ = ["session_views"]
