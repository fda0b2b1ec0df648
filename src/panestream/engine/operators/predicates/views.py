"""What is shown of windows by predicates: those that are open, and steps that wait for the watermark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.saved_partials import partials_found
from panestream.engine.aggregates.standing import standing
from panestream.engine.operators.predicates.cuts import OPEN
from panestream.engine.operators.predicates.operator import STEPS, PredicateSettings
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, share
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns, with_types
from panestream.windowing.time import MAX_TIMESTAMP


def predicate_views(plan: WindowPlan, settings: PredicateSettings, saved: StateTables, group: int) -> StateViews:
    """The views of a key group; the arguments are those of :func:`~panestream.engine.operators.panes.views.pane_views`.

    Of an open window the end that is shown is a gap after its last row, or an instant after it where there is none: where it ends
    is not known yet. A step that waits is shown as a window of its instant, since nobody knows which one it will be part of.
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


__all__ = ["predicate_views"]
