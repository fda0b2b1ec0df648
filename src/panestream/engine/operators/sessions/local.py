"""Local sessions: rows of one chunk, or of one micro-batch, merged to spans with partial aggregates."""

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
    """What the operator must know of the query.

    Attributes:
        gap: in engine units, or the column that has the gap of each row.
        longest: sessions are cut at the multiples of this; None: they are not.
        aggregates: the recipes; ``aggregation``, which knows no keys, is what runs them.
        input_types: the types of the aggregation's inputs, in order.
        by_processing_time: whether processing time decides, not event time.
    """

    gap: int | GapColumn
    longest: int | None
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation
    input_types: tuple[pa.DataType, ...]
    by_processing_time: bool = False


@dataclass(frozen=True, slots=True)
class LocalSessions:
    """Sessions within some rows, ordered by key code and start.

    Attributes:
        codes: the key code of each.
        starts, ends: its bounds.
        firsts: where the window of that of its rows ends that ends first: is it open, all rows are in time.
        ids: the session of each row.
        partials: the aggregates, of the schema of an aggregation without keys; the pane is the session.
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
    """Builds sessions of rows.

    Args:
        aggregation: without keys.
        codes: the key of each row.
        times: where each row's own window begins.
        ends: where it ends.
        values: the aggregates' inputs.
        stamps: the event times, for aggregates that order by them.
        longest: see :func:`~panestream.engine.operators.sessions.spans.merge_touching`.
    """
    merged = merge_touching(codes, times, ends, longest)
    firsts = np.full(len(merged), np.iinfo(np.int64).max)
    np.minimum.at(firsts, merged.ids, ends)
    partials = aggregation.partials([], merged.ids, values, stamps if aggregation.needs_timestamps else None)
    return LocalSessions(merged.codes, merged.starts, merged.ends, firsts, merged.ids, partials)


def own_ends(times: Ints, gaps: int | Ints, longest: int | None) -> Ints:
    """Where the window of each row ends: a gap after it, or where its session is cut."""
    ends = times + gaps
    return ends if longest is None else np.minimum(ends, (times // longest + 1) * longest)
