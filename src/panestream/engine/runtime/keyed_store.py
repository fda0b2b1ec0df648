"""The open sessions of a key group, and what else it remembers: pages, and the meta record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.identity import check_identity
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupMetrics
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.storage import payload
from panestream.engine.storage.keyed_pages import KeyedPages
from panestream.engine.storage.sealed_state import SealedState
from panestream.windowing.time import MIN_TIMESTAMP

_META = "meta"


class KeyedStore:
    """Pages, watermark and clock of one key group, for one micro-batch.

    Attributes:
        pages: keyed rows.
        tracker: the watermark.
        clock: how far processing time has come, where it matters.
        closed: windows whose last instant is this or before are closed for good, where windows close by event time.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, state: SealedState, schema: pa.Schema) -> None:
        self._plan = plan
        self._state = state
        self.pages = KeyedPages(self._state, schema)
        self.tracker = WatermarkTracker(plan.watermark)
        self.clock, self.closed = 0, MIN_TIMESTAMP
        saved = self._state.get(_META, 0)
        if saved is not None:
            table, header = payload.decode(saved)
            check_identity(header["identity"], plan.identity(), "the checkpoint")
            self.tracker = WatermarkTracker.from_json(plan.watermark, header["watermarks"])
            self.clock, self.closed = header["clock"], header["closed"]
            self.pages.load_index(table, header["next_page"])

    def save(self) -> None:
        """Writes the meta record; the pages are written already."""
        header: dict[str, Any] = {
            "identity": self._plan.identity(),
            "watermarks": self.tracker.to_json(),
            "clock": self.clock,
            "closed": self.closed,
            "next_page": self.pages.next_key,
        }
        self._state.put(_META, 0, payload.encode(self.pages.index_table(), header))

    def measure(self, batch: GroupInput, metrics: GroupMetrics) -> None:
        """Fills in the counters that all keyed operators have."""
        self.tracker.measure(batch, metrics)
        stored = [page for page in self.pages.index if page.rows]
        metrics.blocks = len(stored)
        metrics.state_bytes = sum(page.size for page in stored)
        self._state.measure(metrics)


def with_bounds(
    plan: WindowPlan, keys: list[pa.Array], starts: Any, ends: Any, results: pa.Table, extra: Sequence[pa.Array] = ()
) -> pa.Table:
    """Rows of the main output; bounds of None are those of the global window, ``extra`` are the columns after the results."""
    rows = results.num_rows
    instant = pa.timestamp("us", tz="UTC")
    bounds = [
        pa.nulls(rows, instant) if bound is None else pa.array(np.ascontiguousarray(bound)).cast(instant)
        for bound in (starts, ends)
    ]
    schema = plan.main_schema
    columns = [
        *(key.cast(field.type) for key, field in zip(keys, plan.key_schema, strict=True)),
        *bounds,
        *results.columns,
        *extra,
    ]
    return pa.Table.from_arrays(columns, schema=schema)
