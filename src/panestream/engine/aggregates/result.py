"""Results: the finalized partials of a window → the column the user asked for, with SQL's types, nulls and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from panestream.engine.kernels.columns import Ints
from panestream.errors import AggregateOverflowError


@dataclass(frozen=True, slots=True)
class Result(ABC):
    """One result column.

    Attributes:
        name: of the column.
        call: what the user wrote, for errors.
        type: of the column.
        partials: the numbers of the partials it is computed from.
    """

    name: str
    call: str
    type: pa.DataType
    partials: tuple[int, ...]

    takes_partials: ClassVar[bool] = False
    """Whether it is made of partials as they are merged; else of what windows make of them."""

    @abstractmethod
    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        """The column.

        Args:
            partials: the columns of each of its partials, one row per key and window.
            rows: the number of input rows of each.

        Raises:
            AggregateOverflowError: a result does not fit its type.
        """

    def overflow(self, hint: str) -> AggregateOverflowError:
        """The error for a result that does not fit its type."""
        return AggregateOverflowError(f"{self.call} (column {self.name!r}) left the range of {self.type}: {hint}")


class FirstColumn(Result):
    """A partial's first column as it is: min, max, first, last, min_by, max_by, lists, and where a partial does it all."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return partials[0][0]
