"""Which rows sessions take, against taking them one by one."""

import numpy as np
import pytest

from panestream.engine.kernels.ordering import running_max
from panestream.engine.operators.sessions.arrivals import late_rows
from panestream.engine.operators.sessions.exchange import merge_touching


def one_by_one(units, starts, ends, closed):
    """Flink's way: every span merges with the live ones it touches; alone, it must be open."""
    alive, late = {}, []
    for unit, start, end in zip(units, starts, ends, strict=True):
        known = alive.setdefault(unit, [])
        touched = [one for one in known if one[0] <= end and one[1] >= start]
        late.append(not touched and end - 1 <= closed)
        if not late[-1]:
            rest = [one for one in known if one not in touched]
            alive[unit] = [*rest, (min([start, *(s for s, _ in touched)]), max([end, *(e for _, e in touched)]))]
    return late


@pytest.mark.parametrize("fixed", [True, False])
def test_as_one_by_one(fixed):
    rng = np.random.default_rng(int(fixed))
    mixed = 0
    for _ in range(3000):
        rows, closed = int(rng.integers(1, 30)), 50
        units = rng.integers(0, 2, rows)
        starts = rng.integers(0, 70, rows)
        gaps = np.full(rows, rng.integers(1, 12)) if fixed else rng.integers(1, 20, rows)
        order = rng.integers(0, 3)
        if order:
            starts = np.sort(starts)[:: 1 if order == 1 else -1].copy()
        ends = starts + gaps
        # The open sessions come first.
        opened = np.flatnonzero(ends - 1 > closed)[: int(rng.integers(0, 3))]
        at = np.concatenate([opened, np.setdiff1d(np.arange(rows), opened)])
        units, starts, ends = units[at], starts[at], ends[at]
        found = late_rows(units, starts, ends, closed)
        assert found.tolist() == one_by_one(units.tolist(), starts.tolist(), ends.tolist(), closed)
        mixed += bool(found.any()) and bool((~found & (ends - 1 <= closed)).any())
    assert mixed > 100


def test_a_long_chain_of_late_rows_backwards_takes_one_round():
    starts = np.arange(100_000, 0, -1) * 10
    ends = starts + 10
    units = np.zeros(len(starts), np.int64)
    assert not late_rows(units, starts, ends, int(ends[0]) - 2).any()
    assert late_rows(units, starts, ends, int(ends[0])).all()


def test_nothing_to_judge():
    nothing = np.empty(0, np.int64)
    assert late_rows(nothing, nothing, nothing, 0).tolist() == []


def test_sessions_are_what_touching_spans_make():
    rng = np.random.default_rng(0)
    for far in (1, 2**40):
        for _ in range(300):
            rows = int(rng.integers(1, 20))
            codes, starts = rng.integers(0, 3, rows), rng.integers(-30, 30, rows) * far
            ends = starts + rng.integers(1, 10, rows) * far
            merged = merge_touching(codes, starts, ends)
            for session in range(len(merged)):
                inside = merged.ids == session
                assert set(codes[inside]) == {merged.codes[session]}
                assert (starts[inside].min(), ends[inside].max()) == (merged.starts[session], merged.ends[session])
            same = merged.codes[1:] == merged.codes[:-1]
            assert (merged.starts[1:][same] > merged.ends[:-1][same]).all()


def test_a_running_maximum_of_numbers_that_are_far_apart():
    new = np.array([True, False, False, True, False])
    values = np.array([5, -(2**62), 7, -(2**62), 2**62])
    assert running_max(new, values).tolist() == [5, 5, 7, -(2**62), 2**62]
    values = np.array([5, -(2**62), 2**62, 3, -(2**62)])
    assert running_max(new, values).tolist() == [5, 5, 2**62, 3, 3]
