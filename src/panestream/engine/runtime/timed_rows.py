"""Rows that cross the exchange unchanged, with their event times, which alone decide whether they are late.

This suits operators whose results depend on the rows near a row. Once the watermark has reached a time, any row at that time or
before is late, even if a window could still include it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.kernels.columns import Ints, numbers, plain
from panestream.engine.plan import Chunk, WindowPlan
from panestream.engine.runtime.group_io import GroupInput

ROWS = "rows"
"""The kind of payload that carries such rows."""
_INSTANT = pa.timestamp("us")
"""The type of event times in the exchange; the payload drops their common trailing zeros."""


def timed_schema(plan: WindowPlan, inputs: Sequence[pa.DataType]) -> pa.Schema:
    """Return the columns of timed rows: keys, event time, the operator's inputs, and the whole row for a late output."""
    whole = [] if plan.late_tag is None or plan.row_schema is None else plan.row_schema.types
    types = [*plan.key_schema.types, _INSTANT, *inputs, *whole]
    return pa.schema([(str(place), type_) for place, type_ in enumerate(types)])


def pack_timed(plan: WindowPlan, chunk: Chunk, schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
    """Pack a chunk with the columns of :func:`timed_schema`."""
    whole = [] if plan.late_tag is None or chunk.rows is None else [column.combine_chunks() for column in chunk.rows.columns]
    columns = [*chunk.keys, pa.array(chunk.times).view(_INSTANT), *chunk.values, *whole]
    yield ROWS, pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class TimedRows:
    """The rows of a micro-batch that are not late; ``late_rows`` has the late ones whole if the plan has an output for them."""

    keys: list[pa.Array]
    times: Ints
    inputs: list[pa.Array]
    late: int
    late_rows: list[pa.Table]

    @classmethod
    def of(cls, batch: GroupInput, plan: WindowPlan, inputs: int, reached: int) -> TimedRows | None:
        """Unpack the parts of :func:`pack_timed`, with ``inputs`` inputs, or return None without rows.

        Rows up to ``reached``, the watermark before the micro-batch, are late.
        """
        arrived, width = batch.of(ROWS), len(plan.key_schema)
        if not arrived:
            return None
        table = pa.concat_tables(arrived)
        times: Ints = numbers(plain(table.column(width)).view(pa.int64()))
        late, late_rows = times <= reached, []
        if late.any():
            if plan.late_tag is not None and plan.row_schema is not None:
                whole = table.columns[width + 1 + inputs :]
                late_rows.append(pa.Table.from_arrays(whole, schema=plan.row_schema).filter(pa.array(late)))
            table, times = table.filter(pa.array(~late)), times[~late]
        columns = [plain(column) for column in table.columns[: width + 1 + inputs]]
        return cls(columns[:width], times, columns[width + 1 :], int(late.sum()), late_rows)


__all__ = ["ROWS", "TimedRows", "pack_timed", "timed_schema"]
