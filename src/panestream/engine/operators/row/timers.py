"""Timers of windows: ordered, without duplicates, deletable, and cheap to move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

NEVER = 2**63
"""Later than every time, the final watermark included."""


class WindowTimers:
    """The timers of one kind (event or processing time) of one key and window.

    Attributes:
        times: when to call the trigger.
        cleanup: when to remove the window, even if a trigger deleted the timer. NEVER if other time ends the window.
        armed: the time of the only queue entry of these timers, never later than the next timer. NEVER without an entry.
    """

    __slots__ = ("armed", "cleanup", "order", "owner", "times")

    def __init__(self, owner: Any, order: int, cleanup: int = NEVER, times: Iterable[int] = ()) -> None:
        self.owner = owner
        self.order = order
        self.cleanup = cleanup
        self.times = set(times)
        self.armed = NEVER

    def following(self) -> int:
        """Return the next due time, or NEVER."""
        if not self.times:
            return self.cleanup
        first = min(self.times)
        return first if first < self.cleanup else self.cleanup  # noqa: FURB136 - called per firing; min() is a call more


class TimerQueue:
    """All timers of one kind in memory, ordered by time and then by creation of their windows.

    The queue holds one entry per window, at or before its next timer. Moving a timer to a later time (a session that grows)
    touches no entry; the entry moves when it comes up.

    >>> queue, timers = TimerQueue(), WindowTimers("window", order=1)
    >>> queue.register(timers, 20)
    >>> queue.register(timers, 10)
    >>> queue.register(timers, 10)
    >>> timers.times.discard(20)
    >>> [(time, found.owner, called) for time, found, called in queue.due(25)]
    [(10, 'window', True)]
    """

    __slots__ = ("_entries", "_sorted")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, WindowTimers]] = []
        self._sorted = True

    def register(self, timers: WindowTimers, time: int) -> None:
        """Add a timer unless it exists."""
        timers.times.add(time)
        if time < timers.armed:
            self._push(timers, time)

    def arm(self, timers: WindowTimers) -> None:
        """Update the queue after the timers were changed directly."""
        self.expect(timers, timers.following())

    def expect(self, timers: WindowTimers, time: int) -> None:
        """Like :meth:`arm`, with ``timers.following()`` already known."""
        if time < timers.armed:
            self._push(timers, time)

    def load(self, timers: WindowTimers) -> None:
        """Like :meth:`arm`, for bulk loading: the order is restored at the next access."""
        following = timers.following()
        if following < NEVER:
            timers.armed = following
            self._entries.append((following, timers.order, timers))
            self._sorted = False

    def first(self) -> int:
        """Return a lower bound of the next timer, or NEVER."""
        entries = self._ordered()
        while entries and entries[0][2].armed != entries[0][0]:
            heappop(entries)
        return entries[0][0] if entries else NEVER

    def due(self, until: int) -> Iterator[tuple[int, WindowTimers, bool]]:
        """Remove and yield the timers up to and including ``until``, in order, also those registered meanwhile.

        Items are the time, its timers, and whether to call the trigger: not at a cleanup time whose timer it deleted.
        """
        entries = self._ordered()
        while entries and entries[0][0] <= until:
            time, _, timers = heappop(entries)
            if timers.armed != time:
                continue  # an earlier entry replaced it
            timers.armed = NEVER
            called, goes = time in timers.times, time == timers.cleanup
            if called or goes:
                timers.times.discard(time)
                if goes:
                    timers.cleanup = NEVER
                yield time, timers, called
            self.expect(timers, timers.following())
            entries = self._ordered()

    def _push(self, timers: WindowTimers, time: int) -> None:
        timers.armed = time
        heappush(self._entries, (time, timers.order, timers))

    def _ordered(self) -> list[tuple[int, int, WindowTimers]]:
        if not self._sorted:
            heapify(self._entries)
            self._sorted = True
        return self._entries
