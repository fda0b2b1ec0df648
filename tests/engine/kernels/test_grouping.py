"""Grouping rows by pane and key gives the same groups by every algorithm."""

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.kernels.grouping import DENSE_CELLS, encode_keys, group, numbered


@pytest.mark.parametrize("step", [1, 7, 10 * DENSE_CELLS], ids=["dense", "ranked", "far apart"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_groups_are_ordered_by_pane_then_key(step, shuffled):
    rng = np.random.default_rng(step)
    panes, names = np.sort(rng.integers(-40, 40, 300)) * step, rng.integers(0, 5, 300)
    if shuffled:
        order = rng.permutation(300)
        panes, names = panes[order], names[order]
    keys = encode_keys([pa.array([f"k{name}" for name in names])], 300)
    groups = group(keys, panes)
    rows = [(int(pane), int(code)) for pane, code in zip(panes, keys.codes, strict=True)]
    expected = sorted(set(rows))
    assert list(zip(groups.panes.tolist(), groups.codes.tolist(), strict=True)) == expected
    assert groups.counts.tolist() == [rows.count(row) for row in expected]
    assert [expected[place] for place in groups.ids.tolist()] == rows


def test_pairs_without_keys_are_numbered_by_their_windows():
    left, right, size = numbered([], [], np.array([10, 20, 10]), np.array([20, 30]))
    assert left.tolist() == [0, 1, 0]
    assert right.tolist() == [1, 2]
    assert size >= 3
