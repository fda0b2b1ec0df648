"""Starts of sessions as small numbers: their order stays, however far apart they lie."""

import numpy as np
import pytest

from panestream.engine.operators.sessions.exchange import coarse

SECOND, YEAR = 1_000_000, 366 * 86_400 * 1_000_000


@pytest.mark.parametrize("unit", [1, 1_000, SECOND], ids=["microseconds", "milliseconds", "seconds"])
@pytest.mark.parametrize("span", [YEAR // 4, 300 * YEAR], ids=["a season", "centuries"])
def test_order_and_distances_stay(unit, span):
    rng = np.random.default_rng(5)
    starts = rng.integers(-span // unit, span // unit, 1_000) * unit
    found = coarse(starts)
    assert (found >= 0).all()
    assert (np.argsort(found, kind="stable") == np.argsort(starts, kind="stable")).all()
    if unit > 1:
        assert int(found.max()) == int(starts.max() - starts.min()) // unit


def test_small_ones_are_told_from_the_least():
    assert coarse(np.array([1_000_007, 1_000_000, 1_000_003])).tolist() == [7, 0, 3]
    assert len(coarse(np.array([], np.int64))) == 0


def test_a_step_is_what_all_have_in_common_and_not_the_first_few():
    """A few that lie beside whole seconds are told apart, wherever they are."""
    starts = np.array([*(second * SECOND for second in range(100)), 5 * SECOND + 2, 5 * SECOND + 1])
    assert coarse(starts).tolist() == starts.tolist()
