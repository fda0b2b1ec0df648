"""Look-backs over declared aggregates: each row crosses the exchange once, with the columns that results need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import array_of, list_of
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.operators.look_back.history import SHORTEST, slice_length
from panestream.engine.operators.look_back.operator import WAITING, LookBackOperator, LookBackSettings
from panestream.engine.plan import Capabilities, Chunk, OperatorSpec, WindowPlan
from panestream.engine.query import WindowSpec
from panestream.engine.rule import Supported, WindowRequest, on_columns_only
from panestream.engine.runtime.state_views import INSTANT, ViewSchemas, WindowRows, instants, share
from panestream.engine.runtime.timed_rows import ROWS, pack_timed, timed_schema
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, key_fields, named_columns
from panestream.windowing.assigners.look_back import LookBackWindows, look_backs_of, result_name
from panestream.windowing.time import format_duration


@dataclass(frozen=True, slots=True)
class LookBackSpec(LookBackSettings, OperatorSpec):
    """Event-time look-back windows with declared aggregates."""

    @property
    def name(self) -> str:
        return "look-backs"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            per_row=True,
            order_sensitive=self.bare.follows_arrival,
            late_by_time=0,
            no_firings="each row has one result, which is its only one",
            no_changelog="each row has one result, which no later one takes the place of",
        )

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of the row, then the results of each look-back."""
        of_each = [
            pa.field(result_name(field.name, label), field.type) for label in self.look_backs for field in self.bare.output_schema
        ]
        return pa.schema([*self.kept, *of_each])

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.all_inputs

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        return pack_timed(plan, chunk, self.part_schema(plan, ROWS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return keys, event time, the inputs of aggregates and results, and the whole row for a late output."""
        return timed_schema(plan, self.input_types)

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> LookBackOperator:
        return LookBackOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        return look_back_views(plan, self, saved, group)

    def identity(self) -> Mapping[str, str]:
        partial = list(self.keyed.partial_schema)
        return {
            "aggregates": ", ".join(repr(aggregate) for aggregate in self.aggregates),
            "partials": ", ".join(f"{field.name} {field.type}" for field in partial),
            "rows": ", ".join(f"{field.name} {field.type}" for field in self.kept),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        late = ["whole rows cross beside them, for the late output"] if plan.late_tag else []
        return {
            "look-backs": [_told(label, one) for label, one in self.look_backs.items()],
            "results": ["one for each row, when the watermark has passed it; rows behind the watermark are late"],
            "aggregates": [f"{aggregate!r}; {aggregate.merge_rule}" for aggregate in self.aggregates],
            "exchange": ["rows cross the shuffle once, with the columns that results and aggregates take", *late],
            "state": self._explain_state() if streaming else ["none: a batch computes all rows at once"],
        }

    def _explain_state(self) -> list[str]:
        kept = "partials of each key and instant for as long as a look-back reaches, in blocks; rows that wait for the watermark"
        length = slice_length(self.keyed, self.longest)
        if length:
            edges = f"the slices of {format_duration(length)} in which windows begin and end"
            return [kept, f"a small micro-batch reads {edges}, and one partial for each key and slice between"]
        if self.longest < SHORTEST:
            return [kept]
        inexact = ", ".join(repr(one) for one, exact in zip(self.aggregates, self._exact(), strict=True) if not exact)
        return [kept, f"a micro-batch reads all that its rows look back to: slices merged before would change {inexact}"]

    def _exact(self) -> list[bool]:
        """Return whether each aggregate alone would allow slices with partials."""
        partials = self.keyed.partial_aggregates
        return [all(partials[number].merges_exactly for number in result.partials) for result in self.keyed.results]


def _told(label: str, one: LookBackWindows) -> str:
    ahead = f" and {format_duration(one.following)} after it" if one.following else ""
    return f"{label + ': ' if label else ''}the {format_duration(one.size)} before each row{ahead}, and the row itself"


def look_back_rule(window: WindowSpec, asked: WindowRequest) -> Supported | None:
    """Plan one or several look-backs over declared aggregates; raise InvalidPlanError for unsupported queries."""
    look_backs = look_backs_of(window.assigner)
    if look_backs is None:
        return None
    asked = on_columns_only(window, asked, "look-backs")
    bare = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    keyed = Aggregation.build(asked.aggregates, asked.types, pa.schema(key_fields(asked.keys)))
    kept = pa.schema([]) if asked.kept is None else asked.kept
    return Supported(LookBackSpec(look_backs, tuple(asked.aggregates), bare, keyed, asked.columns, kept, asked.keys))


def look_back_views(plan: WindowPlan, settings: LookBackSettings, saved: StateTables, group: int) -> StateViews:
    """Return the views of a key group, as :func:`~panestream.engine.operators.panes.spec.pane_views` does.

    For several look-backs, the window shown covers all. The history of emitted rows is not shown as a window.
    """
    table = saved.table(WAITING)
    keys, times = key_columns(table, plan.key_schema), integers(table, "time")
    coded = encode_keys(keys, table.num_rows)
    # One entry per key and instant, with the number of its rows.
    pairs, counts = np.unique(np.stack([coded.codes.astype(np.int64), times]), axis=1, return_counts=True)
    starts, last = pairs[1] - settings.longest, pairs[1] + settings.ahead
    shown = WindowRows(
        keys=coded.take(pairs[0]),
        count=len(counts),
        starts=pa.array(starts),
        ends=pa.array(last + 1),
        rows=counts,
        due=last,
        closes=last,
        size=share(table.nbytes, counts),
    )
    schemas = ViewSchemas(plan, group, settings.kept)
    bounds = [array_of(bound, pa.int64()).cast(INSTANT) for bound in (times - settings.longest, times + settings.ahead + 1)]
    lists = list_of(pa.StructArray.from_arrays(bounds, ["start", "end"]), np.ones(table.num_rows, np.int64))
    columns = {"windows": lists, "place": pa.array(integers(table, "arrival")), "time": instants(times)}
    rows = named_columns(table, [f"row {place}" for place in range(len(settings.kept))])
    elements = schemas.elements_of(keys, table.num_rows, columns, rows)
    return schemas.with_windows(schemas.windows_of(shown), elements=elements)


__all__ = ["LookBackSpec", "look_back_rule", "look_back_views"]
