"""Sessions with early results by their definition, and a table that MERGE keeps of their changelog.

:func:`merged` applies the rows of a micro-batch as the statement of ``MergeSink`` does. :class:`Sessions` keeps the same table in
plain Python: for each session, its last result, until a longer session that contains it has one. It runs row by row and shares no
code with the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, Trigger

FOREVER = 2**63 - 1
Place = tuple[object, int, int]
"""Key, start and end."""
Table = dict[Place, tuple]


def merged(table: Table, rows: Sequence[tuple[Place, tuple]]) -> Table:
    """Return the table after a MERGE of changes, whose last value is the operation. Fail if a row has two changes."""
    table, seen = dict(table), set()
    for place, (*values, op) in rows:
        if op == "update_before":
            continue
        assert place not in seen, f"two changes of {place}: {rows}"
        seen.add(place)
        if op == "delete":
            table.pop(place, None)
        else:
            table[place] = tuple(values)
    return table


@dataclass(eq=False)
class Session:
    key: object
    start: int
    end: int
    rows: list[tuple] = field(default_factory=list)
    shown: set[Place] = field(default_factory=set)
    pending: int | None = None
    changed: bool = True
    count: int = 0

    @property
    def last(self) -> int:
        return self.end - 1


@dataclass
class Sessions:
    """The open sessions of all keys, and the table of their last results."""

    gap: int
    trigger: Trigger
    lateness: int
    watermark: int = -FOREVER
    open: list[Session] = field(default_factory=list)
    table: Table = field(default_factory=dict)

    def row(self, row: tuple) -> None:
        key, time = row[:2]
        parts = [one for one in self.open if one.key == key and one.start <= time + self.gap and time <= one.end]
        whole = Session(key, min([time, *(one.start for one in parts)]), max([time + self.gap, *(one.end for one in parts)]))
        if whole.last + self.lateness <= self.watermark:
            return
        self.open = [one for one in self.open if one not in parts] + [whole]
        for one in parts:
            whole.rows += one.rows
            whole.shown |= one.shown
            whole.count += one.count
        whole.rows.append(row)
        whole.count += 1
        whole.pending = min((one.pending for one in parts if one.pending is not None), default=None)
        if isinstance(self.trigger, CountTrigger):
            if whole.count >= self.trigger.count:
                whole.count = 0
                self.fire(whole)
        elif whole.last <= self.watermark:
            self.fire(whole)
        elif isinstance(self.trigger, ContinuousEventTimeTrigger):
            only_changed = self.trigger.only_changed
            if only_changed and whole.pending is not None and whole.pending <= self.watermark:
                whole.pending = self.following(self.watermark, whole)
            if whole.pending is None:
                whole.pending = self.following(max(time, self.watermark) if only_changed else time, whole)

    def following(self, time: int, session: Session) -> int:
        interval = self.trigger.interval
        return min(time - time % interval + interval, session.last)

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        before, self.watermark = self.watermark, watermark
        continuous = isinstance(self.trigger, ContinuousEventTimeTrigger)
        only_changed = continuous and self.trigger.only_changed
        for one in list(self.open):
            ends = before < one.last <= watermark and not isinstance(self.trigger, CountTrigger)
            due = continuous and one.pending is not None and one.pending <= watermark
            if due and only_changed and one.last > watermark:
                one.pending = self.following(watermark, one)
            while due and not only_changed and one.pending <= watermark and one.pending < one.last:
                one.pending = min(one.pending + self.trigger.interval, one.last)
            if (ends or (due and not (only_changed and one.last <= watermark))) and (one.changed or not only_changed):
                self.fire(one)
            if one.last + self.lateness <= watermark:
                self.open.remove(one)

    def fire(self, session: Session) -> None:
        for place in session.shown:
            self.table.pop(place, None)
        place = (session.key, session.start, session.end)
        values = [row[4] for row in session.rows]
        self.table[place] = (len(values), sum(values), max(values))
        session.shown, session.changed = {place}, False
