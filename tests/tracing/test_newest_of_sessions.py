"""The query on the page about changelogs finds the newest row of each session. It is compared with the fate of every window."""

from __future__ import annotations

import random

import pytest

import panestream as pst
from panestream.testing import WindowTestHarness

MINUTE = 60_000_000


def rows_and_newest(seed):
    """Return the rows of all firings (window, is_last), and the last row of each session that did not merge into another."""
    rng = random.Random(seed)
    harness = WindowTestHarness(
        pst.EventTimeSessionWindows.with_gap("10 minutes"),
        reduce=lambda a, b: a + b,
        trigger=pst.ContinuousEventTimeTrigger.of(f"{rng.choice([1, 5, 30])} minutes"),
        traced=True,
    )
    watermark = 0
    for _ in range(rng.randrange(4, 14)):
        for _ in range(rng.randrange(1, 5)):
            harness.process_element(1, rng.randrange(0, 90) * MINUTE)
        watermark += rng.randrange(0, 20) * MINUTE
        harness.process_watermark(watermark)
    harness.process_watermark(10_000 * MINUTE)
    trace = harness.trace()
    rows = []
    for number, firing in enumerate(trace.firings):
        window = trace.windows[firing.window].window
        # Without lateness, a window is removed after the firing at its end.
        rows.append((window.start, window.end, number, firing.which == "on_time"))
    whole = [each for each in trace.windows if each.merged_into is None and each.firings]
    return rows, {(each.window.start, each.window.end, each.firings[-1].results) for each in whole}, trace


def newest(rows):
    """Run the query. It keeps a row if it is the last, or if no row covers its window and no later firing has the same window."""
    return [
        row
        for row in rows
        if row[3]
        or not any(other[0] <= row[0] and other[1] >= row[1] and (other[:2] != row[:2] or other[2] > row[2]) for other in rows)
    ]


@pytest.mark.full
def test_query_finds_exactly_the_newest_row_of_each_session_without_lateness():
    behind_a_closed_one = 0
    for seed in range(1_500):
        rows, wanted, trace = rows_and_newest(seed)
        found = newest(rows)
        assert len(found) == len(wanted), seed
        assert {(*row[:2], trace.firings[row[2]].results) for row in found} == wanted, seed
        # A query that does not always keep a last row would lose some of these.
        covered = [row for row in found if any(o[:2] != row[:2] and o[0] <= row[0] and o[1] >= row[1] for o in rows)]
        behind_a_closed_one += bool(covered)
    assert behind_a_closed_one > 10
