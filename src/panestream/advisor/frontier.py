"""The frontier before each row: the largest event time or, with several source partitions, the smallest of their largest.

A watermark with a delay of ``d`` is at ``frontier - d - 1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, one_chunk
from panestream.windowing.time import MIN_TIMESTAMP

UNKNOWN = MIN_TIMESTAMP
"""The frontier until every source partition has had a row. A watermark does not exist until then."""


@dataclass(slots=True)
class Frontier:
    """A calculator of the frontier; ``maxima`` has all future source partitions, :data:`UNKNOWN` before their first row."""

    maxima: dict[str, int]
    _group: int | None = field(default=None)
    _group_began_at: int = UNKNOWN

    def before(self, times: Ints, partitions: pa.Array | None, together: Ints | None = None) -> Ints:
        """Return the frontier before each row. Rows with equal adjacent numbers in ``together`` arrive at once."""
        if not len(times):
            return times
        found = self._one_by_one(times, partitions)
        return found if together is None else self._by_group(found, together)

    def _one_by_one(self, times: Ints, partitions: pa.Array | None) -> Ints:
        if partitions is None:
            names, codes = [""], np.zeros(len(times), np.int64)
        else:
            coded = partitions.dictionary_encode()
            names, codes = coded.dictionary.to_pylist(), np.asarray(coded.indices)
        others = [largest for name, largest in self.maxima.items() if name not in names]
        found = np.full(len(times), min(others, default=np.iinfo(np.int64).max), np.int64)
        for code, name in enumerate(names):
            mine = np.where(codes == code, times, UNKNOWN)
            reached = np.maximum.accumulate(np.concatenate(([self.maxima[name]], mine)))
            found = np.minimum(found, reached[:-1])
            self.maxima[name] = int(reached[-1])
        return found

    def _by_group(self, found: Ints, together: Ints) -> Ints:
        first = np.concatenate(([self._group is None or bool(together[0] != self._group)], together[1:] != together[:-1]))
        places = np.maximum.accumulate(np.where(first, np.arange(len(first)), -1))
        found = np.where(places < 0, self._group_began_at, found[np.maximum(places, 0)])
        self._group, self._group_began_at = int(together[-1]), int(found[-1])
        return found


def largest_of(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Return the largest event time by source partition, for rows with a ``time`` and, if there are several, a ``partition``."""
    found: dict[str, int] = {}
    for batch in batches:
        if "partition" in batch.schema.names:
            maxima = pa.table({"name": batch["partition"], "time": batch["time"]}).group_by("name").aggregate([("time", "max")])
            pairs = zip(one_chunk(maxima["name"]).to_pylist(), one_chunk(maxima["time_max"]).to_pylist(), strict=True)
        else:
            pairs = zip([""], [pc.max(batch["time"]).as_py()], strict=True)
        for name, time in pairs:
            if time is not None:
                found[name] = max(time, found.get(name, time))
    return found


def starts(chunks: Iterable[Mapping[str, int]]) -> list[dict[str, int]]:
    """Return the largest event times before each chunk of rows, in order of arrival, and after the last chunk.

    >>> starts([{"a": 5}, {"a": 3, "b": 4}]) == [{"a": UNKNOWN, "b": UNKNOWN}, {"a": 5, "b": UNKNOWN}, {"a": 5, "b": 4}]
    True
    """
    given = list(chunks)
    reached = dict.fromkeys(sorted({name for chunk in given for name in chunk}), UNKNOWN)
    found = [dict(reached)]
    for chunk in given:
        reached |= {name: max(time, reached[name]) for name, time in chunk.items()}
        found.append(dict(reached))
    return found


__all__ = ["UNKNOWN", "Frontier", "largest_of", "starts"]
