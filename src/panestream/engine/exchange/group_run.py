"""One key group's share of a micro-batch: joins the parts that arrived and runs the operator, which emits (tag, payload)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa

from panestream.engine.exchange.packing import in_order
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import collector_paused
from panestream.engine.storage import payload
from panestream.engine.storage.payload import END, INVALID, REPORT, UNORDERED, PayloadPart, as_schema, joined
from panestream.engine.storage.state import MemoryState, State, batch_too_large, micro_batch_too_large
from panestream.errors import InvalidPlanError

METRICS = "__metrics"
"""The tag of a micro-batch's metrics (JSON); user tags never start with an underscore."""
BODY_BYTES = 1 << 20
"""The size of a body of output rows, in bytes before integers are narrowed, as for the parts of the exchange."""
BATCH_BODY_BYTES = 1 << 18
"""The same in a batch, which has so many that they fill Spark's Arrow batches: a thousand of a megabyte took 3.5 GB of memory."""


def gather(plan: WindowPlan, parts: Iterable[PayloadPart], end_of_input: bool = False) -> GroupInput:
    """Return the parts that arrived for one key group as the input of its operator."""
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
            if "oldest" in header:
                batch.oldest = header["oldest"] if batch.oldest is None else min(batch.oldest, header["oldest"])
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
    """Run a micro-batch of one key group, planned in the run ``planned_in``; ``processing_time`` is in engine units.

    ``run`` is the query's run, used for key groups without a report.
    """
    batch = gather(plan, payload.within(parts, plan.most_bytes, partial(micro_batch_too_large, group, plan.most_bytes)))
    batch.run, batch.planned_in = batch.run or run, planned_in
    if processing_time is not None:
        batch.batch_time = processing_time
    # The operator must be freed before the collector resumes, or the collector would search through everything it holds.
    with collector_paused():
        return plan.operator.for_group(plan, state, group).process(batch)


def run_batch(plan: WindowPlan, group: int, parts: Iterable[PayloadPart]) -> GroupOutput:
    """Run a batch for one key group, with state in memory and the watermark at the end of time.

    More rows than the query's limit raise MemoryLimitError.
    """
    if plan.batch_bytes is not None:
        parts = payload.within(parts, plan.batch_bytes, partial(batch_too_large, group, plan.batch_bytes))
    return plan.operator.for_group(plan, MemoryState(), group).process(gather(plan, parts, end_of_input=True))


def run_history(plan: WindowPlan, state: State, group: int, parts: Iterable[PayloadPart]) -> GroupOutput:
    """Take in the rows that precede a stream at once, for one key group with empty state.

    The watermark goes as far as the rows bring it: windows that end by then fire, the others stay in the state. As in a batch, no
    row is late, because rows are compared with the watermark before them, which does not exist yet.
    """
    with collector_paused():
        return plan.operator.for_group(plan, state, group).process(gather(plan, parts))


def check_history(plan: WindowPlan) -> None:
    """Raise InvalidPlanError for queries that use the clock, because they cannot start from history."""
    if plan.operator.capabilities.uses_processing_time:
        raise InvalidPlanError(
            "bootstrap: the windows or the trigger of this query use the clock, but the arrival times of history are unknown, "
            "so all its rows would be in the current window. Start the stream without history, or use windows of event time"
        )


def bodies(output: GroupOutput, most: int = BODY_BYTES) -> Iterator[tuple[str, bytes]]:
    """Yield an operator's output as (tag, payload), large tables in several payloads of ``most`` bytes, the metrics last."""
    for tag, table in output.tables:
        rows = max(1, most * table.num_rows // max(table.nbytes, 1))
        for start in range(0, table.num_rows, rows):
            yield tag, payload.encode(table.slice(start, rows))
    yield METRICS, json.dumps(output.metrics.to_json(), separators=(",", ":")).encode()
