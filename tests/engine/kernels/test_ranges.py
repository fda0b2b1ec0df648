"""Ranges of partial rows of each (key, window), and their combination, compared with a loop over everything."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panestream.engine.kernels import ranges as kernel
from panestream.engine.kernels.grouping import encode_keys, group
from tests.costs import random_cases

BIG = 2**40


def groups_of(keys, panes):
    """Return the groups of partial rows in order, one for each (key, pane)."""
    return group(encode_keys([pa.array(keys)], len(keys)), np.array(panes, np.int64))


def groups_of_the_drawing():
    """Return the rows and windows that the docstring of the module draws."""
    groups = groups_of(list("aaaabb"), [1, 2, 4, 7, 2, 3])
    first, end = np.array([0, 2, 4]), np.array([3, 5, 8])
    (ranges,) = kernel.sparse_ranges(groups, np.ones(6, np.int64), first, end)
    return groups, ranges


def test_ranges_match_the_drawing_in_the_docstring():
    groups, ranges = groups_of_the_drawing()
    in_order = np.argsort(ranges.by_window, kind="stable")  # sort the pairs by key and window
    pairs = list(zip(ranges.start[in_order].tolist(), ranges.end[in_order].tolist(), strict=True))
    assert pairs == [(0, 2), (1, 3), (2, 4), (4, 5), (4, 6)]
    assert ranges.windows[in_order].tolist() == [0, 1, 2, 0, 1]
    assert groups.panes[ranges.order].tolist() == [1, 2, 4, 7, 2, 3]
    assert ranges.from_window.tolist() == [0, 0, 1, 2, 0, 1]
    assert ranges.until_window.tolist() == [1, 2, 3, 3, 2, 2]
    assert ranges.rows[in_order].tolist() == [2, 2, 2, 1, 2]


@st.composite
def cases(draw):
    rows = draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-6, 6)), min_size=1, max_size=14, unique=True))
    first = sorted(draw(st.lists(st.integers(-8, 8), min_size=1, max_size=6)))
    end = sorted(draw(st.lists(st.integers(-8, 9), min_size=len(first), max_size=len(first))))
    return rows, first, end


@pytest.mark.parametrize("dense", [False, True])
@settings(max_examples=random_cases(150), deadline=None)
@given(case=cases(), most=st.sampled_from([1, 3, 1 << 22]), slab=st.sampled_from([1, 1 << 17]))
def test_each_key_and_window_combines_its_rows_in_order(dense, case, most, slab):
    rows, first, end = case
    groups = groups_of([key for key, _ in rows], [pane for _, pane in rows])
    counts = 1 + np.arange(groups.size)
    bounds = np.array(first), np.array(end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "MOST_PAIRS", most)
        patch.setattr(kernel, "SLAB_CELLS", slab)
        if dense:
            parts = [kernel.dense_ranges(groups, counts, *bounds, int(groups.codes.max()) + 1)]
        else:
            parts = list(kernel.sparse_ranges(groups, counts, *bounds))
        actual = {}
        for part in parts:
            # The fold concatenates hexadecimal digits, so another order gives another number.
            (digits, length) = part.fold((1 + np.arange(groups.size), np.ones(groups.size, np.int64)), (0, 0), concatenate_digits)
            (least,) = part.fold((groups.panes + BIG,), (2 * BIG,), smaller, idempotent=True)
            sums = part.sums(groups.panes)
            columns = (part.windows, part.codes, part.rows, digits, length, least - BIG, sums)
            pairs = list(zip(*(column.tolist() for column in columns), strict=True))
            assert pairs == sorted(pairs, key=lambda pair: pair[:2]), "by window, then key"
            assert part.longest >= max([0, *length.tolist()])
            actual.update({pair[:2]: pair[2:] for pair in pairs})
    assert actual == naive(groups, counts, first, end)


def concatenate_digits(a, b):
    return a[0] * 16 ** b[1] + b[0], a[1] + b[1]


def smaller(a, b):
    return (np.minimum(a[0], b[0]),)


def naive(groups, counts, first, end):
    expected = {}
    places = sorted(range(groups.size), key=lambda row: (groups.codes[row], groups.panes[row]))
    for window, (begin, until) in enumerate(zip(first, end, strict=True)):
        for code in set(groups.codes.tolist()):
            mine = [row for row in places if groups.codes[row] == code and begin <= groups.panes[row] < until]
            if not mine:
                continue
            digits = 0
            for row in mine:
                digits = digits * 16 + row + 1
            panes = [int(groups.panes[row]) for row in mine]
            expected[window, code] = (sum(counts[row] for row in mine), digits, len(mine), min(panes), sum(panes))
    return expected
