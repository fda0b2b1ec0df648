"""Interval joins of two streams: exchange, state and output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from panestream.engine.kernels.columns import plain
from panestream.engine.operators.intervals.operator import WHOLE, IntervalOperator, IntervalSettings
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan
from panestream.engine.runtime.sides import SIDES
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, instants
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns
from panestream.windowing.time import format_duration

if TYPE_CHECKING:
    from panestream.engine.operators.intervals.operator import IntervalSettings
    from panestream.engine.plan import WindowPlan
    from panestream.engine.storage.state_tables import StateTables, StateViews


@dataclass(frozen=True, slots=True)
class IntervalSpec(IntervalSettings, OperatorSpec):
    """An interval join of each left row with the right rows around its time."""

    @property
    def name(self) -> str:
        return "interval join"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            has_windows=False,
            order_sensitive=False,
            late_by_time=1,
            no_firings="an interval join emits each pair once, and each row without a partner once: there is nothing to number",
            no_changelog="an interval join emits each pair once: nothing is taken back",
        )

    @property
    def result_schema(self) -> pa.Schema:
        return pa.schema([pa.field(side, pa.list_(self.row_of(side))) for side in SIDES])

    @property
    def inputs(self) -> tuple[str, ...]:
        return SIDES

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        for side, values in zip(SIDES, chunk.values, strict=True):
            ours = values.is_valid()
            columns = [*chunk.keys, pa.array(chunk.times), values]
            if plan.late_tag is not None and chunk.rows is not None:
                columns.append(chunk.rows.column(side))
            table = pa.Table.from_arrays(columns, names=self.part_schema(plan, side).names).filter(ours)
            if table.num_rows:
                yield side, table

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        schema = self.schema_of(kind)
        if plan.late_tag is None or plan.row_schema is None:
            return schema
        return schema.append(pa.field(WHOLE, plan.row_schema.field(kind).type))

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> IntervalOperator:
        return IntervalOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return interval_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        kept = zip(SIDES, (self.left, self.right), strict=True)
        return {
            "join": f"{self.how}, {self.lower} to {self.upper}",
            **{f"rows of the {side}": str(kind) for side, kind in kept},
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        lower, upper = (format_duration(bound) for bound in (self.lower, self.upper))
        kept = {side: format_duration(max(self.kept_for(side), 0)) for side in SIDES}
        return {
            "interval": [
                f"{self.how} join: a row of the right from {lower} to {upper} after the time of one of the left, both included"
            ],
            "exchange": ["rows cross the shuffle, of each side the columns that results have"],
            "state": [
                f"rows of the left until the watermark is {kept['left']} past them, of the right {kept['right']}"
                if streaming
                else "none: a batch emits all at the end of input"
            ],
        }


def interval_views(plan: WindowPlan, settings: IntervalSettings, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group, as :func:`~panestream.engine.operators.panes.spec.pane_views` does."""
    rows = pa.schema([pa.field(side, settings.row_of(side)) for side in SIDES])
    schemas, shown = ViewSchemas(plan, group, rows), []
    for side in SIDES:
        table = saved.table(side)
        count = table.num_rows
        columns = [plain(table.column("row")) if name == side else pa.nulls(count, settings.row_of(name)) for name in SIDES]
        times = {"time": instants(integers(table, "time"))}
        shown.append(schemas.elements_of(key_columns(table, plan.key_schema), count, times, columns))
    nothing = [pa.nulls(0, key.type) for key in plan.key_schema]
    return schemas.with_windows(schemas.windows_of(WindowRows(nothing, 0)), elements=pa.concat_tables(shown))


__all__ = ["IntervalSpec", "interval_views"]
