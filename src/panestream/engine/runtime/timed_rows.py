"""Rows that cross the exchange as they are, each with its event time, and are late by that alone.

For operators whose results follow from the rows near a row: once the watermark has reached a time, what comes at that time or
before is late, whatever window it could still have been part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.kernels.columns import Ints, numbers, plain
from panestream.engine.plan import Chunk, WindowPlan
from panestream.engine.runtime.group_io import GroupInput

ROWS = "rows"
"""What crosses the exchange."""
_INSTANT = pa.timestamp("us")
"""What event times travel as: the payload drops the decimal places that they have in common."""


def timed_schema(plan: WindowPlan, inputs: Sequence[pa.DataType]) -> pa.Schema:
    """Keys, event time, the inputs; for a late output the whole row.

    Args:
        plan: the query.
        inputs: the types of what the operator takes of a row.
    """
    whole = [] if plan.late_tag is None or plan.row_schema is None else plan.row_schema.types
    types = [*plan.key_schema.types, _INSTANT, *inputs, *whole]
    return pa.schema([(str(place), type_) for place, type_ in enumerate(types)])


def pack_timed(plan: WindowPlan, chunk: Chunk, schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
    """Packs a chunk; ``schema`` is that of :func:`timed_schema`."""
    whole = [] if plan.late_tag is None or chunk.rows is None else [column.combine_chunks() for column in chunk.rows.columns]
    columns = [*chunk.keys, pa.array(chunk.times).view(_INSTANT), *chunk.values, *whole]
    yield ROWS, pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class TimedRows:
    """The rows of a micro-batch that are not late, and those that are.

    Attributes:
        keys: the key columns.
        times: event times.
        inputs: what the operator takes.
        late: how many rows were late.
        late_rows: these whole, where the plan has an output for them.
    """

    keys: list[pa.Array]
    times: Ints
    inputs: list[pa.Array]
    late: int
    late_rows: list[pa.Table]

    @classmethod
    def of(cls, batch: GroupInput, plan: WindowPlan, inputs: int, reached: int) -> TimedRows | None:
        """Unpacks what a micro-batch brings; None: no rows.

        Args:
            batch: with the parts that :func:`pack_timed` made.
            plan: the query.
            inputs: how many there are.
            reached: where the watermark stood before.
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
