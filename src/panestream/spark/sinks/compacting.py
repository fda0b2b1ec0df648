"""Merge the small files of a file sink by Spark while a query writes there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from panestream.errors import SinkError
from panestream.spark.checkpoint.records import PARTS, list_files
from panestream.spark.places import escaped, local_folder
from panestream.spark.sinks.claims import OWNER
from panestream.spark.sinks.compaction import Compaction, compact_folders
from panestream.spark.sinks.looked_at import BATCH_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST = 1 << 40


def compact(spark: SparkSession, path: str, *, file_bytes: int = 256 << 20, grace_seconds: float = 10.0) -> Compaction:
    """Merge the small files of a Parquet sink with ``batches_per_folder``; the query that writes there can continue.

    Each folder except the newest gets one file, or several of about ``file_bytes``. Readers always find each row once: a folder
    changes in one step, and rows stay in their folder. A reader that listed the small files and opens them afterwards gets an
    error, and must read again. Only committed micro-batches are touched. A query whose checkpoint is restored to an older
    micro-batch still finds which rows belong to which micro-batch. A crash leaves each folder as before or fully merged, and the
    next compaction removes the leftovers. Only one compaction at a time can work on a place.

    Args:
        spark: the session, on a machine that sees the files.
        path: the sink's path.
        file_bytes: the approximate size of the new files.
        grace_seconds: how long replaced files stay after the last step, for readers that are listing them.

    Returns:
        The numbers of folders, files and rows.

    Raises:
        SinkError: the folder is not a sink's, is not on a local file system that can exchange folders (Linux), or is not shared
            by micro-batches. Also if another compaction is running, or the files are not Parquet.

    Examples:
        >>> totals = hours.aggregate(agg.sum("price").alias("total"))
        >>> totals.run(main=pst.ParquetSink(folder + "/totals", batches_per_folder=2))
        >>> pst.sinks.compact(spark, folder + "/totals", grace_seconds=0)
        Compaction(folders=0, files_before=0, files_after=0, rows=0, left=0)
    """
    if type(file_bytes) is not int or not 1 <= file_bytes <= _MOST:
        raise SinkError(f"file_bytes must be a number of bytes from 1 on, got {file_bytes!r}")
    if not grace_seconds >= 0:
        raise SinkError(f"grace_seconds must be a number of seconds from 0 on, got {grace_seconds!r}")
    root = _seen_here(spark, path)

    def merge(files: Sequence[Path], out: Path) -> None:
        # Files of one folder may differ in columns if the query was changed in between.
        reader = spark.read.option("mergeSchema", "true")
        rows = reader.parquet(*(f"file:{escaped(file.as_posix())}" for file in files))
        # The rows of a micro-batch stay together, in the order of the files, so they can be separated again.
        names = sorted(file.name for file in files)
        if names != [file.name for file in files]:
            raise SinkError(f"the files of {files[0].parent} are not in the order of their names")
        place = "_panestream_file"
        ordered = rows.withColumn(place, F.col("_metadata.file_name")).coalesce(1).sortWithinPartitions(place).drop(place)
        ordered.write.option("maxRecordsPerFile", 0).parquet(f"file:{out.as_posix()}")

    return compact_folders(root, BATCH_COLUMN, merge, file_bytes=file_bytes, grace=float(grace_seconds))


def _seen_here(spark: SparkSession, path: str) -> Path:
    markers = list_files(spark, f"{escaped(path)}/{OWNER}/{PARTS}")
    if not markers:
        raise SinkError(
            f"{path} is not the folder of a file sink, because it lacks the marker {OWNER}. Give the path of the sink"
        )
    marker = local_folder(markers[0])
    if marker is None or not marker.is_file():
        raise SinkError(
            f"{path} is not on a local file system of this machine, where a folder can be replaced in one step. Elsewhere write "
            "to a table (Delta, Iceberg), which puts its small files together"
        )
    return marker.parent.parent
