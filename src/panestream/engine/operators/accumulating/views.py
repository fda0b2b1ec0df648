"""What is shown of accumulating panes: the rows that are kept, and the windows that they lie in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import array_of, list_of
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.accumulating.operator import ROWS, AccumulatingSettings, expanded
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.state_views import INSTANT, ViewSchemas, WindowRows, instants, share
from panestream.engine.runtime.watermarks import BEYOND_ALL, Closing, closing_times, last_ended
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns
from panestream.windowing.time import MAX_TIMESTAMP


def accumulating_views(plan: WindowPlan, settings: AccumulatingSettings, saved: StateTables, group: int) -> StateViews:
    """The views of a key group; the arguments are those of :func:`~panestream.engine.operators.panes.views.pane_views`."""
    table, grid = saved.table(ROWS), settings.grid
    (one,) = grid.windows
    reached, lateness = saved.header["watermarks"]["watermark"], plan.allowed_lateness
    closed = Closing(lateness, saved.header["closed"]).at(reached)
    keys = key_columns(table, plan.key_schema)
    times, schemas = integers(table, "time"), ViewSchemas(plan, group, settings.rows)
    order = stable_order(times)
    distinct = np.unique(times)
    windows = one.over(distinct, distinct, last_ended(one, closed), BEYOND_ALL)
    starts, ends = one.start_of(windows), one.end_of(windows)
    which, places = expanded(grid.panes_of(times[order]), grid.panes_of(starts), grid.panes_of(ends))
    row = order[places] if len(places) else places
    # A key and window once, with the number of its rows.
    coded = encode_keys(keys, table.num_rows)
    pairs, counts = np.unique(which * max(coded.count, 1) + coded.codes.astype(np.int64)[row], return_counts=True)
    window, code = np.divmod(pairs, max(coded.count, 1))
    last = ends[window] - 1
    shown = WindowRows(
        keys=coded.take(code),
        count=len(pairs),
        starts=pa.array(starts[window]),
        ends=pa.array(ends[window]),
        rows=counts,
        due=np.where(last > reached, last, MAX_TIMESTAMP),
        closes=closing_times(last, lateness),
        size=share(table.nbytes, counts),
    )
    by_row = stable_order(row)
    bounds = [array_of(bound[which[by_row]], pa.int64()).cast(INSTANT) for bound in (starts, ends)]
    lists = list_of(pa.StructArray.from_arrays(bounds, ["start", "end"]), np.bincount(row, minlength=table.num_rows))
    columns = {"windows": lists, "place": pa.array(integers(table, "arrival")), "time": instants(times)}
    rows = named_columns(table, [f"row {place}" for place in range(len(settings.rows))])
    elements = schemas.elements_of(keys, table.num_rows, columns, rows)
    return schemas.with_windows(schemas.windows_of(shown), elements=elements)


__all__ = ["accumulating_views"]
