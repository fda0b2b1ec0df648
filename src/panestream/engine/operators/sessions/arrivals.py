"""The local sessions of a micro-batch merged with the open ones, and the removal of late rows before.

Rows are late per window, after merging, row by row in the order of arrival, as in Flink.

A row whose own window ``[ts, ts + gap)`` is still open is always taken. A row whose window is closed is taken only if it touches
a live session when it arrives. Every live session ends after the close. So a live session that touches a closed window spans the
close, each key has at most one, and only its start matters. This *frontier* moves back with every row that is taken, and a row is
taken if its window ends at the frontier or later.

The windows of one key, in the order of arrival from top to bottom, time from left to right::

    time          -----------------------------------------close---------->
    open session                                [---------------------)     in time; it begins at F1
    row a                             [------)               |              ends before F1: late
    row b                                 [-----)            |              reaches F1: taken; it begins at F2
    row c                           [-----)                  |              reaches F2: taken; it begins at F3
    row d                      [----)                        |              reaches F3: taken
                                    F3    F2    F1

Row a would have been taken after b: only the order of arrival decides.

The frontier before each row is a running minimum over the rows taken before it, which in turn depend on the frontier. Therefore
:func:`_taken` works in rounds, which can only err on one side:

- Every row marked as taken *is* taken. At first, these are the rows in time. A round adds the rows that reach the frontier of the
  marked rows. The true frontier is not later, so they are really taken. After each marked row, the round also adds its followers
  while each touches its predecessor's start (a *run*: b, c, d above), because each moves the frontier for the next.
- A round that adds no row ends the loop. Then all marks are complete: before the first missing row, all marks would be right and
  the frontier true, so this round would have found it.

Marks are never removed, so the number of rounds is at most the number of runs. One or two rounds suffice for all but the most
contrived orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, Mask, array_of, numbers, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.ordering import interleaved, running_max, stable_order
from panestream.engine.operators.columnar import partials_of
from panestream.engine.operators.sessions.exchange import (
    PANE,
    ROWS,
    SESSIONS,
    SessionRows,
    Sessions,
    local_sessions,
    merge_touching,
    unpack_rows,
)
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput


def late_rows(units: Ints, starts: Ints, ends: Ints, closed: int) -> Mask:
    """Return which spans no session takes.

    Args:
        units: the key of each span, or its key and period if sessions are cut into periods. Only equal units merge.
        starts: the starts of the spans: first the open sessions, then the windows of rows, in the order of arrival.
        ends: their ends.
        closed: windows whose last instant is at or before this are closed.
    """
    in_time = ends - 1 > closed
    suspects = np.zeros(int(units.max(initial=-1)) + 1, np.bool_)
    suspects[units[~in_time]] = True
    rows = np.flatnonzero(suspects[units])
    late = np.zeros(len(units), np.bool_)
    if len(rows):
        rows = rows[stable_order(units[rows])]
        late[rows] = ~_taken(units[rows], starts[rows], ends[rows], in_time[rows])
    return late


def _taken(units: Ints, starts: Ints, ends: Ints, in_time: Mask) -> Mask:
    """Return which spans are taken, for spans sorted by unit and then by arrival.

    The invariant of the loop: Flink also takes every span in ``taken``. See the drawing in the module docstring.
    """
    new = np.ones(len(units), np.bool_)
    new[1:] = units[1:] != units[:-1]
    # A run is taken from its first taken span on: each later one touches its predecessor's start.
    breaks = new.copy()
    breaks[1:] |= ends[1:] < starts[:-1]
    run = np.cumsum(breaks) - 1
    place = np.arange(len(units))
    taken = in_time
    while True:
        now = taken | (ends >= _frontier(new, starts, taken))
        first_of_run = np.full(int(run[-1]) + 1, len(units))
        np.minimum.at(first_of_run, run[now], place[now])
        now = place >= first_of_run[run]
        if bool((now == taken).all()):
            return taken
        taken = now


def _frontier(new: Mask, starts: Ints, taken: Mask) -> Ints:
    """Return the start of the session that spans the close before each span, or the end of time if it does not exist."""
    latest = int(starts.max())
    # Counted backwards from the latest start, the least start is the largest number. Spans not taken do not count.
    reach = running_max(new, np.where(taken, latest - starts, -1))
    before = np.full(len(starts), -1)
    before[1:] = np.where(new[1:], -1, reach[:-1])
    return np.where(before < 0, np.iinfo(np.int64).max, latest - before)


@dataclass(frozen=True, slots=True)
class Spans:
    """Sessions as columns. The panes of ``partials`` do not mean anything yet.

    ``fired`` is the number of firings with these bounds, and ``late`` is 1 if a late row caused the last one, otherwise 0. Both
    are None if no session fired.
    """

    codes: Ints
    starts: Ints
    ends: Ints
    partials: pa.Table
    fired: Ints | None = None
    late: Ints | None = None

    @classmethod
    def of(cls, table: pa.Table, codes: Ints, aggregation: Aggregation) -> Spans:
        names = ("start", "end", *(name for name in ("fired", "late") if name in table.column_names))
        starts, ends, *emitted = (numbers(plain(table.column(name))) for name in names)
        return cls(codes, starts, ends, partials_of(table, aggregation, codes), *emitted)

    def filter(self, mask: Mask) -> Spans:
        if mask.all():
            return self
        partials = self.partials.filter(pa.array(mask))
        emitted = [None if column is None else column[mask] for column in (self.fired, self.late)]
        return Spans(self.codes[mask], self.starts[mask], self.ends[mask], partials, *emitted)

    def after(self, time: int) -> Spans:
        """Shift the sessions by ``time``."""
        return replace(self, starts=self.starts + time, ends=self.ends + time)


@dataclass(frozen=True, slots=True)
class Late:
    """The number of late rows of a micro-batch, and the whole rows, chunk by chunk, if they are emitted."""

    count: int = 0
    rows: tuple[pa.Table, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionArrivals:
    """The local sessions of a micro-batch by chunk, in the order of arrival.

    Attributes:
        firsts: the end of the first window of each session's rows.
        origins: the source partition of each chunk, or empty if all have the same.
    """

    chunks: list[Spans]
    firsts: list[Ints]
    packed: list[pa.Table]
    origins: Sequence[int] = ()

    @classmethod
    def of(cls, batch: GroupInput, codes: Ints, aggregation: Aggregation) -> SessionArrivals:
        """Return the local sessions of a micro-batch; ``codes`` are the key codes of all its chunks, concatenated."""
        chunks, firsts, begin = [], [], 0
        for table in batch.of(SESSIONS):
            chunks.append(Spans.of(table, codes[begin : begin + table.num_rows], aggregation))
            firsts.append(numbers(plain(table.column("first"))))
            begin += table.num_rows
        return cls(chunks, firsts, batch.of(ROWS), batch.origins.get(ROWS, ()))

    def without_late(
        self, stored: Spans, closed: int, plan: WindowPlan, aggregation: Aggregation, longest: int | None
    ) -> tuple[list[Spans], Late]:
        """Return the sessions without late rows, and these rows, given the open sessions ``stored``.

        Windows whose last instant is at or before ``closed`` are closed.
        """
        if not any(bool((first - 1 <= closed).any()) for first in self.firsts):
            return self.chunks, Late()
        schema = plan.row_schema if plan.late_tag is not None else None
        rows = [unpack_rows(packed, aggregation.input_types, schema) for packed in self.packed]
        late = self._late_of(rows, stored, closed, longest)
        spans = [
            _less(chunk, part, mask, aggregation, longest) for chunk, part, mask in zip(self.chunks, rows, late, strict=True)
        ]
        whole = () if schema is None else tuple(part.whole.filter(pa.array(mask)) for part, mask in zip(rows, late, strict=True))
        return spans, Late(sum(int(mask.sum()) for mask in late), whole)

    def _late_of(self, rows: list[SessionRows], stored: Spans, closed: int, longest: int | None) -> list[Mask]:
        codes = np.concatenate([chunk.codes[part.sessions] for chunk, part in zip(self.chunks, rows, strict=True)])
        stamps = np.concatenate([part.stamps for part in rows])
        # In the row operator's order: with two late rows of a session, the first to arrive decides which is taken.
        order = interleaved(codes, [part.stamps for part in rows], self.origins)
        units = np.concatenate([stored.codes, codes[order]])
        starts = np.concatenate([stored.starts, stamps[order]])
        ends = np.concatenate([stored.ends, np.concatenate([part.ends for part in rows])[order]])
        if longest is not None:
            pairs = [array_of(column, pa.int64()) for column in (units, starts // longest)]
            units = encode_keys(pairs, len(units)).codes.astype(np.int64)
        late = np.empty(len(order), np.bool_)
        late[order] = late_rows(units, starts, ends, closed)[len(stored.codes) :]
        cuts = np.cumsum([0, *(len(part.stamps) for part in rows)])
        return [late[begin:end] for begin, end in pairwise(cuts.tolist())]


def _less(spans: Spans, rows: SessionRows, late: Mask, aggregation: Aggregation, longest: int | None) -> Spans:
    """Return sessions without late rows; those that lose rows are rebuilt from the others."""
    if not late.any():
        return spans
    lost = np.bincount(rows.sessions[late], minlength=len(spans.codes)) > 0
    again = np.flatnonzero(lost[rows.sessions] & ~late)
    stamps, indices = rows.stamps[again], pa.array(again)
    values = [value.take(indices) for value in rows.values]
    codes = spans.codes[rows.sessions[again]]
    local = local_sessions(aggregation, codes, stamps, rows.ends[again], values, stamps, longest)
    kept = spans.filter(~lost)
    return Spans(
        np.concatenate([kept.codes, local.codes]),
        np.concatenate([kept.starts, local.starts]),
        np.concatenate([kept.ends, local.ends]),
        pa.concat_tables([kept.partials, local.partials]),
    )


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
    def of(
        cls, keys: Keys, stored: Spans, fresh: Sequence[Spans], aggregation: Aggregation, longest: int | None
    ) -> MergedSessions:
        """Merge the open sessions and those that arrived, in the order of arrival."""
        spans = [stored, *fresh]
        codes, starts, ends = (np.concatenate([getattr(one, name) for one in spans]) for name in ("codes", "starts", "ends"))
        sessions = merge_touching(codes, starts, ends, longest)
        partials = pa.concat_tables([one.partials for one in spans]).set_column(0, PANE, pa.array(sessions.ids))
        return cls(keys, sessions, stored, aggregation.merge([partials]))

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
