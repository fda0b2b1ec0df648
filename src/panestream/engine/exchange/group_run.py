"""One key group's part of a micro-batch: the parts that arrived, put together; its operator's output as (tag, payload)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa

from panestream.engine.exchange.arrival_order import in_order
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.gc_control import collector_paused
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.storage import payload
from panestream.engine.storage.limits import batch_too_large, micro_batch_too_large
from panestream.engine.storage.payload import END, INVALID, REPORT, UNORDERED, PayloadPart, as_schema, joined
from panestream.engine.storage.state import MemoryState, State
from panestream.errors import InvalidPlanError

METRICS = "__metrics"
"""The tag of what happened in a micro-batch (JSON); users' tags never start with an underscore."""
_BODY_BYTES = 1 << 20
"""Rows of an output leave in bodies of so many bytes, before their integers are narrowed; as parts do of the exchange."""


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
        table, header = payload.decode(body, dictionaries=True)
        kind = header["kind"]
        if kind == INVALID:
            batch.invalid.append(as_schema(table, plan.row_schema))
        elif kind == REPORT:
            batch.input_rows += header["rows"]
            batch.invalid_rows += header["invalid"]
            batch.history_rows += header["history"]
            batch.batch_time = max(batch.batch_time, header["processing_time"])
            batch.run = max(batch.run, header["run"])
            _keep_largest(seen, header["seen"])
            _keep_largest(watermarks, header["watermarks"])
        elif kind == UNORDERED:
            arrived.append(table)
        elif kind == END:
            batch.end_of_available = True
        else:
            add(kind, table, origin)
    if arrived:
        for kind, table in in_order(plan, arrived):
            add(kind, table, 0)
    batch.seen, batch.watermarks = seen, watermarks
    return batch


def _keep_largest(known: dict[str, int], reported: Mapping[str, int]) -> None:
    for name, time in reported.items():
        known[name] = max(time, known.get(name, time))


def run_micro_batch(
    plan: WindowPlan,
    state: State,
    group: int,
    parts: Iterable[PayloadPart],
    processing_time: int | None = None,
    *,
    run: str = "",
    planned_in: str = "",
) -> GroupOutput:
    """What a micro-batch emits for one key group.

    Args:
        plan: the query.
        state: the key group's.
        group: its number.
        parts: what came through the exchange.
        processing_time: in engine units, where the plan looks at it.
        run: which run of the query it is, for key groups that no report tells.
        planned_in: which run planned the micro-batch.
    """
    batch = gather(plan, payload.within(parts, plan.most_bytes, partial(micro_batch_too_large, group, plan.most_bytes)))
    batch.run, batch.planned_in = batch.run or run, planned_in
    if processing_time is not None:
        batch.batch_time = processing_time
    # The operator is gone before the collector is back: else it would search through all that the operator holds.
    with collector_paused():
        return plan.operator.for_group(plan, state, group).process(batch)


def run_batch(plan: WindowPlan, group: int, parts: Iterable[PayloadPart]) -> GroupOutput:
    """What a batch emits for one key group: state in memory, watermark at the end of time.

    Raises:
        MemoryLimitError: the query has a limit, and the key group more rows.
    """
    if plan.batch_bytes is not None:
        parts = payload.within(parts, plan.batch_bytes, partial(batch_too_large, group, plan.batch_bytes))
    return plan.operator.for_group(plan, MemoryState(), group).process(gather(plan, parts, end_of_input=True))


def run_history(plan: WindowPlan, state: State, group: int, parts: Iterable[PayloadPart]) -> GroupOutput:
    """What history emits for one key group: rows that came before a stream begins, taken in at once.

    The watermark is as far as the rows bring it: what has ended by it fires, what has not is left in the state. Rows are judged
    by the watermark before them, of which there is none: none is late, as in a batch.

    Args:
        plan: the query, which :func:`check_history` let through.
        state: the key group's, with nothing in it.
        group: its number.
        parts: what came through the exchange.
    """
    with collector_paused():
        return plan.operator.for_group(plan, state, group).process(gather(plan, parts))


def check_history(plan: WindowPlan) -> None:
    """Refuses queries that history says nothing about.

    Raises:
        InvalidPlanError: the windows or the trigger go by the clock.
    """
    if plan.operator.capabilities.uses_processing_time:
        raise InvalidPlanError(
            "bootstrap: the windows or the trigger of this query go by the clock, and what time it was when the rows of history "
            "came, row after row, nobody knows: all would lie in the window of now. Start the stream without history; or take "
            "windows of event time"
        )


def bodies(output: GroupOutput) -> Iterator[tuple[str, bytes]]:
    """What an operator emitted as (tag, payload), large tables in several; the metrics last."""
    for tag, table in output.tables:
        rows = max(1, _BODY_BYTES * table.num_rows // max(table.nbytes, 1))
        for start in range(0, table.num_rows, rows):
            yield tag, payload.encode(table.slice(start, rows))
    yield METRICS, json.dumps(output.metrics.to_json(), separators=(",", ":")).encode()
