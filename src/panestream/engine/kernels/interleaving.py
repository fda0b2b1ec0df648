"""The order of rows from several source partitions for merging windows, and the running maximum that defines it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.ordering import stable_order


def interleaved(keys: Ints, times: Sequence[Ints], origins: Sequence[int]) -> Ints:
    """Return an order of rows in which, for each key, all partitions reach the same event time together.

    Each partition keeps its own order, and a row after a later row of the same key counts as late as the later one. Taking
    partitions one after the other would put the second between sessions opened by the first, and merge most of them. Rows of
    other keys do not count, so the placement of keys in key groups changes nothing. ``times`` has the event times of each part,
    and ``origins`` its partition (or nothing for a single partition).

    >>> times = [np.array([1, 9, 3]), np.array([2, 8])]
    >>> interleaved(np.array([7, 7, 7, 7, 7]), times, [0, 1]).tolist()
    [0, 3, 4, 1, 2]
    >>> interleaved(np.array([7, 5, 7, 7, 7]), times, [0, 1]).tolist()
    [0, 3, 2, 4, 1]
    """
    if len(set(origins)) < 2:
        return np.arange(len(keys))
    partitions = np.repeat(origins, [len(part) for part in times]).astype(np.int64)
    order = stable_order(keys, partitions)
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(keys[order]) != 0) | (np.diff(partitions[order]) != 0)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = running_max(new, np.concatenate(times)[order])
    places: Ints = np.argsort(ranks, kind="stable")
    return places


def running_max(new: Mask, values: Ints) -> Ints:
    """Return the running maximum, restarting at each True in ``new``."""
    if not len(values) or bool(((values[1:] >= values[:-1]) | new[1:]).all()):
        return values
    segment = np.cumsum(new) - 1
    least, most = int(values.min()), int(values.max())
    bits = (most - least).bit_length()
    if bits + int(segment[-1]).bit_length() < 63:
        packed = np.maximum.accumulate((segment << bits) + (values - least))
        unpacked: Ints = packed - (segment << bits) + least
        return unpacked
    # Segment and value do not fit into one number, so use ranks.
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    packed = np.maximum.accumulate(segment * len(values) + rank)
    found: Ints = values[order[packed - segment * len(values)]]
    return found
