"""Functions for ``mapInArrow`` that reduce a chunk of rows, in order of arrival, to a few numbers.

Their input has the columns ``chunk`` (a number), ``time`` and, if requested, ``partition`` (the source partition), ``together``
(for rows that arrive at once) and ``key`` (a hash of the key).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.advisor.frontier import UNKNOWN, Frontier, largest_of
from panestream.advisor.needed import Closes, counted, needed
from panestream.advisor.waiting import WaitingCounts
from panestream.engine.kernels.columns import Ints

MAXIMA = pa.schema(
    [("chunk", pa.int32()), ("name", pa.string()), ("largest", pa.int64()), ("rows", pa.int64()), ("invalid", pa.int64())]
)
"""The largest event time of each source partition in a chunk. The row without a name has counts of all and of invalid rows."""
COUNTED = pa.schema([("what", pa.int32()), ("bin", pa.int64()), ("rows", pa.int64()), ("largest", pa.int64())])
"""The rows and the largest value in each bin, for :data:`BEHIND` and :data:`NEEDED`. :data:`FIRST` is a single value."""
BEHIND, NEEDED, FIRST = 0, 1, 2
CAME = pa.schema([("key", pa.int64()), ("closes", pa.int64()), ("frontier", pa.int64())])
CHANGES = pa.schema([("delay", pa.int32()), ("step", pa.int64()), ("more", pa.int64())])


@dataclass(slots=True)
class Maxima:
    """Conversion of rows to :data:`MAXIMA`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[str, int] = {}
        rows, invalid, chunk = 0, 0, -1
        for batch in batches:
            if not batch.num_rows:
                continue
            chunk = batch["chunk"][0].as_py()
            for name, time in largest_of([batch]).items():
                found[name] = max(time, found.get(name, time))
            rows, invalid = rows + batch.num_rows, invalid + batch["time"].null_count
        if rows:
            names = [None, *found]
            columns = [[chunk] * len(names), names, [None, *found.values()]]
            columns += [[count, *[0] * len(found)] for count in (rows, invalid)]
            yield _batch(columns, MAXIMA)


@dataclass(slots=True)
class RowJudge:
    """The frontier before each row, by chunk; ``starts`` has the largest event times before each chunk number."""

    starts: dict[int, dict[str, int]]
    closes: Closes

    def judged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Ints, Ints]]:
        """Yield for each batch the rows with an event time, their times, and the frontier before each."""
        frontier: Frontier | None = None
        for given in batches:
            batch = given.filter(pc.is_valid(given["time"])) if given["time"].null_count else given
            if not batch.num_rows:
                continue
            names = batch.schema.names
            frontier = frontier or Frontier(dict(self.starts[batch["chunk"][0].as_py()]))
            times = np.asarray(batch["time"])
            together = np.asarray(batch["together"]) if "together" in names else None
            yield batch, times, frontier.before(times, batch["partition"] if "partition" in names else None, together)


@dataclass(slots=True)
class CountRows(RowJudge):
    """Conversion of rows to :data:`COUNTED`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, times, frontier in self.judged(batches):
            yield _counts(BEHIND, needed(frontier, times))
            yield _counts(NEEDED, needed(frontier, self.closes.of(times)))
            known = frontier[frontier != UNKNOWN]
            if len(known):
                yield _batch([[FIRST], [0], [0], [-int(known[0])]], COUNTED)


@dataclass(slots=True)
class Came(RowJudge):
    """Conversion of rows to :data:`CAME`, which has the key, arrival and closing time of each row."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch, times, frontier in self.judged(batches):
            yield _batch([batch["key"], self.closes.of(times), frontier], CAME)


@dataclass(slots=True)
class Waits(RowJudge):
    """Conversion of rows to :data:`CHANGES`."""

    waiting: WaitingCounts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _changes(self.waiting, ((frontier, self.closes.of(times)) for _, times, frontier in self.judged(batches)))


@dataclass(slots=True)
class PanesWait:
    """Conversion of panes, in the form of :data:`CAME`, to :data:`CHANGES`."""

    waiting: WaitingCounts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pairs = ((np.asarray(batch["frontier"]), np.asarray(batch["closes"])) for batch in batches)
        yield from _changes(self.waiting, pairs)


def _changes(waiting: WaitingCounts, pairs: Iterable[tuple[Ints, Ints]]) -> Iterator[pa.RecordBatch]:
    total = np.zeros((len(waiting.delays), waiting.steps + 1), np.int64)
    for frontier, closes in pairs:
        total += waiting.changes(frontier, closes)
    delays, steps = np.nonzero(total)
    yield _batch([delays.astype(np.int32), steps, total[delays, steps]], CHANGES)


def _counts(what: int, delays: Ints) -> pa.RecordBatch:
    bins, counts, largest = counted(delays)
    return _batch([np.full(len(bins), what, np.int32), bins, counts, largest], COUNTED)


def _batch(columns: Sequence[object], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


__all__ = [
    "BEHIND",
    "CAME",
    "CHANGES",
    "COUNTED",
    "FIRST",
    "MAXIMA",
    "NEEDED",
    "Came",
    "CountRows",
    "Maxima",
    "PanesWait",
    "Waits",
]
