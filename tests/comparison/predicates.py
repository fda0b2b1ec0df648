"""Random queries of windows by predicates, and their definition row by row in plain Python.

A row is late if the watermark had reached its time before its micro-batch. The other rows of each key are processed in the order
of
their times, all rows of an instant together. At each instant, predicates begin and end windows, and a gap may have ended one
before. A window is emitted in the micro-batch that moves the watermark to its end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates
from panestream.windowing.assigners import PredicateWindows
from tests.comparison import harness
from tests.engine.aggregates import naive

LABELS = harness.PREDICATES
"""The value of each predicate for a row."""


def random_plan(rng: random.Random) -> tuple[WindowPlan, int]:
    """Return a query, and about the length of its windows."""
    span = rng.choice([4, 10, 30, 3000])
    start, end = rng.choice(
        [("u % 5 = 0", None), (None, "u % 4 = 1"), ("u % 5 = 0", "u % 4 = 1"), ("v > 0", "u % 4 = 1"), ("v > 0", "v > 0")]
    )
    gap = rng.choice([None, None, 1, span // 2, span, 3 * span])
    late = rng.random() < 0.5
    return plan_of(
        PredicateWindows(start, end, gap), harness.random_aggregates(rng), rng.choice([0, 0, span // 2, 2 * span]), late
    ), span


def plan_of(assigner: PredicateWindows, aggregates, delay: int = 0, late: bool = False) -> WindowPlan:
    """Return the planner's plan over the rows of the harness."""
    windowing = WindowQuery(assigner)
    return harness.plan_for(
        choose(windowing, DeclaredAggregates(aggregates, harness.TYPES, harness.KEYS)), windowing, delay, late=late
    )


@dataclass
class Open:
    """An open window."""

    start: int
    rows: list = field(default_factory=list)


def windows_of(assigner: PredicateWindows, rows: Sequence[naive.Row], reached: float) -> list[tuple[tuple[int, int], list]]:
    """Return the closed windows of one key at a time, with their rows, by definition."""
    return closed_and_open_windows(assigner, rows, reached)[0]


def closed_and_open_windows(
    assigner: PredicateWindows, rows: Sequence[naive.Row], reached: float
) -> tuple[list[tuple[tuple[int, int], list]], Open | None]:
    """Return the closed windows of one key at a time, and the open window."""
    begins = None if assigner.start is None else LABELS[assigner.start]
    ends = (lambda values: False) if assigner.end is None else LABELS[assigner.end]
    found: list[tuple[tuple[int, int], list]] = []
    window: Open | None = None
    for time, instant in groupby(sorted(rows, key=lambda row: (row.time, row.arrival)), key=lambda row: row.time):
        if time > reached:
            break
        together = list(instant)
        if window is not None and assigner.gap is not None and time > window.rows[-1].time + assigner.gap:
            found.append(((window.start, window.rows[-1].time + assigner.gap), window.rows))
            window = None
        if begins is None:
            window = window or Open(time)
        elif any(begins(row.values) for row in together):
            if window is not None:
                found.append(((window.start, time), window.rows))
            window = Open(time)
        if window is None:
            continue
        window.rows += together
        if any(ends(row.values) for row in together):
            found.append(((window.start, time + 1), window.rows))
            window = None
    if window is not None and assigner.gap is not None and window.rows[-1].time + assigner.gap <= reached:
        found.append(((window.start, window.rows[-1].time + assigner.gap), window.rows))
        window = None
    return found, window


def left_of(plan: WindowPlan, batches: Sequence[harness.MicroBatch]) -> tuple[dict, int | None]:
    """Return the state after micro-batches by definition: open windows and waiting instants with their rows, by place."""
    watermark, taken = None, []
    for batch in batches:
        taken += [row for row in batch.rows if watermark is None or row[1] > watermark]
        if batch.rows:
            came = max(row[1] for row in batch.rows) - plan.watermark.delay - 1
            watermark = came if watermark is None else max(watermark, came)
    reached, left = -float("inf") if watermark is None else watermark, {}
    for key in {row[0] for row in taken}:
        rows = [row for row in taken if row[0] == key]
        told = [
            naive.Row((key,), row[1], row[1], n, dict(zip(harness.ROWS.names, row, strict=True))) for n, row in enumerate(rows)
        ]
        _, window = closed_and_open_windows(plan.assigner, told, reached)
        if window is not None:
            end = window.rows[-1].time + (plan.assigner.gap or 1)
            left[(key, window.start, end)] = [tuple(row.values.values()) for row in window.rows]
        for row in rows:
            if row[1] > reached:
                left.setdefault((key, row[1], row[1] + 1), []).append(row)
    return left, watermark


def expected(plan: WindowPlan, batches: Sequence[harness.MicroBatch]) -> list[tuple[dict, list]]:
    """Return the output of each micro-batch by place, and its late rows."""
    emitted, found = set(), []
    for batch, taken, late, watermark in harness.by_own_time(plan, batches):
        reached = float("inf") if batch.end else -float("inf") if watermark is None else watermark
        fired = {}
        for key in {row.key for row in taken}:
            for bounds, rows in windows_of(plan.assigner, [row for row in taken if row.key == key], reached):
                place = (*key, *bounds)
                if place not in emitted:
                    emitted.add(place)
                    fired[place] = tuple(naive.aggregate(one, rows, harness.TYPES) for one in plan.operator.aggregates)
        found.append((fired, late))
    return found
