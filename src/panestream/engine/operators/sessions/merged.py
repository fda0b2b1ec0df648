"""The sessions of a micro-batch's keys, with its rows included."""

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
class MergedSessions:
    """Stored and local sessions, merged. The pane of a session's partial is its number.

    ``sessions`` is the result of merging the stored spans and then the local ones, in this order.
    """

    keys: Keys
    sessions: Sessions
    stored: Spans
    partials: pa.Table

    @classmethod
    def of(cls, keys: Keys, stored: Spans, fresh: Sequence[Spans], settings: SessionSettings) -> MergedSessions:
        """Merge the open sessions and those that arrived, in the order of arrival."""
        spans = [stored, *fresh]
        codes, starts, ends = (np.concatenate([getattr(one, name) for one in spans]) for name in ("codes", "starts", "ends"))
        sessions = merge_touching(codes, starts, ends, settings.longest)
        partials = pa.concat_tables([one.partials for one in spans]).set_column(0, PANE, pa.array(sessions.ids))
        return cls(keys, sessions, stored, settings.aggregation.merge([partials]))

    @property
    def stored_ids(self) -> Ints:
        """The merged session of each stored one."""
        return self.sessions.ids[: len(self.stored.codes)]

    @cached_property
    def touched(self) -> Mask:
        """True for sessions with a row of this micro-batch."""
        return self._holds(self.sessions.ids[len(self.stored.codes) :])

    @cached_property
    def was_stored(self) -> Mask:
        """True for sessions that contain a stored one."""
        return self._holds(self.stored_ids)

    @cached_property
    def same_bounds(self) -> Mask:
        """True for stored sessions that still have their bounds. The others have grown or are part of a larger session."""
        ids = self.stored_ids
        same: Mask = (self.sessions.starts[ids] == self.stored.starts) & (self.sessions.ends[ids] == self.stored.ends)
        return same

    @cached_property
    def fired(self) -> Ints:
        """The number of firings of each session with its current bounds before this micro-batch."""
        return self._kept(self.stored.fired)

    @cached_property
    def fired_late(self) -> Ints:
        """1 for sessions whose last firing with their current bounds was caused by a late row, otherwise 0."""
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
