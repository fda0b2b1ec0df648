"""The local sessions that a micro-batch brings, and how late rows come out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, array_of, numbers, plain
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.interleaving import interleaved
from panestream.engine.operators.sessions.exchange import ROWS, SESSIONS, Rows, partials_of, unpack_rows
from panestream.engine.operators.sessions.lateness import late_rows
from panestream.engine.operators.sessions.local import SessionSettings, local_sessions
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput


@dataclass(frozen=True, slots=True)
class Spans:
    """Sessions as columns.

    Attributes:
        codes: the key code of each.
        starts, ends: its bounds.
        partials: the aggregates; the panes mean nothing yet.
        fired: how often it fired with these bounds; None: never.
        late: whether (1 or 0) it last fired because of a late row; None: it never fired.
    """

    codes: Ints
    starts: Ints
    ends: Ints
    partials: pa.Table
    fired: Ints | None = None
    late: Ints | None = None

    @classmethod
    def of(cls, table: pa.Table, codes: Ints, settings: SessionSettings) -> Spans:
        """A table of sessions; ``codes`` are those of its keys."""
        names = ("start", "end", *(name for name in ("fired", "late") if name in table.column_names))
        starts, ends, *emitted = (numbers(plain(table.column(name))) for name in names)
        return cls(codes, starts, ends, partials_of(table, settings.aggregation, codes), *emitted)

    def filter(self, mask: Mask) -> Spans:
        """Some of them."""
        if mask.all():
            return self
        partials = self.partials.filter(pa.array(mask))
        emitted = [None if column is None else column[mask] for column in (self.fired, self.late)]
        return Spans(self.codes[mask], self.starts[mask], self.ends[mask], partials, *emitted)

    def after(self, time: int) -> Spans:
        """The same, later."""
        return replace(self, starts=self.starts + time, ends=self.ends + time)


@dataclass(frozen=True, slots=True)
class Late:
    """The late rows of a micro-batch: how many, and the whole rows, chunk by chunk, where they are wanted."""

    count: int = 0
    rows: tuple[pa.Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a micro-batch brings: the spans of each chunk, in the order of arrival.

    Attributes:
        chunks: the spans.
        firsts: for each chunk, where the first window ends of the rows of each span.
        packed: for each chunk, its rows, packed up.
        origins: the source partition of each chunk; empty: all are of one.
    """

    chunks: list[Spans]
    firsts: list[Ints]
    packed: list[pa.Table]
    origins: Sequence[int] = ()

    @classmethod
    def of(cls, batch: GroupInput, codes: Ints, settings: SessionSettings) -> Arrivals:
        """The local sessions of a micro-batch; ``codes`` are those of the keys of all its chunks, end to end."""
        chunks, firsts, begin = [], [], 0
        for table in batch.of(SESSIONS):
            chunks.append(Spans.of(table, codes[begin : begin + table.num_rows], settings))
            firsts.append(numbers(plain(table.column("first"))))
            begin += table.num_rows
        return cls(chunks, firsts, batch.of(ROWS), batch.origins.get(ROWS, ()))

    def without_late(self, stored: Spans, closed: int, plan: WindowPlan, settings: SessionSettings) -> tuple[list[Spans], Late]:
        """The spans without the rows that no session takes, and these rows.

        Args:
            stored: the open sessions of the keys.
            closed: windows whose last instant is this or before are closed.
            plan: the query.
            settings: what the operator knows of it.
        """
        if not any(bool((first - 1 <= closed).any()) for first in self.firsts):
            return self.chunks, Late()
        schema = plan.row_schema if plan.late_tag is not None else None
        rows = [unpack_rows(packed, settings.input_types, schema) for packed in self.packed]
        late = self._late_of(rows, stored, closed, settings.longest)
        spans = [_less(chunk, part, mask, settings) for chunk, part, mask in zip(self.chunks, rows, late, strict=True)]
        whole = () if schema is None else tuple(part.whole.filter(pa.array(mask)) for part, mask in zip(rows, late, strict=True))
        return spans, Late(sum(int(mask.sum()) for mask in late), whole)

    def _late_of(self, rows: list[Rows], stored: Spans, closed: int, longest: int | None) -> list[Mask]:
        """Which rows of each chunk are late."""
        codes = np.concatenate([chunk.codes[part.sessions] for chunk, part in zip(self.chunks, rows, strict=True)])
        stamps = np.concatenate([part.stamps for part in rows])
        # The row operator's: of two late rows of one session, what comes first decides which is taken.
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


def _less(spans: Spans, rows: Rows, late: Mask, settings: SessionSettings) -> Spans:
    """Spans without their late rows: one that loses some of its rows is built anew from the others."""
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
