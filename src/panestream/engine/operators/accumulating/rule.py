"""Which functions over rows run as panes of whole rows."""

from __future__ import annotations

from dataclasses import replace

from panestream.engine.operators.accumulating.evicting import why_not_evicted
from panestream.engine.operators.accumulating.spec import AccumulatingSpec
from panestream.engine.operators.accumulating.windowed_rows import OverRows, PerWindow
from panestream.engine.operators.accumulating.with_context import PerWindowWithContext
from panestream.engine.operators.panes.rule import interval_of, pane_grid, why_not_panes
from panestream.engine.operators.row.row_plan import Elements
from panestream.engine.reduction import AT_EVERY_ROW
from panestream.engine.rule import Asked, DeclaredAggregates, FunctionOfRows, FunctionOfTables, Supported, Unsupported
from panestream.engine.window_spec import WindowSpec
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.functions import ProcessWindowFunction, WindowFunction


def accumulating_rule(window: WindowSpec, asked: Asked) -> Supported | Unsupported | None:
    """Aligned windows of event time that fire at their end, over all rows of a window: a window function, or one over tables."""
    if isinstance(asked, DeclaredAggregates):
        return None
    function = _over_rows(asked)
    if function is None:
        return None
    reasons = why_not_rows(window)
    if isinstance(function, str):
        # Of other windows the rule for panes says why not.
        return None if reasons else Unsupported([function])
    if reasons or asked.keys is None:
        return Unsupported(reasons)
    grid = pane_grid(window.assigner)
    return Supported(AccumulatingSpec(grid, function, asked.results, asked.rows, asked.keys, window.evictor))


def why_not_rows(window: WindowSpec) -> list[str]:
    """Why windows cannot run as panes of whole rows; empty where they can."""
    if isinstance(window.assigner, SeveralWindows):
        return ["several windows in one query need declared aggregates"]
    reasons = why_not_panes(replace(window, evictor=None))
    reasons += why_not_evicted(window.evictor, window.allowed_lateness)
    if not reasons and not window.assigner.is_event_time:
        reasons = ["panes of whole rows know event time only"]
    if not reasons and (interval_of(window) is not None or window.trigger == AT_EVERY_ROW):
        reasons = [f"panes of whole rows fire at the end of the window, not as {window.trigger!r} says"]
    return reasons


def _over_rows(asked: FunctionOfRows | FunctionOfTables) -> OverRows | str | None:
    """The function in its shape; in words, what of it needs the row operator; None: it sees no rows."""
    function = asked.function
    if not isinstance(function, Elements):
        return function if isinstance(function, OverRows) else None
    if isinstance(function.function, WindowFunction):
        return PerWindow(function.function)
    if not function.stateless:
        return "process may keep state, per window and per key: stateless=True says of a function that it does not"
    if type(function.function).clear is not ProcessWindowFunction.clear:
        return "the function has clear(), which is called when a window goes"
    return PerWindowWithContext(function.function)


__all__ = ["accumulating_rule", "why_not_rows"]
