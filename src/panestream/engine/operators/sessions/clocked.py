"""The session operator of the clock: all rows of a micro-batch come at the time of the micro-batch."""

from __future__ import annotations

import numpy as np

from panestream.engine.operators.base import GroupInput, GroupOutput
from panestream.engine.operators.sessions.operator import SessionOperator, merge_spans
from panestream.windowing.time import MAX_TIMESTAMP


class ClockedSessionOperator(SessionOperator):
    """As :class:`SessionOperator`, on the clock: nothing is late, and what is over fires before the rows of the micro-batch.

    That is why a distance of exactly the gap makes two sessions here: when the clock stands at the end of a session, it has just
    fired and gone.
    """

    def _process(self, batch: GroupInput, output: GroupOutput) -> None:
        store = self._store
        store.tracker.advance(batch.seen, batch.batch_time, batch.watermarks)
        now = store.clock = max(store.clock, batch.batch_time)
        gathered = self._gather(batch, MAX_TIMESTAMP if batch.end_of_input else now - 1)
        over = gathered.stored.ends <= now
        ended = merge_spans(gathered.keys, gathered.stored.filter(over), [], self._work)
        self._emit(ended, np.ones(len(ended.sessions), np.bool_), output)
        fresh = [chunk.after(now) for chunk in gathered.arrivals.chunks]
        merged = merge_spans(gathered.keys, gathered.stored.filter(~over), fresh, self._work)
        if batch.end_of_input:
            # A batch has no clock to wait for: what is open at the end of the input fires then.
            self._emit(merged, np.ones(len(merged.sessions), np.bool_), output)
            return
        self._keep(merged, gathered.read, gathered.stored.codes[over], now - 1)
        due = min(page.due for page in store.pages.index)
        output.wake_up = None if due == MAX_TIMESTAMP else due
