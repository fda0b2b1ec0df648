"""Composed triggers by definition: a window is a list of past events, and a composition is an object with plain attributes.

It shares no code with the package, registers no timers and stores no state. After every event each window returns the instants
that
it awaits, and processes them one by one.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field

import panestream as pst


@dataclass
class Now:
    """The moment of a check: the window's last instant, event time, processing time, and the watermark.

    While instants are processed in turn, ``event`` is that instant, and the watermark may be after it.
    """

    last: int
    event: int
    clock: int
    watermark: int


class Part:
    """A part of a composition. ``finishes`` is true if it can finish."""

    finishes = True

    def row(self, timestamp, now): ...

    def starts(self, now):
        """Start the part's turn without a row."""

    def awaited(self, now):
        """Return the awaited instants, of event time and of processing time."""
        return set(), set()

    def reached(self, event, clock, now):
        """Handle one of the awaited instants."""

    def anew(self, now): ...

    def joined(self, others, now):
        """Merge with the same part of other windows."""


class Count(Part):
    def __init__(self, enough):
        self.enough, self.seen = enough, 0

    def row(self, timestamp, now):
        self.seen += 1

    def ready(self, now):
        return self.seen >= self.enough

    def fire(self, now):
        return True

    def anew(self, now):
        self.seen = 0

    def joined(self, others, now):
        self.seen += sum(other.seen for other in others)


class Delay(Part):
    def __init__(self, delay):
        self.delay, self.due, self.waits = delay, None, False

    def row(self, timestamp, now):
        if self.due is None:
            self.due = now.clock + self.delay
            self.waits = self.due > now.clock

    def awaited(self, now):
        return set(), {self.due} if self.waits else set()

    def reached(self, event, clock, now):
        if self.waits and clock == self.due:
            self.waits = False

    def ready(self, now):
        return self.due is not None and now.clock >= self.due

    def fire(self, now):
        return True

    def anew(self, now):
        self.due, self.waits = None, False

    def joined(self, others, now):
        self.due = min((one.due for one in (self, *others) if one.due is not None), default=None)
        self.waits = self.due is not None and self.due > now.clock


class FlinkCount(Part):
    """Fire at every n-th row, and continue."""

    finishes = False

    def __init__(self, enough):
        self.enough, self.seen, self.said = enough, 0, False

    def row(self, timestamp, now):
        self.seen += 1
        if self.seen >= self.enough:
            self.seen, self.said = 0, True

    def ready(self, now):
        return self.said

    def fire(self, now):
        self.said = False
        return False

    def anew(self, now):
        self.seen, self.said = 0, False

    def joined(self, others, now):
        self.seen += sum(other.seen for other in others)
        self.said = self.said or any(other.said for other in others)


class FlinkEnd(FlinkCount):
    """Fire at the end of the window, and at every row after it."""

    def __init__(self):
        self.waits, self.said = False, False

    def row(self, timestamp, now):
        if now.event >= now.last:
            self.said = True
        else:
            self.waits = True

    def awaited(self, now):
        return {now.last} if self.waits else set(), set()

    def reached(self, event, clock, now):
        if event == now.last and self.waits:
            self.said, self.waits = True, False

    def anew(self, now):
        self.waits, self.said = False, False

    def joined(self, others, now):
        # Flink's on_merge sets a timer if the end is still ahead.
        self.waits = now.last > now.event
        self.said = self.said or any(other.said for other in others)


class FlinkContinuous(FlinkEnd):
    """Also fire at multiples of an interval after the first row."""

    def __init__(self, interval):
        super().__init__()
        self.interval, self.next, self.wakes = interval, None, set()

    def row(self, timestamp, now):
        if now.event >= now.last:
            self.said = True
            return
        self.wakes.add(now.last)
        if self.next is None:
            self.next = min((timestamp // self.interval + 1) * self.interval, now.last)
            self.wakes.add(self.next)

    def awaited(self, now):
        return set(self.wakes), set()

    def reached(self, event, clock, now):
        if event not in self.wakes:
            return
        self.wakes.discard(event)
        if event == now.last:
            self.said = True
        elif event == self.next:
            self.said, self.next = True, min(event + self.interval, now.last)
            self.wakes.add(self.next)

    def anew(self, now):
        # Its clear() deletes only the pending timer. The composition forgets the others.
        self.next, self.said, self.wakes = None, False, set()

    def joined(self, others, now):
        pending = [one.next for one in (self, *others) if one.next is not None]
        self.next = min(pending, default=None)
        self.wakes = set() if self.next is None else {self.next}
        self.said = self.said or any(other.said for other in others)


class ChangedContinuous(FlinkContinuous):
    """Fire only if rows came since the last firing: once for all intervals that the watermark passes, or at the end."""

    def __init__(self, interval):
        super().__init__(interval)
        self.changed = False

    def row(self, timestamp, now):
        super().row(max(timestamp, now.event), now)
        self.changed = now.event < now.last

    def reached(self, event, clock, now):
        if event not in self.wakes:
            return
        self.wakes.discard(event)
        if event == self.next != now.last:
            self.wait(now)
            if now.watermark >= now.last:
                return
        elif event != now.last:
            return
        self.said, self.changed = self.said or self.changed, False

    def wait(self, now):
        self.next = min((now.watermark // self.interval + 1) * self.interval, now.last)
        self.wakes.add(self.next)

    def anew(self, now):
        super().anew(now)
        self.changed = False

    def joined(self, others, now):
        super().joined(others, now)
        self.changed = True
        if self.next is not None and self.next <= now.watermark:
            self.wakes = set()
            self.wait(now)


class Several(Part):
    def __init__(self, *parts):
        self.parts = parts

    @property
    def living(self):
        return self.parts

    def row(self, timestamp, now):
        for part in list(self.living):
            part.row(timestamp, now)

    def starts(self, now):
        for part in self.parts:
            part.starts(now)

    def awaited(self, now):
        found = [part.awaited(now) for part in self.living]
        return set().union(*(one for one, _ in found)), set().union(*(other for _, other in found))

    def reached(self, event, clock, now):
        for part in list(self.living):
            part.reached(event, clock, now)

    def anew(self, now):
        for part in self.parts:
            part.anew(now)

    def joined(self, others, now):
        for number, part in enumerate(self.parts):
            part.joined([other.parts[number] for other in others], now)


class Again(Several):
    finishes = False

    def ready(self, now):
        return self.parts[0].ready(now)

    def fire(self, now):
        if self.parts[0].fire(now):
            self.parts[0].anew(now)
        return False


class First(Several):
    @property
    def finishes(self):
        return any(part.finishes for part in self.parts)

    def ready(self, now):
        return any(part.ready(now) for part in self.parts)

    def fire(self, now):
        finished = [part.fire(now) for part in self.parts if part.ready(now)]
        return any(finished)


class Until(First):
    finishes = True

    def fire(self, now):
        last = self.parts[1].ready(now)
        return super().fire(now) or last


class Together(Several):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.done = set()
        self.original = copy.deepcopy(parts)

    @property
    def finishes(self):
        return all(part.finishes for part in self.parts)

    @property
    def living(self):
        return [part for number, part in enumerate(self.parts) if number not in self.done]

    def ready(self, now):
        return all(part.ready(now) for part in self.living)

    def fire(self, now):
        finished = {number for number, part in enumerate(self.parts) if number not in self.done and part.fire(now)}
        self.parts = tuple(
            copy.deepcopy(self.original[number]) if number in finished else part for number, part in enumerate(self.parts)
        )
        self.done |= finished
        return len(self.done) == len(self.parts)

    def anew(self, now):
        super().anew(now)
        self.done = set()

    def joined(self, others, now):
        self.done = self.done.union(*(other.done for other in others))
        for number, part in enumerate(self.parts):
            if number not in self.done:
                part.joined([other.parts[number] for other in others], now)


class InTurn(Several):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.turn, self.original = 0, copy.deepcopy(parts)

    @property
    def finishes(self):
        return self.parts[-1].finishes

    @property
    def living(self):
        return [self.parts[self.turn]]

    def ready(self, now):
        return self.parts[self.turn].ready(now)

    def starts(self, now):
        self.parts[self.turn].starts(now)

    def fire(self, now):
        if not self.parts[self.turn].fire(now):
            return False
        if self.turn == len(self.parts) - 1:
            return True
        self.turn += 1
        self.starts(now)
        return False

    def anew(self, now):
        self.turn, self.parts = 0, copy.deepcopy(self.original)
        self.starts(now)

    def joined(self, others, now):
        furthest = max(one.turn for one in (self, *others))
        there = [one.parts[furthest] for one in (self, *others) if one.turn == furthest]
        self.turn = furthest
        fresh = copy.deepcopy(self.original[furthest])
        fresh.joined(there, now)
        self.parts = (*self.parts[:furthest], fresh, *self.parts[furthest + 1 :])


class End(Part):
    """Fire at the end of the window. Repeat ``early`` before it and ``late`` after it."""

    def __init__(self, early=None, late=None):
        self.early, self.late = early and Again(early), late and Again(late)
        self.fresh = copy.deepcopy((self.early, self.late))
        self.passed, self.waits = False, False

    @property
    def finishes(self):
        return self.late is None

    @property
    def present(self):
        """Return the parts that are active apart from the end itself."""
        return self.late if self.passed else self.early

    def row(self, timestamp, now):
        if self.passed and self.late:
            self.late.row(timestamp, now)
            return
        self.passed = False
        self.starts(now, early=False)
        if self.early:
            self.early.row(timestamp, now)

    def starts(self, now, early=True):
        self.waits = self.waits or now.event < now.last
        if early and self.early:
            self.early.starts(now)

    def awaited(self, now):
        event, clock = self.present.awaited(now) if self.present else (set(), set())
        return event | ({now.last} if self.waits else set()), clock

    def reached(self, event, clock, now):
        if event == now.last:
            self.waits = False
        if self.present:
            self.present.reached(event, clock, now)

    def ready(self, now):
        if self.passed:
            return bool(self.late) and self.late.ready(now)
        return now.event >= now.last or bool(self.early and self.early.ready(now))

    def fire(self, now):
        if self.passed or now.event < now.last:
            self.present.fire(now)
            return False
        self.passed = True
        self.early = copy.deepcopy(self.fresh[0])
        return not self.late

    def anew(self, now):
        for part in (self.early, self.late):
            if part:
                part.anew(now)

    def joined(self, others, now):
        ones = [self, *others]
        self.passed = any(one.passed for one in ones) and now.last <= now.event
        self.waits = not self.passed and now.last > now.event
        before, after = copy.deepcopy(self.fresh)
        if not self.passed and before:
            before.joined([one.early for one in ones], now)
        if self.passed and after:
            after.joined([one.late for one in ones], now)
        self.early, self.late = before, after


def part_of(trigger) -> Part:
    """Return the definition of a trigger."""
    plain = {
        pst.triggers.AfterCount: lambda: Count(trigger.count),
        pst.triggers.AfterProcessingTime: lambda: Delay(trigger.delay),
        pst.CountTrigger: lambda: FlinkCount(trigger.count),
        pst.triggers.EventTimeTrigger: FlinkEnd,
        pst.ContinuousEventTimeTrigger: lambda: (ChangedContinuous if trigger.only_changed else FlinkContinuous)(
            trigger.interval
        ),
        pst.triggers.Repeatedly: lambda: Again(part_of(trigger.inner)),
        pst.triggers.AfterAny: lambda: First(*map(part_of, trigger.triggers)),
        pst.triggers.AfterAll: lambda: Together(*map(part_of, trigger.triggers)),
        pst.triggers.AfterEach: lambda: InTurn(*map(part_of, trigger.triggers)),
        pst.triggers.OrFinally: lambda: Until(part_of(trigger.main), part_of(trigger.until)),
        pst.AfterWatermark: lambda: End(*(one and part_of(one) for one in (trigger.early_firings, trigger.late_firings))),
    }
    return plain[type(trigger)]()


@dataclass
class OneWindow:
    """A window of a key, and its past events."""

    start: int
    end: int
    part: Part
    order: int
    rows: list = field(default_factory=list)
    finished: bool = False


@dataclass
class Definition:
    """All windows of a query. Firings are appended to ``fired`` in order, as (key, start, end, rows).

    ``gap`` makes sessions, ``size`` tumbling windows. ``trigger`` may be in a PurgingTrigger.
    """

    trigger: object
    size: int | None = None
    gap: int | None = None
    lateness: int = 0
    event: int = -(2**63)
    clock: int = 0
    windows: dict = field(default_factory=dict)
    fired: list = field(default_factory=list)
    numbers: object = field(default_factory=itertools.count)

    def __post_init__(self):
        self.discards = isinstance(self.trigger, pst.PurgingTrigger)
        self.fresh = part_of(self.trigger.inner if self.discards else self.trigger)

    def now(self, window, event=None, clock=None):
        now = (self.event if event is None else event, self.clock if clock is None else clock)
        return Now(window.end - 1, *now, self.event)

    def row(self, key, timestamp, value):
        live = self.windows.setdefault(key, [])
        start = timestamp if self.gap else timestamp - timestamp % self.size
        end = start + (self.gap or self.size)
        joined = [one for one in live if (start <= one.end and one.start <= end if self.gap else one.start == start)]
        if not joined and end - 1 + self.lateness <= self.event:
            return
        if joined:
            window = self.one_of(joined, min(start, *(one.start for one in joined)), max(end, *(one.end for one in joined)))
        else:
            window = OneWindow(start, end, copy.deepcopy(self.fresh), next(self.numbers))
        self.windows[key] = [*(one for one in live if one not in joined), window]
        window.rows.append(value)
        if window.finished:
            window.rows = []
        else:
            window.part.row(timestamp, self.now(window))
            self.look(key, window, self.now(window))
        self.live_through_clock()

    def one_of(self, joined, start, end):
        if len(joined) == 1 and (joined[0].start, joined[0].end) == (start, end):
            return joined[0]
        joined = sorted(joined, key=lambda one: one.start)
        made = OneWindow(start, end, copy.deepcopy(self.fresh), next(self.numbers))
        made.rows = [row for one in joined for row in one.rows]
        made.finished = all(one.finished for one in joined)
        made.part.joined([one.part for one in joined if not one.finished], self.now(made))
        return made

    def look(self, key, window, now):
        if not window.part.ready(now):
            return
        finished = window.part.fire(now)
        if window.rows:
            self.fired.append((key, window.start, window.end, tuple(window.rows)))
        window.finished = finished
        if finished or self.discards:
            window.rows = []

    def watermark(self, time):
        before, self.event = self.event, max(self.event, time)
        if time > before:
            self.live_through(lambda window: window.part.awaited(self.now(window))[0], until=time, event=True)
            for key, live in self.windows.items():
                self.windows[key] = [one for one in live if one.end - 1 + self.lateness > self.event]
        self.live_through_clock()

    def set_clock(self, time):
        if time > self.clock:
            self.clock = time
            self.live_through_clock()

    def live_through_clock(self):
        self.live_through(lambda window: window.part.awaited(self.now(window))[1], until=self.clock, event=False)

    def live_through(self, instants, until, event):
        """Process the awaited instants up to now in order, older windows first."""
        while True:
            due = [
                (instant, one.order, key, one)
                for key, live in self.windows.items()
                for one in live
                if not one.finished
                for instant in instants(one)
                if instant <= until
            ]
            if not due:
                return
            instant, _, key, window = min(due, key=lambda one: one[:2])
            self.reach(key, window, instant, event)

    def reach(self, key, window, instant, event):
        if event and instant > window.end - 1 + self.lateness:
            raise AssertionError("a window waits for what comes after its own end")
        now = self.now(window, event=instant) if event else self.now(window, clock=instant)
        window.part.reached(instant if event else None, None if event else instant, now)
        self.look(key, window, now)
