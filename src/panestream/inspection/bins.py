"""Histograms over time whose bins have round bounds: whole seconds, minutes, hours, days.

Each width divides the next one, and all bins are aligned to 1970. So each key group can choose its own width, and their counts
still add up, because narrow bins fit into wide ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from panestream.engine.kernels.columns import Ints

_MS, SECOND = 1_000, 1_000_000
MINUTE, _H = 60 * SECOND, 3_600 * SECOND
DAY = 24 * _H
WIDTHS: tuple[int, ...] = (
    *(1, 10, 100, _MS, 10 * _MS, 100 * _MS),
    *(SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND),
    *(MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE),
    *(_H, 3 * _H, 6 * _H, 12 * _H),
    *(DAY * 10**power for power in range(9)),
)
"""Widths in microseconds; each divides the next."""
KEPT = 2_000
"""Maximum number of bins stored for one key group."""
SHOWN = 48
"""Maximum number of bins shown."""

Counts = tuple[int, ...]
"""The counts in one bin."""


@dataclass(frozen=True, slots=True)
class BinCounts:
    """Counts by bin number, which is the start of the bin divided by ``width``, its width in microseconds."""

    width: int
    counts: Mapping[int, Counts]

    def at(self, width: int) -> BinCounts:
        """Return the same counts in wider bins."""
        if width == self.width:
            return self
        factor, wider = width // self.width, dict[int, Counts]()
        for number, counts in self.counts.items():
            place = number // factor
            wider[place] = tuple(a + b for a, b in zip(wider[place], counts, strict=True)) if place in wider else counts
        return BinCounts(width, wider)


def counted(times: Ints, columns: Sequence[Ints], most: int = KEPT) -> BinCounts:
    """Add up columns over time (microseconds, in any order), in the narrowest bins of which at most ``most`` are not empty."""
    bins, of = np.unique(times, return_inverse=True)
    sums = [_sums(of, column, len(bins)) for column in columns]
    width = 1
    for width in WIDTHS:
        wider, of = np.unique(np.floor_divide(bins, width), return_inverse=True)
        if len(wider) <= most or width == WIDTHS[-1]:
            sums = [_sums(of, column, len(wider)) for column in sums]
            break
    counts = zip(*(column.tolist() for column in sums), strict=True)
    return BinCounts(width, dict(zip(wider.tolist(), counts, strict=True)))


def together(parts: Iterable[BinCounts]) -> BinCounts:
    """Add up histograms, using the widest of their bins."""
    given = list(parts)
    width, found = max((part.width for part in given), default=1), dict[int, Counts]()
    for part in given:
        for number, counts in part.at(width).counts.items():
            found[number] = tuple(a + b for a, b in zip(found[number], counts, strict=True)) if number in found else counts
    return BinCounts(width, found)


def to_show(given: BinCounts, most: int = SHOWN) -> BinCounts:
    """Return bins for display: at most ``most`` from first to last, and as wide as the smallest gap between counts.

    >>> hour = 3_600_000_000
    >>> to_show(BinCounts(1, {2 * hour: (1,), 4 * hour: (1,)})).width // hour
    2
    >>> to_show(BinCounts(1, {hour: (1,), 3 * hour: (1,)})).width // hour  # no bin of two hours begins at one o'clock
    1
    """
    if not given.counts:
        return given
    places = sorted(given.counts)
    gaps = [(b - a) * given.width for a, b in pairwise(places)]
    apart = min(gaps, default=_even(places[0] * given.width))
    if (places[-1] - places[0]) * given.width // apart < most and not any(place * given.width % apart for place in places):
        return given.at(apart)
    wide = max((width for width in WIDTHS if width <= apart), default=given.width)
    for width in WIDTHS:
        spread = places[-1] * given.width // width - places[0] * given.width // width + 1
        if width >= max(given.width, wide) and (spread <= most or width == WIDTHS[-1]):
            return given.at(width)
    return given


def _even(time: int) -> int:
    """Return the widest bin, from a second to a day, that can begin at a time, or a second if none can."""
    return max((width for width in WIDTHS if SECOND <= width <= DAY and time % width == 0), default=SECOND)


def _sums(of: Ints, values: Ints, count: int) -> Ints:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, of.reshape(-1), values)
    return sums


__all__ = ["DAY", "KEPT", "MINUTE", "SECOND", "SHOWN", "WIDTHS", "BinCounts", "counted", "to_show", "together"]
