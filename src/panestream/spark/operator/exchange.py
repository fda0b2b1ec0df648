"""``pack`` on Spark: converts the rows of a map partition to exchange rows (:mod:`panestream.engine.exchange`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T

from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_operator import freeze_modules_once
from panestream.engine.storage.payload import PayloadPart
from panestream.spark.compat import cache_zip_imports, group_values, run_id
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
