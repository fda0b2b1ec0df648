"""What is shown of an interval join: the rows that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from panestream.engine.kernels.columns import plain
from panestream.engine.runtime.sides import SIDES
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, instants
from panestream.engine.storage.state_tables import integers, key_columns

if TYPE_CHECKING:
    from panestream.engine.operators.intervals.operator import IntervalSettings
    from panestream.engine.plan import WindowPlan
    from panestream.engine.storage.state_tables import StateTables, StateViews


def interval_views(plan: WindowPlan, settings: IntervalSettings, saved: StateTables, group: int) -> StateViews:
    """The views of a key group; the arguments are those of :func:`~panestream.engine.operators.panes.views.pane_views`."""
    rows = pa.schema([pa.field(side, settings.row_of(side)) for side in SIDES])
    schemas, shown = ViewSchemas(plan, group, rows), []
    for side in SIDES:
        table = saved.table(side)
        count = table.num_rows
        columns = [plain(table.column("row")) if name == side else pa.nulls(count, settings.row_of(name)) for name in SIDES]
        times = {"time": instants(integers(table, "time"))}
        shown.append(schemas.elements_of(key_columns(table, plan.key_schema), count, times, columns))
    nothing = [pa.nulls(0, key.type) for key in plan.key_schema]
    return schemas.with_windows(schemas.windows_of(WindowRows(nothing, 0)), elements=pa.concat_tables(shown))


__all__ = ["interval_views"]
