"""Two queries over a day of events with many keys, and the right answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.events import EPOCH_MS, EventSpec, chunks, events

MINUTE_MS = 60_000
_DAY_S = 86_400
_FILE = 4_000_000
_BEFORE = 10_000
"""Times are relative to this many ms before the first event, so that out-of-order times are not negative."""


@dataclass(frozen=True)
class Day:
    """The events.

    Attributes:
        rows: the number of events.
        keys: the number of keys.
    """

    rows: int
    keys: int

    @property
    def spec(self) -> EventSpec:
        """Return a specification whose rate spreads the events over a day, in files of some million rows."""
        files = max(1, self.rows // _FILE)
        return EventSpec(self.rows // files, files, self.keys, max(1, self.rows // _DAY_S), files_per_batch=1)

    def write(self, folder: Path) -> Path:
        """Write Parquet files with columns ``key, value, ts``, unless they exist."""
        target = folder / f"day-{self.rows}-{self.keys}"
        if (target / "_SUCCESS").exists():
            return target
        target.mkdir(parents=True, exist_ok=True)
        spec = self.spec
        for number in range(spec.batches):
            of = events(number * spec.rows_per_batch, (number + 1) * spec.rows_per_batch, spec)
            instant = pa.array(of["ts"] * 1000).cast(pa.timestamp("us", tz="UTC"))
            table = pa.table({"key": of["key"], "value": of["value"], "ts": instant})
            pq.write_table(table, target / f"part-{number:04d}.parquet", row_group_size=1_000_000)
        (target / "_SUCCESS").touch()
        return target


@dataclass(frozen=True)
class Answer:
    """The expected sums of the output.

    Attributes:
        rows: key and window.
        total: the sum of their sums.
        events: the sum of their counts.
        ends: the sum of the window ends, in seconds from the epoch of the events, rounded down.
    """

    rows: int
    total: int
    events: int
    ends: int


@dataclass(frozen=True)
class Sorted:
    """All events by key and time.

    Attributes:
        key: the keys of the events.
        ts: event times in ms.
        value: the values to add up.
    """

    key: npt.NDArray[np.int64]
    ts: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]

    @classmethod
    def of(cls, day: Day) -> Sorted:
        """Sort one number for each event: at least 17 bits of key, 28 of time, 10 of value."""
        spec = day.spec
        packed = np.empty(spec.rows, np.int64)
        at = 0
        for chunk in chunks(spec):
            part = chunk["key"] << 38 | (chunk["ts"] - EPOCH_MS + _BEFORE) << 10 | chunk["value"]
            packed[at : at + len(part)] = part
            at += len(part)
        packed.sort()
        return cls(packed >> 38, (packed >> 10 & (1 << 28) - 1) + EPOCH_MS - _BEFORE, packed & 1023)


@dataclass(frozen=True)
class Sliding:
    """Sum and count of each window of ``size_ms``, one every ``slide_ms``, that has events."""

    name: str = "sliding"
    size_ms: int = 24 * 60 * MINUTE_MS
    slide_ms: int = MINUTE_MS

    @property
    def title(self) -> str:
        return "sliding, 24 h every minute"

    def answer(self, day: Day) -> Answer:
        """Compute the answer.

        Each event is in as many windows as slides fit in one. The gaps between events give the windows with events.
        """
        by_key = Sorted.of(day)
        per_window = self.size_ms // self.slide_ms
        cell = by_key.ts // self.slide_ms
        first = np.flatnonzero(np.r_[True, (np.diff(by_key.key) != 0) | (np.diff(cell) != 0)])
        cell, key = cell[first], by_key.key[first]
        # The windows with the events of a slide, and without events of the key's next slide.
        fresh = np.where(np.r_[np.diff(key) != 0, True], per_window, np.minimum(np.r_[np.diff(cell), 0], per_window))
        # The last such slide of a window is at most one window before its end. So these windows end 1 to `fresh` slides after its
        # start.
        first_end = (cell + 1) * self.slide_ms // 1000 - EPOCH_MS // 1000
        ends = int((fresh * first_end).sum()) + int((fresh * (fresh - 1) // 2).sum()) * (self.slide_ms // 1000)
        return Answer(int(fresh.sum()), int(by_key.value.sum()) * per_window, len(by_key.ts) * per_window, ends)


@dataclass(frozen=True)
class Sessions:
    """Sum and count of each session."""

    name: str = "sessions"
    gap_ms: int = 5 * MINUTE_MS

    @property
    def title(self) -> str:
        return "sessions, gap 5 min"

    def answer(self, day: Day) -> Answer:
        """By sorting."""
        by_key = Sorted.of(day)
        first = np.flatnonzero(np.r_[True, (np.diff(by_key.key) != 0) | (np.diff(by_key.ts) > self.gap_ms)])
        last = np.r_[first[1:], len(by_key.ts)] - 1
        ends = (by_key.ts[last] + self.gap_ms) // 1000 - EPOCH_MS // 1000
        return Answer(len(first), int(by_key.value.sum()), len(by_key.ts), int(ends.sum()))


Case = Sliding | Sessions
CASES: dict[str, Case] = {case.name: case for case in (Sliding(), Sessions())}


@dataclass(frozen=True)
class Run:
    """One contestant on one case.

    Attributes:
        contestant: its name.
        case: the name of the case.
        folder: the folder of the events.
        cores: the number of cores.
        groups: key groups of panestream, or shuffle partitions of native Spark. 0 means the default.
    """

    contestant: str
    case: str
    folder: str
    cores: int
    groups: int
