"""Contestant: what a competent user writes by hand today, ``transformWithState`` with one group per key.

It is written for speed. It has one state value per key, read and written once per key and batch. It stores panes (slices) instead
of a sum per window. With running sums, a window costs one addition and one subtraction. An event-time timer exists only if it is
needed. A key with new rows fires its closed windows in the same call and moves its timer past the watermark, so that the timer
only serves keys that fall silent. (``ALTERNATIVES`` has a plainer and slower version in which timers do all the firing.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.cases import SumCount
from benchmarks.events import EventSpec

_STATE = "panes array<bigint>, sums array<bigint>, counts array<bigint>, next_end bigint, timer bigint"
_OUTPUT = "key bigint, end_ms bigint, total bigint, events bigint"
_Result = Row("key", "end_ms", "total", "events")
_NO_TIMER = -1


class PaneProcessor(StatefulProcessor):
    """Sum and count per window of one key. State: its panes in order, the next window end to fire, and its timer."""

    def __init__(self, case: SumCount) -> None:
        self.size, self.slide = case.size_ms, case.slide_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("panes", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        sums, counts, next_end, timer = self._load()
        watermark = timerValues.getCurrentWatermarkInMs()
        next_end = self._add(rows, sums, counts, next_end, watermark)
        fired, next_end = self._fire(key[0], sums, counts, next_end, watermark)
        self._store(sums, counts, next_end, self._moved(timer, next_end if sums else _NO_TIMER))
        return iter(fired)

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        sums, counts, next_end, timer = self._load()
        fired, next_end = self._fire(key[0], sums, counts, next_end, timerValues.getCurrentWatermarkInMs())
        timer = _NO_TIMER  # Spark removes an expired timer
        self._store(sums, counts, next_end, self._moved(timer, next_end if sums else _NO_TIMER))
        return iter(fired)

    def close(self) -> None:
        pass

    def _moved(self, old: int, new: int) -> int:
        if old != new:
            if old != _NO_TIMER:
                self.handle.deleteTimer(old)
            if new != _NO_TIMER:
                self.handle.registerTimer(new)
        return new

    def _load(self) -> tuple[dict[int, int], dict[int, int], int, int]:
        state = self.state.get()
        if state is None:
            return {}, {}, 0, _NO_TIMER
        panes, sums, counts, next_end, timer = state
        return dict(zip(panes, sums, strict=True)), dict(zip(panes, counts, strict=True)), next_end, timer

    def _store(self, sums: dict[int, int], counts: dict[int, int], next_end: int, timer: int) -> None:
        if sums:
            self.state.update((list(sums), list(sums.values()), list(counts.values()), next_end, timer))
        elif self.state.exists():
            self.state.clear()

    def _add(self, rows: Iterator[Row], sums: dict[int, int], counts: dict[int, int], next_end: int, watermark: int) -> int:
        """Add the rows to their panes. Return the next window end to fire, which may move to an earlier pane."""
        slide = self.slide
        for _, value, ms in rows:
            pane = ms - ms % slide
            if pane in sums:
                sums[pane] += value
                counts[pane] += 1
            else:
                sums[pane] = value
                counts[pane] = 1
                if next_end == 0 or pane + slide < next_end:
                    next_end = max(pane + slide, watermark - watermark % slide + slide)
        return next_end

    def _fire(self, key: int, sums: dict[int, int], counts: dict[int, int], end: int, watermark: int) -> tuple[list[Row], int]:
        """Fire the windows that end at the watermark or before, and drop panes that no later window needs."""
        fired: list[Row] = []
        size, slide = self.size, self.slide
        if end > watermark:
            return fired, end
        total = sum(value for pane, value in sums.items() if end - size <= pane < end - slide)
        count = sum(value for pane, value in counts.items() if end - size <= pane < end - slide)
        last = max(sums) + size
        while end <= watermark and end <= last:
            newest, oldest = end - slide, end - size
            total += sums.get(newest, 0)
            count += counts.get(newest, 0)
            if count:
                fired.append(_Result(key, end, total, count))
            if oldest in sums:
                total -= sums.pop(oldest)
                count -= counts.pop(oldest)
            end += slide
        return fired, end


class TimerProcessor(PaneProcessor):
    """The plainer version: rows only go into panes, and a timer at the next window end does all the firing."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        sums, counts, next_end, timer = self._load()
        next_end = self._add(rows, sums, counts, next_end, timerValues.getCurrentWatermarkInMs())
        self._store(sums, counts, next_end, self._moved(timer, next_end))
        return iter(())


ALTERNATIVES: dict[str, type[PaneProcessor]] = {"input": PaneProcessor, "timer": TimerProcessor}


def query(events: DataFrame, case: SumCount, spec: EventSpec, firing: str = "input") -> DataFrame:
    """Return columns ``key, window_end, total, events``, with one row per key and closed window."""
    processor = ALTERNATIVES[firing](case)
    rows = (
        # Spark's watermark needs a timestamp. The processor gets an integer, which is much cheaper to transfer.
        events.withWatermark("ts", f"{spec.disorder_ms} milliseconds")
        .select("key", "value", F.unix_millis("ts").alias("ms"))
        .groupBy("key")
        .transformWithState(processor, _OUTPUT, "append", "eventTime")
    )
    return rows.select("key", F.timestamp_millis("end_ms").alias("window_end"), "total", "events")
