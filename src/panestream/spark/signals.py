"""Signals: panestream's own messages to a running query, as a source in addition to its input.

A signal is a file in the checkpoint with one word. Spark reads it like any stream of files, so its effect on the state is exactly
once, even after a failure. ``begin`` starts a micro-batch: Spark runs none without new input, and the clock cannot wake a query
before its first one after a start. ``end`` informs the key groups that the query has read all input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan
from panestream.engine.storage import payload
from panestream.engine.storage.payload import END, cut
from panestream.spark.compat import cache_zip_imports, group_values, without_pandas
from panestream.spark.failures import writing
from panestream.spark.markers import list_files
from panestream.spark.operator.exchange import EXCHANGE_SCHEMA, exchange_row, partition_id
from panestream.spark.places import escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = "panestream/signals"
"""The folder of signals in the checkpoint."""
BEGIN_WORD, END_WORD = "begin", "end"


def send(spark: SparkSession, checkpoint: str, word: str) -> None:
    """Write a signal, which the query reads with its next micro-batch."""
    folder = _folder(checkpoint)
    with writing(folder, any_reason=True):
        spark.range(1).select(F.lit(word).alias("value")).coalesce(1).write.mode("append").text(folder)


def prepare(spark: SparkSession, checkpoint: str, *, wake: bool) -> None:
    """Ensure that the folder has a file before the query starts, since Spark refuses to read an empty folder.

    With ``wake``, the query gets a micro-batch even without new rows.
    """
    if wake or not list_files(spark, f"{escaped(checkpoint.rstrip('/'))}/{FOLDER}/part-*"):
        send(spark, checkpoint, BEGIN_WORD)


def exchanged(spark: SparkSession, checkpoint: str, plan: WindowPlan) -> DataFrame:
    """Return the signals as a stream of exchange rows."""
    # Files are deleted after reading: they are not needed again, and the folder would grow with every start.
    reader = spark.readStream.option("cleanSource", "delete").option("pathGlobFilter", "part-*")
    with without_pandas():
        return reader.text(_folder(escaped(checkpoint))).mapInArrow(PackSignals(plan).__call__, EXCHANGE_SCHEMA)


def _folder(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/{FOLDER}"


@dataclass(slots=True)
class PackSignals:
    """The function for ``mapInArrow``: sends the word ``end`` to every key group. The word ``begin`` is not sent on."""

    plan: WindowPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cache_zip_imports()
        words = {word for batch in batches for word in batch.column(0).to_pylist()}
        # Lower than the origins of rows, whose partitions are numbered from 0.
        origin, sequence = -1 - partition_id(), 0
        for value in group_values(self.plan.groups) if END_WORD in words else ():
            for part in cut(payload.encode(pa.table({}), {"kind": END}), origin, sequence):
                sequence = part.sequence
                yield exchange_row(value, part)


__all__ = ["BEGIN_WORD", "END_WORD", "exchanged", "prepare", "send"]
