"""Whether a query can run as columnar sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from panestream.engine.aggregation import Aggregation
from panestream.engine.operation import Operation
from panestream.engine.operators.sessions.operation import SessionOperation
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GapColumn,
    LimitedEventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)

if TYPE_CHECKING:
    from panestream.engine.planner import Windowing


def choose_sessions(
    windowing: Windowing, aggregates: Sequence[Aggregate], types: Mapping[str, pa.DataType]
) -> Operation | list[str] | None:
    """The operation; or why sessions cannot run as columns; None: these are no sessions.

    Args:
        windowing: the windows.
        aggregates: the recipes.
        types: of the expressions that they take.
    """
    assigner, reasons = windowing.assigner, []
    if not isinstance(assigner, (EventTimeSessionWindows, ProcessingTimeSessionWindows)):
        return None
    if type(assigner) not in (EventTimeSessionWindows, LimitedEventTimeSessionWindows, ProcessingTimeSessionWindows):
        return [f"{type(assigner).__name__} is an assigner of the user's own"]
    gap = assigner.gap
    if not isinstance(gap, (int, GapColumn)):
        reasons.append("the gap is a function in Python: with_gap_column(expression) gives one that runs as a column")
    if windowing.trigger is not None and windowing.trigger != assigner.get_default_trigger():
        reasons.append(f"the trigger {windowing.trigger!r} is not the default one")
    if windowing.evictor is not None:
        reasons.append("an evictor needs all elements")
    if windowing.exact_firings:
        reasons.append("exact firings were asked for")
    if reasons or not isinstance(gap, (int, GapColumn)):
        return reasons
    aggregation = Aggregation.build(aggregates, types, pa.schema([]))
    input_types = tuple(types[text] for text in aggregation.inputs)
    clocked = not assigner.is_event_time
    return SessionOperation(gap, assigner.longest, tuple(aggregates), aggregation, input_types, clocked)
