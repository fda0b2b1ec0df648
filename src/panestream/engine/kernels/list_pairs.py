"""Pairs of the items of two lists per row, for all rows at once: a join whose sides are lists already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, list_parts, offsets_of, one_chunk, take


@dataclass(frozen=True, slots=True)
class ListPairs:
    """For each row, every item of one list with every item of the other; null replaces the items of an empty list.

    ``left`` and ``right`` are the items of all lists, end to end.

    >>> pairs = ListPairs.of(pa.array([[1, 2], []]), pa.array([[7, 8], [9]]))
    >>> [(rows.tolist(), one.to_pylist(), other.to_pylist()) for rows, one, other in pairs.portions(3)]
    [([0, 0, 0], [1, 1, 2], [7, 8, 7]), ([0, 1], [2, None], [8, 9])]
    """

    left: pa.Array
    right: pa.Array
    left_lengths: Ints
    right_lengths: Ints

    @classmethod
    def of(cls, left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> ListPairs:
        """Return the pairs of two list columns without nulls."""
        (ours, lengths), (theirs, others) = (
            list_parts(one_chunk(lists) if isinstance(lists, pa.ChunkedArray) else lists) for lists in (left, right)
        )
        return cls(ours, theirs, lengths, others)

    @classmethod
    def of_left(cls, left: pa.Array | pa.ChunkedArray) -> ListPairs:
        """Return the items of one list column, each once."""
        items, lengths = list_parts(one_chunk(left) if isinstance(left, pa.ChunkedArray) else left)
        return cls(items, pa.nulls(0), lengths, np.zeros(len(lengths), np.int64))

    @property
    def counts(self) -> Ints:
        """The number of pairs of each row, at least one."""
        found: Ints = np.maximum(self.left_lengths, 1) * np.maximum(self.right_lengths, 1)
        return found

    def portions(self, most: int) -> Iterator[tuple[Ints, pa.Array, pa.Array]]:
        """Yield at most ``most`` pairs at a time (rows, left items, right items), ordered by row, left and right item."""
        ends = np.cumsum(self.counts)
        left_offsets, right_offsets = offsets_of(self.left_lengths), offsets_of(self.right_lengths)
        for begin in range(0, int(ends[-1]) if len(ends) else 0, most):
            end = min(begin + most, int(ends[-1]))
            first, last = np.searchsorted(ends, [begin, end - 1], "right")
            rows = np.arange(first, last + 1)
            starts = ends[rows] - self.counts[rows]
            lengths = np.minimum(ends[rows], end) - np.maximum(starts, begin)
            of = np.repeat(rows, lengths)
            number = np.arange(begin, end) - np.repeat(starts, lengths)
            one, other = np.divmod(number, np.maximum(self.right_lengths, 1)[of])
            yield (
                of,
                _items(self.left, left_offsets, self.left_lengths, of, one),
                _items(self.right, right_offsets, self.right_lengths, of, other),
            )


def _items(items: pa.Array, offsets: Ints, lengths: Ints, of: Ints, place: Ints) -> pa.Array:
    there = lengths[of] > 0
    return take(items, np.where(there, offsets[:-1][of] + place, 0), None if there.all() else there)


__all__ = ["ListPairs"]
