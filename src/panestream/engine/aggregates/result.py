"""Results: finalized partials of a window → the user's column, with SQL's types, nulls and errors."""

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

    ``call`` is the user's call, for errors; ``partials`` are the numbers of the partials that it is computed from.
    """

    name: str
    call: str
    type: pa.DataType
    partials: tuple[int, ...]

    takes_partials: ClassVar[bool] = False
    """True if it is computed from merged partials, rather than finalized ones."""

    @abstractmethod
    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        """Return the column from the columns of each of its partials, one row per key and window.

        ``rows`` is the number of input rows of each. Raises AggregateOverflowError if a result does not fit its type.
        """

    def overflow(self, hint: str) -> AggregateOverflowError:
        """Return the error for a result that does not fit its type."""
        return AggregateOverflowError(f"{self.call} (column {self.name!r}) left the range of {self.type}: {hint}")


class FirstColumn(Result):
    """A partial's first column: min, max, first, last, min_by, max_by, lists, and other complete partials."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return partials[0][0]
