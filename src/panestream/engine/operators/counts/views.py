"""What is shown of count windows: for each key the rows that are kept of it, and what they come to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.saved_partials import partials_found
from panestream.engine.aggregates.standing import standing
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.counts.operator import PANES, CountSettings
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, share
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns, with_types


def count_views(plan: WindowPlan, settings: CountSettings, saved: StateTables, group: int) -> StateViews:
    """The views of a key group; the arguments are those of :func:`~panestream.engine.operators.panes.views.pane_views`."""
    table, aggregation = saved.table(PANES), settings.aggregation
    keys = encode_keys(key_columns(table, plan.key_schema), table.num_rows)
    codes = keys.codes.astype(np.int64)
    # All panes of a key as one, in their order.
    order = pa.array(stable_order(codes, integers(table, "pane")))
    columns = [pa.array(codes), *named_columns(table, ["rows"]), *partials_found(table, saved.header, aggregation)]
    partials = with_types([column.take(order) for column in columns], aggregation.partial_schema)
    each = np.arange(keys.count)
    found = standing(aggregation, partials, each, each + 1)
    rows = WindowRows(
        keys=keys.take(found.which),
        count=len(found.which),
        results=found.results,
        rows=found.rows,
        size=share(table.nbytes, found.rows),
    )
    schemas = ViewSchemas(plan, group)
    return schemas.with_windows(schemas.windows_of(rows))


__all__ = ["count_views"]
