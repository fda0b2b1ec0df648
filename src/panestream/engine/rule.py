"""Planner rules: a rule inspects a query's windows and function and decides whether its operator can run them.

Each kind of operator has a rule in its ``rule.py``; :mod:`panestream.engine.planner` tries them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from panestream.engine.operators.accumulating.windowed_rows import OverRows
from panestream.engine.operators.row.contents import AggregateRows as AggregateWith
from panestream.engine.operators.row.contents import AnyWindowFunction, KeepRows, ReduceRows
from panestream.engine.plan import OperatorSpec
from panestream.engine.query import WindowSpec
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import Aggregate

PYTHON = "a function of the user's own in Python"
"""The reason why operators on columns of aggregates cannot run a query."""


@dataclass(frozen=True, slots=True)
class DeclaredAggregates:
    """Aggregates over the rows of a window.

    Attributes:
        types: the types of the expressions that the aggregates take.
        then: a function that gets the results of each firing window, or None.
        results: the columns that ``then`` returns.
        columns: the row columns needed if the windows look into elements (:attr:`WindowSpec.sees_elements`), also in ``types``.
        kept: the row columns in the results, one for each of ``columns``, or None if results belong to windows.
    """

    aggregates: Sequence[Aggregate]
    types: Mapping[str, pa.DataType]
    keys: pa.Schema
    then: AnyWindowFunction | None = None
    results: pa.Schema | None = None
    columns: tuple[str, ...] = ()
    kept: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class FunctionOfRows:
    """A user function over whole rows.

    Attributes:
        results: the columns that the function returns.
        described: the name that ``explain()`` shows.
        keys: the key columns, or None if only the row operator is possible.
        accumulators: the columns of an accumulator if rows are added before the shuffle and accumulators merged after it, or
            None.
    """

    function: ReduceRows | AggregateWith | KeepRows
    results: pa.Schema
    rows: pa.Schema
    described: object
    keys: pa.Schema | None = None
    accumulators: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class FunctionOfTables:
    """A user function over Arrow tables or pandas frames, which returns ``results`` after keys and window."""

    function: OverRows
    results: pa.Schema
    rows: pa.Schema
    keys: pa.Schema


WindowRequest: TypeAlias = DeclaredAggregates | FunctionOfRows | FunctionOfTables
"""The computation that a query requests for its windows."""


@dataclass(frozen=True, slots=True)
class Supported:
    """The verdict that the operator runs the query."""

    operator: OperatorSpec


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The verdict that the operator cannot run its own kind of windows and function, with at least one reason."""

    reasons: Sequence[str]


Rule: TypeAlias = Callable[[WindowSpec, WindowRequest], Supported | Unsupported | None]
"""A planner rule. It returns None for another operator's kind of query, and raises InvalidPlanError if no operator can run it."""


def on_columns_only(window: WindowSpec, asked: WindowRequest, what: str) -> DeclaredAggregates:
    """Return the aggregates of a query over windows (``what`` in errors) that run on columns only and keep no rows.

    A query that is not a list of declared aggregates with one result each raises InvalidPlanError.
    """
    reasons = _why_not(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append("functions of your own over rows do not run there: they compute declared aggregates (panestream.agg)")
    if reasons or not isinstance(asked, DeclaredAggregates):
        raise InvalidPlanError(f"{window.assigner!r}: {what} run as columns only, and {'; '.join(reasons)}")
    return asked


def _why_not(window: WindowSpec) -> list[str]:
    """Return the reasons why a query's settings need windows that hold rows until they fire."""
    reasons = []
    if window.trigger is not None and window.trigger != window.assigner.get_default_trigger():
        reasons.append(f"fire once, at the watermark: leave out the trigger {window.trigger!r}")
    if window.evictor is not None:
        reasons.append(f"keep no elements to evict: leave out {window.evictor!r}")
    if window.allowed_lateness:
        reasons.append("emit no result twice: leave out allowed_lateness, and let the watermark wait longer")
    if window.every_firing:
        reasons.append("have one firing each: leave out every_firing")
    return reasons


__all__ = [
    "PYTHON",
    "DeclaredAggregates",
    "FunctionOfRows",
    "FunctionOfTables",
    "Rule",
    "Supported",
    "Unsupported",
    "WindowRequest",
    "on_columns_only",
]
