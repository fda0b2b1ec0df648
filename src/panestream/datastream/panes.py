"""Tiles: partial aggregates of a key and time slice as an output, instead of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from panestream.datastream.events import WindowedEvents
from panestream.datastream.inputs import check_collations, no_aggregate, resolve_inputs
from panestream.datastream.result import WindowedResult
from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.panes.rule import pane_grid, why_not_aligned
from panestream.engine.plan import WindowPlan
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates
from panestream.engine.tiles.format import ROWS, recipes_of_tiles
from panestream.errors import InvalidPlanError
from panestream.spark.columns import types_of
from panestream.spark.names import Names
from panestream.spark.tiles.manifest import MANIFEST, TilesManifest
from panestream.spark.types import spark_schema, to_arrow
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.triggers import EventTimeTrigger


@dataclass(frozen=True, eq=False, repr=False)
class PanesResult(WindowedResult):
    """The tiles of a windowed query, and its other outputs. ``manifest`` is the description that each tile carries, as text."""

    manifest: str = field(default="")

    @cached_property
    def plan(self) -> WindowPlan:
        return replace(super().plan, constants={MANIFEST: self.manifest})


def panes_of(windowed: WindowedEvents, aggregates: Sequence[recipes.Aggregate]) -> PanesResult:
    """Return the tiles of time slices, or raise InvalidPlanError for other windows and for partials that cannot be stored."""
    _check_slices(windowed)
    keyed = windowed.keyed
    df, keys = keyed.source.df, keyed.key_schema
    for aggregate in aggregates:
        if isinstance(aggregate, AggregateFunction):
            raise InvalidPlanError(
                f"panes keeps partials of declared aggregates, and {type(aggregate).__name__} is a function over rows: write it "
                f"over columns with agg.user(...), whose partials can be kept"
            )
        if not isinstance(aggregate, recipes.Aggregate):
            raise no_aggregate(df, aggregate)
    taken = [name for name in (ROWS, MANIFEST) if Names.of(df.sparkSession).find(name, keys.names) is not None]
    if taken:
        raise InvalidPlanError(f"tiles have a column {taken[0]!r}. Rename the key with AS")
    declared, inputs = resolve_inputs(df, aggregates)
    kinds = types_of(df, inputs)
    check_collations(declared, kinds)
    types = {text: to_arrow(kind, text) for text, kind in kinds.items()}
    aggregation = Aggregation.build(declared, types, keys)
    asked = DeclaredAggregates(recipes_of_tiles(declared, aggregation), types, keys)
    operator = choose(windowed.windowing, asked)
    # A partial of a type that Spark does not have is refused now, not when rows come.
    spark_schema(operator.result_schema)
    manifest = TilesManifest.of(windowed.windowing.assigner, keys.names, declared, aggregation).text()
    return PanesResult(windowed, operator, inputs, asked=asked, manifest=manifest)


def _check_slices(windowed: WindowedEvents) -> None:
    """Refuse windows that are not time slices."""
    windowing, write = windowed.windowing, "write .window(TumblingEventTimeWindows.of('1 hour')).panes(...)"
    assigner = windowing.assigner
    reasons = why_not_aligned(assigner)
    if isinstance(assigner, SeveralWindows):
        reasons = ["there are several kinds of windows: the slices of one are enough for all"]
    elif not reasons and not assigner.is_event_time:
        reasons = ["windows of the clock depend on when rows were read"]
    elif not reasons and pane_grid(assigner).overlaps:
        reasons = ["they overlap, but a row must be in one tile"]
    if reasons:
        raise InvalidPlanError(f"{assigner!r} cannot be slices for panes ({reasons[0]}): {write}")
    if windowing.trigger is not None and not isinstance(windowing.trigger, EventTimeTrigger):
        raise InvalidPlanError(
            f"a tile is emitted when its slice ends, and again for late rows. Leave out the trigger {windowing.trigger!r}; to "
            f"include rows of open slices, read them with from_panes(..., rows=...)"
        )
    if windowing.evictor is not None:
        raise InvalidPlanError(f"a tile holds all rows of its slice. Leave out the evictor {windowing.evictor!r}")


__all__ = ["PanesResult", "panes_of"]
