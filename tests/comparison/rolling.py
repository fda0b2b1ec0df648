"""Random rolling queries, and their definition in plain Python.

At step ``t``, a window of a key has the rows that came in time and whose pane is in the last ``length`` panes before ``t``. After
each step that the watermark reaches, each key is compared with its last row. A row is late if the watermark minus the allowed
lateness had reached the end of its pane. An accepted row behind the last step changes the values of that step at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import RollingWindows
from tests.comparison import harness, look_backs
from tests.engine.aggregates import naive

SPANS = (4, 10, 30, 300)


def random_plan(rng: random.Random) -> tuple[WindowPlan, int]:
    """Return a query, and about the length of its windows."""
    span = rng.choice(SPANS)
    every = rng.choice([1, max(1, span // 4), max(1, span // 10), span])
    lengths = [
        rng.choice([None, every, 2 * every, span // every * every or every, 9 * every, 40 * every])
        for _ in range(rng.randint(1, 3))
    ]
    windows = RollingWindows(tuple((f"w{place}", length) for place, length in enumerate(lengths)), every)
    aggregates = look_backs.exact_aggregates(rng)  # a rounding error would be a change of the value
    lateness = rng.choice([0, 0, 1, every, 2 * span])
    if not windows.has_all_time:
        lateness = min(lateness, windows.longest)
    delay = rng.choice([0, 0, span // 2, 2 * span])
    return plan_of(windows, aggregates, lateness, delay, rng.random() < 0.5, rng.random() < 0.5), span


def plan_of(
    windows: RollingWindows,
    aggregates: Sequence[agg.Aggregate],
    lateness: int = 0,
    delay: int = 0,
    late: bool = False,
    changelog: bool = False,
) -> WindowPlan:
    """Return the planner's plan of rolling windows over the rows of the harness."""
    windowing = WindowQuery(windows, allowed_lateness=lateness)
    operator = plan_aggregates(windowing, aggregates, harness.TYPES, harness.KEYS)
    return harness.plan_for(operator, windowing, delay, late=late, changelog=changelog)


def is_exact(plan: WindowPlan) -> bool:
    """Return whether values are equal to the last bit, so that even the choice of emitted rows is comparable."""
    return plan.operator.aggregation.merges_exactly


def expected(plan: WindowPlan, batches: Sequence[harness.MicroBatch]) -> list[tuple[list, list]]:  # noqa: C901 - one definition
    """Return for each micro-batch the changes, as (key, step, values before, values), and the late rows."""
    windows, every, recipes = plan.assigner.windows, plan.assigner.every, plan.operator.aggregates
    longest = max((length for _, length in windows if length), default=0) // every
    taken: list[naive.Row] = []
    last: dict = {}
    found, fired, watermark = [], None, None

    def values(key, step):
        results, some = [], False
        for _, length in windows:
            first = float("-inf") if length is None else step - length // every
            rows = [row for row in taken if row.key == key and first <= row.time // every < step]
            some = some or bool(rows)
            results += [naive.aggregate(recipe, rows, harness.TYPES) for recipe in recipes]
        return tuple(results) if some else None

    def compare(keys, step):
        for key in keys:
            now, before = values(key, step), last.get(key)
            if repr(now) != repr(before):
                changes.append((key, step, before, now))
                last[key] = now

    for batch in batches:
        changes: list = []
        late = [
            row
            for row in batch.rows
            if watermark is not None and row[1] // every * every + every - 1 <= watermark - plan.allowed_lateness
        ]
        behind = set()
        for row in batch.rows:
            if row not in late:
                taken.append(naive.Row((row[0],), row[1], row[1], len(taken), dict(zip(harness.ROWS.names, row, strict=True))))
                if fired is not None and row[1] // every < fired:
                    behind.add((row[0],))
        if batch.rows:
            came = max(row[1] for row in batch.rows) - plan.watermark.delay - 1
            watermark = came if watermark is None else max(watermark, came)
        compare(behind, fired)
        until = max((row.time // every for row in taken), default=0) + longest + 1
        if not batch.end:
            until = min((watermark + 1) // every, until) if watermark is not None else None
        if until is not None and taken:
            start = min(row.time // every for row in taken) if fired is None else fired
            for step in range(start + 1, until + 1):
                compare({row.key for row in taken}, step)
        if watermark is not None:
            fired = (watermark + 1) // every
        found.append((changes, late))
    return found


def nothing(plan: WindowPlan) -> tuple:
    """Return the values of a key without rows."""
    return tuple(naive.aggregate(recipe, [], harness.TYPES) for _ in plan.assigner.windows for recipe in plan.operator.aggregates)


def shown(plan: WindowPlan, changes: Sequence[tuple]) -> list[tuple]:
    """Return changes as the rows of the output: the key, and the step's time, values and in a changelog the op."""
    rows = []
    for key, step, before, now in changes:
        time, empty = step * plan.assigner.every, nothing(plan)
        if not plan.changelog:
            rows.append((key, (time, *(empty if now is None else now))))
        elif before is None:
            rows.append((key, (time, *now, "insert")))
        elif now is None:
            rows.append((key, (time, *before, "delete")))
        else:
            rows += [(key, (time, *before, "update_before")), (key, (time, *now, "update_after"))]
    return rows


def with_delay(plan: WindowPlan, delay: int) -> WindowPlan:
    """Return the plan with another delay of the watermark."""
    return replace(plan, watermark=replace(plan.watermark, delay=delay))
