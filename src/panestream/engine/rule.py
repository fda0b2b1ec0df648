"""Planner rules: a rule inspects a query's windows and function and decides whether its operator can run them.

Each kind of operator has a rule; :mod:`panestream.engine.planner` tries them in turn. A composed trigger is reduced first, to the
plain trigger that fires the same windows with the same results and may run on columns. The row operator always runs a composition
as written, so that its stored state does not depend on the lateness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from panestream.engine.operators.accumulating.windowed_rows import OverRows
from panestream.engine.operators.row.contents import AggregateRows as AggregateWith
from panestream.engine.operators.row.contents import AnyWindowFunction, KeepRows, ReduceRows
from panestream.engine.plan import OperatorSpec, WindowQuery
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.triggers import (
    AfterCount,
    AfterWatermark,
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Repeatedly,
    Trigger,
)
from panestream.windowing.triggers.composition import Composition, all_parts

AT_EVERY_ROW = AfterWatermark().early(AfterCount(1)).late(AfterCount(1))
"""Fires at every row, early and late, and at the end. Not a trigger of Flink, but columns can run it once per micro-batch."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """The plain equivalent of a composed trigger (or :data:`AT_EVERY_ROW`), or None and the reason why nothing is equivalent."""

    trigger: Trigger | None
    why_not: str = ""

    def reasons(self, of_plain: Sequence[str]) -> Sequence[str]:
        """Return why no operator on columns runs the trigger, given why none runs the plain one."""
        if self.trigger is None:
            return [self.why_not]
        return [*of_plain, *([] if self.trigger == AT_EVERY_ROW else [f"the composed trigger is the same as {self.trigger!r}"])]


def reduction(window: WindowQuery) -> Reduction | None:
    """Return the reduction of a query's trigger, or None if the trigger is not a composition.

    >>> from panestream.windowing.assigners import TumblingEventTimeWindows
    >>> reduction(WindowQuery(TumblingEventTimeWindows.of("1 minute"), AfterWatermark())).trigger
    EventTimeTrigger.create()
    """
    trigger = window.firing_trigger
    discards = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if not isinstance(inner, Composition):
        return None
    plain = _plain(inner, window)
    if isinstance(plain, str):
        return Reduction(None, f"{inner!r} does not come to a trigger of columns: {plain}")
    if discards and plain == AT_EVERY_ROW:
        return Reduction(None, "what fires at every row and discards gives every row by itself")
    return Reduction(PurgingTrigger.of(plain) if discards else plain)


def _plain(trigger: Trigger, window: WindowQuery) -> Trigger | str:
    """Return the plain trigger, or the reason why none is equivalent."""
    if isinstance(trigger, Repeatedly):
        return _repeated(trigger.inner, window)
    if not isinstance(trigger, AfterWatermark):
        return f"{type(trigger).__name__} runs row by row"
    if not window.assigner.is_event_time or isinstance(window.assigner, GlobalWindows):
        return "the watermark does not apply to such windows"
    late, early = trigger.late_firings, trigger.early_firings
    # Without allowed lateness no row comes after the end.
    if window.allowed_lateness and late is None:
        return "it drops the rows that come within the allowed lateness; .late(AfterCount.of(1)) has each fire again"
    if window.allowed_lateness and not _at_every_row(late):
        return f"late firings of {late!r}, not at every row"
    return EventTimeTrigger.create() if early is None else _with_early(early)


def _with_early(early: Trigger) -> Trigger | str:
    if _at_every_row(early):
        return AT_EVERY_ROW
    early = early.inner if isinstance(early, Repeatedly) else early
    if type(early) is ContinuousEventTimeTrigger and not early.only_changed:
        return early
    clock = "the clock, while windows end by the watermark" if early.uses_processing_time else f"{early!r}"
    return f"early firings by {clock}"


def _repeated(inner: Trigger, window: WindowQuery) -> Trigger | str:
    while isinstance(inner, Repeatedly):
        inner = inner.inner
    if type(inner) is AfterCount:
        return CountTrigger(inner.count)
    if type(inner) is AfterWatermark and inner.late_firings is None:
        # A restarted trigger fires at every row after the end.
        return _plain(inner.late(AfterCount(1)), window)
    return f"{inner!r} runs row by row" if isinstance(inner, Composition) else inner


def _at_every_row(trigger: Trigger | None) -> bool:
    while isinstance(trigger, Repeatedly):
        trigger = trigger.inner
    return trigger == AfterCount(1) or (type(trigger) is CountTrigger and trigger.count <= 1)


def reduced(window: WindowQuery) -> WindowQuery:
    """Return the windows with a composed trigger replaced by its plain equivalent, if it has one."""
    found = reduction(window)
    return window if found is None or found.trigger is None else replace(window, trigger=found.trigger)


def told(window: WindowQuery, *, columnar: bool) -> list[str]:
    """Return the lines of ``explain()`` about a composed trigger, which an operator on columns runs if ``columnar``."""
    found, lines = reduction(window), []
    if found is not None and columnar:
        same = "fires once a micro-batch, if rows came" if found.trigger == AT_EVERY_ROW else f"the same as {found.trigger!r}"
        lines.append(f"{window.firing_trigger!r}: {same}")
    outermost = next((part for part in all_parts(window.firing_trigger) if isinstance(part, Composition)), None)
    if outermost is not None and outermost.can_finish and (not columnar or window.allowed_lateness):
        lines.append("it may finish: rows that come for a window after its last firing are dropped, and not counted as late")
    return lines


PYTHON = "a user function in Python"
"""The reason why operators on columns of aggregates cannot run a query."""


@dataclass(frozen=True, slots=True)
class DeclaredAggregates:
    """Aggregates over the rows of a window.

    Attributes:
        types: the types of the expressions that the aggregates take.
        then: a function that gets the results of each firing window, or None.
        results: the columns that ``then`` returns.
        columns: the row columns needed if the windows look into elements (:attr:`WindowQuery.sees_elements`), also in ``types``.
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


Rule: TypeAlias = Callable[[WindowQuery, WindowRequest], Supported | Unsupported | None]
"""A planner rule. It returns None for another operator's kind of query, and raises InvalidPlanError if no operator can run it."""


def on_columns_only(window: WindowQuery, asked: WindowRequest, what: str) -> DeclaredAggregates:
    """Return the aggregates of a query over windows (``what`` in errors) that run on columns only and keep no rows.

    A query that is not a list of declared aggregates with one result each raises InvalidPlanError.
    """
    reasons = _why_not(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append("functions of your own over rows do not run there: they compute declared aggregates (panestream.agg)")
    if reasons or not isinstance(asked, DeclaredAggregates):
        raise InvalidPlanError(f"{window.assigner!r}: {what} run as columns only, and {'; '.join(reasons)}")
    return asked


def _why_not(window: WindowQuery) -> list[str]:
    """Return the reasons why a query's settings need windows that hold rows until they fire."""
    reasons = []
    if window.trigger is not None and window.trigger != window.assigner.get_default_trigger():
        reasons.append(f"fire once, at the watermark: leave out the trigger {window.trigger!r}")
    if window.evictor is not None:
        reasons.append(f"do not keep elements to evict. Leave out {window.evictor!r}")
    if window.allowed_lateness:
        reasons.append("emit no result twice: leave out allowed_lateness, and let the watermark wait longer")
    if window.per_key:
        reasons.append("have one watermark for all keys: leave out per_key")
    if window.every_firing:
        reasons.append("have one firing each: leave out every_firing")
    return reasons
