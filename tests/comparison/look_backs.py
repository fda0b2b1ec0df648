"""Random look-back queries, and their definition row by row in plain Python.

A row is late if the watermark had reached its time before its micro-batch. Every other row is emitted in the micro-batch that
moves
the watermark to its time, plus the time that its window extends after it. Its results are the aggregates of all accepted rows of
its key from its time minus the size to its time plus that extension, both ends included.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from panestream.engine.operators.look_back import history
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.look_back import look_backs_of
from tests.comparison import harness
from tests.engine.aggregates import naive

SPANS = (4, 10, 30, 3000)


def random_plan(rng: random.Random) -> tuple[WindowPlan, int]:
    """Return a query, and about the length of its look-backs."""
    span = rng.choice(SPANS)

    def one() -> LookBackWindows:
        size = rng.choice([0, 1, span // 3, span, span, 3 * span])
        return LookBackWindows(size, rng.choice([0, 0, 0, 1, span // 2]))

    assigner = one() if rng.random() < 0.5 else SeveralWindows.of({label: one() for label in "abc"[: rng.randint(1, 3)]})
    kept = rng.choice([["ts", "v", "x", "u"], ["u", "ts"], ["v"], []])
    aggregates = exact_aggregates(rng) if rng.random() < 0.6 else harness.random_aggregates(rng)
    return plan_of(assigner, aggregates, kept, rng.choice([0, 0, span // 2, 2 * span]), rng.random() < 0.5), span


def exact_aggregates(rng: random.Random) -> tuple[agg.Aggregate, ...]:
    """Return one to four aggregates whose history has slices. Merged in any grouping, they have the same bits."""
    known = [
        agg.count(), agg.count("v"), agg.sum("v"), agg.mean("v"), agg.min("v"), agg.max("x"), agg.first("v"), agg.last("v"),
        agg.first("v", ignore_nulls=True), agg.max_by("v", "u"), agg.min_by("x", "u"), agg.arg_max("u", "v", "x"),
        agg.count_distinct("v"), agg.top_k("v", 2), agg.max_by("u", "v"), agg.histogram("v", [-3, 0, 4]),
    ]  # fmt: skip
    chosen = rng.sample(known, rng.randint(1, 4))
    return tuple(aggregate.alias(f"r{place}") for place, aggregate in enumerate(chosen))


def small_slices(monkeypatch, rng: random.Random) -> None:
    """Make slices that few rows fill: of several sizes, with partials for any number of rows, in separate blocks or not."""
    monkeypatch.setattr(history, "_IN_A_LOOK_BACK", rng.choice([2, 3, 5, 8, 64]))
    monkeypatch.setattr(history, "_SMALL", rng.choice([0, 0, 1, 4]))
    monkeypatch.setattr(history, "_WORTH", rng.choice([1, 1, 1.3, 2]))
    monkeypatch.setattr(history, "_BLOCK_ROWS", rng.choice([1, 4, 1 << 12]))


def plan_of(assigner, aggregates, kept=("ts", "v", "x", "u"), delay=0, late=False) -> WindowPlan:
    """Return the planner's plan of look-backs over the rows of the harness."""
    windowing = WindowQuery(assigner)
    columns = pa.schema([harness.ROWS.field(name) for name in kept])
    types = {**harness.TYPES, "ts": pa.int64()}
    asked = DeclaredAggregates(aggregates, types, harness.KEYS, columns=tuple(kept), kept=columns)
    return harness.plan_for(choose(windowing, asked), windowing, delay, late=late)


def expected(plan: WindowPlan, batches: Sequence[harness.MicroBatch]) -> list[tuple[list, list]]:
    """Return the output of each micro-batch in order, and its late rows."""
    look_backs, recipes = look_backs_of(plan.assigner), plan.operator.aggregates
    ahead = max(one.following for one in look_backs.values())
    emitted, found = set(), []
    for batch, taken, late, watermark in harness.by_own_time(plan, batches):
        out = []
        for row in taken:
            passed = batch.end or (watermark is not None and row.time + ahead <= watermark)
            if passed and row.arrival not in emitted:
                emitted.add(row.arrival)
                out.append(row)
        rows = []
        for row in sorted(out, key=lambda one: (one.time, one.arrival)):
            results = []
            for one in look_backs.values():
                near = [
                    other for other in taken
                    if other.key == row.key and row.time - one.size <= other.time <= row.time + one.following
                ]  # fmt: skip
                results += [naive.aggregate(recipe, near, harness.TYPES) for recipe in recipes]
            rows.append((row.key, (*(row.values[name] for name in plan.operator.kept.names), *results)))
        found.append((rows, late))
    return found


def by_key(rows: Sequence[tuple]) -> dict:
    """Return the rows of each key, in order."""
    found: dict = {}
    for key, values in rows:
        found.setdefault(key, []).append(values)
    return found
