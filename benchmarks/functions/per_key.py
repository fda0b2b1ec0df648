"""Contestant: what a competent user writes by hand today, ``transformWithState`` with one group per key.

It is written for speed, as ``benchmarks/per_key.py``. The state of a key is one value (arrays), read and written once per key and
batch, because a state call costs more than the bytes it moves. Rows arrive as integers. A key with new rows fires in the same
call and moves its timer past the watermark, so that timers only serve keys that fall silent. Elements are stored in the order of
time. So a session is a run without a gap, and two binary searches find the slice of a window that an evictor leaves.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, ClassVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.cases import Case
from benchmarks.events import EventSpec
from benchmarks.functions.cases import MICRO, Counted, Evicted, OwnMean, SessionMedian, median

_NO_TIMER = -1
_Counted = Row("key", "total", "events")
_Session = Row("key", "start_ms", "end_ms", "events", "median")
_Evicted = Row("key", "end_ms", "total", "events")
_Mean = Row("key", "end_ms", "mean")


class CountProcessor(StatefulProcessor):
    """Emit the sum of every n rows of a key."""

    OUTPUT: ClassVar[str] = "key bigint, total bigint, events bigint"

    def __init__(self, case: Counted) -> None:
        self.every = case.every

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("open", "total bigint, events int")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        total, events = self.state.get() or (0, 0)
        fired = []
        for _, value in rows:
            total += value
            events += 1
            if events == self.every:
                fired.append(_Counted(key[0], total, events))
                total = events = 0
        self.state.update((total, events))
        return iter(fired)

    def close(self) -> None:
        pass


class WindowProcessor(StatefulProcessor):
    """Windows of one key that the watermark closes: load, add rows, fire, store, move the timer.

    Subclasses define the stored columns of a key (``STATE``, arrays), how to add rows to them, and when to fire.
    """

    STATE: ClassVar[str]
    OUTPUT: ClassVar[str]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("windows", f"{self.STATE}, timer bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        columns, timer = self._load()
        self.add(columns, rows)
        return self._advance(key[0], columns, timer, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        columns, _ = self._load()
        # Spark removes an expired timer.
        return self._advance(key[0], columns, _NO_TIMER, timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def _load(self) -> tuple[list[list[int]], int]:
        held = self.state.get()
        if held is None:
            return self.empty(), _NO_TIMER
        return [list(column) for column in held[:-1]], held[-1]

    def _advance(self, key: int, columns: list[list[int]], timer: int, watermark: int) -> Iterator[Row]:
        fired, due = self.fire(key, columns, watermark)
        if timer != due:
            if timer != _NO_TIMER:
                self.handle.deleteTimer(timer)
            if due != _NO_TIMER:
                self.handle.registerTimer(due)
        if columns[0]:
            self.state.update((*columns, due))
        else:
            self.state.clear()
        return iter(fired)

    def empty(self) -> list[list[int]]:
        """Return the columns of an empty key."""
        return [[] for _ in self.STATE.split(",")]

    @abstractmethod
    def add(self, columns: list[list[int]], rows: Iterator[Row]) -> None:
        """Add rows ``(key, value, ms)``."""

    @abstractmethod
    def fire(self, key: int, columns: list[list[int]], watermark: int) -> tuple[list[Row], int]:
        """Fire windows that end up to the watermark, drop data that no later window needs, and return the next window end."""


def _merge(columns: list[list[int]], rows: Iterator[Row]) -> None:
    """Add rows to columns of times and values, by time."""
    fresh = sorted((ms, value) for _, value, ms in rows)
    if columns[0] and fresh[0][0] < columns[0][-1]:
        fresh = sorted((*zip(*columns, strict=True), *fresh))
        columns[:] = [[], []]
    columns[0].extend([ms for ms, _ in fresh])
    columns[1].extend([value for _, value in fresh])


class SessionProcessor(WindowProcessor):
    """Sessions: number and median of the values of each."""

    STATE = "times array<bigint>, values array<bigint>"
    OUTPUT = "key bigint, start_ms bigint, end_ms bigint, events bigint, median double"

    def __init__(self, case: SessionMedian) -> None:
        self.gap = case.gap_ms

    def add(self, columns: list[list[int]], rows: Iterator[Row]) -> None:
        _merge(columns, rows)

    def fire(self, key: int, columns: list[list[int]], watermark: int) -> tuple[list[Row], int]:
        times, values = columns
        gap, fired, begin, due = self.gap, [], 0, _NO_TIMER
        for end in range(1, len(times) + 1):
            if end < len(times) and times[end] - times[end - 1] <= gap:
                continue
            closes = times[end - 1] + gap
            if closes > watermark:
                due = closes  # sessions are in order, so all later ones are open too
                break
            fired.append(_Session(key, times[begin], closes, end - begin, median(values[begin:end])))
            begin = end
        if begin:
            del times[:begin], values[:begin]
        return fired, due


class EvictedProcessor(WindowProcessor):
    """Sliding windows: sum and count of the values that are not too old compared with the newest.

    Windows that end up to ``done`` have fired.
    """

    STATE = "times array<bigint>, values array<bigint>, done array<bigint>"
    OUTPUT = "key bigint, end_ms bigint, total bigint, events bigint"

    def __init__(self, case: Evicted) -> None:
        self.size, self.slide, self.keep = case.size_ms, case.slide_ms, case.keep_ms

    def empty(self) -> list[list[int]]:
        return [[], [], [0]]

    def add(self, columns: list[list[int]], rows: Iterator[Row]) -> None:
        elements = columns[:2]
        _merge(elements, rows)
        columns[:2] = elements

    def fire(self, key: int, columns: list[list[int]], watermark: int) -> tuple[list[Row], int]:
        times, values, done = columns
        size, slide, fired = self.size, self.slide, []
        end = self._next_end(times, 0, done[0])
        while end != _NO_TIMER and end <= watermark:
            low, high = bisect_left(times, end - size), bisect_left(times, end)
            first = max(low, bisect_right(times, times[high - 1] - self.keep, low, high))
            chosen = values[first:high]
            fired.append(_Evicted(key, end, sum(chosen), len(chosen)))
            done[0] = end
            end = self._next_end(times, bisect_left(times, end + slide - size), end)
        if fired:
            past = bisect_left(times, done[0] + slide - size)
            del times[:past], values[:past]
        return fired, end

    def _next_end(self, times: list[int], first: int, done: int) -> int:
        """Return the end of the next window with an element from ``first`` on."""
        return max(done, times[first] - times[first] % self.slide) + self.slide if first < len(times) else _NO_TIMER


class MeanProcessor(WindowProcessor):
    """Tumbling windows: the mean, from sum and count."""

    STATE = "ends array<bigint>, sums array<bigint>, counts array<bigint>"
    OUTPUT = "key bigint, end_ms bigint, mean double"

    def __init__(self, case: OwnMean) -> None:
        self.size = case.size_ms

    def add(self, columns: list[list[int]], rows: Iterator[Row]) -> None:
        ends, sums, counts = columns
        size, index_of = self.size, {end: at for at, end in enumerate(ends)}
        for _, value, ms in rows:
            end = ms - ms % size + size
            at = index_of.get(end)
            if at is None:
                index_of[end] = len(ends)
                ends.append(end)
                sums.append(value)
                counts.append(1)
            else:
                sums[at] += value
                counts[at] += 1

    def fire(self, key: int, columns: list[list[int]], watermark: int) -> tuple[list[Row], int]:
        windows = sorted(zip(*columns, strict=True))
        closed = sum(end <= watermark for end, _, _ in windows)
        columns[:] = [list(column) for column in zip(*windows[closed:], strict=True)] or self.empty()
        due = columns[0][0] if columns[0] else _NO_TIMER
        return [_Mean(key, end, total / count) for end, total, count in windows[:closed]], due


def counted(events: DataFrame, case: Counted) -> DataFrame:
    """Run the case without event time and timers."""
    fired = events.select("key", "batch").groupBy("key")
    rows = fired.transformWithState(CountProcessor(case), CountProcessor.OUTPUT, "append", "none")
    return rows.select("key", F.lit(None).cast("timestamp").alias("window_end"), "total", "events")


def closed_by_watermark(events: DataFrame, processor: StatefulProcessor, output: str, spec: EventSpec) -> DataFrame:
    """Run a processor per key."""
    return (
        # Spark's watermark needs a timestamp. The processor gets an integer, which is much cheaper to transfer.
        events.withWatermark("ts", f"{spec.disorder_ms} milliseconds")
        .select("key", "value", F.unix_millis("ts").alias("ms"))
        .groupBy("key")
        .transformWithState(processor, output, "append", "eventTime")
    )


def query(events: DataFrame, case: Case, spec: EventSpec) -> DataFrame:
    """Return at least columns ``key, window_end, total, events``."""
    end = F.timestamp_millis("end_ms").alias("window_end")
    if isinstance(case, Counted):
        return counted(events, case)
    if isinstance(case, SessionMedian):
        rows = closed_by_watermark(events, SessionProcessor(case), SessionProcessor.OUTPUT, spec)
        start, total = F.timestamp_millis("start_ms").alias("window_start"), (F.col("median") * 2).cast("bigint").alias("total")
        return rows.select("key", start, end, total, "events")
    if isinstance(case, Evicted):
        return closed_by_watermark(events, EvictedProcessor(case), EvictedProcessor.OUTPUT, spec).select(
            "key", end, "total", "events"
        )
    if isinstance(case, OwnMean):
        rows = closed_by_watermark(events, MeanProcessor(case), MeanProcessor.OUTPUT, spec)
        total = (F.col("mean") * MICRO).cast("bigint").alias("total")
        return rows.select("key", end, total, F.lit(1).cast("bigint").alias("events"))
    raise ValueError(f"nobody wrote {case.name} by hand")
