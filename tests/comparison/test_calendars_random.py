"""Compare calendar windows with a naive definition, and columns with the row operator.


``PANESTREAM_CASES=20000 pytest tests/comparison/test_calendars_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random

import numpy as np
import pytest

from panestream.engine.kernels import calendar_grid
from panestream.engine.operators.panes.rule import pane_grid, why_not_panes
from panestream.engine.plan import WindowQuery
from panestream.windowing.assigners import CumulatingEventTimeWindows, SlidingEventTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from tests.comparison import harness, test_accumulating
from tests.comparison.calendars import HOUR, naive_windows, random_calendar, random_instant, random_stream, random_zone

CHUNKS = 8


def definition(rng: random.Random, seed: int) -> None:
    """Compare the assigner and the columns with the definition at some instants."""
    one, span = random_calendar(rng)
    times = sorted(random_instant(rng, one.zone, span) for _ in range(4))
    grid = pane_grid(one)
    (windows,) = grid.windows
    panes = grid.panes_of(np.asarray(times))
    for instant, pane in zip(times, panes.tolist(), strict=True):
        expected = naive_windows(one, instant)
        found = [(window.start, window.end) for window in one.assign_windows(None, instant, instant)]
        place = np.asarray([instant])
        numbers = windows.over(place, place, -(2**62), 2**62)
        on_columns = list(zip(windows.start_of(numbers).tolist(), windows.end_of(numbers).tolist(), strict=True))
        what = f"seed {seed}: {one!r} at {instant}"
        assert set(found) == expected, what
        assert len(found) == len(expected), what
        assert sorted(on_columns) == sorted(expected), what
        assert grid.start_of(pane) <= instant < grid.start_of(pane + 1), what
        assert bool(grid.in_gap(np.asarray([pane]))[0]) == (not expected), what


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_calendar_windows_agree_with_the_definition(chunk):
    harness.run_cases(160, chunk, CHUNKS, definition)


@pytest.mark.parametrize("seed", [34, 60])
def test_units_that_a_clock_skips_have_no_window(seed):
    """The clock of Casablanca skips an hour, and the clock of Apia a day."""
    definition(random.Random(seed), seed)


def random_trigger(rng: random.Random, span: int, *, clock: bool) -> Trigger | None:
    interval = rng.choice([HOUR, span // 3, 7 * HOUR])
    continuous = (ContinuousProcessingTimeTrigger if clock else ContinuousEventTimeTrigger)(interval)
    trigger = rng.choice([None, None, continuous])
    return PurgingTrigger.of(trigger) if trigger is not None and rng.random() < 0.4 else trigger


def random_query(rng: random.Random) -> tuple[harness.Query, int, str]:
    """Return a query of one calendar that columns support, about the size of its windows, and the zone."""
    while True:
        clock = rng.random() < 0.2
        assigner, span = random_calendar(rng, clock=clock)
        lateness = rng.choice([0, 0, HOUR, span])
        windowing = WindowQuery(assigner, random_trigger(rng, span, clock=clock), allowed_lateness=lateness)
        if not why_not_panes(windowing):
            delay = rng.choice([0, 0, HOUR, span])
            return harness.Query(windowing, harness.random_aggregates(rng), delay, rng.random() < 0.4), span, assigner.zone


def columns(rng: random.Random, seed: int) -> None:
    query, span, zone = random_query(rng)
    batches = random_stream(rng, zone, span, clock=not query.windowing.assigner.is_event_time)
    harness.compare(query, batches, f"seed {seed}")
    if seed % 4 == 0 and not query.columnar().operator.purges:
        harness.compare_batch(query, batches, f"seed {seed}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_calendar_columns_agree_with_the_row_operator(chunk):
    harness.run_cases(48, chunk, CHUNKS, columns)


def random_several(rng: random.Random) -> tuple[SeveralWindows, int, str]:
    """Return several kinds of windows, of one or two zones, together with fixed-length windows.

    Also about their size, and the zone.
    """
    zone = random_zone(rng)
    pairs = [random_calendar(rng, zone=rng.choice([zone, zone, random_zone(rng)])) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.5 or len(pairs) == 1:
        even = rng.choice([SlidingEventTimeWindows(7 * HOUR, 3 * HOUR), CumulatingEventTimeWindows(24 * HOUR, 4 * HOUR)])
        pairs.insert(rng.randint(0, 1), (even, 24 * HOUR))
    together = SeveralWindows.of({label: assigner for label, (assigner, _) in zip("abc", pairs, strict=False)})
    return together, min(size for _, size in pairs), zone


def several(rng: random.Random, seed: int) -> None:
    """Several kinds of windows share panes. Each must agree with the row operator."""
    together, span, zone = random_several(rng)
    query = harness.Query(WindowQuery(together), harness.random_aggregates(rng), rng.choice([0, HOUR]), rng.random() < 0.4)
    batches = random_stream(rng, zone, span)
    expected = []
    alone = [
        harness.run(harness.Query(WindowQuery(one), query.aggregates, query.delay, query.late).row(), batches)
        for one in together.assigners
    ]
    for emitted in zip(*alone, strict=True):
        fired = [
            ((place[0], label, *place[1:]), values)
            for label, one in zip(together.labels, emitted, strict=True)
            for place, values in one.fired
        ]
        late = [row for row in emitted[0].late if all(row in one.late for one in emitted[1:])]
        expected.append(harness.Emitted(fired, late, harness.GroupMetrics(late_rows=len(late))))
    harness.compare(query, batches, f"seed {seed}", expected, count_late=query.late)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_several_calendars_in_one_operator_agree_with_each_alone(chunk):
    harness.run_cases(16, chunk, CHUNKS, several)


def accumulating(rng: random.Random, seed: int) -> None:
    """Compare functions over the rows of windows, on columns."""
    assigner, span = random_calendar(rng)
    windowing = WindowQuery(assigner, allowed_lateness=rng.choice([0, 0, HOUR, span]))
    batches = random_stream(rng, assigner.zone, span)
    row, panes = test_accumulating.plans(
        windowing, rng.choice(["rows", "arrow", "all"]), rng.random() < 0.5, rng.choice([0, HOUR, span])
    )
    for number, (theirs, ours) in enumerate(zip(harness.run(row, batches), harness.run(panes, batches), strict=True)):
        wrong = harness.difference(harness.coalesced(theirs.fired), harness.single_firings(ours.fired))
        assert wrong is None, f"seed {seed}: micro-batch {number}: {wrong}\n{windowing}\n{batches[: number + 1]}"
        assert (theirs.late, theirs.metrics.late_rows) == (ours.late, ours.metrics.late_rows), f"seed {seed}: late rows"


@pytest.mark.parametrize("chunk", range(4))
def test_functions_over_calendar_windows_agree_with_the_row_operator(chunk):
    harness.run_cases(12, chunk, 4, accumulating)


def mixed(rng: random.Random, seed: int) -> None:
    """Panes of several zones start at the same instants with sorted edges and with a search."""
    together, span, zone = random_several(rng)
    grid = pane_grid(together)
    panes = grid.panes_of(np.asarray([random_instant(rng, zone, 4 * span) for _ in range(5)]))
    found = []
    for edges in (2**60, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(calendar_grid, "_EDGES", edges)
            patch.setattr(calendar_grid, "_EDGES_OF_A_PANE", 0)
            found.append(grid.starts_of(panes).tolist())
    assert found[0] == found[1], f"seed {seed}: {together!r}, panes {panes.tolist()}"


@pytest.mark.parametrize("chunk", range(4))
def test_panes_of_several_zones_agree_with_sorted_edges_and_with_a_search(chunk):
    harness.run_cases(32, chunk, 4, mixed)
