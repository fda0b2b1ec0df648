"""Lookup of (key, window) pairs among others, for whole columns at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.slicing import Int64s


def numbered(left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], *windows: Int64s) -> tuple[Int64s, Int64s, int]:
    """Give numbers to the (key, window) pairs of two tables, equal numbers for equal pairs, all below the third result.

    ``left`` and ``right`` are the key columns, ``windows`` the windows of both tables' rows (or nothing if only keys count).
    """
    count = len(left[0]) if left else len(windows[0]) if windows else 0
    total = count + (len(right[0]) if right else len(windows[1]) if windows else 0)
    both = [pa.concat_arrays([one_chunk(one), one_chunk(other)]) for one, other in zip(left, right, strict=True)]
    keys = encode_keys(both, total)
    codes, size = keys.codes.astype(np.int64), keys.count
    if windows:
        known, ranks = np.unique(np.concatenate(windows), return_inverse=True)
        codes, size = codes * len(known) + ranks, size * len(known)
    return codes[:count], codes[count:], size


def is_among(pairs: Int64s, others: Int64s, size: int) -> npt.NDArray[np.bool_]:
    """Return which of ``pairs`` are among ``others``, both numbered below ``size``."""
    if size > 8 * (len(pairs) + len(others)) + 1024:
        return np.isin(pairs, others)
    known = np.zeros(size, np.bool_)
    known[others] = True
    return known[pairs]


def places_of(pairs: Int64s, others: Int64s) -> Int64s:
    """Return the last position of each pair among ``others``, or -1."""
    if not len(others):
        return np.full(len(pairs), -1, np.int64)
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    found = np.searchsorted(ordered, pairs, "right") - 1
    known = (found >= 0) & (ordered[np.maximum(found, 0)] == pairs)
    return np.where(known, order[np.maximum(found, 0)], -1)


__all__ = ["is_among", "numbered", "places_of"]
