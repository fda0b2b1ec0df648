"""Signals: panestream's own messages to a running query, as a source in addition to its input.

A signal is a file in the checkpoint with one word. Spark reads it like any stream of files, so its effect on the state is exactly
once, even after a failure. ``begin`` starts a micro-batch: Spark runs none without new input, and the clock cannot wake a query
before its first one after a start. ``end`` informs the key groups that the query has read all input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan
from panestream.engine.storage import payload
from panestream.engine.storage.payload import END, cut
from panestream.errors import warn
from panestream.spark.checkpoint.records import list_files
from panestream.spark.compat import cache_zip_imports, group_values, without_pandas
from panestream.spark.failures import writing
from panestream.spark.operator.task_functions import EXCHANGE_SCHEMA, exchange_row, partition_id
from panestream.spark.places import escaped
from panestream.spark.progress.listening import ProgressWatcher
from panestream.spark.progress.micro_batch import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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


_MAX_CLOSING_RUNS = 10
"""Input that never stops does not have an end."""


@dataclass
class EndOfInputRun:
    """The runs that close the windows of a query.

    A key group accepts the signal only in a micro-batch without rows. Rows that arrived after the end of the last run are
    processed as usual, and the signal is sent again.

    Attributes:
        run: starts the query again.
        check: raises if another copy of the query was started later, as then the input was not read to its end.
        before: the progress of the runs before the current one.
        tries: the number of runs that were started to close windows.
        over: whether all is done.
    """

    spark: SparkSession
    checkpoint: str
    run: Callable[[], tuple[StreamingQuery, ProgressWatcher | None]]
    check: Callable[[], None]
    before: list[BatchProgress] = field(default_factory=list)
    tries: int = 0
    over: bool = False

    def after(self, progress: Sequence[BatchProgress]) -> Callable[[], tuple[StreamingQuery, ProgressWatcher | None]] | None:
        """Return the function that starts the next closing run, or None if the query is done.

        ``progress`` has the ended run's micro-batches; the first one of a closing run got the signal. Raise FencedError if
        another copy was started later.
        """
        if self.over:
            return None
        if self.tries and progress and not (progress[0].rows or progress[0].history_rows):
            self.over = True
            return None
        if self.tries == _MAX_CLOSING_RUNS:
            self.over = True
            warn(
                f"fire_at_end: {_MAX_CLOSING_RUNS} times rows came before the windows could be closed, so windows are still "
                f"open: the input does not end. Keep the query running (trigger='10 seconds'), and close windows with "
                f"WatermarkStrategy.closing_after"
            )
            return None
        self.check()
        self.tries += 1
        self.before += progress
        send(self.spark, self.checkpoint, END_WORD)
        return self.run
