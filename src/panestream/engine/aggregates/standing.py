"""Current aggregates: the results that windows would have if they fired now, and their numbers of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from panestream.engine.aggregates.aggregation import Aggregation
from panestream.engine.aggregates.counts import RowCountResult
from panestream.engine.kernels.columns import Ints, numbers, plain

_ROWS = "__rows"


@dataclass(frozen=True, slots=True)
class Standing:
    """Current state of windows; ``which`` is the place of each in the query, and ``rows`` its number of input rows.

    ``results`` is None if user code would compute them, which is not called.
    """

    which: Ints
    keys: list[pa.Array]
    results: list[pa.Array] | None
    rows: Ints


def standing(aggregation: Aggregation, partials: pa.Table, first_pane: Ints, end_pane: Ints) -> Standing:
    """Return the windows over partials that are sorted by pane; ``first_pane`` and ``end_pane`` must not decrease."""
    width, users = len(aggregation.key_schema), aggregation.runs_users_code
    asked = aggregation
    if users:
        bare = pa.schema(list(aggregation.partial_schema)[: width + 2])
        asked = replace(aggregation, partial_schema=bare, partial_aggregates=(), results=(), output_schema=pa.schema([]))
    count = RowCountResult(_ROWS, "count()", pa.int64(), ())
    output = asked.output_schema.append(pa.field(_ROWS, pa.int64()))
    asked = replace(asked, results=(*asked.results, count), output_schema=output)
    which, table = asked.windows(partials.select(range(len(asked.partial_schema))), first_pane, end_pane)
    columns = [plain(column) for column in table.columns]
    return Standing(which, columns[:width], None if users else columns[width:-1], numbers(columns[-1]))


__all__ = ["Standing", "standing"]
