"""Planning for the row operator, which runs every query of one kind of windows that no columnar operator runs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.row.declared import TIME, DeclaredFunction
from panestream.engine.operators.row.row_plan import Aggregate, Elements, Reduce, RowPlan
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import stable_repr
from panestream.engine.query import WindowSpec
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows
from panestream.windowing.assigners.session import GapColumn


def row_spec(window: WindowSpec, asked: DeclaredAggregates | FunctionOfRows, reasons: Sequence[str]) -> RowSpec:
    """Return the row operator of a query, or raise InvalidPlanError; ``reasons`` explain why no columnar operator runs it."""
    if isinstance(asked, DeclaredAggregates):
        return _declared(window, asked, reasons)
    function = asked.function
    return RowSpec(
        RowPlan(window, function),
        asked.results,
        asked.rows,
        returned=asked.rows if isinstance(function, Reduce) and function.then is None else None,
        by_processing_time=window.uses_processing_time,
        reasons=tuple(reasons),
        described=stable_repr(asked.described),
        kind=_kind_of(function),
    )


def _declared(window: WindowSpec, asked: DeclaredAggregates, reasons: Sequence[str]) -> RowSpec:
    aggregation = Aggregation.build(asked.aggregates, asked.types, asked.keys)
    gap = getattr(window.assigner, "gap", None)
    # The assigner reads the gap of each row from the element.
    texts = tuple(dict.fromkeys((*aggregation.inputs, *([gap.label] if isinstance(gap, GapColumn) else []), *asked.columns)))
    elements = [*(pa.field(text, asked.types[text]) for text in texts), pa.field(TIME, pa.int64())]
    function = DeclaredFunction(tuple(asked.aggregates), asked.types)
    written = ", ".join(repr(aggregate) for aggregate in asked.aggregates)
    return RowSpec(
        RowPlan(window, Aggregate(function, asked.then)),
        aggregation.output_schema if asked.results is None else asked.results,
        pa.schema(elements),
        texts,
        by_processing_time=window.uses_processing_time,
        reasons=tuple(reasons),
        described=written,
        kind=written,
    )


def _kind_of(function: Reduce | Aggregate | Elements) -> str:
    """Return the part of a function that the state depends on; accumulators depend on the aggregate function's class."""
    if isinstance(function, Aggregate):
        return f"aggregate with {type(function.function).__qualname__}"
    return "reduce" if isinstance(function, Reduce) else "all elements"


__all__ = ["row_spec"]
