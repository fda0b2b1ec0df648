"""The functions that Spark's tasks run: rows to exchange rows, key groups of a batch, and payloads to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T

from panestream.engine.exchange.group_run import BATCH_BODY_BYTES, bodies, run_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.runtime.group_operator import freeze_modules_once
from panestream.engine.runtime.sides import Pairs
from panestream.engine.storage import payload
from panestream.engine.storage.payload import PayloadPart
from panestream.engine.storage.state import MemoryState
from panestream.spark.catalyst import group_input
from panestream.spark.compat import cache_zip_imports, group_number, group_values, run_id
from panestream.spark.failures import without_internal_traceback

_NUMBERS = ("group", "origin", "sequence", "parts_left")
# Types rather than DDL text, as a Spark Connect client would send the text to the server for parsing.
EXCHANGE_SCHEMA = T.StructType(
    [*(T.StructField(name, T.IntegerType()) for name in _NUMBERS), T.StructField("body", T.BinaryType())]
)
"""Spark's integer for the key group, and a :class:`~panestream.engine.storage.payload.PayloadPart`."""
_EXCHANGE = pa.schema([*(pa.field(name, pa.int32()) for name in _NUMBERS), pa.field("body", pa.binary())])


@dataclass(slots=True)
class Pack:
    """The function for ``mapInArrow``. Its input has the columns of :class:`PackColumns`, its output ``EXCHANGE_SCHEMA``."""

    plan: WindowPlan
    columns: PackColumns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cache_zip_imports()
        values = group_values(self.plan.groups)
        with without_internal_traceback():
            for group, part in pack(self.plan, self.columns, batches, partition_id(), run_id()):
                yield exchange_row(values[group], part)
        freeze_modules_once()


def exchange_row(group: int, part: PayloadPart) -> pa.RecordBatch:
    """Return an exchange row. ``group`` is Spark's integer for the key group."""
    arrays = [pa.array([value], column.type) for value, column in zip((group, *part), _EXCHANGE, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_EXCHANGE)


def partition_id() -> int:
    """Return the number of the map partition that this task processes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


OPERATED_SCHEMA = T.StructType([T.StructField("tag", T.StringType()), T.StructField("body", T.BinaryType())])
_OPERATED = pa.schema([("tag", pa.string()), ("body", pa.binary())])
OUTPUT = "output"
"""The column with the output of a row, in a DataFrame that has the rows of all outputs."""


def process_batch(plan: WindowPlan) -> Callable[[pa.Table], pa.Table]:
    """Return the function for ``applyInArrow``: all rows of a key group at once, state in memory, final watermark."""

    # A plain function of one argument, since PySpark counts the parameters and would count a method's self.
    def process(group: pa.Table) -> pa.Table:
        cache_zip_imports()
        columns = [group.column(name).to_pylist() for name in PayloadPart._fields]
        number = group_number(plan.groups, group.column("group")[0].as_py())
        with without_internal_traceback():
            return _as_rows(run_batch(plan, number, map(PayloadPart, *columns)))

    return process


def process_reduced(plan: WindowPlan) -> Callable[[pa.Table], pa.Table]:
    """Return the function for ``applyInArrow`` on rows that Spark reduced to partials (:mod:`panestream.spark.catalyst`)."""

    def process(group: pa.Table) -> pa.Table:
        cache_zip_imports()
        with without_internal_traceback():
            operator = plan.operator.for_group(plan, MemoryState(), group.column("group")[0].as_py())
            return _as_rows(operator.process(group_input(plan, group)))

    return process


def _as_rows(output: GroupOutput) -> pa.Table:
    return pa.Table.from_pylist([{"tag": tag, "body": body} for tag, body in bodies(output, BATCH_BODY_BYTES)], schema=_OPERATED)


class Unpack:
    """The function for ``mapInArrow`` that turns the payloads of one tag (column ``body``) into rows.

    ``pairs`` converts a join's payloads to rows; None means that the payloads are the rows.
    """

    def __init__(self, schema: pa.Schema, pairs: Pairs | None = None) -> None:
        self._schema = schema
        self._pairs = pairs

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cache_zip_imports()
        for batch in batches:
            for body in batch.column(0):
                yield from self.rows_of(body.as_py())
        freeze_modules_once()

    def rows_of(self, body: bytes) -> Iterator[pa.RecordBatch]:
        """Return the rows of one payload."""
        table, _ = payload.decode(body, self._schema)
        for rows in (table,) if self._pairs is None else self._pairs.opened(table):
            yield from rows.to_batches()


class UnpackTagged:
    """The function for ``mapInArrow`` that turns payloads (columns ``tag`` and ``body``) into the rows of all outputs.

    A row has the tag, and a struct for each output, which is null except for the row's own output.
    """

    def __init__(self, unpacks: Mapping[str, Unpack], schemas: Mapping[str, pa.Schema]) -> None:
        self._unpacks = unpacks
        self._structs = {tag: pa.struct(list(schema)) for tag, schema in schemas.items()}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cache_zip_imports()
        for batch in batches:
            for tag, body in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                for rows in self._unpacks[tag].rows_of(body):
                    yield self._tagged(tag, rows)
        freeze_modules_once()

    def _tagged(self, tag: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        count = rows.num_rows
        columns = [
            pa.StructArray.from_arrays(rows.columns, fields=list(kind)) if other == tag else pa.nulls(count, kind)
            for other, kind in self._structs.items()
        ]
        return pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(tag), count), *columns], names=[OUTPUT, *self._structs])
