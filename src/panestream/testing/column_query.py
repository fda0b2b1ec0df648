"""Look-backs and predicate windows as operators, over rows whose columns replace the SQL expressions of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from panestream.engine.plan import OperatorSpec, WindowQuery
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import PredicateWindows, WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of


def runs_on_columns_only(assigner: WindowAssigner) -> bool:
    """Return whether these windows only have operators on columns."""
    return assigner.columns_only or look_backs_of(assigner) is not None


def column_operator(
    window: WindowQuery, aggregates: Sequence[Aggregate], columns: pa.Schema, keys: pa.Schema, time: str
) -> OperatorSpec:
    """Return the planner's operator; look-backs keep the columns and the time of the row.

    ``columns`` has a boolean column for each predicate; ``time`` is the name of the column of event times. Raise
    ``InvalidPlanError`` for undeclared aggregates, missing columns, and options that these windows do not support.
    """
    if not aggregates or not all(isinstance(one, Aggregate) for one in aggregates):
        raise InvalidPlanError(f"aggregate needs declared aggregates such as agg.sum('price'), got {aggregates!r}")
    taken = {text for one in aggregates for text in one.inputs}
    taken |= set(window.assigner.predicates) if isinstance(window.assigner, PredicateWindows) else set()
    for text in sorted(taken):
        if text not in columns.names:
            raise InvalidPlanError(
                f"the rows have no column {text!r}; {did_you_mean(text, columns.names)}. (A harness does not support SQL: give "
                f"each expression of the query as a column.)"
            )
    kept = pa.schema([*columns, (time, pa.int64())])
    types = {field.name: field.type for field in kept}
    asked = DeclaredAggregates(aggregates, types, keys)
    if look_backs_of(window.assigner) is not None:
        asked = replace(asked, columns=tuple(kept.names), kept=kept)
    return choose(window, asked)


__all__ = ["column_operator", "runs_on_columns_only"]
