"""The workarounds for PySpark, one below the other, with the versions that need them.

``tests/spark/test_compat.py`` reads the installed PySpark and fails once a workaround may no longer be needed. Delete the
workaround if no supported version needs it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from logging import LogRecord
from pathlib import Path
from zipimport import zipimporter

from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas import functions as pandas_functions

from panestream.errors import EnvironmentNotReadyError
from panestream.spark.session import version

# -- Spark Connect asks the server for the schema of every step (4.0 to 4.3) ------------------------------------------
_SCHEMA_CACHE = "_cached_schema"


def with_known_schema(df: DataFrame, schema: T.StructType) -> DataFrame:
    """Return the DataFrame with its schema stored, so that the client does not ask the server.

    ``mapInArrow`` and ``transformWithState`` need the column names, which takes a server call through Connect. Query functions of
    Spark's declarative pipelines refuse such calls, and the input may not exist yet. The attribute is the client's own cache for
    results of functions. A client without it, or classic Spark, works as before.
    """
    if getattr(df, _SCHEMA_CACHE, schema) is None:
        setattr(df, _SCHEMA_CACHE, schema)
    return df


# -- PySpark logs analysis errors that the caller catches (4.0 to 4.3) --------------------------------------------------
_ANALYSIS_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def silence_analysis_errors() -> Iterator[None]:
    """Suppress the log output of Spark's analysis errors in the block. PySpark logs each, even a caught one, as 7 kB of JSON.

    Only messages of this thread from two loggers are suppressed.
    """
    here = threading.get_ident()

    def of_others(record: LogRecord) -> bool:
        return record.thread != here

    # PySpark's own kind of logger: the first caller decides the class of a logger.
    loggers = [PySparkLogger.getLogger(name) for name in _ANALYSIS_LOGGERS]
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)


# -- PySpark's Arrow functions refuse to be built without pandas (4.0 to 4.3) -------------------------------------------
_PANDAS_CHECK = "require_minimum_pandas_version"


@contextmanager
def without_pandas() -> Iterator[None]:
    """Skip PySpark's check for pandas in the block if pandas is missing.

    ``mapInArrow``, ``applyInArrow`` and ``transformWithState`` (with rows) use Arrow only, but PySpark builds all of them with
    ``pandas_udf``, which has the check. Only panestream's own functions are built in such a block. Spark Connect's client does
    need pandas, and its own check stays.
    """
    check = getattr(pandas_functions, _PANDAS_CHECK, None)
    if check is None or _installed("pandas"):
        yield
        return
    setattr(pandas_functions, _PANDAS_CHECK, lambda: None)
    try:
        yield
    finally:
        setattr(pandas_functions, _PANDAS_CHECK, check)


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


# -- Every task makes Python read the archives on its path again (since 4.1) --------------------------------------------
class UnchangedArchive(zipimporter):
    """An importer for an archive that reads the directory again only if the file was replaced."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen = _identity(self.archive)

    def invalidate_caches(self) -> None:
        current = _identity(self.archive)
        if current is None or current != self._seen:
            self._seen = current
            super().invalidate_caches()


def cache_zip_imports() -> None:
    """Make Python read the archives on its path once, not in every task. Call this at the start of each of our tasks.

    Archives from ``spark.jars.packages`` are on the workers' path, and each task starts with ``importlib.invalidate_caches()``.
    Python then reads the directories of all these jars again (before 3.13 at once), with tens of thousands of names, which delays
    every task of a small micro-batch. The files do not change while a worker runs.

    The path stays complete, so Spark does not add anything again, and imports from jars (Delta's), zip files and eggs still work.
    Nothing is read here, as Python shares the directories that the replaced importers have read.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        # Not subclasses, which are ours or have other behaviour.
        if type(finder) is zipimporter:
            try:
                sys.path_importer_cache[path] = UnchangedArchive(path)
            except Exception:  # noqa: BLE001, S112 - a missing file must not fail the task; Python continues as before
                continue


def _identity(path: str) -> tuple[int, int, int] | None:
    """Return a fingerprint that changes when the file is replaced, or None for a missing file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


# -- Tasks do not get the id of their query's run (4.0 to 4.3) ----------------------------------------------------------
def run_id() -> str:
    """Return the id of the streaming query's run that this task works for, or an empty string if Spark does not have it.

    Spark makes the run's id the job group of a streaming query, so it is set for every way to start one, also Connect's. In
    ``foreachBatch`` through Connect, jobs belong to another session and lack it.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.getLocalProperty("sql.streaming.queryId") is None:
        return ""
    return context.getLocalProperty("spark.jobGroup.id") or ""


# -- Stateful operators take data frames (4.0) or rows (since 4.1) ------------------------------------------------------
DATA_FRAMES = "panestreamDataFrames"
"""The setting with which ``.main`` resumes a checkpoint from Spark 4.0. ``start`` detects that by itself."""


def wants_data_frames(spark: SparkSession) -> bool:
    """Return whether a new checkpoint starts with data frames: on Spark 4.0, or if the session's setting requests it.

    A checkpoint that started with data frames keeps them on later versions: Spark stores the operator's name in the checkpoint,
    and only that operator can read its state.
    """
    return not _has_rows(spark) or spark.conf.get(DATA_FRAMES, "false") == "true"


def check_data_frames(spark: SparkSession) -> None:
    """Raise EnvironmentNotReadyError without pandas, or for a Connect client of Spark 4.0, which lacks stateful operators."""
    if not hasattr(spark.range(0).groupBy("id"), "transformWithStateInPandas"):
        raise EnvironmentNotReadyError(
            "Spark Connect of Spark 4.0 does not support stateful operators in Python. Run the stream in a classic session "
            "(batch "
            "DataFrames work through Connect too), or with Spark 4.1 or later"
        )
    if find_spec("pandas") is None:
        raise EnvironmentNotReadyError(
            "streams on Spark 4.0, and checkpoints that started on it, need pandas on the driver and on the executors: pip "
            "install 'pandas>=2.2,<3'"
        )


def check_rows(spark: SparkSession, checkpoint: str) -> None:
    """Raise EnvironmentNotReadyError if Spark is older than 4.1, which cannot resume a checkpoint that uses rows."""
    if not _has_rows(spark):
        raise EnvironmentNotReadyError(
            f"the state in the checkpoint {checkpoint} started with Spark 4.1 or later, and Spark {spark.version} cannot read "
            f"it. Continue with that version, or start on a new checkpoint"
        )


def _has_rows(spark: SparkSession) -> bool:
    return version(spark) >= (4, 1)


# -- Spark places keys on partitions by their hash, and no caller can choose the partition (4.0 to 4.3) -----------------
_MASK = 0xFFFFFFFF


def spark_hash_of_int(value: int, seed: int = 42) -> int:
    """Return Spark's ``hash(int)``: murmur3 (x86, 32 bit) of one 4-byte block, as a signed integer."""
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotated(k, 15) * 0x1B873593 & _MASK
    h = _rotated((seed & _MASK) ^ k, 13) * 5 + 0xE6546B64 & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h & 0x80000000 else h


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK


@cache
def group_values(groups: int) -> tuple[int, ...]:
    """Return, for each key group, the integer that Spark places on the partition with the group's number.

    Spark places a group by ``pmod(murmur3(value, 42), partitions)``. With the numbers 0, 1, 2 … some partitions would get several
    groups and others none. So each group has the smallest integer that falls on its partition.
    """
    smallest: dict[int, int] = {}
    value = 0
    while len(smallest) < groups:
        smallest.setdefault(spark_hash_of_int(value) % groups, value)
        value += 1
    return tuple(smallest[group] for group in range(groups))


def group_number(groups: int, value: int) -> int:
    """Return the number of the key group whose integer in Spark is ``value``."""
    return _group_numbers(groups)[value]


@cache
def _group_numbers(groups: int) -> Mapping[int, int]:
    return {value: number for number, value in enumerate(group_values(groups))}


# -- Spark compiles a literal time into its Java code, anew for every micro-batch (4.0 to 4.3) ---------------------------
def batch_time() -> Column:
    """Return the time of the micro-batch in microseconds.

    Spark would put this number as a literal into generated Java code, which then differs between micro-batches and must be
    compiled and warmed up again. Spark interprets this function, so the number is passed as data.
    """
    return F.array_sort(F.array(F.unix_micros(F.current_timestamp())))[0]
