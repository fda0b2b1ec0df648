"""In what order rows of several source partitions are taken where windows merge, and the running maximum that tells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.ordering import stable_order


def interleaved(keys: Ints, times: Sequence[Ints], origins: Sequence[int]) -> Ints:
    """Places of rows in the parts, one after the other, so that for each key all partitions come to the same event time together.

    Each partition keeps its own order: a row of a key that comes after a later one of that key is as late as that one. Were
    partitions taken one after the other, the second would fall between sessions that the first had opened, and merge most of
    them. Rows of other keys do not count, so how keys are placed in key groups changes nothing.

    Args:
        keys: the code of each row's key, of all parts.
        times: event times of the parts, those of one partition in their order.
        origins: the partition of each part; none: all are of one.

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
    """The largest value so far, beginning anew where ``new`` says so."""
    if not len(values) or bool(((values[1:] >= values[:-1]) | new[1:]).all()):
        return values
    segment = np.cumsum(new) - 1
    least, most = int(values.min()), int(values.max())
    bits = (most - least).bit_length()
    if bits + int(segment[-1]).bit_length() < 63:
        packed = np.maximum.accumulate((segment << bits) + (values - least))
        unpacked: Ints = packed - (segment << bits) + least
        return unpacked
    # Too wide to stand side by side in one number: by rank.
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    packed = np.maximum.accumulate(segment * len(values) + rank)
    found: Ints = values[order[packed - segment * len(values)]]
    return found
