"""Frames: for each instant of a key, which instants of the key lie near it; for all keys at once.

The instants of all keys lie on one line, key after key, each in the order of time, and each once::

    key                    a    a    a    a  |  b    b
    time                   3    7    8   20  |  1    9
    place                  0    1    2    3  |  4    5
    from 5 before it on  [0,1)[0,2)[0,3)[3,4)|[4,5)[5,6)

What lies near an instant is a range of places that never reaches into another key. From one instant to the next neither end of
that range goes back: that is what :mod:`panestream.engine.kernels.ranges` combines at a cost that does not grow with its length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.ordering import stable_order

_FITS = 2**63


@dataclass(frozen=True, slots=True)
class Instants:
    """The instants of some keys on one line.

    Attributes:
        codes: the key of each, ascending.
        times: its time, of a key ascending.
        line: where each lies: a number for key and time that grows along the line.
        stride: how much longer the line is with each key.
        least: the first time of all.
        known: the times that ``line`` counts, where it cannot count every unit of time; None: it does.
    """

    codes: Ints
    times: Ints
    line: Ints
    stride: int
    least: int
    known: Ints | None

    @classmethod
    def of(cls, codes: Ints, times: Ints) -> tuple[Instants, Ints, Ints]:
        """The instants of some rows; the rows in their order; and the place of each row in that order."""
        order = stable_order(codes, times)
        codes, times = codes[order], times[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
        places = np.cumsum(new) - 1
        return cls._on_a_line(codes[new], times[new]), order, places

    @classmethod
    def _on_a_line(cls, codes: Ints, times: Ints) -> Instants:
        if not len(times):
            return cls(codes, times, codes, 1, 0, None)
        least, most = int(times.min()), int(times.max())
        stride = most - least + 1
        if (int(codes[-1]) + 1) * stride < _FITS:
            return cls(codes, times, codes * stride + (times - least), stride, least, None)
        # Too many keys over too long a time for one number: then only the times that there are count.
        known, ranks = np.unique(times, return_inverse=True)
        return cls(codes, times, codes * len(known) + ranks.reshape(-1), len(known), least, known)

    def near(self, before: int, after: int) -> tuple[Ints, Ints]:
        """Of each instant the first place of those that lie at most so much before it, and the end of those after it."""
        begin = np.searchsorted(self.line, self._line_at(self.times - before, up=True))
        if not after:
            return begin, np.arange(1, len(self.times) + 1)
        return begin, np.searchsorted(self.line, self._line_at(self.times + after, up=False), "right")

    def places(self, codes: Ints, times: Ints) -> Ints:
        """The places of instants that are among these."""
        found: Ints = np.searchsorted(self.line, codes * self.stride + self._counted(times, up=True))
        return found

    def _line_at(self, times: Ints, *, up: bool) -> Ints:
        """Where times of each instant's key lie, inside of that key's part of the line."""
        return self.codes * self.stride + self._counted(times, up=up)

    def _counted(self, times: Ints, *, up: bool) -> Ints:
        """A time as the line counts it; one that it does not know as the next, or as the one before."""
        if self.known is None:
            # Brought inside first: how far a time outside is from the least may need more than 64 bits.
            counted: Ints = np.clip(times, self.least, self.least + self.stride - 1) - self.least
            return counted
        if up:
            return np.searchsorted(self.known, times)
        return np.searchsorted(self.known, times, "right") - 1


__all__ = ["Instants"]
