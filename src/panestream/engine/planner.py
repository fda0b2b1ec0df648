"""Which operator runs a query, and why; and the text that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.aggregation import Aggregation
from panestream.engine.operation import Operation
from panestream.engine.operators.counts.choice import choose_counts
from panestream.engine.operators.panes.choice import (
    accumulating_panes,
    aggregating_panes,
    refuse_several,
    why_not_panes,
    why_not_rows,
)
from panestream.engine.operators.panes.windowed_rows import AllWindows, OverRows, PerWindow, TableOfRows, TablePerWindow
from panestream.engine.operators.row.declared import TIME, DeclaredFunction
from panestream.engine.operators.row.operation import RowOperation
from panestream.engine.operators.row.plan import Aggregate, AnyWindowFunction, Elements, Reduce, RowPlan
from panestream.engine.operators.sessions.choice import choose_sessions
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as recipes
from panestream.windowing.assigners import GapColumn, GlobalWindows, WindowAssigner
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import WindowFunction
from panestream.windowing.time import format_duration
from panestream.windowing.triggers import Trigger


@dataclass(frozen=True, slots=True)
class Windowing:
    """What the user said of the windows, before anything is chosen.

    Attributes:
        assigner: the windows.
        trigger: None: the assigner's default.
        evictor: None: everything stays in.
        allowed_lateness: in engine units.
        exact_firings: whether every single firing is wanted, which only the row operator gives.
        pickled_state: whether values that have no columns may rest in state as pickles.
    """

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness: int = 0
    exact_firings: bool = False
    pickled_state: bool = False

    def row_plan(self, function: Reduce | Aggregate | Elements) -> RowPlan:
        """The same for the row operator.

        Raises:
            InvalidPlanError: parts that do not fit together.
        """
        return RowPlan(
            self.assigner,
            function,
            self.trigger,
            self.evictor,
            self.allowed_lateness,
            pickled_state=self.pickled_state,
        )

    @property
    def uses_clock(self) -> bool:
        """Whether processing time matters."""
        trigger = self.trigger or self.assigner.get_default_trigger()
        # The global window is of no time at all.
        by_clock = not self.assigner.is_event_time and not isinstance(self.assigner, GlobalWindows)
        return by_clock or trigger.uses_processing_time


def aggregating(
    windowing: Windowing,
    aggregates: Sequence[recipes.Aggregate],
    types: Mapping[str, pa.DataType],
    keys: pa.Schema,
    then: AnyWindowFunction | None = None,
    results: pa.Schema | None = None,
) -> Operation:
    """The operation for declared aggregates: columnar where one fits.

    Args:
        windowing: the windows.
        aggregates: the recipes.
        types: of the expressions that they take.
        keys: the key columns.
        then: a function that is given the results of each firing window.
        results: the columns of what ``then`` returns.

    Raises:
        InvalidPlanError: an aggregate does not take its type; parts that do not fit together.
    """
    aggregation = Aggregation.build(aggregates, types, keys)
    reasons = ["a function of the user's own in Python"] if then is not None else []
    chosen = choose_sessions(windowing, aggregates, types) or choose_counts(windowing, aggregates, types)
    if isinstance(chosen, Operation) and not reasons:
        return chosen
    reasons = [*(why_not_panes(windowing) if chosen is None else chosen if isinstance(chosen, list) else []), *reasons]
    if not reasons:
        return aggregating_panes(windowing, aggregates, types, keys)
    refuse_several(windowing.assigner, reasons)
    gap = gap_column(windowing.assigner)
    texts = (*aggregation.inputs, *([] if gap is None else [gap.label]))
    elements = [*(pa.field(text, types[text]) for text in texts), pa.field(TIME, pa.int64())]
    function = DeclaredFunction(tuple(aggregates), types)
    return RowOperation(
        windowing.row_plan(Aggregate(function, then)),
        aggregation.output_schema if results is None else results,
        pa.schema(elements),
        texts,
        clocked=windowing.uses_clock,
        reasons=tuple(reasons),
        described=", ".join(repr(aggregate) for aggregate in aggregates),
        kind=", ".join(repr(aggregate) for aggregate in aggregates),
    )


def calling(
    windowing: Windowing,
    function: Reduce | Aggregate | Elements,
    results: pa.Schema,
    rows: pa.Schema,
    described: object,
    keys: pa.Schema | None = None,
) -> Operation:
    """The operation for functions of the user's own, over whole rows.

    Args:
        windowing: the windows.
        function: what runs.
        results: the columns of what it returns.
        rows: the columns of the input.
        described: how ``explain()`` calls it.
        keys: the key columns; None: only the row operator will do.

    Raises:
        InvalidPlanError: parts that do not fit together.
    """
    reasons = why_not_rows(windowing)
    if isinstance(function, Elements) and isinstance(function.function, WindowFunction):
        if keys is not None and not reasons:
            return accumulating_panes(windowing, PerWindow(function.function), results, rows, keys)
    else:
        reasons = [*why_not_panes(windowing), "a function of the user's own in Python"]
    refuse_several(windowing.assigner, reasons)
    return RowOperation(
        windowing.row_plan(function),
        results,
        rows,
        returned=rows if isinstance(function, Reduce) and function.then is None else None,
        clocked=windowing.uses_clock,
        reasons=tuple(reasons),
        described=stable_repr(described),
        kind=_kind_of(function),
    )


def over_tables(windowing: Windowing, function: OverRows, results: pa.Schema, rows: pa.Schema, keys: pa.Schema) -> Operation:
    """The operation for a function over Arrow tables or pandas frames.

    Args:
        windowing: the windows.
        function: what sees the rows.
        results: the columns of what it returns, after keys and window.
        rows: the columns of the input.
        keys: the key columns.

    Raises:
        InvalidPlanError: the function wants all windows at once, and panes cannot run them.
    """
    reasons = why_not_rows(windowing)
    if not reasons:
        return accumulating_panes(windowing, function, results, rows, keys)
    if isinstance(function, AllWindows):
        raise InvalidPlanError(f"all_windows=True runs as aligned panes only, and cannot here: {'; '.join(reasons)}")
    assert isinstance(function, TablePerWindow)  # noqa: S101 - the other shape of a function over tables
    on_rows = Elements(TableOfRows(function, rows, results))
    return calling(windowing, on_rows, results, rows, function.function)


def _kind_of(function: Reduce | Aggregate | Elements) -> str:
    """What of a function the state depends on: the accumulators of an aggregate function are its own."""
    if isinstance(function, Aggregate):
        return f"aggregate with {type(function.function).__qualname__}"
    return "reduce" if isinstance(function, Reduce) else "all elements"


def gap_column(assigner: WindowAssigner) -> GapColumn | None:
    """The column that has the gap of each row, where sessions have one."""
    gap = getattr(assigner, "gap", None)
    return gap if isinstance(gap, GapColumn) else None


def explain_plan(plan: WindowPlan, *, streaming: bool, chosen: int | None, reduced_by_spark: bool = False) -> str:
    """The plan in words.

    Args:
        plan: the query.
        streaming: whether it runs on a stream.
        chosen: the session's number of shuffle partitions, None where it is Spark's default.
        reduced_by_spark: whether Spark itself reduces the rows before the operator sees them.
    """
    own = dict(plan.operation.explain(plan, streaming=streaming))
    groups = f"{plan.groups} key group{'s' if plan.groups > 1 else ''}, one per state partition"
    exchange = own.get("exchange", [])
    sections = {
        "windows": [_windows(plan)],
        "operator": [plan.operation.name, *own.pop("operator", [])],
        **{title: own.pop(title) for title in list(own) if title not in ("exchange", "state")},
        "event time": _event_time(plan),
        "exchange": [
            *(["rows are reduced per (key, pane) by Spark's own aggregation"] if reduced_by_spark else exchange),
            *_arrival(plan, streaming=streaming),
            groups,
        ],
        "state": [*own.get("state", []), *(_settings(plan, chosen) if streaming else [])],
        "outputs": [", ".join(plan.tags) + (f"; main: the top {plan.top.n} of each window by {plan.top.by}" if plan.top else "")],
    }
    width = max(len(title) for title in sections)
    lines = [
        f"{title if first else '':<{width}}  {line}"
        for title, body in sections.items()
        for first, line in zip([True] + [False] * len(body), body, strict=False)
    ]
    return "\n".join(lines)


def _windows(plan: WindowPlan) -> str:
    size, slide = getattr(plan.assigner, "size", None), getattr(plan.assigner, "slide", None)
    if size is None or slide is None:
        return repr(plan.assigner)
    if slide > size:
        return f"{plan.assigner!r}: rows between two windows belong to none"
    overlap = -(-size // slide)
    return f"{plan.assigner!r}: each row lies in {overlap} window{'s' if overlap > 1 else ''}"


def _event_time(plan: WindowPlan) -> list[str]:
    lateness = f"; windows take rows for {format_duration(plan.allowed_lateness)} more" if plan.allowed_lateness else ""
    late = f"late rows go to the output {plan.late_tag!r}" if plan.late_tag else "late rows are counted and dropped"
    invalid = (
        f"rows without event time go to the output {plan.invalid_tag!r}"
        if plan.invalid_tag
        else "rows without event time fail the query"
    )
    if plan.event_time is None:
        return ["none: the clock of the micro-batch stands in for it"]
    return [f"{plan.event_time}, {plan.watermark!r}", late + lateness, invalid]


def _arrival(plan: WindowPlan, *, streaming: bool) -> list[str]:
    if plan.arrival is None:
        return ["results depend on the order of arrival, which is Spark's"] if plan.operation.follows_arrival else []
    how = "rows cross unreduced, and are put in order in their key group" if streaming else "Spark puts the rows in order first"
    return [f"in the order of {', '.join(plan.arrival.names)}: {how}"]


def _settings(plan: WindowPlan, chosen: int | None) -> list[str]:
    if plan.groups in (1, chosen):
        return []
    line = (
        f"result.start() sets spark.sql.shuffle.partitions={plan.groups} for its query; for .main set it yourself "
        f"(now {chosen if chosen is not None else 'the default, 200'}), and the RocksDB state store"
    )
    return [line]
