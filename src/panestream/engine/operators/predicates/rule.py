"""Which windows by predicates run: declared aggregates over them. No other operator knows them."""

from __future__ import annotations

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.predicates.spec import PredicateSpec
from panestream.engine.rule import Asked, Supported, on_columns_only
from panestream.engine.window_spec import WindowSpec
from panestream.windowing.assigners import PredicateWindows


def predicates_rule(window: WindowSpec, asked: Asked) -> Supported | None:
    """Windows by predicates over declared aggregates.

    Raises:
        InvalidPlanError: anything else is asked for of them.
    """
    assigner = window.assigner
    if not isinstance(assigner, PredicateWindows):
        return None
    asked = on_columns_only(window, asked, "windows by predicates")
    bare = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    return Supported(PredicateSpec(assigner, tuple(asked.aggregates), bare, asked.keys))


__all__ = ["predicates_rule"]
