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
from panestream.engine.kernels.columns import Ints, numbers, plain
from panestream.engine.operators.sessions.local import LocalSessions
from panestream.engine.storage import payload
from panestream.engine.storage.state_tables import key_fields

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


def partials_of(table: pa.Table, aggregation: Aggregation, ids: Ints) -> pa.Table:
    """Return the partials of a table of sessions, with ``ids`` as panes."""
    width = len(aggregation.partial_schema) - 1
    columns = table.columns[table.num_columns - width :]
    return pa.Table.from_arrays([pa.array(ids), *columns], schema=aggregation.partial_schema)


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
