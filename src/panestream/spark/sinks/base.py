"""The interface of a sink, which takes the rows of one output, a micro-batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panestream.engine.plan import FIRING_COLUMNS, OP_COLUMN
from panestream.spark.checkpoint.epoch import Epoch, Rank
from panestream.spark.checkpoint.lineage import root_of
from panestream.spark.checkpoint.spark_logs import planned_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True)
class QueryRunInfo:
    """One run of a query, as one of its sinks sees it.

    Attributes:
        query: the identity of the query, kept in its checkpoint, or ``""`` for a batch.
        epoch: the run's entry in the checkpoint, or None for a batch.
        queries: all identities by which a place may know the query.
        written: whether this query or a predecessor committed micro-batches to this place. Then it must hold them.
        added: the columns that panestream adds (``.changelog()``, ``.with_firing()``). Others with these names are the user's.
        first: the number that sinks use for Spark's micro-batch 0, larger than 0 after a start from a savepoint.
        succeeds: whether it started from a savepoint without a commit yet. Rows of ``first`` and later are then its
            predecessors'.
        holds_from: the column with the instant from which a row holds, if a micro-batch may have several rows of a key.
        began: the first micro-batch of the last run that committed to this place, or -1. It was written even without rows.
    """

    query: str = ""
    output: str = "main"
    epoch: Epoch | None = None
    queries: frozenset[str] = field(default=frozenset({""}))
    written: bool = False
    added: frozenset[str] = frozenset({OP_COLUMN.name, *(each.name for each in FIRING_COLUMNS)})
    first: int = 0
    succeeds: bool = False
    began: int = -1
    columns: tuple[str, ...] = ()
    holds_from: str | None = None

    @property
    def writer(self) -> str:
        """The query and its output as one text."""
        return f"{self.query}/{self.output}"

    @property
    def lineage(self) -> str:
        """The query's lineage and its output: equal for queries that succeed one another."""
        return f"{root_of(self.query)}/{self.output}"

    def check(self, spark: SparkSession) -> None:
        """Raise FencedError if another copy of the query was started later. Call it directly before anything is published."""
        if self.epoch is not None:
            self.epoch.check(spark)

    def planned_at(self, spark: SparkSession, batch_id: int) -> int | None:
        """Return when Spark planned a micro-batch (a sink's number), in milliseconds since 1970, or None if unknown."""
        return None if self.epoch is None else planned_at(spark, self.epoch.checkpoint, batch_id - self.first)

    def registered(self, spark: SparkSession, rank: Rank) -> bool:
        """Return whether the checkpoint has an entry of that run."""
        return self.epoch is not None and self.epoch.registered(spark, rank)


class Sink(ABC):
    """Destination of the rows of one output: a DataFrame per micro-batch with rows, and for the first one of every run.

    At the start of a query the client calls :meth:`place`, :meth:`check_columns` and :meth:`open`. Then the driver (with Spark
    Connect, the server) calls :meth:`begin` once and :meth:`write` for each micro-batch, and :meth:`on_first_commit` once before
    the second micro-batch.

    Micro-batches have Spark's numbers. After a start from a savepoint Spark counts from 0 again, but sinks get numbers that
    continue the savepoint's: a sink does not notice the change of the query.

    >>> class Counting(Sink):
    ...     def write(self, df, batch_id):
    ...         print(batch_id, df.count())
    >>> isinstance(Counting(), Sink)
    True
    """

    def place(self, spark: SparkSession) -> str | None:
        """Return a text that is equal for two sinks that would write to one place, or None if no two sinks can share a place."""
        return None

    def check_columns(self, names: Sequence[str]) -> None:  # noqa: B027 (optional to override)
        """Refuse rows with these columns by a SinkError that names the column and the way out."""

    def open(self, spark: SparkSession, run: QueryRunInfo) -> Sink | None:
        """Refuse a place that holds something else. Called before the query starts.

        Args:
            spark: the session.
            run: the run that will write.

        Returns:
            The sink to call for this run, or None for this sink itself. With Spark Connect it is pickled.

        Raises:
            SinkError: the place is not this query's, or has lost rows that the query wrote.
        """
        return None

    def begin(self, df: DataFrame, batch_id: int) -> None:  # noqa: B027 (optional to override)
        """Prepare the place. Called once in a run, before the first :meth:`write`: ``batch_id`` and later are not committed.

        Later micro-batches in the place come from an interrupted run, or are newer than a restored checkpoint. Hide them from
        readers: they are computed again, perhaps with other rows. ``write`` replaces ``batch_id`` itself.

        Args:
            df: the rows of the first micro-batch, perhaps none.
            batch_id: its number.
        """

    def on_first_commit(self, df: DataFrame) -> None:  # noqa: B027 (optional to override)
        """Note that the first micro-batch is committed. Called once in a run, with the rows (perhaps none) of the second one.

        Until then the run may fail, and a repaired checkpoint may contain micro-batches that :meth:`begin` removed.
        """

    @abstractmethod
    def write(self, df: DataFrame, batch_id: int | None) -> None:
        """Write the rows of one micro-batch, replacing its earlier rows; ``batch_id`` is None for all rows of a batch query."""

    @property
    def keeps_last(self) -> bool:
        """True if only the last row of each key and window stays."""
        return False

    def guarantee(self, spark: SparkSession) -> str:
        """Return how often a repeated micro-batch's rows arrive: ``"exactly once"``, or ``"at least once"`` with the reason.

        The default trusts a user's sink to replace the earlier rows of a micro-batch.
        """
        return EXACTLY_ONCE

    def describe(self) -> str:
        """Return the sink's name for warnings and errors."""
        return repr(self)
