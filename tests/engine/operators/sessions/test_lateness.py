"""Late rows of sessions, compared with taking the rows one by one."""

import numpy as np
import pytest

from panestream.engine.kernels.ordering import running_max
from panestream.engine.operators.sessions.arrivals import late_rows
from panestream.engine.operators.sessions.exchange import merge_touching
from tests.costs import thinned


def one_by_one(units, starts, ends, closed):
    """Return which spans are late, as Flink decides. A span merges with the live spans that it touches. A span that touches
    nothing must be open.
    """
    alive, late = {}, []
    for unit, start, end in zip(units, starts, ends, strict=True):
        open_spans = alive.setdefault(unit, [])
        touched = [span for span in open_spans if span[0] <= end and span[1] >= start]
        late.append(not touched and end - 1 <= closed)
        if not late[-1]:
            rest = [span for span in open_spans if span not in touched]
            alive[unit] = [*rest, (min([start, *(s for s, _ in touched)]), max([end, *(e for _, e in touched)]))]
    return late


@pytest.mark.parametrize("fixed", [True, False])
def test_late_rows_equal_those_of_taking_rows_one_by_one(fixed):
    rng = np.random.default_rng(int(fixed))
    mixed, rounds = 0, thinned(range(3000), 4)
    for _ in rounds:
        rows, closed = int(rng.integers(1, 30)), 50
        units = rng.integers(0, 2, rows)
        starts = rng.integers(0, 70, rows)
        gaps = np.full(rows, rng.integers(1, 12)) if fixed else rng.integers(1, 20, rows)
        order = rng.integers(0, 3)
        if order:
            starts = np.sort(starts)[:: 1 if order == 1 else -1].copy()
        ends = starts + gaps
        # open sessions first
        opened = np.flatnonzero(ends - 1 > closed)[: int(rng.integers(0, 3))]
        at = np.concatenate([opened, np.setdiff1d(np.arange(rows), opened)])
        units, starts, ends = units[at], starts[at], ends[at]
        late = late_rows(units, starts, ends, closed)
        assert late.tolist() == one_by_one(units.tolist(), starts.tolist(), ends.tolist(), closed)
        mixed += bool(late.any()) and bool((~late & (ends - 1 <= closed)).any())
    assert mixed > len(rounds) // 30


def test_long_chain_of_late_rows_in_reverse_order_is_decided_at_once():
    starts = np.arange(100_000, 0, -1) * 10
    ends = starts + 10
    units = np.zeros(len(starts), np.int64)
    assert not late_rows(units, starts, ends, int(ends[0]) - 2).any()
    assert late_rows(units, starts, ends, int(ends[0])).all()


def test_no_rows_have_no_late_rows():
    nothing = np.empty(0, np.int64)
    assert late_rows(nothing, nothing, nothing, 0).tolist() == []


def test_touching_spans_are_merged_into_sessions():
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


def test_running_maximum_of_distant_numbers_does_not_overflow():
    new = np.array([True, False, False, True, False])
    values = np.array([5, -(2**62), 7, -(2**62), 2**62])
    assert running_max(new, values).tolist() == [5, 5, 7, -(2**62), 2**62]
    values = np.array([5, -(2**62), 2**62, 3, -(2**62)])
    assert running_max(new, values).tolist() == [5, 5, 2**62, 3, 3]
