"""Session starts as small numbers that keep their order, however far apart they are."""

import numpy as np
import pytest

from panestream.engine.operators.sessions.spans import coarse

SECOND, YEAR = 1_000_000, 366 * 86_400 * 1_000_000


@pytest.mark.parametrize("unit", [1, 1_000, SECOND], ids=["microseconds", "milliseconds", "seconds"])
@pytest.mark.parametrize("span", [YEAR // 4, 300 * YEAR], ids=["a season", "centuries"])
def test_coarse_numbers_keep_order_and_distances(unit, span):
    rng = np.random.default_rng(5)
    starts = rng.integers(-span // unit, span // unit, 1_000) * unit
    numbers = coarse(starts)
    assert (numbers >= 0).all()
    assert (np.argsort(numbers, kind="stable") == np.argsort(starts, kind="stable")).all()
    if unit > 1:
        assert int(numbers.max()) == int(starts.max() - starts.min()) // unit


def test_small_numbers_are_counted_from_the_smallest():
    assert coarse(np.array([1_000_007, 1_000_000, 1_000_003])).tolist() == [7, 0, 3]
    assert len(coarse(np.array([], np.int64))) == 0


def test_common_step_considers_all_numbers():
    """A few starts that are not whole seconds stay distinct, wherever they are in the array."""
    starts = np.array([*(second * SECOND for second in range(100)), 5 * SECOND + 2, 5 * SECOND + 1])
    assert coarse(starts).tolist() == starts.tolist()
