"""The definition of windows without rows, in plain Python over lists of rows, for tests of filled windows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.plan import WindowQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from panestream.windowing.fill import Fill, ListedKeys
from tests.comparison.harness import KEYS, MicroBatch, Place, Query, Row

AGGREGATES = (agg.count().alias("n"), agg.sum("v").alias("s"), agg.mean("x").alias("m"), agg.max("u").alias("u"))
Bounds = tuple[int, int]


def results(rows: Sequence[Row]) -> tuple:
    """Return the results of :data:`AGGREGATES` over some rows."""
    values, numbers = [row[2] for row in rows if row[2] is not None], [row[3] for row in rows if row[3] is not None]
    mean = math.fsum(numbers) / len(numbers) if numbers else None
    return len(rows), sum(values) if values else None, mean, max(row[4] for row in rows)


def zeros() -> tuple:
    """Return the results of no rows, with the method zero."""
    return 0, 0, None, None


@dataclass
class Filled:
    """All rows that windows took, and the time. ``table`` is what a query must have emitted by then."""

    assigner: WindowAssigner
    fill: Fill
    lateness: int = 0
    delay: int = 0
    watermark: int | None = None
    closed: int | None = None
    newest: int | None = None
    ended: bool = False
    oldest: int | None = None
    listed: dict[object, int | None] = field(default_factory=dict)
    rows: dict[tuple[object, Bounds], list[Row]] = field(default_factory=dict)

    def take_in(self, batch: MicroBatch) -> None:
        for row in batch.rows:
            for window in self._windows_of(row[1]):
                if self.closed is None or window[1] - 1 > self.closed:
                    self.rows.setdefault((row[0], window), []).append(row)
        times = [row[1] for row in batch.rows]
        if times:
            oldest = min(times) if self.watermark is None else max(min(times), self.watermark + 1)
            self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)
            self.newest = max(times) if self.newest is None else max(self.newest, *times)
            reached = self.newest - self.delay - 1
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)
            self.closed = max(
                self.watermark - self.lateness, self.watermark - self.lateness if self.closed is None else self.closed
            )
        self.ended = self.ended or batch.end

    def table(self) -> dict[Place, tuple]:
        """Return the last result of each key and window."""
        if self.newest is None or self.watermark is None:
            return {}
        until = max((end - 1 for _, end in self._windows_of(self.newest)), default=self.newest) if self.ended else self.watermark
        found: dict[Place, tuple] = {}
        windows = [window for window in self._all_windows() if window[1] - 1 <= until]
        for key in {*(key for key, _ in self.rows), *self.listed}:
            mine = {number: self.rows[key, window] for number, window in enumerate(windows) if (key, window) in self.rows}
            begin = self._begin(windows, mine, key)
            place = last = None
            for number, window in enumerate(windows):
                if number in mine:
                    found[(key, *window)] = results(mine[number])
                    place, last = number, found[(key, *window)]
                elif place is not None and last is not None:
                    following = min((other for other in mine if other > number), default=None)
                    values = self._filled(windows, mine, place, last, number, following)
                    if values is not None:
                        found[(key, *window)] = values
                if number == begin:
                    place, last = number, (None,) * len(AGGREGATES)
        return found

    def list(self, keys: Iterable[object]) -> None:
        """List keys from now on, after some micro-batches."""
        for key in keys:
            self.listed.setdefault(key, self.watermark)

    def _begin(self, windows: list[Bounds], mine: dict[int, list[Row]], key: object) -> int | None:
        """Return the window before the first one that a listed key is filled in."""
        if key not in self.listed or self.oldest is None:
            return None
        reached = self.listed[key]
        since = self.oldest if reached is None else max(self.oldest, reached + 1)
        begin = next((number for number, window in enumerate(windows) if window[1] > since), 0) - 1
        if begin < 0:
            return None
        last = max((number for number in mine if number <= begin), default=None)
        # A key that is still filled goes on from its last window with rows.
        following = windows[begin + (0 if self.fill.waits else 1)][1]
        known = last is not None and (self.fill.max_gap is None or following - windows[last][1] <= self.fill.max_gap)
        return None if known else begin

    def _filled(
        self, windows: list[Bounds], mine: dict[int, list[Row]], place: int, before: tuple, number: int, following: int | None
    ) -> tuple | None:
        """Return the results of window ``number``, or None. The window before it is ``place``, with the results ``before``."""
        if self.fill.waits and following is None:
            return None
        filled_to = windows[following - 1] if self.fill.waits and following is not None else windows[number]
        if self.fill.max_gap is not None and filled_to[1] - windows[place][1] > self.fill.max_gap:
            return None
        own = dict(self.fill.results)
        methods = [own.get(aggregate.name, self.fill.method) for aggregate in AGGREGATES]
        values: list[object] = []
        for at, method in enumerate(methods):
            value = {"zero": zeros()[at], "null": None, "last": before[at]}.get(method)
            if method == "linear" and following is not None:
                one, other = before[at], results(mine[following])[at]
                if one is not None and other is not None:
                    share = (windows[number][0] - windows[place][0]) / (windows[following][0] - windows[place][0])
                    value = one + (other - one) * share
            values.append(value)
        return tuple(values)

    def _windows_of(self, time: int) -> list[Bounds]:
        return [(window.start, window.end) for window in self.assigner.assign_windows(None, time, 0)]

    def _all_windows(self) -> list[Bounds]:
        """Return all windows near the rows, found instant by instant."""
        if self.newest is None or self.oldest is None:
            return []
        times = [self.oldest, self.newest, *(row[1] for rows in self.rows.values() for row in rows)]  # some are in no window
        first, last = min(times) - 3 * self.assigner.size, max(times)
        span, step = range(first, last + 2 * self.assigner.size), self._step
        instants = range(span.start - span.start % step, span.stop, step)
        return sorted({window for time in instants for window in self._windows_of(time)}, key=lambda window: window[::-1])

    @property
    def _step(self) -> int:
        parts = (getattr(self.assigner, name, 0) for name in ("size", "slide", "step", "offset"))
        return math.gcd(*parts) or 1


def random_assigner(rng: random.Random) -> WindowAssigner:
    size = rng.choice([10, 12, 30])
    return rng.choice(
        [
            TumblingEventTimeWindows(size, rng.choice([0, 3])),
            SlidingEventTimeWindows(size, rng.choice([2, 5, 6, 10])),
            SlidingEventTimeWindows(size, size + rng.choice([2, 10])),
            CumulatingEventTimeWindows(size, 2),
        ]
    )


def random_fill(rng: random.Random, *, linear: bool) -> Fill:
    method = rng.choice(["zero", "null", "last"])
    own = {} if rng.random() < 0.4 else {rng.choice(["n", "s", "m", "u"]): rng.choice(["zero", "null", "last"])}
    if linear:
        own["m"] = "linear"
    return Fill(method, tuple(own.items()), rng.choice([None, None, 5, 20, 60]))


def random_query(rng: random.Random, *, linear: bool = False, lateness: int | None = None) -> Query:
    if lateness is None:
        lateness = 0 if linear else rng.choice([0, 0, 7, 30, 100])
    window = WindowQuery(random_assigner(rng), allowed_lateness=lateness, fill=random_fill(rng, linear=linear))
    return Query(window, AGGREGATES, delay=rng.choice([0, 0, 5, 20]))


def listing(query: Query, keys: Sequence[str]) -> Query:
    """Return a query that also fills these keys."""
    return replace(query, windowing=replace(query.windowing, listed_keys=listed(keys)))


def listed(keys: Sequence[str]) -> ListedKeys:
    """Return keys with the hash that tests place them by."""
    columns = [pa.array(keys, KEYS.field(0).type)]
    return ListedKeys(pa.table([*columns, pa.array(key_hashes(columns, len(keys)))], names=["key", "hash"]))


def judge_of(query: Query) -> Filled:
    window = query.windowing
    assert window.fill is not None
    return Filled(window.assigner, window.fill, window.allowed_lateness, query.delay)


def by_time(fired: Sequence[tuple[Place, tuple]]) -> Iterator[tuple[object, list[int]]]:
    """Yield for each key the ends of its firings, in order."""
    for key in {place[0] for place, _ in fired}:
        yield key, [place[2] for place, _ in fired if place[0] == key]
