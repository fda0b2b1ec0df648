"""One key group's part of a micro-batch: parts in, its operator's output as (tag, payload) out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from panestream.engine.exchange.gathering import gather
from panestream.engine.exchange.payload_parts import PayloadPart
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.gc_control import without_collector
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState, State

METRICS = "__metrics"
"""The tag of what happened in a micro-batch (JSON); users' tags never start with an underscore."""
_BODY_BYTES = 1 << 20
"""Rows of an output leave in bodies of so many bytes, before their integers are narrowed; as parts do of the exchange."""


def run_micro_batch(
    plan: WindowPlan, state: State, group: int, parts: Iterable[PayloadPart], processing_time: int | None = None
) -> GroupOutput:
    """What a micro-batch emits for one key group.

    Args:
        plan: the query.
        state: the key group's.
        group: its number.
        parts: what came through the exchange.
        processing_time: in engine units, where the plan looks at it.
    """
    batch = gather(plan, parts)
    if processing_time is not None:
        batch.batch_time = processing_time
    # The operator is gone before the collector is back: else it would search through all that the operator holds.
    with without_collector():
        return plan.operator.for_group(plan, state, group).process(batch)


def run_batch(plan: WindowPlan, group: int, parts: Iterable[PayloadPart]) -> GroupOutput:
    """What a batch emits for one key group: state in memory, watermark at the end of time."""
    return plan.operator.for_group(plan, MemoryState(), group).process(gather(plan, parts, end_of_input=True))


def bodies(output: GroupOutput) -> Iterator[tuple[str, bytes]]:
    """What an operator emitted as (tag, payload), large tables in several; the metrics last."""
    for tag, table in output.tables:
        rows = max(1, _BODY_BYTES * table.num_rows // max(table.nbytes, 1))
        for start in range(0, table.num_rows, rows):
            yield tag, payload.encode(table.slice(start, rows))
    yield METRICS, json.dumps(output.metrics.to_json(), separators=(",", ":")).encode()
