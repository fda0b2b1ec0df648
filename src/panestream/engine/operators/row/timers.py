"""Timers of windows: ordered, each at most once, deletable, and cheap to move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

NEVER = 2**63
"""After everything, the final watermark included."""


class WindowTimers:
    """The timers of one kind (event or processing time) of one key and window.

    Attributes:
        times: when the trigger is to be called.
        cleanup: when the window goes, whether or not its timer is among ``times`` (a trigger may have deleted it); NEVER where
            it does not go by this kind of time.
        armed: the time of the one entry that the queue holds for these timers, never later than the next of them; NEVER
            where there is none.
    """

    __slots__ = ("armed", "cleanup", "order", "owner", "times")

    def __init__(self, owner: Any, order: int, cleanup: int = NEVER, times: Iterable[int] = ()) -> None:
        self.owner = owner
        self.order = order
        self.cleanup = cleanup
        self.times = set(times)
        self.armed = NEVER

    def following(self) -> int:
        """The next time at which something is due, or NEVER."""
        if not self.times:
            return self.cleanup
        first = min(self.times)
        return first if first < self.cleanup else self.cleanup  # noqa: FURB136 - called per firing; min() is a call more


class TimerQueue:
    """All timers of one kind that are in memory, in the order of time, then of the windows' coming.

    The queue holds one entry per window, at or before its next timer. So moving a timer to later (a session that grows) touches
    no entry; the entry is moved when its time comes.

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
        """One more timer; nothing happens where it is there already."""
        timers.times.add(time)
        if time < timers.armed:
            self._push(timers, time)

    def arm(self, timers: WindowTimers) -> None:
        """Sees to it that the queue looks at these timers in time. Called when they were changed by hand."""
        self.expect(timers, timers.following())

    def expect(self, timers: WindowTimers, time: int) -> None:
        """The same for who knows what is next: ``timers.following()``."""
        if time < timers.armed:
            self._push(timers, time)

    def load(self, timers: WindowTimers) -> None:
        """Like :meth:`arm`, for many at a time: the order is restored when the queue is next asked."""
        following = timers.following()
        if following < NEVER:
            timers.armed = following
            self._entries.append((following, timers.order, timers))
            self._sorted = False

    def first(self) -> int:
        """At or before the next timer; NEVER where there is none."""
        entries = self._ordered()
        while entries and entries[0][2].armed != entries[0][0]:
            heappop(entries)
        return entries[0][0] if entries else NEVER

    def due(self, until: int) -> Iterator[tuple[int, WindowTimers, bool]]:
        """Takes out the timers up to and including ``until``, in order; those that are registered meanwhile too.

        Yields:
            The time, the timers it was taken from, and whether the trigger is to be called: at the cleanup time of a window
            whose timer for it was deleted it is not.
        """
        entries = self._ordered()
        while entries and entries[0][0] <= until:
            time, _, timers = heappop(entries)
            if timers.armed != time:
                continue  # an earlier entry took its place
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
