"""How late rows are, and what each delay of the watermark keeps: per source partition, per window, in passes over the rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, one_chunk
from panestream.engine.kernels.panes import AlignedWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

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


_BITS = 11


@dataclass(frozen=True, slots=True)
class Closes:
    """Closing times: at delay zero, a row is late once the frontier is beyond the end of its windows plus ``lateness``."""

    windows: tuple[AlignedWindows, ...] = ()
    lateness: int = 0

    def of(self, times: Ints) -> Ints:
        """Return the instants: the last end of a row's windows, but at least the row's own time, plus the lateness."""
        found = times
        for window in self.windows:
            last = window.end_of(window.last_starting_by(times)) - 1
            found = np.maximum(found, last)
        return found + self.lateness


def needed(frontier: Ints, closes: Ints) -> Ints:
    """Return the smallest delay with which each row is not late."""
    known = frontier != UNKNOWN
    return np.maximum(np.where(known, frontier, closes) - closes, 0)


def bins_of(delays: Ints) -> Ints:
    """Return the bins of delays, which must not be negative.

    >>> bins_of(np.array([0, 2047, 2048, 4095, 4096, 4097, 4098])).tolist()
    [0, 2047, 2048, 4095, 4096, 4096, 4097]
    """
    power = np.frexp(np.maximum(delays, 1).astype(np.float64))[1].astype(np.int64) - 1
    power -= (delays >> power) == 0  # a float rounds up to the next power of two
    shift = np.maximum(power - _BITS, 0)
    return (shift << _BITS) + (delays >> shift)


def counted(delays: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the bins of delays, with their counts and largest delays."""
    bins, of, counts = np.unique(bins_of(delays), return_inverse=True, return_counts=True)
    largest = np.zeros(len(bins), np.int64)
    np.maximum.at(largest, of.reshape(-1), delays)
    return bins.astype(np.int64), counts.astype(np.int64), largest


@dataclass(frozen=True, slots=True)
class Completeness:
    """The number of rows that each delay keeps: ``kept[i]`` rows need at most ``delays[i]``, which are in ascending order."""

    delays: tuple[int, ...]
    kept: tuple[int, ...]
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.kept[-1] if self.kept else 0)

    @classmethod
    def of(cls, bins: Iterable[tuple[int, int]]) -> Completeness:
        """Convert bins, given as pairs of largest delay and count."""
        given = sorted(bins)
        return cls(tuple(delay for delay, _ in given), tuple(accumulate(count for _, count in given)))

    def keeps(self, delay: int) -> int:
        """Return how many rows are not late with a delay. It is exact for members of ``delays``, or else a lower bound."""
        place = bisect_right(self.delays, delay)
        return self.kept[place - 1] if place else 0

    def delay_for(self, share: float) -> int:
        """Return the shortest known delay that keeps a share of the rows, at most 0.05 % longer than the shortest of all.

        >>> Completeness.of([(0, 90), (5, 9), (70, 1)]).delay_for(0.99)
        5
        """
        wanted = share * self.rows
        return next((delay for delay, kept in zip(self.delays, self.kept, strict=True) if kept >= wanted - 1e-9), MAX_TIMESTAMP)


STEPS = 2_000
"""Number of steps into which the time from the first to the last frontier is divided."""


@dataclass(frozen=True, slots=True)
class WaitingCounts:
    """A counter of waiting rows or panes for each step of the frontier from ``first`` to ``last``.

    With delay ``d``, a row waits while the frontier moves from its arrival to its closing time plus ``d``, unless it is late.
    """

    delays: tuple[int, ...]
    first: int
    last: int

    @property
    def step(self) -> int:
        return max(1, -(-(self.last - self.first + 1) // STEPS))

    @property
    def steps(self) -> int:
        return (self.last - self.first) // self.step + 1

    def changes(self, frontier: Ints, closes: Ints) -> Ints:
        """Return the increase in waiting rows at each step, in one row for each delay."""
        late_by = needed(frontier, closes)
        came = np.clip(np.where(frontier == UNKNOWN, self.first, frontier), self.first, self.last)
        begins = (came - self.first) // self.step
        found = np.zeros((len(self.delays), self.steps + 1), np.int64)
        for place, delay in enumerate(self.delays):
            kept = late_by <= delay
            until = np.clip(closes[kept] + delay, came[kept], self.last)
            ends = (until - self.first) // self.step + 1
            found[place] = np.bincount(begins[kept], minlength=self.steps + 1) - np.bincount(ends, minlength=self.steps + 1)
        return found

    def most(self, changes: Ints) -> list[int]:
        """Return the most rows that wait in one step, for each delay."""
        return [int(np.cumsum(row[: self.steps]).max(initial=0)) for row in changes]


def windows_of_a_key(sizes: Sequence[tuple[int, int]], lateness: int, delay: int) -> int:
    """Return the maximum number of open windows of a key, given the size and slide of each kind of windows.

    >>> windows_of_a_key([(60, 10)], 0, 0), windows_of_a_key([(60, 60)], 0, 5), windows_of_a_key([(60, 60)], 60, 5)
    (6, 2, 3)
    """
    return sum(-(-(size + lateness + delay) // slide) for size, slide in sizes)


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
