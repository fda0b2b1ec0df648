"""Look-backs and windows by predicates as operators, over rows whose columns have all that a query would compute with SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from panestream.engine.plan import OperatorSpec
from panestream.engine.planner import choose
from panestream.engine.query import WindowSpec
from panestream.engine.rule import DeclaredAggregates
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import PredicateWindows, WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of


def runs_on_columns_only(assigner: WindowAssigner) -> bool:
    """Whether no operator runs these windows row by row."""
    return assigner.columns_only or look_backs_of(assigner) is not None


def column_operator(
    window: WindowSpec, aggregates: Sequence[Aggregate], columns: pa.Schema, keys: pa.Schema, time: str
) -> OperatorSpec:
    """The operator of such a query, as the planner makes it. Look-backs keep the columns, and the time of the row.

    Args:
        window: the windows.
        aggregates: declared ones.
        columns: of the rows; a predicate is one of booleans.
        keys: the key columns.
        time: what the column of event times is called.

    Raises:
        InvalidPlanError: no declared aggregates; a column that the rows do not have; what these windows do not know.
    """
    if not aggregates or not all(isinstance(one, Aggregate) for one in aggregates):
        raise InvalidPlanError(f"aggregate wants declared aggregates such as agg.sum('price'), got {aggregates!r}")
    taken = {text for one in aggregates for text in one.inputs}
    taken |= set(window.assigner.predicates) if isinstance(window.assigner, PredicateWindows) else set()
    for text in sorted(taken):
        if text not in columns.names:
            raise InvalidPlanError(
                f"the rows have no column {text!r}; {did_you_mean(text, columns.names)}. (A harness has no SQL: what is an "
                "expression in a query is a column of its own here.)"
            )
    kept = pa.schema([*columns, (time, pa.int64())])
    types = {field.name: field.type for field in kept}
    asked = DeclaredAggregates(aggregates, types, keys)
    if look_backs_of(window.assigner) is not None:
        asked = replace(asked, columns=tuple(kept.names), kept=kept)
    return choose(window, asked)


__all__ = ["column_operator", "runs_on_columns_only"]
