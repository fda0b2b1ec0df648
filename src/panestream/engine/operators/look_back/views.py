"""What is shown of look-backs: the rows that wait for the watermark, and their windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import array_of, list_of
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.operators.look_back.operator import WAITING, LookBackSettings
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.state_views import INSTANT, ViewSchemas, WindowRows, instants, share
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns


def look_back_views(plan: WindowPlan, settings: LookBackSettings, saved: StateTables, group: int) -> StateViews:
    """The views of a key group; the arguments are those of :func:`~panestream.engine.operators.panes.views.pane_views`.

    Of several look-backs the window that is shown covers all. What is kept of rows that were emitted is no window any more.
    """
    table = saved.table(WAITING)
    keys, times = key_columns(table, plan.key_schema), integers(table, "time")
    coded = encode_keys(keys, table.num_rows)
    # A key and instant once, with the number of its rows.
    pairs, counts = np.unique(np.stack([coded.codes.astype(np.int64), times]), axis=1, return_counts=True)
    starts, last = pairs[1] - settings.longest, pairs[1] + settings.ahead
    shown = WindowRows(
        keys=coded.take(pairs[0]),
        count=len(counts),
        starts=pa.array(starts),
        ends=pa.array(last + 1),
        rows=counts,
        due=last,
        closes=last,
        size=share(table.nbytes, counts),
    )
    schemas = ViewSchemas(plan, group, settings.kept)
    bounds = [array_of(bound, pa.int64()).cast(INSTANT) for bound in (times - settings.longest, times + settings.ahead + 1)]
    lists = list_of(pa.StructArray.from_arrays(bounds, ["start", "end"]), np.ones(table.num_rows, np.int64))
    columns = {"windows": lists, "place": pa.array(integers(table, "arrival")), "time": instants(times)}
    rows = named_columns(table, [f"row {place}" for place in range(len(settings.kept))])
    elements = schemas.elements_of(keys, table.num_rows, columns, rows)
    return schemas.with_windows(schemas.windows_of(shown), elements=elements)


__all__ = ["look_back_views"]
