"""Which windows by number of rows run as columns."""

from __future__ import annotations

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.counts.shape import CountShape
from panestream.engine.operators.counts.spec import CountSpec
from panestream.engine.rule import PYTHON, Asked, DeclaredAggregates, Supported, Unsupported
from panestream.engine.window_spec import WindowSpec
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import CountTrigger, PurgingTrigger


def counts_rule(window: WindowSpec, asked: Asked) -> Supported | Unsupported | None:
    """Global windows with a count trigger, over declared aggregates: purging, with the evictor of count windows, or with none."""
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
    """What the windows fire, or why that is not known in columns. A count of 0 fires at every row, like 1."""
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


__all__ = ["counts_rule"]
