"""Local sessions: rows of one chunk or micro-batch, merged to spans with partial aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints
from panestream.engine.operators.sessions.spans import merge_touching
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners.session import GapColumn


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The operator's part of the query.

    Attributes:
        gap: in engine units, or the column with the gap of each row.
        longest: sessions are cut at the multiples of this, unless it is None.
        aggregation: runs ``aggregates`` over inputs of ``input_types``, without key columns.
    """

    gap: int | GapColumn
    longest: int | None
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation
    input_types: tuple[pa.DataType, ...]
    by_processing_time: bool = False


@dataclass(frozen=True, slots=True)
class LocalSessions:
    """Sessions within rows, ordered by key code and start. The pane of a session's partial is the session's number.

    Attributes:
        firsts: the earliest end of the windows of each session's rows. If that window is open, all its rows are in time.
        ids: the session of each row.
    """

    codes: Ints
    starts: Ints
    ends: Ints
    firsts: Ints
    ids: Ints
    partials: pa.Table


def local_sessions(
    aggregation: Aggregation,
    codes: Ints,
    times: Ints,
    ends: Ints,
    values: Sequence[pa.Array],
    stamps: Ints,
    longest: int | None = None,
) -> LocalSessions:
    """Build sessions from rows.

    ``times`` and ``ends`` are the bounds of each row's own window, and ``stamps`` the event times for aggregates ordered by them.
    """
    merged = merge_touching(codes, times, ends, longest)
    firsts = np.full(len(merged), np.iinfo(np.int64).max)
    np.minimum.at(firsts, merged.ids, ends)
    partials = aggregation.partials([], merged.ids, values, stamps if aggregation.needs_timestamps else None)
    return LocalSessions(merged.codes, merged.starts, merged.ends, firsts, merged.ids, partials)


def own_ends(times: Ints, gaps: int | Ints, longest: int | None) -> Ints:
    """Return the end of each row's window: a gap after it, or the cut of its session."""
    ends = times + gaps
    return ends if longest is None else np.minimum(ends, (times // longest + 1) * longest)
