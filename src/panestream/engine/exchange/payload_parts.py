"""The rows of the exchange: payloads, cut into parts, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

PART_BYTES = 1 << 18
"""Payloads travel in parts: Spark hands so many rows at a time to Python, and they must fit the memory together."""

INVALID, REPORT, UNORDERED = "__invalid", "__report", "__unordered"
"""Kinds of payloads beside those of the operator: rows without usable event time; what a source partition saw; rows that the
key group has yet to put in order and to pack."""


class PayloadPart(NamedTuple):
    """A row of the exchange, as a key group gets it.

    Attributes:
        origin: the source partition that it left.
        sequence: numbers what leaves a source partition.
        parts_left: so many parts of the same payload follow this one.
        body: bytes of the payload.
    """

    origin: int
    sequence: int
    parts_left: int
    body: bytes


def cut(body: bytes, origin: int, after: int) -> Iterator[PayloadPart]:
    """The parts of one payload.

    Args:
        body: the payload.
        origin: the source partition that it leaves.
        after: the sequence number of the part before.
    """
    starts = range(0, len(body), PART_BYTES)
    for number, start in enumerate(starts, 1):
        # The slice of all of it is itself, not a copy.
        yield PayloadPart(origin, after + number, len(starts) - number, body[start : start + PART_BYTES])


def joined(parts: Iterable[PayloadPart]) -> Iterator[tuple[int, bytes]]:
    """The payloads and where each came from, by source partition, in the order in which they left it."""
    gathered: list[bytes] = []
    # Spark gives no order inside a group; sorting makes a rerun of the micro-batch see, and give, the same bytes.
    for origin, _, parts_left, body in sorted(parts, key=lambda part: part[:2]):
        gathered.append(body)
        if not parts_left:
            yield origin, b"".join(gathered)  # of one it is itself
            gathered = []
    if gathered:
        raise RuntimeError(f"a payload from source partition {origin} lacks its last part")


def as_schema(table: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """The columns with their full types: a payload narrows integers, and Spark labels times with the session's zone."""
    if schema is None:
        raise RuntimeError("rows crossed the exchange that the plan did not ask for")
    columns = [table.column(position).cast(column.type) for position, column in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)
