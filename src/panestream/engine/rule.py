"""What a planner rule is: it looks at the windows and the function of a query, and says whether its operator runs them.

Each kind of operator has one, in its ``rule.py``; :mod:`panestream.engine.planner` asks them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from panestream.engine.operators.accumulating.windowed_rows import OverRows
from panestream.engine.operators.row.row_plan import Aggregate as AggregateWith
from panestream.engine.operators.row.row_plan import AnyWindowFunction, Elements, Reduce
from panestream.engine.plan import OperatorSpec
from panestream.engine.query import WindowSpec
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import Aggregate

PYTHON = "a function of the user's own in Python"
"""Why no operator on columns of aggregates runs a query."""


@dataclass(frozen=True, slots=True)
class DeclaredAggregates:
    """Aggregates over the rows of a window.

    Attributes:
        aggregates: the recipes.
        types: of the expressions that they take.
        keys: the key columns.
        then: a function that is given the results of each firing window, or None.
        results: the columns of what ``then`` returns.
        columns: of the rows, where anything else looks into elements (:attr:`WindowSpec.sees_elements`); their types are among
            ``types``.
        kept: the columns of the row that results have, one for each of ``columns``; None: results are of windows.
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
    """A function of the user's own over whole rows.

    Attributes:
        function: what runs.
        results: the columns of what it returns.
        rows: the columns of the input.
        described: how ``explain()`` calls it.
        keys: the key columns; None: only the row operator will do.
        accumulators: the columns of an accumulator, where the function is to run in two phases: rows are added before the
            shuffle, accumulators merged after it.
    """

    function: Reduce | AggregateWith | Elements
    results: pa.Schema
    rows: pa.Schema
    described: object
    keys: pa.Schema | None = None
    accumulators: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class FunctionOfTables:
    """A function of the user's own over Arrow tables or pandas frames.

    Attributes:
        function: what sees the rows.
        results: the columns of what it returns, after keys and window.
        rows: the columns of the input.
        keys: the key columns.
    """

    function: OverRows
    results: pa.Schema
    rows: pa.Schema
    keys: pa.Schema


Asked: TypeAlias = DeclaredAggregates | FunctionOfRows | FunctionOfTables
"""What is asked for over windows."""


@dataclass(frozen=True, slots=True)
class Supported:
    """The operator runs the query."""

    operator: OperatorSpec


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The windows and the function are of the operator's kind, and yet it cannot run them.

    Attributes:
        reasons: why not, for ``explain()``; at least one.
    """

    reasons: Sequence[str]


Rule: TypeAlias = Callable[[WindowSpec, Asked], Supported | Unsupported | None]
"""None: the windows or the function are of another operator's kind.

Raises InvalidPlanError where no operator can run the query.
"""


def on_columns_only(window: WindowSpec, asked: Asked, what: str) -> DeclaredAggregates:
    """What is asked of windows that no operator row by row knows, and that hold no rows until they fire.

    Args:
        window: the windows.
        asked: what is asked of them.
        what: how an error calls such windows.

    Raises:
        InvalidPlanError: anything but declared aggregates, each result once.
    """
    reasons = _why_not(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append("functions of your own over rows do not run there: they compute declared aggregates (panestream.agg)")
    if reasons or not isinstance(asked, DeclaredAggregates):
        raise InvalidPlanError(f"{window.assigner!r}: {what} run as columns only, and {'; '.join(reasons)}")
    return asked


def _why_not(window: WindowSpec) -> list[str]:
    """What of a query's windows goes only with windows that hold rows until they fire; empty: nothing."""
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
    "Asked",
    "DeclaredAggregates",
    "FunctionOfRows",
    "FunctionOfTables",
    "Rule",
    "Supported",
    "Unsupported",
    "on_columns_only",
]
