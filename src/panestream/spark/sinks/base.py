"""What a sink is: it takes the rows of one output, a micro-batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panestream.engine.plan import FIRING_COLUMNS, OP_COLUMN
from panestream.spark.checkpoint import Epoch, Rank, planned_at
from panestream.spark.succession import root_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True)
class Run:
    """One run of a query, as a sink of it sees it.

    Attributes:
        query: the identity of the query, kept in its checkpoint; ``""`` for a batch.
        output: which output the sink takes.
        epoch: the run's entry in the checkpoint; None for a batch.
        queries: all identities by which a place may know the query.
        written: whether micro-batches of this query, or of one that it succeeds, were committed to this very place before: then
            it must hold them.
        added: the columns by which panestream says what a row is (``.changelog()``, ``.with_firing()``); others that are called
            alike are the user's.
        first: what sinks call Spark's micro-batch 0: larger than 0 where the query started from a savepoint.
        succeeds: whether it started from a savepoint and has committed nothing yet: what a place has of ``first`` and beyond is
            of those before it.
        began: the micro-batch with which the run began that committed last to this very place: it wrote that one there, with or
            without rows. -1: none did.
        columns: the names of the output's columns.
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

    @property
    def writer(self) -> str:
        """Who writes, as one text: the query and its output."""
        return f"{self.query}/{self.output}"

    @property
    def lineage(self) -> str:
        """The same, which queries that succeed one another have in common."""
        return f"{root_of(self.query)}/{self.output}"

    def check(self, spark: SparkSession) -> None:
        """Raises where another copy of the query was started later; to be asked directly before anything is published.

        Raises:
            FencedError: this run may publish nothing more.
        """
        if self.epoch is not None:
            self.epoch.check(spark)

    def planned_at(self, spark: SparkSession, batch_id: int) -> int | None:
        """When Spark planned a micro-batch, by the number that sinks have; milliseconds since 1970; None: it does not say."""
        return None if self.epoch is None else planned_at(spark, self.epoch.checkpoint, batch_id - self.first)

    def registered(self, spark: SparkSession, rank: Rank) -> bool:
        """Whether the checkpoint knows that run."""
        return self.epoch is not None and self.epoch.registered(spark, rank)


class Sink(ABC):
    """Takes the rows of one output, a DataFrame for each micro-batch that has any, and for the first one of every run.

    The calls come in this order: :meth:`place`, :meth:`check_columns` and :meth:`open` when the query is started, where it is
    started; then on the driver (through Spark Connect: on the server) once :meth:`begin`, :meth:`write` for each micro-batch, and
    once :meth:`on_first_commit` before the second one.

    Micro-batches have the numbers that Spark gives them. Those of a query that started from a savepoint, where Spark begins at 0
    again, go on from the savepoint's: to a sink it is the query that was there before.
    """

    def place(self, spark: SparkSession) -> str | None:
        """A text that is the same for two sinks that would write to one place; None: no place that two could share."""
        return None

    def check_columns(self, names: Sequence[str]) -> None:  # noqa: B027 (optional to override)
        """Refuses rows of these columns.

        Raises:
            SinkError: names the column and what to do.
        """

    def open(self, spark: SparkSession, run: Run) -> Sink | None:
        """Called before the query starts; refuses a place that holds something else.

        Args:
            spark: the session.
            run: whose rows will come.

        Returns:
            What is then called for this run, if it is not this sink itself. Through Spark Connect it is pickled.

        Raises:
            SinkError: the place is not this query's, or has lost what the query wrote.
        """
        return None

    def begin(self, df: DataFrame, batch_id: int) -> None:  # noqa: B027 (optional to override)
        """Called once in a run, before the first :meth:`write`: nothing of ``batch_id`` or beyond is committed.

        What is there of later micro-batches is of a run that was broken off, or newer than a checkpoint that was restored. No
        reader may find it any more: those batches come again, perhaps with other rows. What is at ``batch_id`` itself is for
        ``write`` to replace.

        Args:
            df: the rows of the first micro-batch, perhaps none.
            batch_id: its number.
        """

    def on_first_commit(self, df: DataFrame) -> None:  # noqa: B027 (optional to override)
        """Called once in a run, when its first micro-batch is committed, before the rows of the second one come.

        Until then the run may fail, and a repaired checkpoint may hold micro-batches that :meth:`begin` took away.

        Args:
            df: the rows of the second micro-batch, perhaps none.
        """

    @abstractmethod
    def write(self, df: DataFrame, batch_id: int | None) -> None:
        """Writes the rows of one micro-batch in place of what is there of it. None: a batch query, all rows."""

    @property
    def keeps_last(self) -> bool:
        """Whether of all rows of a key and window the last one alone stays."""
        return False

    def guarantee(self, spark: SparkSession) -> str:
        """How often a row arrives where a micro-batch is run again: ``"exactly once"``, ``"at least once"``, with the reason.

        A sink of your own is believed to write a micro-batch in place of what it wrote of it before.
        """
        return EXACTLY_ONCE

    def describe(self) -> str:
        """What warnings and errors call it."""
        return repr(self)
