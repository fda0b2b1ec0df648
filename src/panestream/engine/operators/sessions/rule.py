"""Which sessions run as columns."""

from __future__ import annotations

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.sessions.spec import SessionSpec
from panestream.engine.rule import PYTHON, Asked, DeclaredAggregates, Supported, Unsupported
from panestream.engine.window_spec import WindowSpec
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import GapColumn, LimitedEventTimeSessionWindows


def sessions_rule(window: WindowSpec, asked: Asked) -> Supported | Unsupported | None:
    """Sessions over declared aggregates: with a gap that is a number or a column, and the default trigger."""
    assigner = window.assigner
    if not isinstance(assigner, (EventTimeSessionWindows, ProcessingTimeSessionWindows)):
        return None
    if not isinstance(asked, DeclaredAggregates):
        return None
    gap, reasons = assigner.gap, _why_not(window)
    if asked.then is not None:
        reasons.append(PYTHON)
    if reasons or not isinstance(gap, (int, GapColumn)):
        return Unsupported(reasons)
    aggregation = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    input_types = tuple(asked.types[text] for text in aggregation.inputs)
    by_processing_time = not assigner.is_event_time
    return Supported(SessionSpec(gap, assigner.longest, tuple(asked.aggregates), aggregation, input_types, by_processing_time))


def _why_not(window: WindowSpec) -> list[str]:
    assigner = window.assigner
    if type(assigner) not in (EventTimeSessionWindows, LimitedEventTimeSessionWindows, ProcessingTimeSessionWindows):
        return [f"{type(assigner).__name__} is an assigner of the user's own"]
    reasons = []
    if not isinstance(getattr(assigner, "gap", None), (int, GapColumn)):
        reasons.append("the gap is a function in Python: with_gap_column(expression) gives one that runs as a column")
    if window.trigger is not None and window.trigger != assigner.get_default_trigger():
        reasons.append(f"the trigger {window.trigger!r} is not the default one")
    if window.evictor is not None:
        reasons.append("an evictor needs all elements")
    if window.every_firing:
        reasons.append("every firing was asked for")
    return reasons


__all__ = ["sessions_rule"]
