"""The row operator with a watermark for each key: ``WatermarkStrategy.per_key``.

The watermark of a key is the larger of two times, which never go back:

- its own: the newest event time of its rows, minus the out-of-orderness, as of the last micro-batch;
- the *floor*, the same for all keys: the watermark of the stream, minus ``idle_after``.

A key whose own time is at or before the floor is idle. It needs no entry in the state: that of a key without rows is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from panestream.engine.operators.row.contents import PROGRESS, KeyState, RowPlan, TimerQueue, WindowState
from panestream.engine.operators.row.window_operator import Row, RowOperator
from panestream.engine.storage.state import State
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_NO_PROGRESS = (MIN_TIMESTAMP, MIN_TIMESTAMP, MIN_TIMESTAMP)


class PerKeyOperator(RowOperator):
    """Runs a plan with a watermark for each key. ``watermark`` and ``closed`` are those of the key that is processed.

    Between two calls they are those of idle keys. The stored progress of a key has its watermark, the last instant up to which
    its windows are closed, and its newest event time.
    """

    def __init__(self, plan: RowPlan, state: State, key_group: int = 0) -> None:
        super().__init__(plan, state, key_group)
        assert plan.key_watermarks is not None  # noqa: S101 - see row_operator of operator.py
        self._delay, self._idle_after = plan.key_watermarks
        self._floor = self.watermark

    def elements(self, rows: Iterable[Row]) -> None:
        for key, rows_of_key in groupby(rows, itemgetter(0)):
            owner = self.store.get_or_create(key)
            self._enter(owner)
            super().elements(self._noted(owner, rows_of_key))
        self._leave()

    @staticmethod
    def _noted(owner: KeyState, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows of a key, none before it is asked for, and note the newest event time for the next advance."""
        own, closed, newest = owner.global_values.get(PROGRESS, _NO_PROGRESS)
        for row in rows:
            newest = max(newest, row[1])
            yield row
        owner.global_values[PROGRESS] = own, closed, newest

    def advance_watermark(self, watermark: int) -> None:
        """Advance the watermark of the stream, and of each key. Fire and clean up due windows of each, in the order of time."""
        floor = max(self._floor, watermark if watermark == MAX_TIMESTAMP else watermark - self._idle_after)
        self.store.load_due(event=floor)
        for owner in self.store.loaded_keys():
            self._advance(owner, floor)
        self._floor = floor
        self.store.event_queue = TimerQueue()
        self._leave()
        if self.store.processing_queue.first() < self.processing_time:
            self._run_processing_timers()

    def begin_at(self, watermark: int, processing_time: int, closed: int) -> None:
        super().begin_at(max(watermark - self._idle_after, MIN_TIMESTAMP), processing_time, closed)
        self._floor = self.watermark

    def _enter(self, owner: KeyState) -> None:
        """Set the times to those of a key."""
        own, closed, _ = owner.global_values.get(PROGRESS, _NO_PROGRESS)
        self.watermark = max(own, self._floor)
        self.closed = max(closed, self._closing.at(self.watermark))

    def _leave(self) -> None:
        self.watermark, self.closed = self._floor, self._closing.at(self._floor)

    def _advance(self, owner: KeyState, floor: int) -> None:
        self._enter(owner)
        own, closed, newest = owner.global_values.get(PROGRESS, _NO_PROGRESS)
        own = max(own, newest - self._delay - 1)
        if max(own, floor) > self.watermark:
            self.watermark = max(own, floor)
            self.closed = max(closed, self._closing.at(self.watermark))
            self._run_timers(owner)
        if PROGRESS not in owner.global_values:
            return
        if own <= floor and closed <= self._closing.at(floor):
            del owner.global_values[PROGRESS]
            owner.page.dirty = True
        else:
            owner.global_values[PROGRESS] = own, max(closed, self._closing.at(own)), newest

    def _run_timers(self, owner: KeyState) -> None:
        """Run the due timers of one key. Its queue is made when it is needed: until then other keys would be in the way."""
        queue = self.store.event_queue = TimerQueue()
        for window_state in owner.window_states.values():
            queue.load(window_state.event_timers)
        if self._fast_timers is not None:
            self._fast_timers(self.watermark)
            return
        for time, timers, called in queue.due(self.watermark):
            self._on_timer(timers.owner, time, called, event_time=True)

    def _on_timer(self, window_state: WindowState, time: int, called: bool, event_time: bool) -> None:
        times = self.watermark, self.closed
        if not event_time:
            self._enter(window_state.owner)
        super()._on_timer(window_state, time, called, event_time)
        self.watermark, self.closed = times

    def _resume(self, window_state: WindowState) -> bool:
        self._enter(window_state.owner)
        self._closed_before = self.closed
        return super()._resume(window_state)
