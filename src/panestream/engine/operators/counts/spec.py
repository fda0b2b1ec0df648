"""Count windows over declared aggregates: values cross the exchange in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found
from panestream.engine.aggregates.standing import standing
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.counts.operator import INPUTS, PANES, CountOperator, CountSettings
from panestream.engine.operators.counts.shape import CountShape
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan, not_kept, not_numbered
from panestream.engine.query import WindowSpec
from panestream.engine.rule import PYTHON, DeclaredAggregates, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, share
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns, with_types
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import CountTrigger, PurgingTrigger

_INSTANT = pa.timestamp("us")
"""The type of event times in the exchange: the payload removes their common decimal places."""


@dataclass(frozen=True, slots=True)
class CountSpec(CountSettings, OperatorSpec):
    """Count windows, and the count trigger on global windows, with declared aggregates."""

    @property
    def name(self) -> str:
        return "counts"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(fires_by_time=False, no_firings=not_numbered(self.name), no_changelog=not_kept(self.name))

    @property
    def result_schema(self) -> pa.Schema:
        return self.aggregation.output_schema

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.aggregation.inputs

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        times = [pa.array(chunk.times).view(_INSTANT)] if self.aggregation.needs_timestamps else []
        columns = [*chunk.keys, *times, *chunk.values]
        if not columns:
            # Without keys and values, a column of nulls records the number of rows.
            columns = [pa.nulls(len(chunk.times))]
        yield INPUTS, pa.Table.from_arrays(columns, schema=self.part_schema(plan, INPUTS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return keys, event time if an aggregate needs it, and values."""
        types = [*plan.key_schema.types, *([_INSTANT] if self.aggregation.needs_timestamps else []), *self.input_types]
        return pa.schema([(str(place), type_) for place, type_ in enumerate(types or [pa.null()])])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> CountOperator:
        return CountOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return count_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        partial = list(self.aggregation.partial_schema)
        return {
            "count windows": str(self.shape),
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in partial),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        shape = self.shape
        per_window = "" if shape.panes_per_window is None else f", {shape.panes_per_window} to a window"
        return {
            "counts": [f"{shape}; an incomplete rest is not emitted"],
            "panes": [f"{shape.panes_per_slide} to a slide{per_window}"],
            "aggregates": [f"{aggregate!r}; {aggregate.merge_rule}" for aggregate in self.aggregates],
            "exchange": ["keys and values cross the shuffle unreduced, in the order of arrival, which decides"],
            "state": [
                "open panes, in pages by hash of the key: a micro-batch reads those of its keys"
                if streaming
                else "none: a batch fires every complete window"
            ],
        }


def counts_rule(window: WindowSpec, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan global windows with a count trigger (purging, with a count evictor, or plain) over declared aggregates."""
    if type(window.assigner) is not GlobalWindows or not isinstance(asked, DeclaredAggregates):
        return None
    shape = "every firing was asked for" if window.every_firing else _shape(window)
    reasons = [shape] if isinstance(shape, str) else []
    if asked.then is not None:
        reasons.append(PYTHON)
    if reasons or isinstance(shape, str):
        return Unsupported(reasons)
    aggregation = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    input_types = tuple(asked.types[text] for text in aggregation.inputs)
    return Supported(CountSpec(shape, tuple(asked.aggregates), aggregation, input_types))


def _shape(window: WindowSpec) -> CountShape | str:
    """Return the shape of the windows, or why columns do not support them. A count of 0 fires at every row, like 1."""
    trigger, evictor = window.trigger, window.evictor
    purges = type(trigger) is PurgingTrigger
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if type(inner) is not CountTrigger:
        return f"global windows run as columns with a CountTrigger only, not with {trigger!r}"
    slide = max(inner.count, 1)
    if evictor is None:
        return CountShape(slide if purges else None, slide)
    if type(evictor) is not CountEvictor or evictor.do_evict_after or purges:
        return "an evictor other than the one of count windows needs all elements"
    size = evictor.max_count
    return CountShape(size, slide) if size >= slide else "windows of fewer rows than lie between two firings"


def count_views(plan: WindowPlan, settings: CountSettings, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group, as :func:`~panestream.engine.operators.panes.spec.pane_views` does."""
    table, aggregation = saved.table(PANES), settings.aggregation
    keys = encode_keys(key_columns(table, plan.key_schema), table.num_rows)
    codes = keys.codes.astype(np.int64)
    # Combine all panes of a key, in their order.
    order = pa.array(stable_order(codes, integers(table, "pane")))
    columns = [pa.array(codes), *named_columns(table, ["rows"]), *partials_found(table, saved.header, aggregation)]
    partials = with_types([column.take(order) for column in columns], aggregation.partial_schema)
    each = np.arange(keys.count)
    found = standing(aggregation, partials, each, each + 1)
    rows = WindowRows(
        keys=keys.take(found.which),
        count=len(found.which),
        results=found.results,
        rows=found.rows,
        size=share(table.nbytes, found.rows),
    )
    schemas = ViewSchemas(plan, group)
    return schemas.with_windows(schemas.windows_of(rows))


__all__ = ["CountSpec", "count_views", "counts_rule"]
