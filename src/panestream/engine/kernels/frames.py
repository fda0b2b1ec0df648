"""Frames: for each instant of a key, the nearby instants of the same key, for all keys at once.

The instants of all keys form one line, key after key, in the order of time and without duplicates::

    key                    a    a    a    a  |  b    b
    time                   3    7    8   20  |  1    9
    place                  0    1    2    3  |  4    5
    from 5 before it on  [0,1)[0,2)[0,3)[3,4)|[4,5)[5,6)

The instants near another one are a range of places that never reaches into another key. From one instant to the next neither end
of that range moves back. :mod:`panestream.engine.kernels.ranges` combines such ranges at a cost independent of their length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.ordering import stable_order

_FITS = 2**63


@dataclass(frozen=True, slots=True)
class KeyedTimeline:
    """The instants of some keys on one line.

    Attributes:
        codes, times: the key and the time of each instant, which are ordered by both.
        line: the position of each instant, a number for key and time that grows along the line.
        stride: the length of the line per key.
        least: the first time of all.
        known: the distinct times if ``line`` counts only them, or None if it counts every unit of time.
    """

    codes: Ints
    times: Ints
    line: Ints
    stride: int
    least: int
    known: Ints | None

    @classmethod
    def of(cls, codes: Ints, times: Ints) -> tuple[KeyedTimeline, Ints, Ints]:
        """Return the instants of some rows, the order of the rows, and the place of each row in that order."""
        order = stable_order(codes, times)
        codes, times = codes[order], times[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
        places = np.cumsum(new) - 1
        return cls._on_a_line(codes[new], times[new]), order, places

    @classmethod
    def _on_a_line(cls, codes: Ints, times: Ints) -> KeyedTimeline:
        if not len(times):
            return cls(codes, times, codes, 1, 0, None)
        least, most = int(times.min()), int(times.max())
        stride = most - least + 1
        if (int(codes[-1]) + 1) * stride < _FITS:
            return cls(codes, times, codes * stride + (times - least), stride, least, None)
        # Too many keys over too long a time for one number, so only existing times are counted.
        known, ranks = np.unique(times, return_inverse=True)
        return cls(codes, times, codes * len(known) + ranks.reshape(-1), len(known), least, known)

    def near(self, before: int, after: int) -> tuple[Ints, Ints]:
        """Return each instant's first place at most ``before`` earlier, and the end of the places at most ``after`` later."""
        begin = np.searchsorted(self.line, self._line_at(self.times - before, up=True))
        if not after:
            return begin, np.arange(1, len(self.times) + 1)
        return begin, np.searchsorted(self.line, self._line_at(self.times + after, up=False), "right")

    def places(self, codes: Ints, times: Ints) -> Ints:
        """Return the places of instants that are on the line."""
        found: Ints = np.searchsorted(self.line, codes * self.stride + self._counted(times, up=True))
        return found

    def _line_at(self, times: Ints, *, up: bool) -> Ints:
        """Return the positions of times of each instant's key, within that key's part of the line."""
        return self.codes * self.stride + self._counted(times, up=up)

    def _counted(self, times: Ints, *, up: bool) -> Ints:
        """Return times as the line counts them. A time that it does not count becomes the next one (``up``) or the one before."""
        if self.known is None:
            # Clip first: the distance of an outside time from the least may need more than 64 bits.
            counted: Ints = np.clip(times, self.least, self.least + self.stride - 1) - self.least
            return counted
        if up:
            return np.searchsorted(self.known, times)
        return np.searchsorted(self.known, times, "right") - 1


def frame_of(table: pa.Table) -> Any:
    """Return the rows of a table as a pandas frame.

    pandas makes floats of whole numbers next to a null, which changes numbers above 2**53. So a column with nulls becomes one of
    pandas' nullable types, such as ``Int64``; within a list, struct or map such numbers are Python's own.
    """
    frame = table.to_pandas(use_threads=False, integer_object_nulls=True)
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_integer(field.type) and column.null_count:
            # "int64" in Arrow is "Int64" in pandas.
            frame[field.name] = frame[field.name].astype(str(field.type).replace("int", "Int").replace("uI", "UI"))
    return frame
