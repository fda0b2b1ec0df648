"""Finding the instants near each instant of a key, compared with a search over all of them. One case has too many time units
to number.
"""

from __future__ import annotations

import numpy as np
import pytest

from panestream.engine.kernels import frames
from panestream.engine.kernels.frames import KeyedTimeline


@pytest.mark.parametrize("fits", [2**63, 1], ids=["every unit of time", "only the times that there are"])
@pytest.mark.parametrize("seed", range(40))
def test_near_finds_the_instants_of_the_same_key_in_the_range(seed, fits, monkeypatch):
    monkeypatch.setattr(frames, "_FITS", fits)
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 40))
    codes, times = rng.integers(0, 4, rows), rng.integers(-20, 20, rows) * int(rng.choice([1, 10**12]))
    instants, order, places = KeyedTimeline.of(codes, times)
    assert (instants.known is None) == (fits > 1 or not rows)
    pairs = sorted(set(zip(codes.tolist(), times.tolist(), strict=True)))
    assert list(zip(instants.codes.tolist(), instants.times.tolist(), strict=True)) == pairs
    assert [pairs[place] for place in places] == [(codes[row], times[row]) for row in order]
    assert [pairs[place] for place in instants.places(codes, times)] == list(zip(codes, times, strict=True))
    for before, after in [(0, 0), (1, 0), (7, 3), (0, 2), (10**13, 10**13)]:
        begin, end = instants.near(before, after)
        for place, (code, time) in enumerate(pairs):
            near = [n for n, (c, t) in enumerate(pairs) if c == code and time - before <= t <= time + after]
            assert list(range(begin[place], end[place])) == near


def test_many_keys_over_a_long_time_do_not_overflow():
    codes, times = np.array([0, 2**21, 2**21]), np.array([-(2**61), 0, 2**61])
    instants, _, _ = KeyedTimeline.of(codes, times)
    assert instants.known is not None
    begin, end = instants.near(2**61, 0)
    assert (begin.tolist(), end.tolist()) == ([0, 1, 1], [1, 2, 3])


def test_near_does_not_overflow_for_times_as_far_apart_as_possible():
    """All times of the key are numbered on one line. The end of the range around the last time does not fit in 64 bits,
    counted from the first.
    """
    times = np.array([-(2**62) + 1, -1, 2**62 - 9, 2**62 - 2])
    instants, _, _ = KeyedTimeline.of(np.zeros(4, np.int64), times)
    assert instants.known is None
    for before, after in [(7, 7), (2**61 - 1, 2**61 - 1), (0, 5), (2**61 - 1, 0)]:
        begin, end = instants.near(before, after)
        for place, time in enumerate(times.tolist()):
            near = [n for n, other in enumerate(times.tolist()) if time - before <= other <= time + after]
            assert list(range(begin[place], end[place])) == near
