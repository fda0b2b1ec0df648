"""The local sessions of a micro-batch, and the removal of late rows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, array_of, numbers, plain
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.interleaving import interleaved
from panestream.engine.operators.sessions.exchange import ROWS, SESSIONS, SessionRows, partials_of, unpack_rows
from panestream.engine.operators.sessions.lateness import late_rows
from panestream.engine.operators.sessions.local import SessionSettings, local_sessions
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput


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
    def of(cls, table: pa.Table, codes: Ints, settings: SessionSettings) -> Spans:
        names = ("start", "end", *(name for name in ("fired", "late") if name in table.column_names))
        starts, ends, *emitted = (numbers(plain(table.column(name))) for name in names)
        return cls(codes, starts, ends, partials_of(table, settings.aggregation, codes), *emitted)

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
    def of(cls, batch: GroupInput, codes: Ints, settings: SessionSettings) -> SessionArrivals:
        """Return the local sessions of a micro-batch; ``codes`` are the key codes of all its chunks, concatenated."""
        chunks, firsts, begin = [], [], 0
        for table in batch.of(SESSIONS):
            chunks.append(Spans.of(table, codes[begin : begin + table.num_rows], settings))
            firsts.append(numbers(plain(table.column("first"))))
            begin += table.num_rows
        return cls(chunks, firsts, batch.of(ROWS), batch.origins.get(ROWS, ()))

    def without_late(self, stored: Spans, closed: int, plan: WindowPlan, settings: SessionSettings) -> tuple[list[Spans], Late]:
        """Return the sessions without late rows, and these rows, given the open sessions ``stored``.

        Windows whose last instant is at or before ``closed`` are closed.
        """
        if not any(bool((first - 1 <= closed).any()) for first in self.firsts):
            return self.chunks, Late()
        schema = plan.row_schema if plan.late_tag is not None else None
        rows = [unpack_rows(packed, settings.input_types, schema) for packed in self.packed]
        late = self._late_of(rows, stored, closed, settings.longest)
        spans = [_less(chunk, part, mask, settings) for chunk, part, mask in zip(self.chunks, rows, late, strict=True)]
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


def _less(spans: Spans, rows: SessionRows, late: Mask, settings: SessionSettings) -> Spans:
    """Return sessions without late rows; those that lose rows are rebuilt from the others."""
    if not late.any():
        return spans
    lost = np.bincount(rows.sessions[late], minlength=len(spans.codes)) > 0
    again = np.flatnonzero(lost[rows.sessions] & ~late)
    stamps, indices = rows.stamps[again], pa.array(again)
    values = [value.take(indices) for value in rows.values]
    codes = spans.codes[rows.sessions[again]]
    local = local_sessions(settings.aggregation, codes, stamps, rows.ends[again], values, stamps, settings.longest)
    kept = spans.filter(~lost)
    return Spans(
        np.concatenate([kept.codes, local.codes]),
        np.concatenate([kept.starts, local.starts]),
        np.concatenate([kept.ends, local.ends]),
        pa.concat_tables([kept.partials, local.partials]),
    )
