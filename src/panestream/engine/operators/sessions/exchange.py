"""What crosses the exchange for sessions: local sessions, and beside them the rows, packed up and seldom opened.

Local sessions are all that the key group needs while every row is in time. Only it knows the watermark, so only there a row
turns out to be late, and then it must come out of the aggregate that ``pack`` put it into. So the rows travel too, as one binary
cell for each chunk: narrow columns that nobody reads until a window that is closed turns up.
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
"""Local sessions; the rows behind them."""
ROWS_SCHEMA = pa.schema([("rows", pa.binary())])
PANE = pa.field("pane", pa.int64(), nullable=False)
"""The first column of partials."""
_INSTANT = pa.timestamp("us")
"""What times travel as: the payload drops the decimal places that they have in common."""


def session_schema(keys: pa.Schema, aggregation: Aggregation, *, local: bool) -> pa.Schema:
    """The columns of sessions: keys, bounds, partials.

    Local ones say where the first of their rows' windows ends; stored ones how often they fired with these bounds, and whether
    the last time because of a late row.
    """
    bounds = ("start", "end", "first") if local else ("start", "end", "fired", "late")
    fields = key_fields(keys)
    fields += [pa.field(name, pa.int64()) for name in bounds]
    return pa.schema([*fields, *list(aggregation.partial_schema)[1:]])


def session_table(schema: pa.Schema, keys: Sequence[pa.Array], bounds: Sequence[Ints], partials: pa.Table) -> pa.Table:
    """A table of sessions; the partials' first column, the pane, stays behind."""
    columns = [plain(key) for key in keys] + [pa.array(bound) for bound in bounds] + partials.columns[1:]
    return pa.Table.from_arrays([plain(column) for column in columns], schema=schema)


def partials_of(table: pa.Table, aggregation: Aggregation, ids: Ints) -> pa.Table:
    """The partials of a table of sessions; the pane is one of ``ids`` for each row."""
    width = len(aggregation.partial_schema) - 1
    columns = table.columns[table.num_columns - width :]
    return pa.Table.from_arrays([pa.array(ids), *columns], schema=aggregation.partial_schema)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one chunk, in the order of arrival.

    Attributes:
        sessions: the local session of each, by its place in the table of sessions.
        stamps: event times.
        ends: where each row's own window ends.
        values: the aggregates' inputs.
        whole: the whole rows, where late ones are wanted; else a table without columns.
    """

    sessions: Ints
    stamps: Ints
    ends: Ints
    values: list[pa.Array]
    whole: pa.Table


def pack_rows(local: LocalSessions, stamps: Ints, ends: Ints, values: Sequence[pa.Array], whole: pa.Table | None) -> pa.Table:
    """The rows as one binary cell."""
    columns = [
        pa.array(local.ids),
        pa.array(stamps).view(_INSTANT),
        pa.array(ends - stamps),
        *values,
        *(plain(column) for column in (whole.columns if whole is not None else ())),
    ]
    table = pa.Table.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    packed = payload.encode(table)
    # Without a copy: it may be many megabytes.
    offsets = pa.py_buffer(np.array([0, len(packed)], np.int32))
    cell = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(packed)])
    return pa.Table.from_arrays([cell], schema=ROWS_SCHEMA)


def unpack_rows(packed: pa.Table, inputs: Sequence[pa.DataType], whole: pa.Schema | None) -> Rows:
    """The rows of such a cell."""
    rows = whole if whole is not None else pa.schema([])
    types = [pa.int64(), _INSTANT, pa.int64(), *inputs, *rows.types]
    schema = pa.schema([(str(place), type_) for place, type_ in enumerate(types)])
    table, _ = payload.decode(packed.column(0)[0].as_py(), schema)
    columns = [plain(column) for column in table.columns]
    stamps = numbers(columns[1].view(pa.int64()))
    values, rest = columns[3 : 3 + len(inputs)], columns[3 + len(inputs) :]
    whole_rows = pa.Table.from_arrays(rest, schema=rows) if rest else pa.table({})
    return Rows(numbers(columns[0]), stamps, stamps + np.asarray(numbers(columns[2])), values, whole_rows)
