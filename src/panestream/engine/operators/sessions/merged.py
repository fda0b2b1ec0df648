"""The sessions of a micro-batch's keys, after its rows have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.grouping import Keys
from panestream.engine.operators.sessions.arrivals import Spans
from panestream.engine.operators.sessions.exchange import PANE
from panestream.engine.operators.sessions.local import SessionSettings
from panestream.engine.operators.sessions.spans import Sessions, merge_touching


@dataclass(frozen=True)
class Merged:
    """Stored sessions and local ones, merged.

    Attributes:
        keys: of all of them.
        sessions: what became of the stored ones and then the local ones, which are the spans, in this order.
        stored: the stored ones.
        partials: one row for each session; the pane is its number.
    """

    keys: Keys
    sessions: Sessions
    stored: Spans
    partials: pa.Table

    @classmethod
    def of(cls, keys: Keys, stored: Spans, fresh: Sequence[Spans], settings: SessionSettings) -> Merged:
        """Merges the sessions that are open and those that have come, in the order of arrival."""
        spans = [stored, *fresh]
        codes, starts, ends = (np.concatenate([getattr(one, name) for one in spans]) for name in ("codes", "starts", "ends"))
        sessions = merge_touching(codes, starts, ends, settings.longest)
        partials = pa.concat_tables([one.partials for one in spans]).set_column(0, PANE, pa.array(sessions.ids))
        return cls(keys, sessions, stored, settings.aggregation.merge([partials]))

    @property
    def stored_ids(self) -> Ints:
        """What became of each stored session."""
        return self.sessions.ids[: len(self.stored.codes)]

    @cached_property
    def touched(self) -> Mask:
        """Which sessions have a row of this micro-batch."""
        return self._holds(self.sessions.ids[len(self.stored.codes) :])

    @cached_property
    def was_stored(self) -> Mask:
        """Which sessions are made of, among others, one that was stored."""
        return self._holds(self.stored_ids)

    @cached_property
    def same_bounds(self) -> Mask:
        """Which stored sessions have the bounds that they had. The others have grown, or are part of a larger one."""
        ids = self.stored_ids
        same: Mask = (self.sessions.starts[ids] == self.stored.starts) & (self.sessions.ends[ids] == self.stored.ends)
        return same

    @cached_property
    def fired(self) -> Ints:
        """How often each session has fired with the bounds that it has now, before this micro-batch."""
        return self._kept(self.stored.fired)

    @cached_property
    def fired_late(self) -> Ints:
        """Whether (1 or 0) each session last fired, with these bounds, because of a late row."""
        return self._kept(self.stored.late)

    def _kept(self, column: Ints | None) -> Ints:
        found = np.zeros(len(self.sessions), np.int64)
        if column is not None:
            found[self.stored_ids[self.same_bounds]] = column[self.same_bounds]
        return found

    def _holds(self, ids: Ints) -> Mask:
        found = np.zeros(len(self.sessions), np.bool_)
        found[ids] = True
        return found
