"""The exchange of sessions: local sessions, and their rows in a packed form that is rarely opened.

A key group only needs the local sessions while no row is late. Only the key group has the watermark, so only there a row proves
late, and must then be removed from its aggregate. Therefore the rows travel too, as one binary cell per chunk with narrow
columns, which are not read until a closed window occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, key_fields, numbers, plain
from panestream.engine.kernels.ordering import running_max, stable_order
from panestream.engine.storage import payload


@dataclass(frozen=True, slots=True)
class Sessions:
    """Merged spans, ordered by key code and start; ``ids`` is the session of every input span."""

    ids: Ints
    codes: Ints
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.codes)


def merge_touching(codes: Ints, starts: Ints, ends: Ints, longest: int | None = None) -> Sessions:
    """Merge the spans of each key that overlap or touch, which gives the sessions of all keys at once.

    All spans are sorted by key and start. A span begins a new session if it starts after the end of all spans before it. A
    distance of exactly the gap touches, so the condition is ``start > end``, not ``>=``.

    With ``longest``, sessions are cut at its multiples, and the given spans must already be cut there.
    """
    order = stable_order(codes, coarse(starts))
    codes, starts, ends = codes[order], starts[order], ends[order]
    new = np.ones(len(order), np.bool_)
    other = codes[1:] != codes[:-1]
    if longest is not None:
        lot = starts // longest
        other |= lot[1:] != lot[:-1]
    new[1:] = other
    reach = running_max(new, ends)
    new[1:] |= starts[1:] > reach[:-1]
    ids = np.empty(len(order), np.int64)
    ids[order] = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(order)) - 1 if len(first) else first
    return Sessions(ids, codes[first], starts[first], reach[last])


def coarse(starts: Ints) -> Ints:
    """Return numbers in the order of ``starts``, small if cheap: event times are mostly whole milliseconds or seconds."""
    if not len(starts):
        return starts
    least = int(starts.min())
    shifted = starts - least
    if int(shifted.max()) < 1 << 24:
        return shifted
    for step in (1_000_000, 1_000):
        if not (shifted[:64] % step).any() and not (shifted % step).any():
            return shifted // step
    return shifted


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


SESSIONS, ROWS = "sessions", "rows"
"""Local sessions, and their rows."""
ROWS_SCHEMA = pa.schema([("rows", pa.binary())])
PANE = pa.field("pane", pa.int64(), nullable=False)
"""The first column of partials."""
_INSTANT = pa.timestamp("us")
"""The type of event times in the exchange: the payload removes their common decimal places."""


def session_schema(keys: pa.Schema, aggregation: Aggregation, *, local: bool) -> pa.Schema:
    """Return the columns of sessions: keys, bounds, partials.

    Local sessions also have the end of their rows' first window. Stored sessions have the number of firings with these bounds,
    and whether a late row caused the last one.
    """
    bounds = ("start", "end", "first") if local else ("start", "end", "fired", "late")
    fields = key_fields(keys)
    fields += [pa.field(name, pa.int64()) for name in bounds]
    return pa.schema([*fields, *list(aggregation.partial_schema)[1:]])


def session_table(schema: pa.Schema, keys: Sequence[pa.Array], bounds: Sequence[Ints], partials: pa.Table) -> pa.Table:
    """Return a table of sessions, without the partials' first column, the pane."""
    columns = [plain(key) for key in keys] + [pa.array(bound) for bound in bounds] + partials.columns[1:]
    return pa.Table.from_arrays([plain(column) for column in columns], schema=schema)


@dataclass(frozen=True, slots=True)
class SessionRows:
    """The rows of one chunk, in the order of arrival.

    Attributes:
        sessions: the place of each row's local session in the table of sessions.
        ends: the end of each row's own window.
        whole: the whole rows if late rows are emitted, otherwise a table without columns.
    """

    sessions: Ints
    stamps: Ints
    ends: Ints
    values: list[pa.Array]
    whole: pa.Table


def pack_rows(local: LocalSessions, stamps: Ints, ends: Ints, values: Sequence[pa.Array], whole: pa.Table | None) -> pa.Table:
    """Pack rows into one binary cell."""
    columns = [
        pa.array(local.ids),
        pa.array(stamps).view(_INSTANT),
        pa.array(ends - stamps),
        *values,
        *(plain(column) for column in (whole.columns if whole is not None else ())),
    ]
    table = pa.Table.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    packed = payload.encode(table)
    # Avoid copying the cell, which may have many megabytes.
    offsets = pa.py_buffer(np.array([0, len(packed)], np.int32))
    cell = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(packed)])
    return pa.Table.from_arrays([cell], schema=ROWS_SCHEMA)


def unpack_rows(packed: pa.Table, inputs: Sequence[pa.DataType], whole: pa.Schema | None) -> SessionRows:
    """Unpack the rows of :func:`pack_rows`."""
    rows = whole if whole is not None else pa.schema([])
    types = [pa.int64(), _INSTANT, pa.int64(), *inputs, *rows.types]
    schema = pa.schema([(str(place), type_) for place, type_ in enumerate(types)])
    table, _ = payload.decode(packed.column(0)[0].as_py(), schema)
    columns = [plain(column) for column in table.columns]
    stamps = numbers(columns[1].view(pa.int64()))
    values, rest = columns[3 : 3 + len(inputs)], columns[3 + len(inputs) :]
    whole_rows = pa.Table.from_arrays(rest, schema=rows) if rest else pa.table({})
    return SessionRows(numbers(columns[0]), stamps, stamps + np.asarray(numbers(columns[2])), values, whole_rows)
