"""Which windows by predicates run: declared aggregates over them. No other operator knows them."""

from __future__ import annotations

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.look_back.rule import why_not
from panestream.engine.operators.predicates.spec import PredicateSpec
from panestream.engine.rule import Asked, DeclaredAggregates, Supported
from panestream.engine.window_spec import WindowSpec
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import PredicateWindows


def predicates_rule(window: WindowSpec, asked: Asked) -> Supported | None:
    """Windows by predicates over declared aggregates.

    Raises:
        InvalidPlanError: anything else is asked for of them.
    """
    assigner = window.assigner
    if not isinstance(assigner, PredicateWindows):
        return None
    reasons = why_not(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append("functions of your own over rows do not run there: they compute declared aggregates (panestream.agg)")
    if reasons or not isinstance(asked, DeclaredAggregates):
        raise InvalidPlanError(f"{assigner!r}: windows by predicates run as columns only, and {'; '.join(reasons)}")
    bare = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    return Supported(PredicateSpec(assigner, tuple(asked.aggregates), bare, asked.keys))


__all__ = ["predicates_rule"]
