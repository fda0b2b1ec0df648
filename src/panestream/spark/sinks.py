"""Where the rows of an output go, idempotently: a micro-batch that is run again leaves what it left the first time.

Spark re-runs a micro-batch whose commit it did not see. A sink is handed the batch's id; writing the same batch twice must
be the same as writing it once.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from panestream.errors import SinkError
from panestream.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_OWNER = "_panestream"
_TABLE_NAME = re.compile(r"[A-Za-z_][\w$-]*(\.[A-Za-z_][\w$-]*){0,2}")
BATCH_COLUMN = "batch_id"
"""The partition column of file sinks: the micro-batch that a row came with."""


class Sink(ABC):
    """Takes the rows of one output, a DataFrame for each micro-batch that has any (and for the first one)."""

    def open(self, spark: SparkSession, query: str) -> None:  # noqa: B027 (optional to override)
        """Called on the driver before the query starts; refuses a place that holds something else.

        Args:
            spark: the session.
            query: the identity of the query, kept in its checkpoint; ``""`` for a batch.

        Raises:
            SinkError: the place is not this query's.
        """

    @abstractmethod
    def write(self, df: DataFrame, batch_id: int | None) -> None:
        """Writes the rows of one micro-batch; for the same ``batch_id`` always the same rows. None: a batch query, all rows."""

    def describe(self) -> str:
        """What explain() and the summary call it."""
        return repr(self)


@dataclass(frozen=True)
class FileSink(Sink):
    """Files below ``path``, a folder ``batch_id=N`` for each micro-batch, which a rerun replaces. Exactly once.

    Read it with ``spark.read.parquet(path)``; ``batch_id`` is a column then. A folder that belongs to another query (another
    checkpoint) or holds other data is refused. A batch query replaces what is there only if a batch query wrote it.

    Args:
        path: a directory of any file system that Spark can reach.
        format: ``parquet``, ``json``, ``csv`` or ``orc``.
        options: of Spark's writer.
    """

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip() or any(ord(letter) < 32 for letter in self.path):
            raise SinkError(f"the path of a file sink must be a directory name, got {self.path!r}")
        if self.format not in ("parquet", "json", "csv", "orc"):
            raise SinkError(f"a file sink writes parquet, json, csv or orc, not {self.format!r}; for tables use TableSink")

    def open(self, spark: SparkSession, query: str) -> None:
        owner = read_note(spark, f"{self.path}/{_OWNER}")
        if owner is None:
            if _holds_files(spark, self.path):
                raise SinkError(f"{self.path} already holds files that are not this query's: choose an empty directory")
            write_note(spark, f"{self.path}/{_OWNER}", {"query": query})
        elif owner.get("query") != query:
            raise SinkError(
                f"{self.path} holds the output of another {'query' if owner.get('query') else 'batch run'}: its batch ids would "
                "collide with this one's. Choose another directory, or start with the checkpoint that belongs to it"
            )

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        target = f"{self.path}/{BATCH_COLUMN}={-1 if batch_id is None else batch_id}"
        df.write.format(self.format).options(**dict(self.options)).mode("overwrite").save(target)

    def describe(self) -> str:
        return f"{self.format} {self.path}"


def ParquetSink(path: str, **options: str) -> FileSink:
    """A :class:`FileSink` of Parquet files."""
    return FileSink(path, "parquet", options)


@dataclass(frozen=True)
class TableSink(Sink):
    """Appends to a table.

    Delta writes each micro-batch once: the transaction carries the query's identity and the batch's id (``txnAppId``,
    ``txnVersion``). Other formats append, and a micro-batch that is run again appends again: at least once. For exactly once
    there, use :class:`FileSink`, or :class:`ForeachBatchSink` with a MERGE.

    Args:
        name: ``table``, ``schema.table`` or ``catalog.schema.table``.
        format: e.g. ``delta``, ``iceberg``, ``parquet``; None: the catalog's default.
        options: of Spark's writer.
    """

    name: str
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    query: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or _TABLE_NAME.fullmatch(self.name) is None:
            raise SinkError(f"{self.name!r} is no table name: write table, schema.table or catalog.schema.table")

    def open(self, spark: SparkSession, query: str) -> None:
        object.__setattr__(self, "query", query)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        writer = df.write.mode("append").options(**dict(self.options))
        if self.format is not None:
            writer = writer.format(self.format)
        if self.format == "delta" and batch_id is not None:
            writer = writer.option("txnAppId", f"{self.query}/{self.name}").option("txnVersion", str(batch_id))
        writer.saveAsTable(self.name)

    def describe(self) -> str:
        return f"table {self.name}"


@dataclass(frozen=True)
class ConsoleSink(Sink):
    """Prints the first rows of each micro-batch. For looking, not for keeping: a rerun prints again."""

    rows: int = 20

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        print(f"--- {'all rows' if batch_id is None else f'micro-batch {batch_id}'}")  # noqa: T201 (what it is for)
        df.show(self.rows, truncate=False)

    def describe(self) -> str:
        return "console"


@dataclass(frozen=True)
class MemorySink(Sink):
    """Keeps the rows in the driver's memory, by batch id: for tests and notebooks. Not through Spark Connect."""

    batches: dict[int, list[Row]] = field(default_factory=dict)

    def open(self, spark: SparkSession, query: str) -> None:
        if query and is_connect(spark):
            raise SinkError("a MemorySink cannot be filled through Spark Connect, where sinks run on the server: use a FileSink")

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self.batches[-1 if batch_id is None else batch_id] = df.collect()

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of the batches."""
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def describe(self) -> str:
        return "memory"


@dataclass(frozen=True)
class ForeachBatchSink(Sink):
    """Hands each micro-batch to ``function(df, batch_id)``, which must be idempotent on the batch id (-1 in batch)."""

    function: Callable[[DataFrame, int], Any]

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self.function(df, -1 if batch_id is None else batch_id)

    def describe(self) -> str:
        return f"function {getattr(self.function, '__name__', '?')}"


def read_note(spark: SparkSession, path: str) -> dict[str, Any] | None:
    """A small JSON note that :func:`write_note` left; None where there is none. Through Spark, so on any file system."""
    try:
        lines = [row.value for row in spark.read.text(path).collect()]
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        raise
    return dict(json.loads(lines[0])) if lines else None


def write_note(spark: SparkSession, path: str, note: Mapping[str, Any]) -> None:
    """Leaves a small JSON note in a directory of its own."""
    text = json.dumps(note, sort_keys=True)
    spark.range(1).select(F.lit(text).alias("value")).coalesce(1).write.mode("overwrite").text(path)


def _holds_files(spark: SparkSession, path: str) -> bool:
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path).select("path")
        return files.first() is not None
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
