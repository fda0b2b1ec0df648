"""Plans as JSON, sufficient to read and show their state in a process without the job's code.

User functions are stored by name only. A plan read from JSON has the saved identity, decodes state and computes declared
aggregates, but cannot run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.accumulating.operator import AccumulatingSpec
from panestream.engine.operators.as_of_join import AsOfSpec
from panestream.engine.operators.counts import CountShape, CountSpec
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.operators.look_back.operator import LookBackSpec, look_back_rule
from panestream.engine.operators.panes.filling import FilledPaneSpec, filled_spec
from panestream.engine.operators.panes.firing import HIDDEN_TYPES, Interval
from panestream.engine.operators.panes.operator import PaneSpec
from panestream.engine.operators.panes.rule import pane_grid
from panestream.engine.operators.predicates import PredicateSpec, predicates_rule
from panestream.engine.operators.rolling.operator import RollingSpec, rolling_rule
from panestream.engine.operators.row.broadcast import KeyedBroadcastSpec
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.operator import DeclaredFunction
from panestream.engine.operators.row.process import KeyedProcessSpec, process_spec
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.operators.sessions.operator import SessionSpec
from panestream.engine.plan import OperatorSpec, WindowPlan, WindowQuery, stable_repr
from panestream.engine.rule import DeclaredAggregates
from panestream.engine.savepoint.recipes import (
    AbsentFunction,
    AbsentOverRows,
    AbsentProcess,
    absent_aggregate,
    absent_reduce,
    recipe_json,
    recipe_of,
)
from panestream.errors import PanestreamError, StateFormatError
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.fill import ListedKeys

PLAN_FORMAT = 1
"""Format version of plans as JSON, increased with every incompatible change."""
_FIELDS = (
    "keys",
    "key_schema",
    "assigner",
    "watermark",
    "event_time",
    "groups",
    "allowed_lateness",
    "late_tag",
    "invalid_tag",
    "side_outputs",
    "row_schema",
    "arrival",
    "processing_time",
    "ticks",
    "split",
    "top",
    "with_firing",
    "changelog",
)
_LATER = ("sides", "pairs")
"""Fields that plans of earlier versions do not have."""


def plan_json(plan: WindowPlan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    writer, _ = SPECS.get(type(plan.operator), (None, None))
    if writer is None:
        raise StateFormatError(f"{plan.operator.name} does not support saved plans")
    return {
        "format": PLAN_FORMAT,
        "identity": dict(plan.identity()),
        "operator": {
            "is": type(plan.operator).__name__,
            **{name: recipe_json(part) for name, part in writer(plan.operator).items()},
        },
        **{name: recipe_json(getattr(plan, name)) for name in _FIELDS},
        **{name: recipe_json(value) for name in _LATER if (value := getattr(plan, name)) is not None},
    }


def plan_of(saved: Mapping[str, Any], *, pickles: bool = False) -> WindowPlan:
    """Return the plan that was given to :func:`plan_json`, with placeholders for user code.

    Args:
        saved: the plan.
        pickles: whether it may unpickle values that its query was allowed to pickle. The saved permission is not enough, because
            anyone who can write pickles can write it too. The reader of the state must therefore allow it.

    Raises:
        StateFormatError: another version of panestream wrote it, or it names an aggregate of a package that is not imported.
    """
    if saved.get("format") != PLAN_FORMAT:
        newer = isinstance(saved.get("format"), int) and saved["format"] > PLAN_FORMAT
        raise StateFormatError(
            f"the saved plan has format {saved.get('format')!r}, this version of panestream reads {PLAN_FORMAT}: it was written "
            f"by {'a newer' if newer else 'an older'} one"
        )
    try:
        return _read(saved, pickles)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, pa.ArrowException) as error:
        if isinstance(error, PanestreamError):
            raise
        raise StateFormatError(
            f"this version of panestream cannot read the saved plan ({type(error).__name__}: {error}): it was changed, "
            "or another version wrote it"
        ) from error


def _read(saved: Mapping[str, Any], pickles: bool) -> WindowPlan:
    read = {kind.__name__: reader for kind, (_, reader) in SPECS.items()}
    own = {name: recipe_of(part) for name, part in saved["operator"].items() if name != "is"}
    own |= {name: bool(own[name]) and pickles for name in own if name == "pickled_state"}
    fields = {name: recipe_of(saved[name]) for name in _FIELDS}
    fields |= {name: recipe_of(saved[name]) for name in _LATER if name in saved}
    reader = read.get(saved["operator"]["is"])
    if reader is None:
        raise StateFormatError(f"the saved plan is of the operator {saved['operator']['is']!r}, which this version does not have")
    plan = WindowPlan(operator=reader({**fields, **own}), **fields)
    # It contains names of functions, which placeholders do not have.
    object.__setattr__(plan, "_identity", dict(saved["identity"]))
    return plan


# -- operators -------------------------------------------------------------------------------------------------------------

Own = Mapping[str, Any]


def _types(aggregation: Aggregation) -> dict[str, pa.DataType]:
    return dict(zip(aggregation.inputs, aggregation.input_types, strict=True))


def _panes(spec: Any) -> Own:
    interval = None
    if spec.interval is not None:
        changed = (True,) if spec.interval.only_changed else ()
        interval = (spec.interval.length, spec.interval.purging, *changed)
    shown = {text: type_ for text, type_ in _types(spec.aggregation).items() if text not in HIDDEN_TYPES}
    return {
        "aggregates": spec.aggregates,
        "types": shown,
        "by_processing_time": spec.by_processing_time,
        "interval": interval,
        "fires_again": spec.fires_again,
        **({"fires_at_rows": True} if spec.fires_at_rows else {}),
    }


def _read_panes(own: Own) -> PaneSpec:
    interval = None if own["interval"] is None else Interval(*own["interval"])
    hidden = () if interval is None else interval.hidden
    types = {**own["types"], **(HIDDEN_TYPES if hidden else {})}
    aggregation = Aggregation.build([*own["aggregates"], *hidden], types, own["key_schema"])
    grid = pane_grid(own["assigner"])
    again, at_rows = own["fires_again"], own.get("fires_at_rows", False)
    return PaneSpec(grid, own["aggregates"], aggregation, own["by_processing_time"], interval, again, at_rows)


def _filled(spec: Any) -> Own:
    return {**_panes(spec), "fill": spec.fill, **({} if spec.listed_keys is None else {"listed_keys": True})}


def _read_filled(own: Own) -> OperatorSpec:
    # The keys are not of the checkpoint: a run may list others.
    listed = ListedKeys(own["key_schema"].append(pa.field("hash", pa.int64())).empty_table()) if "listed_keys" in own else None
    return filled_spec(_read_panes(own), own["fill"], listed)


def _sessions(spec: Any) -> Own:
    gap = spec.gap if isinstance(spec.gap, (int, GapColumn)) and type(spec.gap) in (int, GapColumn) else None
    return {
        "gap": gap,
        "longest": spec.longest,
        "aggregates": spec.aggregates,
        "types": _types(spec.aggregation),
        "by_processing_time": spec.by_processing_time,
    }


def _read_sessions(own: Own) -> OperatorSpec:
    aggregation = Aggregation.build(own["aggregates"], own["types"], pa.schema([]))
    gap = 1 if own["gap"] is None else own["gap"]
    return SessionSpec(gap, own["longest"], own["aggregates"], aggregation, own["by_processing_time"])


def _counts(spec: Any) -> Own:
    return {
        "size": spec.shape.size,
        "slide": spec.shape.slide,
        "aggregates": spec.aggregates,
        "types": _types(spec.aggregation),
    }


def _read_counts(own: Own) -> OperatorSpec:
    aggregation = Aggregation.build(own["aggregates"], own["types"], pa.schema([]))
    return CountSpec(CountShape(own["size"], own["slide"]), own["aggregates"], aggregation)


def _look_backs(spec: Any) -> Own:
    return {"aggregates": spec.aggregates, "types": _types(spec.bare), "texts": spec.texts, "kept": spec.kept}


def _read_look_backs(own: Own) -> OperatorSpec:
    kept = own["kept"]
    types = {**dict(zip(own["texts"], kept.types, strict=True)), **own["types"]}
    asked = DeclaredAggregates(own["aggregates"], types, own["key_schema"], columns=own["texts"], kept=kept)
    verdict = look_back_rule(WindowQuery(own["assigner"]), asked)
    if verdict is None:
        raise StateFormatError(f"the saved plan is of look-backs, and its windows are {own['assigner']!r}")
    return verdict.operator


def _predicates(spec: Any) -> Own:
    return {"aggregates": spec.aggregates, "types": _types(spec.aggregation)}


def _read_predicates(own: Own) -> OperatorSpec:
    verdict = predicates_rule(
        WindowQuery(own["assigner"]), DeclaredAggregates(own["aggregates"], own["types"], own["key_schema"])
    )
    if verdict is None:
        raise StateFormatError(f"the saved plan is of windows by predicates, and its windows are {own['assigner']!r}")
    return verdict.operator


def _read_rolling(own: Own) -> OperatorSpec:
    window = WindowQuery(own["assigner"], allowed_lateness=own["allowed_lateness"])
    verdict = rolling_rule(window, DeclaredAggregates(own["aggregates"], own["types"], own["key_schema"]))
    if verdict is None:
        raise StateFormatError(f"the saved plan is of rolling values, and its windows are {own['assigner']!r}")
    return verdict.operator


def _accumulating(spec: Any) -> Own:
    return {"function": stable_repr(spec.function), "result": spec.result, "rows": spec.rows, "evictor": spec.evictor}


def _read_accumulating(own: Own) -> OperatorSpec:
    grid, function = pane_grid(own["assigner"]), AbsentOverRows(own["function"])
    return AccumulatingSpec(grid, function, own["result"], own["rows"], own["key_schema"], own["evictor"])


_FUNCTIONS = {ReduceRows: "Reduce", AggregateRows: "Aggregate", KeepRows: "Elements"}
"""What saved plans call the kinds of functions."""


def _row(spec: Any) -> Own:
    plan, window = spec.row_plan, spec.row_plan.window
    function = plan.function
    declared = function.function.aggregates if _is_declared(function) else None
    return {
        "trigger": None if window.trigger == window.assigner.get_default_trigger() else window.trigger,
        "evictor": window.evictor,
        "exact_firings": window.every_firing,
        "pickled_state": window.pickled_state,
        "function": "declared" if declared is not None else _FUNCTIONS[type(function)],
        "then": getattr(function, "then", None) is not None,
        "aggregates": declared,
        "named": type(function.function).__qualname__,
        "pages": plan.pages,
        "result": spec.result,
        "element_schema": spec.element_schema,
        "input_texts": spec.input_texts,
        "returned": spec.returned,
        "by_processing_time": spec.by_processing_time,
    }


def _is_declared(function: Any) -> bool:
    return isinstance(function, AggregateRows) and isinstance(function.function, DeclaredFunction)


def _read_row(own: Own) -> OperatorSpec:
    window = WindowQuery(
        own["assigner"], own["trigger"], own["evictor"], own["allowed_lateness"], own["exact_firings"], own["pickled_state"]
    )
    then = AbsentFunction(own["named"]) if own["then"] else None
    function: ReduceRows | AggregateRows | KeepRows
    if own["function"] == "declared":
        types = {field.name: field.type for field in own["element_schema"]}
        function = AggregateRows(DeclaredFunction(own["aggregates"], types), then)
    elif own["function"] == "Elements":
        function = KeepRows(AbsentFunction(own["named"]))
    elif own["function"] == "Reduce":
        function = ReduceRows(absent_reduce, then)
    else:
        function = AggregateRows(absent_aggregate(own["named"]), then)
    rest = {name: own[name] for name in ("input_texts", "returned", "by_processing_time")}
    return RowSpec(RowPlan(window, function, pages=own["pages"]), own["result"], own["element_schema"], **rest)


def _process(spec: Any) -> Own:
    window = spec.row_plan.window
    return {
        "named": type(spec.row_plan.function.function).__qualname__,
        "pickled_state": window.pickled_state,
        "result": spec.result,
        "element_schema": spec.element_schema,
        "by_processing_time": spec.by_processing_time,
    }


def _read_process(own: Own, kind: type[KeyedProcessSpec] = KeyedProcessSpec) -> OperatorSpec:
    function, rules = AbsentProcess(own["named"], own["by_processing_time"]), own.get("rules")
    return process_spec(
        function, own["result"], own["element_schema"], pickled_state=own["pickled_state"], rules=rules, kind=kind
    )


def _broadcast(spec: Any) -> Own:
    return {**_process(spec), "rules": spec.rules}


def _interval(spec: Any) -> Own:
    return {name: getattr(spec, name) for name in ("lower", "upper", "how", "left", "right")}


def _read_interval(own: Own) -> OperatorSpec:
    return IntervalSpec(own["lower"], own["upper"], own["how"], own["left"], own["right"], own["key_schema"])


_AS_OF = ("direction", "tolerance", "how", "deletes", "left", "right")


def _as_of(spec: Any) -> Own:
    return {name: getattr(spec, name) for name in _AS_OF}


def _read_as_of(own: Own) -> OperatorSpec:
    return AsOfSpec(**{name: own[name] for name in _AS_OF}, keys=own["key_schema"])


SPECS: dict[type[OperatorSpec], tuple[Callable[[Any], Own], Callable[[Own], OperatorSpec]]] = {
    PaneSpec: (_panes, _read_panes),
    FilledPaneSpec: (_filled, _read_filled),
    SessionSpec: (_sessions, _read_sessions),
    CountSpec: (_counts, _read_counts),
    LookBackSpec: (_look_backs, _read_look_backs),
    PredicateSpec: (_predicates, _read_predicates),
    RollingSpec: (_predicates, _read_rolling),
    AccumulatingSpec: (_accumulating, _read_accumulating),
    RowSpec: (_row, _read_row),
    IntervalSpec: (_interval, _read_interval),
    AsOfSpec: (_as_of, _read_as_of),
    KeyedProcessSpec: (_process, _read_process),
    KeyedBroadcastSpec: (_broadcast, partial(_read_process, kind=KeyedBroadcastSpec)),
}
"""Writer and reader of each operator's specification."""
