"""Translates the arguments of the public API to a plan for the row operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.row.contents import AggregateRows, AnyWindowFunction, KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.operator import TIME, DeclaredFunction
from panestream.engine.plan import WindowQuery
from panestream.errors import InvalidPlanError
from panestream.testing.elements import Columns, RowMaker, schema_of
from panestream.windowing import aggregates as recipes
from panestream.windowing.functions import AggregateFunction, applied, following, processed

LATE = "late"
"""The tag of late elements; a harness has at most one such output."""


@dataclass(frozen=True, slots=True)
class HarnessQuery:
    """The query of a harness: ``rows`` converts input to elements if it is not None, ``names`` name several result values."""

    plan: RowPlan
    rows: RowMaker | None = None
    names: tuple[str, ...] | None = None


def harness_query(
    window: WindowQuery,
    functions: Mapping[str, Any],
    then: AnyWindowFunction | Callable[..., Any] | None,
    columns: Columns | None,
    keeps_late: bool,
) -> HarnessQuery:
    """Return the query for the arguments of a harness; raise ``InvalidPlanError`` if they do not fit together.

    ``functions`` has the functions by argument name, exactly one of which is not None. ``then`` gets the one result of a
    reduce or an aggregate. Without ``keeps_late``, late elements are only counted.
    """
    given = {name: function for name, function in functions.items() if function is not None}
    if len(given) != 1:
        got = " and ".join(f"{name}=" for name in given) or "none"
        raise InvalidPlanError(
            f"a harness runs one function: give one of {', '.join(f'{name}=' for name in functions)}, got {got}"
        )
    ((name, function),) = given.items()
    if then is not None and name not in ("reduce", "aggregate"):
        raise InvalidPlanError(f"then= is for reduce= and aggregate=, which have one result: {name}= sees all rows itself")
    late = LATE if keeps_late else None
    if name == "aggregate" and not isinstance(function, AggregateFunction):
        return _declared(window, _aggregates(function), then, schema_of(columns or {}), late)
    rows = None if columns is None else RowMaker(schema_of(columns), RowType(schema_of(columns)))
    made: ReduceRows | AggregateRows | KeepRows
    if name == "reduce":
        made = ReduceRows(function, following(then))
    elif name == "aggregate":
        made = AggregateRows(function, following(then))
    else:
        made = KeepRows(applied(function) if name == "apply" else processed(function))
    return HarnessQuery(RowPlan(window, made, late, element_type=None if rows is None else rows.element_type.element), rows)


def _aggregates(given: Any) -> list[recipes.Aggregate]:
    aggregates = [given] if isinstance(given, recipes.Aggregate) else list(given) if isinstance(given, (list, tuple)) else []
    for aggregate in aggregates or [given]:
        if not isinstance(aggregate, recipes.Aggregate):
            hint = (
                f"an object, not the class itself: {aggregate.__name__}()"
                if isinstance(aggregate, type)
                else f"got {aggregate!r}"
            )
            raise InvalidPlanError(
                f"aggregate= needs an AggregateFunction, or one or several of pst.agg such as agg.count() ({hint})"
            )
    return aggregates


def _declared(
    window: WindowQuery, aggregates: list[recipes.Aggregate], then: Any, columns: pa.Schema, late: str | None
) -> HarnessQuery:
    types = {field.name: field.type for field in columns}
    for aggregate in aggregates:
        for expr in aggregate.inputs:
            if expr not in types:
                raise InvalidPlanError(
                    f"{aggregate!r} takes {expr!r}, which is none of the columns {list(types)}: name and type them, "
                    f"columns={{{expr!r}: 'double'}}; a harness does not compute SQL, so give each expression as a column"
                )
    aggregation = Aggregation.build(aggregates, types, pa.schema([]))
    names = [*aggregation.inputs, *(name for name in types if name not in aggregation.inputs)]
    element_type = RowType(pa.schema([*((name, types[name]) for name in names), (TIME, pa.int64())]))
    function = AggregateRows(DeclaredFunction(aggregates, types), following(then))
    plan = RowPlan(window, function, late, element_type=element_type.element)
    results = None if then is not None else tuple(aggregation.output_schema.names)
    return HarnessQuery(plan, RowMaker(columns, element_type, TIME), results)
