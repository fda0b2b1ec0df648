"""Whether a query can run as columnar count windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from panestream.engine.aggregation import Aggregation
from panestream.engine.operation import Operation
from panestream.engine.operators.counts.operation import CountOperation
from panestream.engine.operators.counts.shape import CountShape
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import CountTrigger, PurgingTrigger

if TYPE_CHECKING:
    from panestream.engine.planner import Windowing


def choose_counts(
    windowing: Windowing, aggregates: Sequence[Aggregate], types: Mapping[str, pa.DataType]
) -> Operation | list[str] | None:
    """The operation; or why global windows cannot run as columns; None: these are no global windows.

    Args:
        windowing: the windows.
        aggregates: the recipes.
        types: of the expressions that they take.
    """
    if type(windowing.assigner) is not GlobalWindows:
        return None
    if windowing.exact_firings:
        return ["exact firings were asked for"]
    shape = _shape(windowing)
    if isinstance(shape, str):
        return [shape]
    aggregation = Aggregation.build(aggregates, types, pa.schema([]))
    input_types = tuple(types[text] for text in aggregation.inputs)
    return CountOperation(shape, tuple(aggregates), aggregation, input_types)


def _shape(windowing: Windowing) -> CountShape | str:
    """What the windows fire, or why that is not known in columns. A count of 0 fires at every row, like 1."""
    trigger, evictor = windowing.trigger, windowing.evictor
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
