"""Accumulating panes: whole rows by pane, for any function over the rows of a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import array_of, list_of
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.accumulating.evicting import why_not_evicted
from panestream.engine.operators.accumulating.operator import KEPT, ROWS, AccumulatingOperator, AccumulatingSettings, expanded
from panestream.engine.operators.accumulating.windowed_rows import OverRows, PerWindow
from panestream.engine.operators.accumulating.with_context import PerWindowWithContext
from panestream.engine.operators.panes.spec import interval_of, pane_grid, why_not_panes
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan, not_kept, not_numbered, stable_repr
from panestream.engine.query import WindowSpec
from panestream.engine.reduction import AT_EVERY_ROW
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows, FunctionOfTables, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.state_views import INSTANT, ViewSchemas, WindowRows, instants, share
from panestream.engine.runtime.watermarks import BEYOND_ALL, ClosedWindows, closing_times, last_ended
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.functions import ProcessWindowFunction, WindowFunction
from panestream.windowing.time import MAX_TIMESTAMP


@dataclass(frozen=True, slots=True)
class AccumulatingSpec(AccumulatingSettings, OperatorSpec):
    """Aligned event-time windows (tumbling, sliding, cumulating, calendar) with the default trigger and a function over rows."""

    @property
    def name(self) -> str:
        return "accumulating panes"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            takes_rows=True,
            shows_processing_time=self.function.sees_time,
            no_firings=not_numbered(self.name),
            no_changelog=not_kept(self.name),
        )

    @property
    def result_schema(self) -> pa.Schema:
        return self.result

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"windows", "results"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        if chunk.rows is None:
            raise RuntimeError("accumulating panes need whole rows, the exchange brought none")
        columns = [*chunk.keys, pa.array(self.grid.panes_of(chunk.times)), pa.array(chunk.times), *chunk.rows.columns]
        yield KEPT, pa.Table.from_arrays(columns, names=self.part_schema(plan, KEPT).names)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        return self.kept_schema

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> AccumulatingOperator:
        return AccumulatingOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return accumulating_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        return {
            "function": "all elements",
            "rows": ", ".join(f"{field.name} {field.type}" for field in self.rows),
            "results": ", ".join(f"{field.name} {field.type}" for field in self.result),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        kept = "each row once, however many windows it lies in: a block per micro-batch and key group, while panes stay open"
        return {
            "function": [stable_repr(self.function), self.function.described],
            **({} if self.evictor is None else {"evictor": [repr(self.evictor)]}),
            "exchange": ["rows cross the shuffle whole, in columns"],
            "state": [kept if streaming else "none: a batch fires every window at the end of input"],
        }


def accumulating_rule(window: WindowSpec, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan aligned event-time windows that fire at their end, with a window function or a function over tables."""
    if isinstance(asked, DeclaredAggregates):
        return None
    function = _over_rows(asked)
    if function is None:
        return None
    reasons = why_not_rows(window)
    if isinstance(function, str):
        # The rule for panes reports why other windows are not supported.
        return None if reasons else Unsupported([function])
    if reasons or asked.keys is None:
        return Unsupported(reasons)
    grid = pane_grid(window.assigner)
    return Supported(AccumulatingSpec(grid, function, asked.results, asked.rows, asked.keys, window.evictor))


def why_not_rows(window: WindowSpec) -> list[str]:
    """Return why windows cannot run as panes of whole rows; empty if they can."""
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
    """Return the function in its form, the reason it needs the row operator, or None if it does not take rows."""
    function = asked.function
    if not isinstance(function, KeepRows):
        return function if isinstance(function, OverRows) else None
    if isinstance(function.function, WindowFunction):
        return PerWindow(function.function)
    if not function.stateless:
        return "process may keep state, per window and per key: stateless=True says of a function that it does not"
    if type(function.function).clear is not ProcessWindowFunction.clear:
        return "the function has clear(), which is called when a window goes"
    return PerWindowWithContext(function.function)


def accumulating_views(plan: WindowPlan, settings: AccumulatingSettings, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group, as :func:`~panestream.engine.operators.panes.spec.pane_views` does."""
    table, grid = saved.table(ROWS), settings.grid
    (one,) = grid.windows
    reached, lateness = saved.header["watermarks"]["watermark"], plan.allowed_lateness
    closed = ClosedWindows(lateness, saved.header["closed"]).at(reached)
    keys = key_columns(table, plan.key_schema)
    times, schemas = integers(table, "time"), ViewSchemas(plan, group, settings.rows)
    order = stable_order(times)
    distinct = np.unique(times)
    windows = one.over(distinct, distinct, last_ended(one, closed), BEYOND_ALL)
    starts, ends = one.start_of(windows), one.end_of(windows)
    which, places = expanded(grid.panes_of(times[order]), grid.panes_of(starts), grid.panes_of(ends))
    row = order[places] if len(places) else places
    # One entry per key and window, with the number of its rows.
    coded = encode_keys(keys, table.num_rows)
    pairs, counts = np.unique(which * max(coded.count, 1) + coded.codes.astype(np.int64)[row], return_counts=True)
    window, code = np.divmod(pairs, max(coded.count, 1))
    last = ends[window] - 1
    shown = WindowRows(
        keys=coded.take(code),
        count=len(pairs),
        starts=pa.array(starts[window]),
        ends=pa.array(ends[window]),
        rows=counts,
        due=np.where(last > reached, last, MAX_TIMESTAMP),
        closes=closing_times(last, lateness),
        size=share(table.nbytes, counts),
    )
    by_row = stable_order(row)
    bounds = [array_of(bound[which[by_row]], pa.int64()).cast(INSTANT) for bound in (starts, ends)]
    lists = list_of(pa.StructArray.from_arrays(bounds, ["start", "end"]), np.bincount(row, minlength=table.num_rows))
    columns = {"windows": lists, "place": pa.array(integers(table, "arrival")), "time": instants(times)}
    rows = named_columns(table, [f"row {place}" for place in range(len(settings.rows))])
    elements = schemas.elements_of(keys, table.num_rows, columns, rows)
    return schemas.with_windows(schemas.windows_of(shown), elements=elements)


__all__ = ["AccumulatingSpec", "accumulating_rule", "accumulating_views", "why_not_rows"]
