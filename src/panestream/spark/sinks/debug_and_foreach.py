"""Print outputs, keep them in memory, or pass them to a user function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panestream.errors import SinkError
from panestream.spark.session import is_connect
from panestream.spark.sinks.base import AT_LEAST_ONCE, EXACTLY_ONCE, QueryRunInfo, Sink
from panestream.windowing.signatures import FOREACH_BATCH, check_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True)
class ConsoleSink(Sink):
    """Console output of the first rows of each micro-batch. For inspection only: a repeated micro-batch is printed again.

    Examples:
        >>> ConsoleSink(rows=5)
        ConsoleSink(rows=5)
    """

    rows: int = 20

    def __post_init__(self) -> None:
        if type(self.rows) is not int or self.rows < 1:
            raise SinkError(f"a ConsoleSink takes the number of rows to print, such as ConsoleSink(rows=20), got {self.rows!r}")

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        print(f"--- {'all rows' if batch_id is None else f'micro-batch {batch_id}'}")  # noqa: T201 (printing is its purpose)
        df.show(self.rows, truncate=False)

    def guarantee(self, spark: SparkSession) -> str:
        return "for debugging: a repeated micro-batch is printed again"

    def describe(self) -> str:
        return "console"


@dataclass(frozen=True)
class MemorySink(Sink):
    """Rows kept in the driver's memory by batch id, for tests and notebooks. Not available through Spark Connect.

    Examples:
        >>> MemorySink().rows
        []
    """

    batches: dict[int, list[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.batches, dict):
            raise SinkError(
                f"a MemorySink has no name or path, got {self.batches!r}: write sink = pst.MemorySink(), and read sink.rows"
            )

    def place(self, spark: SparkSession) -> str:
        return f"the MemorySink at {id(self.batches):#x}"

    def open(self, spark: SparkSession, run: QueryRunInfo) -> None:
        if run.query and is_connect(spark):
            raise SinkError("a MemorySink cannot be filled through Spark Connect, where sinks run on the server: use a FileSink")

    def begin(self, df: DataFrame, batch_id: int) -> None:
        for later in [number for number in self.batches if number > batch_id]:
            del self.batches[later]

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
    """Calls of ``function(df, batch_id)`` for each micro-batch; the id is -1 in batch.

    A micro-batch that is run again is passed again. The first one of a run is passed even without rows. The guarantee depends on
    the function. It is exactly once if the function replaces its earlier output for this ``batch_id`` (an overwritten folder, a
    MERGE by key and window), otherwise at least once. Another copy of the query is noticed before and after the call.

    Args:
        function: called on the driver; through Spark Connect on the server.
        idempotent: whether the function replaces its output, or may harmlessly repeat it. If False, the query warns at its start.

    Raises:
        SinkError: the function does not take these two arguments.

    Examples:
        >>> def write(df, batch_id):
        ...     df.write.mode("append").saveAsTable("clicks")
        >>> ForeachBatchSink(write).idempotent
        False
    """

    function: Callable[[DataFrame, int], Any]
    idempotent: bool = False

    def __post_init__(self) -> None:
        check_function(self.function, FOREACH_BATCH, error=SinkError)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self.function(df, -1 if batch_id is None else batch_id)

    def guarantee(self, spark: SparkSession) -> str:
        if self.idempotent:
            return EXACTLY_ONCE
        again = "the function is called again for a repeated micro-batch; idempotent=True declares that repeated calls are safe"
        return f"{AT_LEAST_ONCE}: {again}"

    def describe(self) -> str:
        return f"function {getattr(self.function, '__name__', '?')}"
