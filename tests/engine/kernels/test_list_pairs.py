"""Pairs of the items of two lists, computed for all rows at once and compared with two nested loops."""

import random

import pyarrow as pa
import pytest

from panestream.engine.kernels.list_pairs import ListPairs


def one_by_one(left, right):
    return [
        (row, item, right_item)
        for row, (left_items, right_items) in enumerate(zip(left, right, strict=True))
        for item in left_items or [None]
        for right_item in right_items or [None]
    ]


@pytest.mark.parametrize("seed", range(40))
def test_pairs_of_two_lists_equal_two_nested_loops(seed):
    rng = random.Random(seed)
    rows = rng.randint(0, 12)
    left, right = ([[rng.randint(0, 99) for _ in range(rng.choice([0, 1, 2, 7]))] for _ in range(rows)] for _ in range(2))
    columns = [pa.chunked_array([pa.array([[5], *lists], pa.list_(pa.int64())).slice(1)]) for lists in (left, right)]
    pairs, most = ListPairs.of(*columns), rng.choice([1, 2, 5, 1000])
    actual = []
    for of, left_items, right_items in pairs.portions(most):
        assert 0 < len(of) <= most
        actual += zip(of.tolist(), left_items.to_pylist(), right_items.to_pylist(), strict=True)
    assert actual == one_by_one(left, right)
    assert pairs.counts.sum() == len(actual)


def test_pairs_of_the_left_list_alone_have_null_on_the_right():
    pairs = ListPairs.of_left(pa.array([[1, 2], [], [3]]))
    ((of, left_items, right_items),) = pairs.portions(100)
    assert (of.tolist(), left_items.to_pylist(), right_items.to_pylist()) == ([0, 0, 1, 2], [1, 2, None, 3], [None] * 4)
