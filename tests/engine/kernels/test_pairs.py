"""Numbers for pairs of key and window, compared with plain tuples."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.kernels.pairs import is_among, numbered, places_of


def pairs_of(rng, count):
    keys = [rng.choice([None, 1, 2, 3]) for _ in range(count)]
    return keys, [rng.choice([-60, 0, 60]) for _ in range(count)]


@pytest.mark.parametrize("with_windows", [True, False])
def test_equal_pairs_have_equal_numbers(with_windows):
    for seed in range(60):
        rng = random.Random(seed)
        left, right = (pairs_of(rng, rng.choice([0, 1, 5, 9])) for _ in range(2))
        columns = [[pa.chunked_array([pa.array(keys, pa.int64())])] for keys, _ in (left, right)]
        windows = [np.asarray(of, np.int64) for _, of in (left, right)] if with_windows else []
        left_numbers, right_numbers, size = numbered(*columns, *windows)
        assert (len(left_numbers), len(right_numbers)) == (len(left[0]), len(right[0]))
        numbers = [*left_numbers.tolist(), *right_numbers.tolist()]
        assert all(0 <= number < size for number in numbers)
        all_pairs = list(zip(*left, strict=True)) + list(zip(*right, strict=True)) if with_windows else left[0] + right[0]
        for a, first in zip(numbers, all_pairs, strict=True):
            assert [first == second for second in all_pairs] == [a == b for b in numbers]


@pytest.mark.parametrize("size", [20, 1 << 40])
def test_is_among_and_last_place_equal_plain_lists(size):
    for seed in range(60):
        rng = random.Random(seed)
        pairs, others = ([rng.randrange(20) for _ in range(rng.choice([0, 1, 4, 12]))] for _ in range(2))
        arrays = [np.asarray(each, np.int64) for each in (pairs, others)]
        assert is_among(*arrays, size).tolist() == [pair in others for pair in pairs]
        last = {other: place for place, other in enumerate(others)}
        assert places_of(*arrays).tolist() == [last.get(pair, -1) for pair in pairs]
