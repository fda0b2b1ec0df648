"""Sketches: a pane keeps few items as they are, in an Arrow list, and many as a sketch of Apache DataSketches.

Lists are worked on as columns. A sketch is an object of the library, one at a time: but each of them stands for more items than
the limit of a list, so that what Python spends on it is little beside what the library does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import PartialAggregate
from panestream.engine.kernels.columns import Ints, Mask, Vector, array_of, list_of, list_parts, numbers, offsets_of
from panestream.engine.kernels.ranges import State, fold_ranges, sum_ranges
from panestream.errors import EnvironmentNotReadyError

Sketches = npt.NDArray[np.object_]
"""Sketches as the library's objects, None where there is none."""

_CHUNK = 1 << 12
"""(key, window) pairs whose sketches are in memory at a time."""


def library() -> Any:
    """Apache DataSketches, imported where it is needed.

    Raises:
        EnvironmentNotReadyError: it is not installed.
    """
    try:
        import datasketches
    except ImportError:
        raise EnvironmentNotReadyError(
            "approximate aggregates need Apache DataSketches: pip install 'panestream[sketches]', on the executors too"
        ) from None
    return datasketches


@dataclass(frozen=True, slots=True)
class PartialSketch(PartialAggregate):
    """Items of each pane: a list of them, or, where there are more than :attr:`limit`, a sketch and an empty list."""

    needs_rows: ClassVar[bool] = True

    @property
    @abstractmethod
    def limit(self) -> int:
        """The most items that are kept as they are."""

    @abstractmethod
    def made(self, held: Iterable[bytes], items: Vector) -> bytes:
        """The sketch of some sketches, in order, and some items."""

    @abstractmethod
    def loaded(self, held: bytes | None, items: Vector) -> Any:
        """A sketch as an object, or one that is made of items."""

    @abstractmethod
    def joined(self, a: Any, b: Any) -> Any:
        """The union of two sketches, which stay as they are; ``a`` is of earlier panes."""

    def packed(
        self, size: int, owner: Ints, items: Vector, type_: pa.DataType, held: pa.Array | None, ids: Ints
    ) -> list[pa.Array]:
        """The two columns.

        Args:
            size: how many groups there are.
            owner: the group of every item, ascending.
            items: the items.
            type_: of the items.
            held: sketches that go into it, null where there is none.
            ids: the groups of these.
        """
        lengths = np.bincount(owner, minlength=size)
        large = lengths > self.limit
        sketched = np.zeros(0, np.int64) if held is None else np.flatnonzero(held.is_valid())
        large[ids[sketched]] = True
        if not large.any():
            return [list_of(array_of(items, type_), lengths), pa.nulls(size, pa.binary())]
        which = np.flatnonzero(large)
        offsets = offsets_of(lengths)
        by_group = sketched[np.argsort(ids[sketched], kind="stable")]
        bounds = np.searchsorted(ids[by_group], np.append(which, size))
        made = [
            self.made(
                (held[place].as_py() for place in by_group[bounds[i] : bounds[i + 1]].tolist()) if held is not None else (),
                items[offsets[group] : offsets[group + 1]],
            )
            for i, group in enumerate(which.tolist())
        ]
        places = np.zeros(size, np.int64)
        places[which] = np.arange(len(which))
        sketches = pa.array(made, pa.binary()).take(pa.array(places, mask=~large))
        return [list_of(array_of(items[~large[owner]], type_), np.where(large, 0, lengths)), sketches]

    def folded(
        self, lists: pa.Array, held: pa.Array, start: Ints, end: Ints, idempotent: bool, result: Callable[[Any], Any]
    ) -> Iterator[Any]:
        """What ``result`` makes of the sketch of each range of panes.

        Args:
            lists: the items of all panes.
            held: their sketches.
            start: the first pane of each range, which has one at least.
            end: the pane after its last.
            idempotent: whether a sketch may be joined with itself.
            result: of a sketch.
        """
        items, lengths = list_parts(lists)
        values, offsets = numbers(items), offsets_of(lengths)
        order = np.argsort(start, kind="stable")  # ranges side by side share their panes
        found = np.empty(len(start), object)
        for first in range(0, len(order), _CHUNK):
            ours = order[first : first + _CHUNK]
            steps = np.bincount(start[ours], minlength=len(lists) + 1) - np.bincount(end[ours], minlength=len(lists) + 1)
            needed = np.flatnonzero(np.cumsum(steps))
            sketches = np.empty(len(needed), object)
            sketches[:] = [self.loaded(held[p].as_py(), values[offsets[p] : offsets[p + 1]]) for p in needed.tolist()]
            left, right = np.searchsorted(needed, start[ours]), np.searchsorted(needed, end[ours])
            (unions,) = fold_ranges((sketches,), left, right, (None,), self._combine, idempotent)
            for place, union in zip(ours.tolist(), unions, strict=True):
                found[place] = result(union)
        return iter(found)

    def _combine(self, a: State, b: State) -> State:
        unions = np.empty(len(a[0]), object)
        unions[:] = [right if left is None else self.joined(left, right) for left, right in zip(a[0], b[0], strict=True)]
        return (unions,)


def any_held(held: pa.Array, start: Ints, end: Ints) -> Mask:
    """Which ranges have a sketch."""
    if held.null_count == len(held):
        return np.zeros(len(start), np.bool_)
    some: Mask = sum_ranges(np.asarray(held.is_valid()).astype(np.int64), start, end) > 0
    return some
