"""The session operator of the clock: all rows of a micro-batch come at the time of the micro-batch."""

from __future__ import annotations

import numpy as np

from panestream.engine.operators.sessions.firing import Fired
from panestream.engine.operators.sessions.merged import Merged
from panestream.engine.operators.sessions.operator import SessionOperator
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP


class ProcessingTimeSessionOperator(SessionOperator):
    """As :class:`SessionOperator`, on the clock: nothing is late, and what is over fires before the rows of the micro-batch.

    That is why a distance of exactly the gap makes two sessions here: when the clock stands at the end of a session, it has just
    fired and gone.
    """

    def _process(self, batch: GroupInput, output: GroupOutput) -> None:
        store = self._store
        store.tracker.take_in(batch)
        now = store.clock = max(store.clock, batch.batch_time)
        gathered = self._gather(batch, MAX_TIMESTAMP if batch.end_of_input else now - 1)
        over = gathered.stored.ends <= now
        self._emit_all(Merged.of(gathered.keys, gathered.stored.filter(over), [], self._spec), output)
        fresh = [chunk.after(now) for chunk in gathered.arrivals.chunks]
        merged = Merged.of(gathered.keys, gathered.stored.filter(~over), fresh, self._spec)
        if batch.end_of_input:
            # A batch has no clock to wait for: what is open at the end of the input fires then.
            self._emit_all(merged, output)
            return
        nothing = Fired.of(merged, np.zeros(len(merged.sessions), np.bool_), MIN_TIMESTAMP, MIN_TIMESTAMP)
        self._keep(merged, nothing, gathered, gathered.stored.codes[over], now - 1)
        due = min(page.due for page in store.pages.index)
        output.wake_up = None if due == MAX_TIMESTAMP else due

    def _emit_all(self, merged: Merged, output: GroupOutput) -> None:
        """On the clock a session fires once."""
        every = np.ones(len(merged.sessions), np.bool_)
        self._emit(merged, Fired.of(merged, every, MIN_TIMESTAMP, MAX_TIMESTAMP), output)
