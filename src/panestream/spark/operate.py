"""``operate``: runs the engine's operator for one key group, on Spark streaming and on batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.gc_control import settle, without_collector
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState, State
from panestream.spark.catalyst import group_input
from panestream.spark.exchange import Piece, gather
from panestream.spark.placement import group_values
from panestream.spark.reasons import in_few_words

OPERATED_SCHEMA = "tag string, body binary"
METRICS = "__metrics"
"""The tag of what happened in a micro-batch (JSON); users' tags never start with an underscore."""
_OPERATED = pa.schema([("tag", pa.string()), ("body", pa.binary())])
_BODY_BYTES = 1 << 20
"""Rows of an output leave in bodies of so many bytes, before their integers are narrowed; as pieces do of the exchange."""


def operate_group(plan: WindowPlan, state: State, value: int, pieces: Iterable[Piece], now_ms: int | None = None) -> GroupOutput:
    """What a micro-batch emits for one key group.

    Args:
        plan: the query.
        state: the key group's.
        value: the integer by which Spark knows the group.
        pieces: what came through the exchange.
        now_ms: processing time, where the plan looks at it.
    """
    batch = gather(plan, pieces)
    if now_ms is not None:
        batch.batch_time = now_ms * plan.ticks
    # The operator is gone before the collector is back: else it would search through all that the operator holds.
    with without_collector():
        return plan.operator.for_group(plan, state, group_values(plan.groups).index(value)).process(batch)


def process_batch(plan: WindowPlan) -> Callable[[pa.Table], pa.Table]:
    """The function for ``applyInArrow``: all rows of a key group at once, state in memory, watermark at the end of time."""

    # A plain function of one argument: PySpark counts the parameters, and takes a method's self for one.
    def process(group: pa.Table) -> pa.Table:
        columns = [group.column(name).to_pylist() for name in Piece._fields]
        number = group_values(plan.groups).index(group.column("group")[0].as_py())
        with in_few_words():
            batch = gather(plan, map(Piece, *columns), end_of_input=True)
            emitted = list(bodies(plan.operator.for_group(plan, MemoryState(), number).process(batch)))
        return pa.Table.from_pylist([{"tag": tag, "body": body} for tag, body in emitted], schema=_OPERATED)

    return process


def process_reduced(plan: WindowPlan) -> Callable[[pa.Table], pa.Table]:
    """The function for ``applyInArrow`` where Spark itself reduced the rows to partials (:mod:`panestream.spark.catalyst`)."""

    def process(group: pa.Table) -> pa.Table:
        with in_few_words():
            operator = plan.operator.for_group(plan, MemoryState(), group.column("group")[0].as_py())
            emitted = list(bodies(operator.process(group_input(plan, group))))
        return pa.Table.from_pylist([{"tag": tag, "body": body} for tag, body in emitted], schema=_OPERATED)

    return process


def bodies(output: GroupOutput) -> Iterator[tuple[str, bytes]]:
    """What an operator emitted as (tag, payload), large tables in several; the metrics last."""
    for tag, table in output.tables:
        rows = max(1, _BODY_BYTES * table.num_rows // max(table.nbytes, 1))
        for start in range(0, table.num_rows, rows):
            yield tag, payload.encode(table.slice(start, rows))
    yield METRICS, json.dumps(output.metrics.to_json(), separators=(",", ":")).encode()


class Unpack:
    """The function for ``mapInArrow`` that turns the payloads of one tag (column ``body``) into rows of ``schema``."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for body in batch.column(0):
                table, _ = payload.decode(body.as_py(), self._schema)
                yield from table.to_batches()
        settle()
