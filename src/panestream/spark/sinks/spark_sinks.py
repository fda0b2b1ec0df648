"""Spark's own streaming sinks, which write in the execution of the operator instead of a second one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panestream.engine.plan import MAIN, WindowPlan
from panestream.errors import InvalidPlanError, SinkError
from panestream.spark.checkpoint.spark_logs import last_committed, last_logged
from panestream.spark.places import file_place, local_folder
from panestream.spark.sinks.base import AT_LEAST_ONCE, EXACTLY_ONCE, QueryRunInfo, Sink
from panestream.spark.sinks.claims import claim, owners
from panestream.spark.sinks.files import check_empty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FILES = ("parquet", "json", "csv", "orc", "text", "avro", "xml")
_LOG = "_spark_metadata"
"""The log of Spark's file sink, in the folder of the files. Readers need it without gaps, from micro-batch 0 on."""
_TRANSACTIONS = (*_FILES, "delta", "iceberg")
"""The formats that record which micro-batches they hold."""


@dataclass(frozen=True)
class SparkSink(Sink):
    """A streaming sink of Spark or of a connector, as ``DataStreamWriter.format`` takes it. The only sink of its query.

    It writes in the same execution as the windows. The other sinks need a second one in each micro-batch (``foreachBatch``), so
    this one has the shortest micro-batches. It also reaches connectors that panestream does not know. It gives up:

    * **The fence.** If two copies of a query run, Spark's own logs stop one of them when a micro-batch is committed, with a
      :class:`FencedError`. Until then both write it. Spark's file formats, ``delta`` and ``iceberg`` take a micro-batch once all
      the same. Other formats then have its rows twice, as after a crash.
    * **More than one output.** Rows of the other outputs are computed and dropped.
    * **One file for few rows.** Each task with rows writes a file.
    * **The layout.** Files lie next to each other, with a log in ``_spark_metadata``, instead of in folders ``batch_id=N``.
      The log must begin with the checkpoint. So a query cannot change to such files later, nor come back to them.
    * **The check of the state's age.** After an older copy of the checkpoint is restored, formats that record micro-batches skip
      the repeated ones. For files on a local file system such a start is refused.
    * **The start from a savepoint**, which continues another query's output.

    Args:
        format: e.g. ``parquet``, ``kafka``, ``delta``, ``noop``, or the name of a connector.
        options: of Spark's writer, e.g. ``{"path": "out"}``.
        columns: SQL expressions to write instead of all columns. Kafka needs ``["to_json(struct(*)) AS value"]``.

    Raises:
        SinkError: an argument has the wrong type.

    Examples:
        >>> SparkSink("parquet", {"path": "out"}).describe()
        "Spark's parquet sink"
    """

    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords may be among them
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.format, str) or not self.format:
            raise SinkError(f"a SparkSink needs the name of a format, such as 'parquet' or 'kafka', got {self.format!r}")
        if not isinstance(self.options, Mapping):
            raise SinkError(
                f"a SparkSink takes the options of Spark's writer as a dict, such as SparkSink({self.format!r}, "
                "{'path': 'out'})"
            )
        if isinstance(self.columns, str) or not all(isinstance(each, str) for each in self.columns):
            raise SinkError(f"the columns of a SparkSink are a list of SQL expressions, got {self.columns!r}")

    def place(self, spark: SparkSession) -> str | None:
        return None if self._path is None else file_place(self._path)

    def open(self, spark: SparkSession, run: QueryRunInfo) -> None:
        if run.epoch is None:
            raise SinkError(
                f"{self.describe()} is for streams. Write a batch with result.main.write.format({self.format!r}), or give a "
                "ParquetSink or a TableSink"
            )
        if self._path is not None and self.format.lower() in _FILES:
            self._claim(spark, self._path, run, run.epoch.checkpoint)

    def _claim(self, spark: SparkSession, folder: str, run: QueryRunInfo, checkpoint: str) -> None:
        """Make the folder this query's, and refuse one in which Spark would skip micro-batches or leave a gap."""
        # Another name than for a FileSink: neither may write into the folder of the other.
        mine = frozenset(f"{query} by Spark" for query in run.queries)
        committed, planned = last_committed(spark, checkpoint), last_logged(spark, checkpoint, "offsets")
        markers = owners(spark, folder)
        if not markers:
            if committed >= 0:
                raise SinkError(
                    f"{folder} is not where this query wrote its micro-batches up to {committed}, and Spark cannot read a folder "
                    "that lacks some: give the directory that belongs to the checkpoint, or start with a new checkpoint. A "
                    "ParquetSink may begin with any micro-batch"
                )
            check_empty(spark, folder)
            markers = claim(spark, folder, f"{run.query} by Spark", mine)
        if any(marker.get("query") not in mine for marker in markers.values()):
            raise SinkError(
                f"{folder} holds the output of another query or of another kind of sink. Choose another directory, or start "
                "with the checkpoint that belongs to it. To start again from nothing, delete the directory"
            )
        marker = local_folder(next(iter(markers)))
        if marker is not None and marker.is_file():
            names = [path.name.removesuffix(".compact") for path in (marker.parent.parent / _LOG).glob("[0-9]*")]
            written = max(map(int, filter(str.isdigit, names)), default=-1)
            # A crash may come between the sink's log and Spark's commit.
            if written != committed and not written == committed + 1 <= planned:
                raise SinkError(
                    f"{folder} has micro-batches up to {written}, but the checkpoint {checkpoint} has committed those up to "
                    f"{committed}: Spark would skip some, or leave a gap, with which the folder cannot be read. Put back the "
                    "copy that belongs to the other, or start with a new checkpoint and an empty directory"
                )

    def writer(self, df: DataFrame) -> DataStreamWriter:
        """Return Spark's writer for the rows of an output, which is a stream."""
        rows = df.selectExpr(*self.columns) if self.columns else df
        return rows.writeStream.format(self.format).options(**dict[str, Any](self.options))

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        raise SinkError(f"{self.describe()} is written by Spark: give it to result.start() as the only sink")

    def guarantee(self, spark: SparkSession) -> str:
        if self.format.lower() in _TRANSACTIONS:
            return EXACTLY_ONCE
        return f"{AT_LEAST_ONCE}: {self.describe()} may get the rows of a repeated micro-batch again"

    def describe(self) -> str:
        return f"Spark's {self.format} sink"

    @property
    def _path(self) -> str | None:
        return next((str(value) for name, value in self.options.items() if name.lower() == "path"), None)


def sink_of_spark(sinks: Mapping[str, Sink]) -> tuple[str, SparkSink] | None:
    """Return the output that Spark writes itself, with its sink, or None if ``foreachBatch`` calls the sinks."""
    return next(((tag, sink) for tag, sink in sinks.items() if isinstance(sink, SparkSink)), None)


def check_sink_of_spark(sinks: Mapping[str, Sink], plan: WindowPlan, savepoint: object) -> None:
    """Check that a query can have its SparkSink: raise SinkError for further sinks, otherwise InvalidPlanError."""
    found = sink_of_spark(sinks)
    if found is None:
        return
    tag, sink = found
    if len(sinks) > 1:
        others = ", ".join(repr(each) for each in sinks if each != tag)
        raise SinkError(
            f"{sink.describe()} must be the only sink of its query, but there are others, of {others}: leave them out, or give "
            f"{tag!r} another sink as well, such as a ParquetSink or a TableSink"
        )
    for what, is_there in (("top", plan.top is not None), ("split_distinct", plan.split is not None)):
        if is_there and tag == MAIN:
            raise InvalidPlanError(
                f"{what} on a stream needs a second execution in each micro-batch, which a SparkSink does not have: give "
                "another sink, such as a ParquetSink or a TableSink"
            )
    if savepoint is not None:
        raise InvalidPlanError(
            "a query that starts from a savepoint continues the outputs of another query, which a SparkSink cannot: start with "
            "another sink, and give the SparkSink at a later start, without savepoint="
        )
