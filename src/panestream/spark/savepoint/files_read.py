"""Exclude files that an old query has read from a stream, since Spark's source of files cannot begin at a position.

The list is Spark's own (``sources/N`` of the checkpoint). The savepoint stores it as Parquet, and the new checkpoint gets a copy.
The copy is needed until the source has listed each file once, and as long as a micro-batch may come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.errors import CheckpointError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import first_sentence
from panestream.spark.places import escaped

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_LITERALS = 20_000
"""The maximum number of names in the query itself, with which Spark skips a file without opening it (decision 0147)."""
_ENTRY = "path string, timestamp bigint, batchId bigint"
_PATH = "path"
LISTED = f"{_PATH} string"
"""The schema of a list of files."""
_OF_FILE = "_metadata.file_path"
_LOCAL = "file:/+"
"""Spark writes a local path with one slash in some places, and with three in others."""


def files_read(spark: SparkSession, checkpoint: str, number: int, last: int) -> DataFrame:
    """Return the files that a source has read, in the column ``path``; raises CheckpointError if the log is missing.

    ``number`` is that of the source's log (:func:`~panestream.spark.savepoint.source_logs.numbers_of_logs`), and ``last`` the
    last entry that counts (``logOffset``).
    """
    folder = f"{checkpoint.rstrip('/')}/sources/{number}"
    names = [path.rsplit("/", 1)[-1] for path in list_files(spark, escaped(folder))]
    logs = [name for name in names if name.removesuffix(".compact").isdigit()]
    # A compacted log includes all earlier entries, which may be deleted, and perhaps later ones.
    if not any(int(name.removesuffix(".compact")) >= last for name in logs):
        raise CheckpointError(f"which files the source {number} has read cannot be told: its log in {folder} has no entry {last}")
    lines = spark.read.text([f"{escaped(folder)}/{name}" for name in logs])
    entries = lines.where(F.col("value").startswith("{")).select(F.from_json("value", _ENTRY).alias("entry")).select("entry.*")
    return entries.where(F.col("batchId") <= last).select(_as_one_spelling(F.col(_PATH)).alias(_PATH)).distinct()


def left_out(df: DataFrame, files: DataFrame, count: int) -> DataFrame:
    """Return a stream without the rows of ``count`` files, as :func:`files_read` returns them. If few, they are not opened.

    ``df`` is the stream or a row-by-row transformation of it. Raises CheckpointError if its rows no longer have their file.
    """
    if count == 0:
        return df
    check_tells_files(df, count)
    return _without(df, files, count)


def check_tells_files(df: DataFrame, count: int) -> None:
    """Raise CheckpointError with the way out if a stream's rows no longer have their file; ``count`` is for the message."""
    try:
        with silence_analysis_errors():
            _ = df.select(F.col(_OF_FILE)).columns
    except AnalysisException as error:
        raise CheckpointError(
            f"the savepoint says which files were read ({count}), and start() cannot leave them out: where the windows begin "
            "nobody can tell from which file a row comes, since a union, an aggregation or a Python function is in between, or "
            "two streams are put together. Leave them out where the files are read: df = "
            "pst.state.read_savepoint(spark, DIR).unread(spark.readStream…load(…), source=0), of each source with its number "
            "(of a "
            "join the left stream's is 0, the right one's 1, see .positions), and start(…, source_offsets='job'). "
            f"(Spark says: {first_sentence(error)})"
        ) from error


def _without(df: DataFrame, files: DataFrame, count: int) -> DataFrame:
    if count <= _LITERALS:
        return df.where(~_among([row[_PATH] for row in files.collect()]))
    # Add a column first, because in a join the list, which is read from files too, would also have a path of that name.
    told = df.withColumn("__panestream_file", _as_one_spelling(F.col(_OF_FILE)))
    listed = F.broadcast(files.select(F.col(_PATH).alias("__panestream_file")))
    return told.join(listed, "__panestream_file", "left_anti").drop("__panestream_file")


def _among(paths: Sequence[str]) -> Column:
    """Return whether a row's file is in ``paths``, as text for Spark's parser, which can take thousands of names."""
    every = [spelling for path in sorted(paths) for spelling in _spellings(path)]
    # Spark's parser substitutes variables for ${...}, even in literals.
    plain = [path for path in every if not set(path) & set("'\\$")]
    odd = sorted(set(every) - set(plain))
    found = F.col(_OF_FILE).isin(odd) if odd else F.lit(False)
    if plain:
        # Text, since a separate literal for each takes milliseconds.
        listed = ", ".join(f"'{path}'" for path in plain)
        found = found | F.expr(f"{_OF_FILE} IN ({listed})")
    return F.coalesce(found, F.lit(False))


def _as_one_spelling(path: Column) -> Column:
    return F.regexp_replace(path, f"^{_LOCAL}", "file:/")


def _spellings(path: str) -> list[str]:
    """Return how Spark may write the path.

    >>> _spellings("file:/in/a.json"), _spellings("hdfs://host/in/a.json")
    (['file:/in/a.json', 'file:///in/a.json'], ['hdfs://host/in/a.json'])
    """
    return [path, "file:///" + path.removeprefix("file:/")] if path.startswith("file:/") else [path]


__all__ = ["LISTED", "check_tells_files", "files_read", "left_out"]
