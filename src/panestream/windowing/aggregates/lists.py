"""All values as a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, text_of

__all__ = ["CollectList", "collect_list"]


@dataclass(frozen=True, slots=True, repr=False)
class CollectList(OfOne):
    """See :func:`collect_list`."""

    function: ClassVar[str] = "collect_list"
    merge_rule: ClassVar[str] = "the lists of parts are joined in the order of event time"


def collect_list(expr: Expression) -> CollectList:
    """Collect the values that are not null, by event time and, if equal, in the order of arrival."""
    return CollectList(text_of(expr))
