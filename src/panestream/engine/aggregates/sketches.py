"""Sketches: a pane stores few items directly, in an Arrow list, and many as a sketch of Apache DataSketches.

Lists are processed as columns. Sketches are library objects, processed one by one, but each represents more items than the limit
of a list, so Python's overhead is small compared with the library's work.
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
"""Library sketch objects, or None."""

_CHUNK = 1 << 12
"""Number of (key, window) pairs whose sketches are in memory at a time."""


def library() -> Any:
    """Import Apache DataSketches, or raise EnvironmentNotReadyError if it is not installed."""
    try:
        import datasketches
    except ImportError:
        raise EnvironmentNotReadyError(
            "approximate aggregates need Apache DataSketches: pip install 'panestream[sketches]', on the executors too"
        ) from None
    return datasketches


@dataclass(frozen=True, slots=True)
class PartialSketch(PartialAggregate):
    """Items of each pane: a list or, for more than :attr:`limit` items, a sketch and an empty list."""

    needs_rows: ClassVar[bool] = True

    @property
    @abstractmethod
    def limit(self) -> int:
        """The maximum number of items stored directly."""

    @abstractmethod
    def made(self, held: Iterable[bytes], items: Vector) -> bytes:
        """Return the sketch of sketches, in order, and of items."""

    @abstractmethod
    def loaded(self, held: bytes | None, items: Vector) -> Any:
        """Return a stored sketch as an object, or a new one of items."""

    @abstractmethod
    def joined(self, a: Any, b: Any) -> Any:
        """Return the union of two sketches without changing them; ``a`` is from earlier panes."""

    def packed(
        self, size: int, owner: Ints, items: Vector, type_: pa.DataType, held: pa.Array | None, ids: Ints
    ) -> list[pa.Array]:
        """Return the two columns of ``size`` groups.

        ``owner`` is the group of every item, ascending. ``held`` has sketches to include, or nulls, and ``ids`` their groups.
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
        """Yield ``result`` of the sketch of each range of panes.

        ``lists`` and ``held`` have the items and the sketches of all panes. Ranges run from ``start`` to before ``end`` and must
        not be empty. ``idempotent`` means that a sketch may be joined with itself.
        """
        items, lengths = list_parts(lists)
        values, offsets = numbers(items), offsets_of(lengths)
        order = np.argsort(start, kind="stable")  # neighbouring ranges share panes
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
    """Return which ranges have a sketch."""
    if held.null_count == len(held):
        return np.zeros(len(start), np.bool_)
    some: Mask = sum_ranges(np.asarray(held.is_valid()).astype(np.int64), start, end) > 0
    return some
