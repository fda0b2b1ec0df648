"""What the sinks of tables ask of a table's format. A format that knows nothing of micro-batches is this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.sinks.base import AT_LEAST_ONCE, EXACTLY_ONCE, Run
from panestream.spark.sinks.table_formats.names import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Commit:
    """What one commit to a table brings.

    Attributes:
        writer: who writes: the query's identity and the output, as one text. Not the table: it keeps the text itself, whatever
            it is called by now.
        batch_id: the micro-batch; None: a batch query, which commits once.
        run: of the query; a format that looks before it commits asks it whether it may.
    """

    writer: str
    batch_id: int | None
    run: Run = field(default_factory=Run, repr=False, compare=False)


@dataclass(frozen=True)
class TableFormat:
    """The format of a table, by the name that Spark's catalog has for it.

    Attributes:
        name: in lower case, e.g. ``delta``; ``""``: the catalog does not say.
    """

    name: str

    def check_known(self, spark: SparkSession, table: str) -> None:
        """Refuses a session that cannot make such a table.

        Raises:
            SinkError: says what it lacks.
        """

    def append(self, df: DataFrame, table: str, options: Mapping[str, str], commit: Commit) -> None:
        """Appends the rows of one micro-batch, unless the table says that it has them."""
        writer = df.write.mode("append").options(**dict(options))
        (writer.format(self.name) if self.name else writer).saveAsTable(quoted_name(table))

    def merge(self, spark: SparkSession, table: str, statement: str, commit: Commit) -> None:
        """Runs a MERGE INTO that brings one micro-batch, unless the table says that it has it."""
        spark.sql(statement)

    def last_of(self, spark: SparkSession, table: str, run: Run) -> int | None:
        """The last micro-batch that queries which this one succeeds have in a table; None: none, or it cannot be told."""
        return None

    def takes_new_columns(self, spark: SparkSession, options: Mapping[str, str]) -> bool:
        """Whether rows may have columns that the table has not, which gets them."""
        return any(name.lower().replace("-", "") == "mergeschema" and is_true(value) for name, value in options.items())

    def append_guarantee(self) -> str:
        """How often a row arrives by :meth:`append` where a micro-batch is run again, with the reason."""
        kind = f"a {self.name} table" if self.name else "a table whose format the catalog does not tell"
        return (
            f"{AT_LEAST_ONCE}: {kind} is appended to again by a micro-batch that is run again. For exactly once take a table of "
            "Delta or Iceberg, a FileSink, or a MergeSink into a table that knows MERGE"
        )

    def merge_guarantee(self) -> str:
        """The same of :meth:`merge`: rows are merged by key and window, which changes nothing the second time."""
        return EXACTLY_ONCE


def check_there(spark: SparkSession, name: str, page: str) -> None:
    """Refuses a session that has no data source of that name: Spark would say so in the first micro-batch.

    Raises:
        SinkError: names the page that has the session's settings.
    """
    try:
        # Whoever is there wants a path: nothing is read.
        _ = spark.read.format(name).load().columns
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise SinkError(
                f"this Spark has no {name}: start the session with its package and settings, which {page} has (the package must "
                "be the one for this version of Spark)"
            ) from error


def is_true(value: object) -> bool:
    """Whether a setting or an option is on."""
    return str(value).lower() == "true"
