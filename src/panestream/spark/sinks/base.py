"""What a sink is: it takes the rows of one output, a micro-batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
