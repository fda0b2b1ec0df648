"""Outputs as files: a folder for each micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.notes import holds_files, read_note, write_note
from panestream.spark.sinks.base import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWNER = "_panestream"
BATCH_COLUMN = "batch_id"
"""The partition column of file sinks: the micro-batch that a row came with."""


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
            if holds_files(spark, self.path):
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
