"""The arrival of rows as partials by key and pane: which of them are late, and the rest as one table."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.panes import PaneGrid
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator
from panestream.engine.runtime.watermarks import LatenessPolicy
from panestream.engine.storage.blocks import pane_range

PARTIALS, ROWS, GAPS = "partials", "rows", "gaps"
"""The parts of the exchange: partials in tables sorted by pane, whole rows with ``__pane`` and ``__time`` for the late output,
and event times of rows between windows."""


class PanedOperator(GroupOperator[pa.Table]):
    """An operator whose rows arrive as partials by key and pane."""

    _grid: PaneGrid
    _aggregation: Aggregation
    _lateness: LatenessPolicy

    def _with_numbers(self, arrived: pa.Table) -> pa.Table:
        """Return partials with row numbers of the stream, for an operator that counts rows."""
        return arrived

    def _merged(self, parts: list[pa.Table]) -> pa.Table:
        parts = [part for part in parts if part.num_rows]
        return parts[0] if len(parts) == 1 else self._aggregation.merge(parts)

    def _drop_late(self, batch: GroupInput, watermark: int, output: GroupOutput) -> list[pa.Table]:
        """Return the partials that some window still accepts. Count late rows, and emit them if the plan has a tag for them."""
        closed, late, live = self._lateness.closed(watermark), 0, []
        first_live = self._lateness.first_live_pane(closed)
        for arrived in batch.of(PARTIALS):
            table = self._with_numbers(arrived)
            kept = pane_range(table, first_live, None)
            if self._grid.holes:
                kept = kept.filter(pa.array(self._lateness.taken(kept.column("pane").to_numpy(), closed)))
            if kept.num_rows < table.num_rows:
                late += rows_in([table]) - rows_in([kept])
            live.append(kept)
        # A row between two windows is dropped, unless the watermark has passed it: then it is late.
        between = sum(table.num_rows for table in batch.of(GAPS))
        late_between = sum(int((table.column("time").to_numpy() <= closed).sum()) for table in batch.of(GAPS))
        late += late_between
        output.metrics.windowed_rows, output.metrics.outside_rows = rows_in(live), between - late_between
        self._emit_late(late, self._late_rows(batch.of(ROWS), closed), output)
        return live

    def _late_rows(self, arrived: list[pa.Table], closed: int) -> Iterable[pa.Table]:
        for table in arrived:
            panes, times = (column.to_numpy() for column in table.columns[-2:])
            too_late = self._lateness.too_late(panes, times, closed)
            if too_late.any():
                yield table.filter(pa.array(too_late)).select(range(table.num_columns - 2))


def rows_in(partials: list[pa.Table]) -> int:
    """Return the number of input rows in partials."""
    return sum(pc.sum(table.column("rows")).as_py() or 0 for table in partials)
