"""Splitting the distinct values of a key over several key groups: which queries allow it, and how the parts are combined.

A value determines its part, so parts never share values and their distinct counts add up. All key groups fire a window in the
same micro-batch, so its parts are combined there, without state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from panestream.engine.operators.panes.operator import PaneSpec
from panestream.engine.plan import OperatorSpec, Split
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import Aggregate, Complete, Count, CountDistinct, Max, Min, Sum

_TOGETHER: Mapping[type[Aggregate], str] = {
    CountDistinct: "sum",
    Count: "sum",
    Sum: "sum",
    Min: "min",
    Max: "max",
    Complete: "min",
}
"""The function that combines the partial results of each aggregate."""


def split_of(parts: int, aggregates: Sequence[Aggregate], operator: OperatorSpec) -> Split:
    """Return how to split a query into ``parts``, or raise InvalidPlanError with the reason and an alternative."""
    distinct = dict.fromkeys(one.expr for one in aggregates if isinstance(one, CountDistinct))
    if len(distinct) != 1:
        have = "there is none" if not distinct else f"these are of {', '.join(distinct)}"
        raise InvalidPlanError(
            f"split_distinct splits the values of one count_distinct, {have}: all else is small before the shuffle already; "
            "of several expressions take a query each, or approx_count_distinct"
        )
    (by,) = distinct
    others = [one for one in aggregates if type(one) not in _TOGETHER]
    if others:
        raise InvalidPlanError(
            f"split_distinct cannot put the parts of {', '.join(map(repr, others))} together: beside count_distinct it takes "
            "count, sum, min and max; of a mean take sum and count, for others a query of their own"
        )
    if not isinstance(operator, PaneSpec) or not operator.capabilities.fires_once or operator.capabilities.uses_processing_time:
        raise InvalidPlanError(
            "split_distinct puts a window together when it fires, in all key groups at once: it needs tumbling, sliding or "
            "cumulating windows of event time that fire once (default trigger, no allowed lateness); these "
            f"{'fire again' if isinstance(operator, PaneSpec) else f'run as {operator.name}'}"
        )
    return Split(parts, by, {one.name: _TOGETHER[type(one)] for one in aggregates})


__all__ = ["split_of"]
