"""Two DataFrames as one: what was found out over two of them, good for every other two with their columns."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, eq=False)
class United:
    """How the rows of two streams become those of one.

    Attributes:
        left: the rows of the left stream, as it was given.
        right: those of the right one.
        of_left: what is taken of a row of the left: key, times and order, as both streams have them, its side, the row itself.
        of_right: the same of the right, in the same order.
    """

    left: DataFrame
    right: DataFrame
    of_left: tuple[Column, ...]
    of_right: tuple[Column, ...]

    def rows_of(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """The rows of both as one. Asks Spark nothing.

        Args:
            left: rows with the columns of the left stream.
            right: rows with the columns of the right one.
        """
        return left.select(*self.of_left).unionAll(right.select(*self.of_right))


__all__ = ["United"]
