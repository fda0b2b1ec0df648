"""An aggregate that shows whether another covers all rows of its window."""

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
    merge_rule: ClassVar[str] = "a window is complete if all its parts are"

    def __post_init__(self) -> None:
        if not isinstance(self.output, str) or not self.output:
            raise InvalidPlanError(
                f"agg.complete: output must be the name of another result, got {self.output!r}; write agg.complete('revenue') "
                f"together with agg.sum('price').alias('revenue')"
            )
        if self.output_name == self.output:
            raise InvalidPlanError(
                f"agg.complete({self.output!r}) is called {self.output!r} itself: it must have another name than the result it "
                f"checks. Write .alias({self.output + '_complete'!r})"
            )

    def _default_name(self) -> str:
        return f"complete({self.output})"


def complete(output: str) -> Complete:
    """Return whether another result of the query covers all rows of the window; boolean, never null.

    An aggregate that is added to a job which starts from a savepoint covers only rows from then on. In windows that had rows
    before, this is false. In all others, in a batch, and in a job whose aggregates never changed, it is true. It costs a number
    for each key and pane. Not in Flink, where an added aggregate cannot take over the state at all. ``output`` is the alias of
    the other aggregate, or its call without an alias. InvalidPlanError is raised if it is not a name, or its own, or later, when
    aggregates are combined, if the result does not exist.

    >>> from panestream import agg
    >>> [one.name for one in (agg.sum("price").alias("revenue"), complete("revenue"), complete("revenue").alias("whole"))]
    ['revenue', 'complete(revenue)', 'whole']
    """
    return Complete(output)
