"""The interface of table formats to table sinks. The base class ignores the numbers of micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.sinks.base import AT_LEAST_ONCE, EXACTLY_ONCE, QueryRunInfo
from panestream.spark.sinks.table_formats.names import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Commit:
    """The marks of one commit to a table; ``batch_id`` is None for a batch query, which commits once.

    ``writer`` is the query's identity and the output. The table's name is not part of it, since the table stores the text and may
    be renamed. A format that reads the table before it commits checks ``run``.
    """

    writer: str
    batch_id: int | None
    run: QueryRunInfo = field(default_factory=QueryRunInfo, repr=False, compare=False)


@dataclass(frozen=True)
class TableFormat:
    """The format of a table, by its lower-case name in Spark's catalog, e.g. ``delta``, or ``""`` if it is unknown."""

    name: str

    def check_known(self, spark: SparkSession, table: str) -> None:
        """Raise SinkError if the session cannot create such a table."""

    def append(self, df: DataFrame, table: str, options: Mapping[str, str], commit: Commit) -> None:
        """Append the rows of one micro-batch, unless the table records that it has them."""
        writer = df.write.mode("append").options(**dict(options))
        (writer.format(self.name) if self.name else writer).saveAsTable(quoted_name(table))

    def merge(self, spark: SparkSession, table: str, statement: str, commit: Commit) -> None:
        """Run the MERGE INTO of one micro-batch, unless the table records that it has it."""
        spark.sql(statement)

    def last_of(self, spark: SparkSession, table: str, run: QueryRunInfo) -> int | None:
        """Return the last micro-batch in the table from this query's predecessors, or None if there is none or it is unknown."""
        return None

    def takes_new_columns(self, spark: SparkSession, options: Mapping[str, str]) -> bool:
        """Return whether the table gets new columns of the rows."""
        return any(name.lower().replace("-", "") == "mergeschema" and is_true(value) for name, value in options.items())

    def append_guarantee(self) -> str:
        """Return how often :meth:`append` writes a row if a micro-batch is run again, with the reason."""
        kind = f"a {self.name} table" if self.name else "a table of unknown format"
        return (
            f"{AT_LEAST_ONCE}: {kind} gets the rows of a repeated micro-batch again. For exactly once use a table of "
            "Delta or Iceberg, a FileSink, or a MergeSink into a table that supports MERGE"
        )

    def merge_guarantee(self) -> str:
        """Return the guarantee of :meth:`merge`: a repetition changes no rows."""
        return EXACTLY_ONCE


def check_there(spark: SparkSession, name: str, page: str) -> None:
    """Raise SinkError if the session lacks a data source; Spark itself would fail in the first micro-batch."""
    try:
        # An existing source requires a path, so nothing is read.
        _ = spark.read.format(name).load().columns
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise SinkError(
                f"this Spark lacks {name}. Start the session with its package and settings, see {page} (the package must "
                "be the one for this version of Spark)"
            ) from error


def is_true(value: object) -> bool:
    """Return whether a setting or an option is on."""
    return str(value).lower() == "true"
