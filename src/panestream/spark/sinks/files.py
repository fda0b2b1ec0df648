"""Write outputs as files: a folder for each micro-batch."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from panestream.errors import SinkError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.places import FilePath, escaped, file_place, local_folder, path_of
from panestream.spark.sinks.base import QueryRunInfo, Sink
from panestream.spark.sinks.claims import ATTEMPTS, OWNER, claim, owners
from panestream.spark.sinks.looked_at import BATCH_COLUMN, warn_of_age, warn_of_columns
from panestream.spark.sinks.members import LOCK
from panestream.spark.sinks.micro_batch_folders import MicroBatchFolders
from panestream.spark.sinks.publication import Publisher, sweep
from panestream.spark.sinks.shared_folders import SharedFolders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHOLE_RUN = -1
_COMMIT_PROTOCOL = "spark.sql.sources.commitProtocolClass"
_SPARKS_OWN = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"


@dataclass(frozen=True)
class FileSink(Sink):
    """Files below ``path``, one folder ``batch_id=N`` for each micro-batch. Exactly once; copies of a query are fenced.

    Read the output with ``spark.read.parquet(path)``; ``batch_id`` is then a column. The sink refuses a folder of another query
    (another checkpoint) or with other data. It also refuses a folder that lost its marker ``_panestream`` after micro-batches
    were committed to it. You may delete folders of old micro-batches at any time.

    A micro-batch that is run again replaces its first output, even if it has no rows now. The first micro-batch of a run removes
    later ones: a restored checkpoint computes them again. If two copies of a query run, the one started later continues. The
    other publishes nothing more and ends with a :class:`FencedError`.

    On a **local** file system (``file:``, NFS) an attempt is written to ``path/_attempts``, which Spark and Arrow skip, and
    published by one rename. A concurrent reader lists the old or the new files of a micro-batch, never a part. Replaced and
    withdrawn files stay until the next write; a reader that opens them later gets an error. Only Linux can exchange two folders
    in one step, and NFS cannot. Without the exchange, a micro-batch that is written again is absent for a moment.

    **Elsewhere** (HDFS, object stores) Spark's own commit stages the files, deletes the folder and moves them there. In between a
    reader finds no files of this micro-batch, or a part if the store cannot move a folder in one step. A fenced copy notices
    before and after it writes; until then it may write the rows of the same micro-batch once more. If
    ``spark.sql.sources.commitProtocolClass`` names another protocol, it overwrites the folder and decides what readers see. A
    local file system that only Spark's side sees (a batch run through Spark Connect) counts as elsewhere.

    **Fewer folders.** One micro-batch a second is 86,400 folders a day. With ``batches_per_folder=1000`` a folder ``batch_id=N``
    has the files of micro-batches N to N + 999. Each micro-batch still appears and disappears in one step, and ``batch_id`` is
    the first of the folder. :func:`compact` merges the small Parquet files of complete folders. This needs a local file system;
    elsewhere use Delta or Iceberg. You may change ``batches_per_folder`` from start to start.

    A batch query replaces (and deletes at once) existing output in the same way, only if a batch query wrote it.

    Args:
        path: a directory of any file system that Spark can reach.
        format: ``parquet``, ``json``, ``csv`` or ``orc``.
        options: options of Spark's writer.
        batches_per_folder: the number of micro-batches that share a folder.

    Raises:
        SinkError: the path, the format or ``batches_per_folder`` is invalid.

    Examples:
        >>> FileSink("out", "json")
        FileSink(path='out', format='json', options={}, batches_per_folder=1)
    """

    path: FilePath
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    batches_per_folder: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", path_of(self.path, "the path of a file sink must be a directory name", SinkError))
        if self.format not in ("parquet", "json", "csv", "orc"):
            raise SinkError(f"a file sink writes parquet, json, csv or orc, not {self.format!r}; for tables use TableSink")
        if type(self.batches_per_folder) is not int or self.batches_per_folder < 1:
            raise SinkError(f"batches_per_folder must be a whole number from 1 on, got {self.batches_per_folder!r}")

    @property
    def folder(self) -> str:
        return str(self.path)

    def place(self, spark: SparkSession) -> str:
        return file_place(self.folder)

    def check_columns(self, names: Sequence[str]) -> None:
        for name in names:
            if name.lower() == BATCH_COLUMN:
                raise SinkError(
                    f"the rows for {self.path} have a column {name!r}: readers would find the number of the micro-batch "
                    f"instead, because the sink's folders are called {BATCH_COLUMN}=N. Rename the column before pst.stream()"
                )

    def open(self, spark: SparkSession, run: QueryRunInfo) -> Sink:
        markers = owners(spark, self.folder)
        if not markers:
            self._check_free(spark, run)
            markers = claim(spark, self.folder, run.query, run.queries)
        for owner in markers.values():
            if owner.get("query") not in run.queries:
                raise SinkError(
                    f"{self.path} holds the output of another {'query' if owner.get('query') else 'batch run'}: its batch ids "
                    "would collide with this one's. Choose another directory, or start with the checkpoint that belongs to it. "
                    "To start again from nothing, delete the directory"
                )
        addresses = list(markers)
        # Spark resolves a path without a scheme; the addresses show the result.
        marker = local_folder(addresses[0]) if addresses else None
        if marker is None:
            self._check_flat(addresses)
            return _FilesElsewhere(self, run)
        if marker.is_file():
            if self.batches_per_folder > 1:
                (marker.parent.parent / LOCK).touch()
            warn_of_age(marker.parent.parent, run)
            if self.format == "parquet":
                warn_of_columns(marker.parent.parent, run)
        return _LocalSharedFiles(self, run, marker)

    def _check_flat(self, where: Sequence[str]) -> None:
        if self.batches_per_folder > 1:
            raise SinkError(
                f"batches_per_folder={self.batches_per_folder} needs a local file system, where a file joins a folder in one "
                f"step, and {where[0] if where else self.path} is on none. Leave it out, or write to a table (Delta, Iceberg), "
                "which puts its small files together by itself"
            )

    def _check_free(self, spark: SparkSession, run: QueryRunInfo) -> None:
        if run.written:
            raise SinkError(
                f"{self.path} or its marker {OWNER} is missing: earlier micro-batches of this checkpoint were written there, "
                f"and they will not be repeated. Restore the directory; or choose another directory for the rest of the output; "
                f"or start with a new checkpoint, which computes everything again"
            )
        check_empty(spark, self.folder)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        raise SinkError("a FileSink is written by a query: give it to result.start() or result.run()")

    def save(self, df: DataFrame, path: str) -> None:
        """Write the rows of a micro-batch into an empty folder."""
        df.write.format(self.format).options(**dict(self.options)).mode("overwrite").save(path)

    def describe(self) -> str:
        return f"{self.format} {self.path}"


def check_empty(spark: SparkSession, folder: str) -> None:
    """Raise SinkError if a folder that no query has claimed holds files."""
    if list_files(spark, escaped(folder), recursive=True):
        raise SinkError(f"{folder} already holds files that are not this query's: choose an empty directory")


def ParquetSink(path: FilePath, *, batches_per_folder: int = 1, **options: str) -> FileSink:
    """Return a :class:`FileSink` of Parquet files, with the same arguments. ``options`` are those of Spark's writer.

    Spark reads the folder of a stream with one more column, ``batch_id``.

    Examples:
        >>> ParquetSink("out/main")
        FileSink(path='out/main', format='parquet', options={}, batches_per_folder=1)
    """
    return FileSink(path, "parquet", options, batches_per_folder)


@dataclass(frozen=True)
class _FilesElsewhere(Sink):
    """A FileSink of one run, on a file system that only Spark can reach."""

    sink: FileSink
    run: QueryRunInfo

    def begin(self, df: DataFrame, batch_id: int) -> None:
        # Without the JVM we cannot rename or delete, so we overwrite the folder with an empty frame.
        spark = df.sparkSession
        later = {number for number in self._published(spark) if number > batch_id}
        for number in sorted(later, reverse=True):
            self._save(spark.createDataFrame([], df.schema), number)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self._save(df, _WHOLE_RUN if batch_id is None else batch_id)

    def describe(self) -> str:
        return self.sink.describe()

    def _save(self, df: DataFrame, number: int) -> None:
        spark, sink = df.sparkSession, self.sink
        self.run.check(spark)
        if spark.conf.get(_COMMIT_PROTOCOL, _SPARKS_OWN) == _SPARKS_OWN and not df.isEmpty():
            # Stages each attempt separately, and replaces this one folder when the job is committed.
            writer = df.withColumn(BATCH_COLUMN, F.lit(number)).write.partitionBy(BATCH_COLUMN).format(sink.format)
            options = {**sink.options, "partitionOverwriteMode": "dynamic"}
            writer.options(**options).mode("overwrite").save(sink.folder)
        else:
            sink.save(df, f"{sink.path}/{BATCH_COLUMN}={number}")
        self.run.check(spark)

    def _published(self, spark: SparkSession) -> list[int]:
        files = list_files(spark, f"{escaped(self.sink.folder)}/{BATCH_COLUMN}=*")
        matches = [re.search(rf"/{BATCH_COLUMN}=(-?\d+)/[^/]*$", file) for file in files]
        return [int(match.group(1)) for match in matches if match]


@dataclass(frozen=True)
class _LocalFiles(Sink):
    """A local FileSink of one run. A process that cannot see the owner's file, ``marker``, is on another machine than Spark."""

    sink: FileSink
    run: QueryRunInfo
    marker: Path

    def begin(self, df: DataFrame, batch_id: int) -> None:
        if not self.marker.is_file():
            return _FilesElsewhere(self.sink, self.run).begin(df, batch_id)
        return self._micro_batches(df.sparkSession).begin(batch_id)

    def on_first_commit(self, df: DataFrame) -> None:
        if self.marker.is_file():
            self._micro_batches(df.sparkSession).withdrawn.delete()

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        if not self.marker.is_file():
            return _FilesElsewhere(self.sink, self.run).write(df, batch_id)
        attempts = f"{self.sink.path}/{ATTEMPTS}"
        return self._micro_batches(df.sparkSession).write(batch_id, lambda name: self.sink.save(df, f"{attempts}/{name}"))

    def describe(self) -> str:
        return self.sink.describe()

    @property
    def _folder(self) -> Path:
        return self.marker.parent.parent

    def _micro_batches(self, spark: SparkSession) -> MicroBatchFolders:
        return MicroBatchFolders(self._folder, BATCH_COLUMN, self._publisher(spark))

    def _publisher(self, spark: SparkSession) -> Publisher:
        epoch = self.run.epoch
        rank = (0, uuid.uuid4().hex) if epoch is None else epoch.rank
        registered = partial(self.run.registered, spark)
        return Publisher(self._folder / ATTEMPTS, rank, lambda: self.run.check(spark), registered)


@dataclass(frozen=True)
class _LocalSharedFiles(_LocalFiles):
    """A local FileSink whose micro-batches share folders, or did so earlier."""

    def begin(self, df: DataFrame, batch_id: int) -> None:
        if not self._shared:
            return super().begin(df, batch_id)
        self._folders(df.sparkSession).begin(batch_id)
        return None

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        if batch_id is None or not self._shared:
            return super().write(df, batch_id)
        folders = self._folders(df.sparkSession)
        sweep(folders.publisher.attempts, folders.publisher.rank)
        attempt = folders.publisher.aside()
        self.sink.save(df, f"{self.sink.path}/{ATTEMPTS}/{attempt.name}")
        folders.write(attempt, batch_id)
        return None

    @property
    def _shared(self) -> bool:
        """True if folders are shared. Evaluated on the writing machine: a Spark Connect client may not see the files."""
        return self.sink.batches_per_folder > 1 or (self._folder / LOCK).exists()

    def _folders(self, spark: SparkSession) -> SharedFolders:
        if not self.marker.is_file():
            raise SinkError(
                f"{self.sink.path} has folders of several micro-batches, and the process that writes them does not see them: let "
                "Spark's driver run on the machine that has them"
            )

        def cut(file: Path, rows: int, target: Path) -> None:
            if self.sink.format != "parquet":
                raise SinkError(f"{file} holds several micro-batches, and only Parquet can be taken apart again")
            source = spark.read.format(self.sink.format).load(f"file:{escaped(file.as_posix())}")
            first = source.where(F.col("_metadata.row_index") < rows)
            first.coalesce(1).write.option("maxRecordsPerFile", 0).format("parquet").save(f"file:{target.as_posix()}")

        size, publisher = self.sink.batches_per_folder, self._publisher(spark)
        return SharedFolders(self._folder, BATCH_COLUMN, size, publisher, cut)
