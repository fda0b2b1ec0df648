"""Lists: all values, the k largest values, or the values of the k largest rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, check_count, check_expression, text_of


@dataclass(frozen=True, slots=True, repr=False)
class CollectList(OfOne):
    """See :func:`collect_list`."""

    function: ClassVar[str] = "collect_list"
    merge_rule: ClassVar[str] = "the lists of parts are joined in the order of event time"


def collect_list(expr: Expression) -> CollectList:
    """Collect the values that are not null, by event time and, if equal, in the order of arrival.

    Examples:
        >>> collect_list("page")
        agg.collect_list('page')
    """
    return CollectList(text_of(expr))


@dataclass(frozen=True, slots=True, repr=False)
class TopK(OfOne):
    """See :func:`top_k`."""

    k: int
    by: str | None = None

    function: ClassVar[str] = "top_k"
    merge_rule: ClassVar[str] = "each part keeps its k largest; a window keeps the k largest of all parts"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        if self.by is not None:
            check_expression(self.by, self.function, "by")
        check_count(self.k, self.function, "k", 1)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr,) if self.by is None else (self.expr, self.by)

    @property
    def compared(self) -> tuple[str, ...]:
        return (self.expr if self.by is None else self.by,)

    def _default_name(self) -> str:
        by = "" if self.by is None else f", {self.by}"
        return f"top_k({self.expr}, {self.k}{by})"


def top_k(expr: Expression, k: int, by: Expression | None = None) -> TopK:
    """Return the ``k`` largest values, largest first, or with ``by`` the values in the rows with the ``k`` largest ``by``.

    Ties go to the earliest event time, then to the first to arrive. Rows with a null ``expr`` or ``by`` are ignored.

    >>> top_k("url", 3, by="hits")
    agg.top_k('url', 3, 'hits')
    """
    return TopK(text_of(expr), k, text_of(by))


__all__ = ["CollectList", "TopK", "collect_list", "top_k"]
