"""Panes at several resolutions: whatever is read between two cuts is what came there, each value once."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.panes.rollups import FAN_OUT, Rollups, resolutions
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg

KEYS = pa.schema([("key", pa.string())])
COUNT = Aggregation.build([agg.count()], {}, KEYS)
LONGEST = 400


def weight(pane):
    """How many rows a pane has: sums of them tell which panes went in."""
    return 10 ** (pane % 15)


def partials(panes):
    """A partial of key "a" in each pane."""
    panes = sorted(panes)
    columns = {"pane": panes, "key": ["a"] * len(panes), "rows": [weight(pane) for pane in panes]}
    return pa.table([columns[name] for name in COUNT.partial_schema.names], schema=COUNT.partial_schema)


def opened():
    return Rollups.of(MemoryState(), COUNT, LONGEST, resolutions(LONGEST))


def read(rollups, low, end):
    """How many rows there are between two cuts, by what is read; and how many partials that was."""
    tables = rollups.read(np.array([low, (low + end) // 2, end]))
    panes = [pane for table in tables for pane in table.column("pane").to_pylist()]
    assert all(low <= pane < end for pane in panes), (low, end, panes)
    return sum(number for table in tables for number in table.column("rows").to_pylist()), len(panes)


def expected(panes, low, end):
    return sum(weight(pane) for pane in panes if low <= pane < end)


def test_how_many_resolutions_there_are_is_part_of_what_rests():
    """A checkpoint has the blocks of each: with another number of them no old one would be read."""
    lengths = [1, 23, 24, 31, 32, 127, 128, 511, 512, 2047, 2048]
    assert [resolutions(panes) for panes in lengths] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]


@pytest.mark.parametrize("seed", range(6))
def test_any_span_is_what_came_there(seed):
    rng, rollups, came, settled = random.Random(seed), opened(), [], 0
    for _ in range(12):
        fresh = {rng.randrange(settled, settled + 150) for _ in range(rng.randint(0, 90))}
        behind = {rng.randrange(max(0, settled - 60), settled) for _ in range(rng.randint(0, 4))} if settled else set()
        came += [*behind, *fresh]
        settled += rng.choice([0, 1, 37, 120])
        rollups.roll_up(partials([*behind, *fresh]), settled, max(0, settled - LONGEST))
        oldest = max(0, settled - LONGEST)
        for _ in range(20):
            low = rng.randrange(oldest, settled + 150)
            end = rng.randrange(low + 1, settled + 200)
            assert read(rollups, low, end)[0] == expected(came, low, end)


def test_a_long_span_of_settled_panes_is_read_in_a_few_rows():
    rollups = opened()
    for begin in range(0, 400, 40):
        rollups.roll_up(partials(range(begin, begin + 40)), begin + 40, 0)
    total, rows = read(rollups, 0, 400)
    assert total == expected(range(400), 0, 400)
    assert rows <= 2 * (FAN_OUT - 1) * len(rollups.levels) + LONGEST // FAN_OUT ** (len(rollups.levels) - 1)
    assert [len(store.index) > 0 for store in rollups.levels] == [True] * len(rollups.levels)


def test_what_is_ahead_of_the_watermark_is_read_between_its_cuts_only():
    rollups = opened()
    rollups.roll_up(partials([0, 5, 30, 31, 60]), 0, 0)
    assert read(rollups, 30, 60) == (expected([30, 31], 30, 60), 2)


def test_panes_that_no_window_needs_go():
    rollups = opened()
    for begin in range(0, 2000, 40):
        rollups.roll_up(partials(range(begin, begin + 40)), begin + 40, max(0, begin + 40 - LONGEST))
    first = 2000 - LONGEST
    assert all(
        block.high * FAN_OUT**level >= first - FAN_OUT**level
        for level, store in enumerate(rollups.levels)
        for block in store.index
    )
    assert rollups.spans()[1].max() == 1999
    assert read(rollups, first, 2000)[0] == expected(range(first, 2000), first, 2000)


def test_small_micro_batches_do_not_leave_small_blocks():
    rollups = opened()
    for pane in range(600):
        rollups.roll_up(partials([pane, pane + 20]), max(0, pane - 30), max(0, pane - LONGEST))
    assert [len(store.index) <= 24 for store in rollups.stores()] == [True] * (1 + len(rollups.levels))
