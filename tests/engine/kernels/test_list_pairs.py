"""Pairs of the items of two lists, all rows at once, against two loops."""

import random

import pyarrow as pa
import pytest

from panestream.engine.kernels.columns import ListPairs


def one_by_one(left, right):
    return [
        (row, one, other)
        for row, (ours, theirs) in enumerate(zip(left, right, strict=True))
        for one in ours or [None]
        for other in theirs or [None]
    ]


@pytest.mark.parametrize("seed", range(40))
def test_against_two_loops(seed):
    rng = random.Random(seed)
    rows = rng.randint(0, 12)
    left, right = ([[rng.randint(0, 99) for _ in range(rng.choice([0, 1, 2, 7]))] for _ in range(rows)] for _ in range(2))
    columns = [pa.chunked_array([pa.array([[5], *lists], pa.list_(pa.int64())).slice(1)]) for lists in (left, right)]
    pairs, most = ListPairs.of(*columns), rng.choice([1, 2, 5, 1000])
    found = []
    for of, one, other in pairs.portions(most):
        assert 0 < len(of) <= most
        found += zip(of.tolist(), one.to_pylist(), other.to_pylist(), strict=True)
    assert found == one_by_one(left, right)
    assert pairs.counts.sum() == len(found)


def test_each_item_of_one_list():
    pairs = ListPairs.of_left(pa.array([[1, 2], [], [3]]))
    ((of, one, other),) = pairs.portions(100)
    assert (of.tolist(), one.to_pylist(), other.to_pylist()) == ([0, 0, 1, 2], [1, 2, None, 3], [None] * 4)
