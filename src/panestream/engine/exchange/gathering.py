"""``gather``: the parts that arrived for one key group, decoded and in order, as its operator takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from panestream.engine.exchange.arrival_order import in_order
from panestream.engine.exchange.payload_parts import INVALID, REPORT, UNORDERED, PayloadPart, as_schema, joined
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage import payload


def gather(plan: WindowPlan, parts: Iterable[PayloadPart], end_of_input: bool = False) -> GroupInput:
    """What arrived for one key group, as an operator wants it."""
    batch = GroupInput(end_of_input=end_of_input)
    seen: dict[str, int] = {}
    watermarks: dict[str, int] = {}
    arrived: list[pa.Table] = []

    def add(kind: str, table: pa.Table, origin: int) -> None:
        batch.parts.setdefault(kind, []).append(as_schema(table, plan.operator.part_schema(plan, kind)))
        batch.origins.setdefault(kind, []).append(origin)

    for origin, body in joined(parts):
        table, header = payload.decode(body)
        kind = header["kind"]
        if kind == INVALID:
            batch.invalid.append(as_schema(table, plan.row_schema))
        elif kind == REPORT:
            batch.input_rows += header["rows"]
            batch.invalid_rows += header["invalid"]
            batch.batch_time = max(batch.batch_time, header["processing_time"])
            batch.run = max(batch.run, header["run"])
            _keep_largest(seen, header["seen"])
            _keep_largest(watermarks, header["watermarks"])
        elif kind == UNORDERED:
            arrived.append(table)
        else:
            add(kind, table, origin)
    for kind, table in in_order(plan, arrived):
        add(kind, table, 0)
    batch.seen, batch.watermarks = seen, watermarks
    return batch


def _keep_largest(known: dict[str, int], reported: Mapping[str, int]) -> None:
    for name, time in reported.items():
        known[name] = max(time, known.get(name, time))
