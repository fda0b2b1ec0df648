"""Panes at several resolutions: reading between two cuts returns each value exactly once."""

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
    """Return how many rows a pane has. Sums of these numbers show which panes they include."""
    return 10 ** (pane % 15)


def partials(panes):
    """Return a partial of key "a" for each pane."""
    panes = sorted(panes)
    columns = {"pane": panes, "key": ["a"] * len(panes), "rows": [weight(pane) for pane in panes]}
    return pa.table([columns[name] for name in COUNT.partial_schema.names], schema=COUNT.partial_schema)


def new_rollups():
    return Rollups.of(MemoryState(), COUNT, LONGEST, resolutions(LONGEST))


def read_rows(rollups, low, end):
    """Return the number of rows between two cuts and the number of partials that were read for it."""
    tables = rollups.read(np.array([low, (low + end) // 2, end]))
    panes = [pane for table in tables for pane in table.column("pane").to_pylist()]
    assert all(low <= pane < end for pane in panes), (low, end, panes)
    return sum(number for table in tables for number in table.column("rows").to_pylist()), len(panes)


def expected_rows(panes, low, end):
    return sum(weight(pane) for pane in panes if low <= pane < end)


def test_number_of_resolutions_does_not_change():
    """A checkpoint has blocks of each resolution. Changing their number would make old checkpoints unreadable."""
    lengths = [1, 23, 24, 31, 32, 127, 128, 511, 512, 2047, 2048]
    assert [resolutions(panes) for panes in lengths] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]


@pytest.mark.parametrize("seed", range(6))
def test_rollups_return_the_rows_of_any_span(seed):
    rng, rollups, all_panes, settled = random.Random(seed), new_rollups(), [], 0
    for _ in range(12):
        fresh = {rng.randrange(settled, settled + 150) for _ in range(rng.randint(0, 90))}
        late = {rng.randrange(max(0, settled - 60), settled) for _ in range(rng.randint(0, 4))} if settled else set()
        all_panes += [*late, *fresh]
        settled += rng.choice([0, 1, 37, 120])
        rollups.roll_up(partials([*late, *fresh]), settled, max(0, settled - LONGEST))
        oldest = max(0, settled - LONGEST)
        for _ in range(20):
            low = rng.randrange(oldest, settled + 150)
            end = rng.randrange(low + 1, settled + 200)
            assert read_rows(rollups, low, end)[0] == expected_rows(all_panes, low, end)


def test_long_span_of_settled_panes_is_read_as_few_partials():
    rollups = new_rollups()
    for begin in range(0, 400, 40):
        rollups.roll_up(partials(range(begin, begin + 40)), begin + 40, 0)
    total, rows = read_rows(rollups, 0, 400)
    assert total == expected_rows(range(400), 0, 400)
    assert rows <= 2 * (FAN_OUT - 1) * len(rollups.levels) + LONGEST // FAN_OUT ** (len(rollups.levels) - 1)
    assert [len(store.index) > 0 for store in rollups.levels] == [True] * len(rollups.levels)


def test_panes_ahead_of_the_watermark_are_read_only_within_the_span():
    rollups = new_rollups()
    rollups.roll_up(partials([0, 5, 30, 31, 60]), 0, 0)
    assert read_rows(rollups, 30, 60) == (expected_rows([30, 31], 30, 60), 2)


def test_panes_are_deleted_once_no_window_needs_them():
    rollups = new_rollups()
    for begin in range(0, 2000, 40):
        rollups.roll_up(partials(range(begin, begin + 40)), begin + 40, max(0, begin + 40 - LONGEST))
    first = 2000 - LONGEST
    assert all(
        block.high * FAN_OUT**level >= first - FAN_OUT**level
        for level, store in enumerate(rollups.levels)
        for block in store.index
    )
    assert rollups.spans()[1].max() == 1999
    assert read_rows(rollups, first, 2000)[0] == expected_rows(range(first, 2000), first, 2000)


def test_small_micro_batches_leave_few_blocks_at_each_resolution():
    rollups = new_rollups()
    for pane in range(600):
        rollups.roll_up(partials([pane, pane + 20]), max(0, pane - 30), max(0, pane - LONGEST))
    assert [len(store.index) <= 24 for store in rollups.stores()] == [True] * (1 + len(rollups.levels))
