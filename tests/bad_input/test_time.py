"""Clocks that step back or jump, and silent sources, lose no row. The engine takes the clock as an argument."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from panestream.engine.plan import WindowQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison.harness import MicroBatch, Query, cases, first_seed, run

CLOCKS = {
    "back": [100, 105, 60, 65, 108, 130, 200],
    "far ahead, and back": [100, 10**15, 200, 300, 10**15 + 50],
    "before 1970": [100, -50, 100, 120],
    "standing still, then back by one": [100, 100, 100, 99, 99, 99, 150],
}
WINDOWS = {
    "tumbling": (TumblingProcessingTimeWindows(10), 1),
    "sliding": (SlidingProcessingTimeWindows(20, 10), 2),
    "sessions": (ProcessingTimeSessionWindows(10), 1),
}


def query(assigner):
    return Query(WindowQuery(assigner), (agg.count().alias("n"),))


def micro_batches_at(clocks, rng):
    """Return micro-batches of three rows at these clock times, and an end long after all of them."""
    numbers = iter(range(10**6))
    batches = [[(rng.choice("ab"), n, n, None, n) for n in (next(numbers), next(numbers), next(numbers))] for _ in clocks]
    end = [MicroBatch([], max(clocks) + 1000), MicroBatch([], max(clocks) + 2000)]
    return [MicroBatch([rows], clock) for rows, clock in zip(batches, clocks, strict=True)] + end


def check(plan, clocks, overlaps, rng):
    emitted = run(plan, micro_batches_at(clocks, rng))
    fired = sum(values[0] for each in emitted for _, values in each.fired)
    assert fired == 3 * len(clocks) * overlaps
    assert emitted[-1].wake_up is None, "something was left behind"
    # A window fires once the clock is past it, and takes no rows afterwards.
    places = [place for each in emitted for place, _ in each.fired]
    assert len(places) == len(set(places)), "a window fired twice"
    return emitted


@pytest.mark.parametrize("clocks", CLOCKS)
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("kind", ["row", "columnar"])
def test_clock_that_steps_back_or_jumps_loses_no_row(kind, windows, clocks):
    assigner, overlaps = WINDOWS[windows]
    check(getattr(query(assigner), kind)(), CLOCKS[clocks], overlaps, random.Random(1))


def test_clock_with_random_steps_loses_no_row():
    for seed in range(first_seed(), first_seed() + cases(40)):
        rng = random.Random(seed)
        clocks = [rng.choice([rng.randint(-100, 300), rng.randint(0, 10**6)]) for _ in range(rng.randint(1, 12))]
        assigner, overlaps = rng.choice(list(WINDOWS.values()))
        for kind in ("row", "columnar"):
            check(getattr(query(assigner), kind)(), clocks, overlaps, random.Random(seed))


def silent(idleness):
    """Run two source partitions. One falls silent after the first micro-batch, and the other continues for a minute."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().per_partition("u")
    strategy = strategy if idleness is None else strategy.with_idleness(idleness)
    micros = 1_000_000
    plan = Query(WindowQuery(TumblingEventTimeWindows(10 * micros)), (agg.count().alias("n"),), more={}).columnar()
    plan = replace(plan, watermark=strategy)
    rows = [[("a", 0, 1, None, 0), ("a", 0, 1, None, 1)]] + [[("a", n * micros, 1, None, 1)] for n in range(1, 60)]
    return run(plan, [MicroBatch([each], clock) for clock, each in zip(range(0, 60 * micros, micros), rows, strict=True)])


def test_silent_source_holds_the_watermark_back():
    emitted = silent(None)
    assert [place for each in emitted for place, _ in each.fired] == []
    assert emitted[-1].metrics.watermark <= 0


def test_idle_source_is_ignored_after_the_idle_timeout():
    emitted = silent("5 seconds")
    fired = sum(values[0] for each in emitted for _, values in each.fired)
    assert fired >= 50
    assert sum(each.metrics.late_rows for each in emitted) == 0
