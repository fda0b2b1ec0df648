"""Whether another aggregate knows all rows of its window: false where the window was begun before it was added to the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Aggregate

__all__ = ["Complete", "complete"]


@dataclass(frozen=True, slots=True, repr=False)
class Complete(Aggregate):
    """See :func:`complete`."""

    output: str

    function: ClassVar[str] = "complete"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "a window is complete where all its parts are"

    def __post_init__(self) -> None:
        if not isinstance(self.output, str) or not self.output:
            raise InvalidPlanError(
                f"agg.complete: output must be the name of another result, got {self.output!r}; write agg.complete('revenue') "
                "beside agg.sum('price').alias('revenue')"
            )
        if self.output_name == self.output:
            raise InvalidPlanError(
                f"agg.complete({self.output!r}) is called {self.output!r} itself: it tells of another result, write "
                f".alias({self.output + '_complete'!r})"
            )

    def _default_name(self) -> str:
        return f"complete({self.output})"


def complete(output: str) -> Complete:
    """Whether another result of the query knows all rows of the window; boolean, never null.

    An aggregate that is added to a job which starts from a savepoint knows rows from then on only. In windows that were begun
    without it, this is false; in all others, in a batch, and in a job whose aggregates never changed, it is true. It costs a
    number for each key and pane.

    Args:
        output: the name of the result that it tells of: the alias of that aggregate, or its call where it has none.

    Raises:
        InvalidPlanError: ``output`` is no name, or its own. Where the aggregates are put together: no result is called so.

    Flink has no counterpart: there an added aggregate cannot take over the state at all.

    >>> from panestream import agg
    >>> [one.name for one in (agg.sum("price").alias("revenue"), complete("revenue"), complete("revenue").alias("whole"))]
    ['revenue', 'complete(revenue)', 'whole']
    """
    return Complete(output)
