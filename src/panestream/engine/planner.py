"""Which operator runs a query, over which panes, and why; and the text that says so."""

from __future__ import annotations

from panestream.engine.plan import WindowPlan
from panestream.engine.slicing import PaneGrid
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from panestream.windowing.assigners.stagger import WindowStagger
from panestream.windowing.time import format_duration


def pane_grid(assigner: WindowAssigner) -> PaneGrid:
    """The panes under aligned event-time windows.

    Raises:
        InvalidPlanError: there is no operator on Spark for these windows yet.
    """
    if getattr(assigner, "stagger", WindowStagger.ALIGNED) is not WindowStagger.ALIGNED:
        raise InvalidPlanError(f"{assigner!r}: staggered windows do not run on Spark yet; leave out the stagger")
    if isinstance(assigner, TumblingEventTimeWindows):
        return PaneGrid.of(assigner.size, assigner.size, assigner.offset)
    if isinstance(assigner, SlidingEventTimeWindows):
        return PaneGrid.of(assigner.size, assigner.slide, assigner.offset)
    raise InvalidPlanError(
        f"{assigner!r} does not run on Spark yet: so far TumblingEventTimeWindows and SlidingEventTimeWindows do"
    )


def explain_plan(plan: WindowPlan, *, streaming: bool, chosen: int | None) -> str:
    """The plan in words.

    Args:
        plan: the query.
        streaming: whether it runs on a stream.
        chosen: the session's number of shuffle partitions, None where it is Spark's default.
    """
    grid = plan.grid
    overlap = -(-grid.size // grid.slide)
    window = f"{plan.assigner!r}: each row lies in {overlap} window{'s' if overlap > 1 else ''}"
    if grid.has_gaps:
        window = f"{plan.assigner!r}: rows between two windows belong to none"
    sections = {
        "windows": [window],
        "operator": ["aligned panes: aligned event-time windows, default trigger, declared aggregates"],
        "panes": [_panes(grid)],
        "aggregates": [
            f"{aggregate!r}: {'invertible' if aggregate.invertible else 'not invertible'}; {aggregate.merge_rule}"
            for aggregate in plan.aggregates
        ],
        "event time": [f"{plan.event_time}, {plan.watermark!r}", *_lateness(plan)],
        "exchange": [
            "pre-aggregated per (key, pane) before the shuffle",
            f"{plan.groups} key group{'s' if plan.groups > 1 else ''}, one per state partition",
            *(["whole rows cross the shuffle too, for the late output"] if plan.late_tag else []),
        ],
        "state": _state(plan, streaming, chosen),
        "outputs": [", ".join(plan.tags) + (f"; main: the top {plan.top.n} of each window by {plan.top.by}" if plan.top else "")],
    }
    width = max(len(title) for title in sections)
    lines = [
        f"{title if first else '':<{width}}  {line}"
        for title, body in sections.items()
        for first, line in zip([True] + [False] * len(body), body, strict=False)
    ]
    return "\n".join(lines)


def _panes(grid: PaneGrid) -> str:
    if grid.has_gaps:
        return f"a pane for each window ({format_duration(grid.size)})"
    if len(grid.edges) == 1:
        return f"{format_duration(grid.slide)} each, {grid.size // grid.slide} to a window"
    first, second = format_duration(grid.edges[1]), format_duration(grid.slide - grid.edges[1])
    return f"two to a slide, {first} and {second}, since the slide does not divide the size"


def _lateness(plan: WindowPlan) -> list[str]:
    late = f"late rows go to the output {plan.late_tag!r}" if plan.late_tag else "late rows are counted and dropped"
    invalid = (
        f"rows without event time go to the output {plan.invalid_tag!r}"
        if plan.invalid_tag
        else "rows without event time fail the query"
    )
    return [late, invalid]


def _state(plan: WindowPlan, streaming: bool, chosen: int | None) -> list[str]:
    if not streaming:
        return ["none: a batch fires every window at the end of input"]
    lines = ["one block of partials per micro-batch and key group, appended, only for panes that stay open; merged by eights"]
    if plan.groups > 1 and chosen != plan.groups:
        lines.append(
            f"result.start() sets spark.sql.shuffle.partitions={plan.groups} for its query; for .main set it yourself "
            f"(now {chosen if chosen is not None else 'the default, 200'}), and the RocksDB state store"
        )
    return lines
