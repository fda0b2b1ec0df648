"""Merging of spans of time that touch, which gives the sessions of all keys at once.

All spans are sorted by key and start. A span begins a new session if it starts after the end of all spans before it. A distance
of exactly the gap touches, so the condition is ``start > end``, not ``>=``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.interleaving import running_max
from panestream.engine.kernels.ordering import stable_order


@dataclass(frozen=True, slots=True)
class Sessions:
    """Merged spans, ordered by key code and start; ``ids`` is the session of every input span."""

    ids: Ints
    codes: Ints
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.codes)


def merge_touching(codes: Ints, starts: Ints, ends: Ints, longest: int | None = None) -> Sessions:
    """Merge the spans of each key that overlap or touch.

    With ``longest``, sessions are cut at its multiples, and the given spans must already be cut there.
    """
    order = stable_order(codes, coarse(starts))
    codes, starts, ends = codes[order], starts[order], ends[order]
    new = np.ones(len(order), np.bool_)
    other = codes[1:] != codes[:-1]
    if longest is not None:
        lot = starts // longest
        other |= lot[1:] != lot[:-1]
    new[1:] = other
    reach = running_max(new, ends)
    new[1:] |= starts[1:] > reach[:-1]
    ids = np.empty(len(order), np.int64)
    ids[order] = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(order)) - 1 if len(first) else first
    return Sessions(ids, codes[first], starts[first], reach[last])


def coarse(starts: Ints) -> Ints:
    """Return numbers in the order of ``starts``, small if cheap: event times are mostly whole milliseconds or seconds."""
    if not len(starts):
        return starts
    least = int(starts.min())
    shifted = starts - least
    if int(shifted.max()) < 1 << 24:
        return shifted
    for step in (1_000_000, 1_000):
        if not (shifted[:64] % step).any() and not (shifted % step).any():
            return shifted // step
    return shifted
