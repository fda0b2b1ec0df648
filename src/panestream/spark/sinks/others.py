"""Outputs to look at, to keep in memory, or to hand to a function of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panestream.errors import SinkError
from panestream.spark.session import is_connect
from panestream.spark.sinks.base import Sink
from panestream.windowing.signatures import FOREACH_BATCH, check_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


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
    """Hands each micro-batch to ``function(df, batch_id)``, which must be idempotent on the batch id (-1 in batch).

    Raises:
        SinkError: the function does not take these two.
    """

    function: Callable[[DataFrame, int], Any]

    def __post_init__(self) -> None:
        check_function(self.function, FOREACH_BATCH, error=SinkError)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self.function(df, -1 if batch_id is None else batch_id)

    def describe(self) -> str:
        return f"function {getattr(self.function, '__name__', '?')}"
