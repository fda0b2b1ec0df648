"""The choice of a query's operator: the rules of the columnar operators first, then the row operator as the fallback.

The distinct values of a key may be split over several key groups. A value determines its part, so parts never share values and
their distinct counts add up. All key groups fire a window in the same micro-batch, so its parts are combined there, without
state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from panestream.engine.aggregates.two_phase import InTwoPhases
from panestream.engine.operators.accumulating.operator import accumulating_rule
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, OverRows, TableOfRows, TablePerWindow
from panestream.engine.operators.counts import counts_rule
from panestream.engine.operators.look_back.operator import look_back_rule
from panestream.engine.operators.panes.filling import FilledPaneSpec, filled_panes_rule
from panestream.engine.operators.panes.operator import PaneSpec, panes_rule
from panestream.engine.operators.predicates import predicates_rule
from panestream.engine.operators.rolling.operator import rolling_rule
from panestream.engine.operators.row.contents import AggregateRows, AnyWindowFunction, KeepRows, ReduceRows
from panestream.engine.operators.row.spec import row_spec
from panestream.engine.operators.sessions.operator import sessions_rule
from panestream.engine.plan import OperatorSpec, Split, WindowQuery
from panestream.engine.rule import (
    DeclaredAggregates,
    FunctionOfRows,
    FunctionOfTables,
    Rule,
    Supported,
    Unsupported,
    WindowRequest,
    reduced,
    reduction,
)
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregates import Aggregate, Complete, Count, CountDistinct, Max, Min, Sum
from panestream.windowing.assigners.base import SeveralWindows

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
            f"split_distinct splits the values of one count_distinct, {have}: all other aggregates are small before the "
            f"shuffle. For several expressions use a query each, or approx_count_distinct"
        )
    (by,) = distinct
    others = [one for one in aggregates if type(one) not in _TOGETHER]
    if others:
        raise InvalidPlanError(
            f"split_distinct cannot combine the parts of {', '.join(map(repr, others))} with count_distinct. It supports "
            f"count, sum, min and max: replace a mean by sum and count, and compute other aggregates in another query"
        )
    if isinstance(operator, FilledPaneSpec):
        raise InvalidPlanError("split_distinct and fill do not go together: leave one of them out, or fill the stored results")
    if not isinstance(operator, PaneSpec) or not operator.capabilities.fires_once or operator.capabilities.uses_processing_time:
        raise InvalidPlanError(
            "split_distinct combines a window when it fires in all key groups at once. It needs tumbling, sliding or "
            "cumulating windows of event time that fire once (default trigger, no allowed lateness), but these "
            f"{'fire again' if isinstance(operator, PaneSpec) else f'run as {operator.name}'}"
        )
    return Split(parts, by, {one.name: _TOGETHER[type(one)] for one in aggregates})


COLUMNS_ONLY: Sequence[Rule] = (filled_panes_rule, look_back_rule, predicates_rule, rolling_rule)
"""Rules for windows that no other operator runs. They come first and refuse queries that they cannot run."""
RULES: Sequence[Rule] = (sessions_rule, counts_rule, accumulating_rule, panes_rule)
"""Rules tried in turn; the first that recognises the windows and the function decides."""

PER_KEY = "each key has its own watermark"
"""Why no columnar operator runs a query."""


def choose(window: WindowQuery, asked: WindowRequest) -> OperatorSpec:
    """Return the operator of a query, or raise InvalidPlanError if none fits or an aggregate does not take its type."""
    for rule in COLUMNS_ONLY:
        verdict = rule(window, asked)
        if isinstance(verdict, Supported):
            return verdict.operator
    if isinstance(asked, FunctionOfRows) and asked.accumulators is not None:
        return _in_two_phases(window, asked)
    reasons: Sequence[str] = [PER_KEY] if window.per_key else ()
    composed, plain = reduction(window), reduced(window)
    for rule in () if window.per_key else RULES:
        verdict = rule(plain, asked)
        if isinstance(verdict, Supported):
            return verdict.operator
        if verdict is not None:
            reasons = verdict.reasons if composed is None else composed.reasons(verdict.reasons)
            break
    if isinstance(asked, FunctionOfTables):
        return _on_rows(window, asked, reasons)
    if isinstance(window.assigner, SeveralWindows):
        # The row operator distinguishes windows by bounds, not by labels.
        raise InvalidPlanError(f"several windows in one query run as aligned panes only, and cannot here: {'; '.join(reasons)}")
    return replace(row_spec(window, asked, reasons), advice=_advice(window, asked))


def _advice(window: WindowQuery, asked: WindowRequest) -> str:
    """Suggest how rows could be added up before the shuffle; empty if that is impossible."""
    if not isinstance(asked, FunctionOfRows) or isinstance(asked.function, KeepRows) or asked.function.then is not None:
        return ""
    declared = DeclaredAggregates([recipes.count()], {}, pa.schema([]))
    plain = reduced(window)
    if not isinstance(sessions_rule(plain, declared) or panes_rule(plain, declared), Supported):
        return ""
    if isinstance(asked.function, ReduceRows):
        return "two_phase=True of reduce would combine them before it"
    return "accumulator_type of aggregate would have them added before it, and accumulators merged after it"


def _in_two_phases(window: WindowQuery, asked: FunctionOfRows) -> OperatorSpec:
    """Treat a user function as a declared aggregate, which is also reduced before the shuffle."""
    function = asked.function
    if isinstance(function, KeepRows) or asked.keys is None or asked.accumulators is None:
        raise InvalidPlanError(f"{asked.described!r} sees rows, which cannot be merged")
    reasons = ["then= sees one window at a time, with its context"] if function.then is not None else []
    recipe = InTwoPhases(function.function, asked.rows, asked.accumulators, asked.results)
    declared = DeclaredAggregates([recipe], {field.name: field.type for field in asked.rows}, asked.keys)
    plain = reduced(window)
    verdict = sessions_rule(plain, declared) or panes_rule(plain, declared)
    if isinstance(verdict, Supported) and not reasons:
        return verdict.operator
    reasons += verdict.reasons if isinstance(verdict, Unsupported) else []
    raise InvalidPlanError(
        f"{recipe!r} cannot run in two phases here, so that rows would be added before the shuffle: {'; '.join(reasons)}. Leave "
        f"out {'two_phase=True' if isinstance(function, ReduceRows) else 'accumulator_type'}: then the rows cross, and the row "
        "operator runs the query"
    )


def _on_rows(window: WindowQuery, asked: FunctionOfTables, reasons: Sequence[str]) -> OperatorSpec:
    function = asked.function
    if isinstance(function, AllWindows):
        raise InvalidPlanError(f"all_windows=True runs as aligned panes only, and cannot here: {'; '.join(reasons)}")
    assert isinstance(function, TablePerWindow)  # noqa: S101 - the other shape of a function over tables
    on_rows = KeepRows(TableOfRows(function, asked.rows, asked.results))
    return choose(window, FunctionOfRows(on_rows, asked.results, asked.rows, function.function))


def plan_aggregates(
    window: WindowQuery,
    aggregates: Sequence[recipes.Aggregate],
    types: Mapping[str, pa.DataType],
    keys: pa.Schema,
    then: AnyWindowFunction | None = None,
    results: pa.Schema | None = None,
) -> OperatorSpec:
    """Choose the operator of :class:`~panestream.engine.rule.DeclaredAggregates`, which documents the arguments."""
    return choose(window, DeclaredAggregates(aggregates, types, keys, then, results))


def plan_functions(
    window: WindowQuery,
    function: ReduceRows | AggregateRows | KeepRows,
    results: pa.Schema,
    rows: pa.Schema,
    described: object,
    keys: pa.Schema | None = None,
    accumulators: pa.Schema | None = None,
) -> OperatorSpec:
    """Choose the operator of a :class:`~panestream.engine.rule.FunctionOfRows`, which documents the arguments."""
    return choose(window, FunctionOfRows(function, results, rows, described, keys, accumulators))


def plan_table_function(
    window: WindowQuery, function: OverRows, results: pa.Schema, rows: pa.Schema, keys: pa.Schema
) -> OperatorSpec:
    """Choose the operator of a :class:`~panestream.engine.rule.FunctionOfTables`, which documents the arguments."""
    return choose(window, FunctionOfTables(function, results, rows, keys))
