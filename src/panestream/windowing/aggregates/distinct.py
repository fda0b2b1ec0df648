"""The exact number of distinct values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOneCompared, text_of

__all__ = ["CountDistinct", "count_distinct"]


@dataclass(frozen=True, slots=True, repr=False)
class CountDistinct(OfOneCompared):
    """See :func:`count_distinct`."""

    function: ClassVar[str] = "count_distinct"
    merge_rule: ClassVar[str] = "parts keep each distinct value once; a window counts the union of its parts"


def count_distinct(expr: Expression) -> CountDistinct:
    """Count the distinct values that are not null, exactly; so the state has each value once per pane."""
    return CountDistinct(text_of(expr))
