"""The engine's operator for one key group in Spark's batches, and the conversion of its output to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import types as T

from panestream.engine.exchange.group_run import bodies, run_batch
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_io import GroupOutput
from panestream.engine.runtime.group_operator import freeze_modules_once
from panestream.engine.runtime.sides import Pairs
from panestream.engine.storage import payload
from panestream.engine.storage.payload import PayloadPart
from panestream.engine.storage.state import MemoryState
from panestream.spark.catalyst import group_input
from panestream.spark.compat import cache_zip_imports, group_number
from panestream.spark.failures import without_internal_traceback

OPERATED_SCHEMA = T.StructType([T.StructField("tag", T.StringType()), T.StructField("body", T.BinaryType())])
_OPERATED = pa.schema([("tag", pa.string()), ("body", pa.binary())])


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
    return pa.Table.from_pylist([{"tag": tag, "body": body} for tag, body in bodies(output)], schema=_OPERATED)


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
                table, _ = payload.decode(body.as_py(), self._schema)
                for rows in (table,) if self._pairs is None else self._pairs.opened(table):
                    yield from rows.to_batches()
        freeze_modules_once()
