"""Aligned panes over declared aggregates, as an operation: pre-aggregated per (key, pane) before the shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregation import Aggregation
from panestream.engine.operation import Chunk, Operation
from panestream.engine.operators.panes.operator import GAPS, PARTIALS, ROWS, PaneOperator
from panestream.engine.plan import WindowPlan
from panestream.engine.slicing import PaneGrid
from panestream.engine.state import State
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.time import format_duration

_GAPS_SCHEMA = pa.schema([("time", pa.int64())])


@dataclass(frozen=True, slots=True)
class PaneOperation(Operation):
    """Tumbling and sliding event-time windows, default trigger, declared aggregates.

    Attributes:
        grid: the panes.
        aggregates: the recipes; ``aggregation`` is what runs them.
    """

    grid: PaneGrid
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation

    @property
    def name(self) -> str:
        return "aligned panes"

    @property
    def result_schema(self) -> pa.Schema:
        return self.aggregation.output_schema

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.aggregation.inputs)

    @property
    def fires_once(self) -> bool:
        return True

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        times, keys, values = chunk.times, chunk.keys, chunk.values
        panes = self.grid.panes_of(times)
        if plan.late_tag is not None and chunk.rows is not None:
            yield ROWS, chunk.rows.append_column("__pane", pa.array(panes)).append_column("__time", pa.array(times))
        if self.grid.has_gaps:
            gap = self.grid.in_gap(panes)
            if gap.any():
                yield GAPS, pa.table({"time": np.sort(times[gap])})
                inside = pa.array(~gap)
                keys, values = [key.filter(inside) for key in keys], [value.filter(inside) for value in values]
                times, panes = times[~gap], panes[~gap]
        if len(times):
            needed = times if self.aggregation.needs_timestamps else None
            yield PARTIALS, self.aggregation.partials(keys, panes, values, needed)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        if kind == PARTIALS:
            return self.aggregation.partial_schema
        if kind == GAPS or plan.row_schema is None:
            return _GAPS_SCHEMA
        return pa.schema([*plan.row_schema, pa.field("__pane", pa.int64()), pa.field("__time", pa.int64())])

    def operator(self, plan: WindowPlan, state: State, group: int) -> PaneOperator:
        return PaneOperator(plan, self, state)

    def identity(self) -> Mapping[str, str]:
        partial = list(self.aggregation.partial_schema)[len(self.aggregation.key_schema) :]
        return {
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in partial),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        return {
            "panes": [self._panes()],
            "aggregates": [
                f"{aggregate!r}: {'invertible' if aggregate.invertible else 'not invertible'}; {aggregate.merge_rule}"
                for aggregate in self.aggregates
            ],
            "exchange": [
                "pre-aggregated per (key, pane) before the shuffle",
                *(["whole rows cross the shuffle too, for the late output"] if plan.late_tag else []),
            ],
            "state": [
                "one block of partials per micro-batch and key group, appended, only for panes that stay open; merged by eights"
                if streaming
                else "none: a batch fires every window at the end of input"
            ],
        }

    def _panes(self) -> str:
        grid = self.grid
        if grid.has_gaps:
            return f"a pane for each window ({format_duration(grid.size)})"
        if len(grid.edges) == 1:
            return f"{format_duration(grid.slide)} each, {grid.size // grid.slide} to a window"
        first, second = format_duration(grid.edges[1]), format_duration(grid.slide - grid.edges[1])
        return f"two to a slide, {first} and {second}, since the slide does not divide the size"
