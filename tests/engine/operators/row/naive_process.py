"""A keyed process function by definition: dicts and sets, every state with the time at which it was written.

A program is a list of steps for each row. :class:`Scripted` takes them to the engine, :func:`expected` runs them naively.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

import panestream as pst
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

TTL = 7
_TTL = pst.state.StateTtlConfig(TTL)
_READ = pst.state.StateTtlConfig(TTL, update_on_read=True)
VALUE, LIST, MAP = "value", "list", "map"
STATES = {
    f"{kind}{name}": (kind, ttl)
    for kind in (VALUE, LIST, MAP)
    for name, ttl in (("", None), (" for a time", _TTL), (" as long as read", _READ))
}
_DESCRIPTORS = {
    VALUE: pst.state.ValueStateDescriptor,
    LIST: pst.state.ListStateDescriptor,
    MAP: pst.state.MapStateDescriptor,
}


def steps(rng, time):
    """Return random steps of a row."""
    made = []
    for _ in range(rng.randrange(1, 4)):
        kind = rng.choice(("write", "write", "clear", "read", "event", "event", "clock", "forget", "side"))
        if kind in ("write", "clear", "read"):
            made.append((kind, rng.choice(list(STATES)), rng.randrange(3), rng.randrange(100)))
        else:
            made.append((kind, time + rng.randrange(-5, 15)))
    return made


def of_timer(time, watermark):
    """Return the steps of a timer: every third registers the next one, while there is a next watermark."""
    again = [("event", time + 4)] if time % 3 == 0 and watermark < MAX_TIMESTAMP else []
    return [("read", name, 0, 0) for name in sorted(STATES)][time % 2 :: 2] + again


class Scripted(pst.functions.KeyedProcessFunction):
    uses_processing_time = True

    def process_element(self, value, ctx):
        yield ("row", ctx.timestamp(), self._run(value, ctx))

    def on_timer(self, timestamp, ctx):
        watermark = ctx.timer_service().current_watermark()
        yield (ctx.time_domain().value, timestamp, self._run(of_timer(timestamp, watermark), ctx))

    @staticmethod
    def _run(program, ctx):
        seen, timers = [], ctx.timer_service()
        for kind, *arguments in program:
            if kind in ("write", "clear", "read"):
                name, key, value = arguments
                of, ttl = STATES[name]
                state = getattr(ctx, {VALUE: "get_state", LIST: "get_list_state", MAP: "get_map_state"}[of])(
                    _DESCRIPTORS[of](name, ttl)
                )
                if kind == "clear":
                    state.remove(key) if of == MAP else state.clear()
                elif kind == "write":
                    state.update(value) if of == VALUE else state.add(value) if of == LIST else state.put(key, value)
                else:
                    seen.append(state.value() if of == VALUE else state.get() if of == LIST else list(state.items()))
            elif kind == "event":
                timers.register_event_time_timer(arguments[0])
            elif kind == "clock":
                timers.register_processing_time_timer(arguments[0])
            elif kind == "forget":
                timers.delete_event_time_timer(arguments[0])
                timers.delete_processing_time_timer(arguments[0])
            else:
                ctx.output("side", arguments[0])
        return seen


@dataclass(frozen=True)
class Batch:
    """A micro-batch: its clock, its rows (key, time, steps), the watermark after it."""

    clock: int
    rows: list
    watermark: int


def batches(seed):
    rng, clock, made, watermark = random.Random(seed), 0, [], MIN_TIMESTAMP
    for number in range(rng.randrange(1, 7)):
        clock += rng.randrange(6)
        rows = [(rng.choice("abc"), time := 10 * number + rng.randrange(20), steps(rng, time)) for _ in range(rng.randrange(6))]
        watermark = max(watermark, 10 * number + rng.randrange(-5, 10)) if rng.random() < 0.8 else watermark
        made.append(Batch(clock, rows, watermark))
    return [*made, Batch(clock, [], MAX_TIMESTAMP)] if rng.random() < 0.5 else made


def expected(given):
    """Return by key the results, the side output, and the timers that are left."""
    keys = {key: _Key() for key in "abc"}
    for batch in given:
        for key, one in keys.items():
            one.take(batch, [row[1:] for row in batch.rows if row[0] == key])
    return {key: (one.results, one.side, one.timers) for key, one in keys.items()}


class _Key:
    """One key; ``parts`` has for each state its entries as [entry, value, when written]."""

    def __init__(self):
        self.parts, self.timers, self.results, self.side = defaultdict(list), set(), [], []
        self.now, self.watermark = 0, MIN_TIMESTAMP

    def take(self, batch, rows):
        self.now = max(self.now, batch.clock)
        self.fire("clock", self.now - 1, "processing time")
        for time, program in rows:
            self.results.append(("row", time, self.run(program)))
            self.fire("clock", self.now - 1, "processing time")
        if batch.watermark > self.watermark:
            self.watermark = batch.watermark
            self.fire("event", self.watermark, "event time")
        self.fire("clock", self.now - 1, "processing time")

    def fire(self, kind, until, called):
        while due := sorted(time for of, time in self.timers if of == kind and time <= until):
            self.timers.discard((kind, due[0]))
            self.results.append((called, due[0], self.run(of_timer(due[0], self.watermark))))

    def run(self, program):
        seen = []
        for kind, *arguments in program:
            if kind in ("event", "clock"):
                self.timers.add((kind, arguments[0]))
            elif kind == "forget":
                self.timers -= {("event", arguments[0]), ("clock", arguments[0])}
            elif kind == "side":
                self.side.append(arguments[0])
            elif kind == "read":
                seen.append(self.read(*arguments))
            else:
                self.write(kind, *arguments)
        return seen

    def live(self, name):
        ttl = STATES[name][1]
        self.parts[name] = [part for part in self.parts[name] if ttl is None or self.now < part[2] + TTL]
        return self.parts[name]

    def read(self, name, *_):
        of, ttl = STATES[name]
        live = self.live(name)
        for part in live if ttl is _READ else ():
            part[2] = self.now
        values = [part[1] for part in live]
        if of == MAP:
            return [(part[0], part[1]) for part in live]
        return values if of == LIST else (values or [None])[0]

    def write(self, kind, name, entry, value):
        of, live = STATES[name][0], self.live(name)
        same = [part for part in live if of == VALUE or (of == MAP and part[0] == entry)]
        if kind == "clear":
            live[:] = [part for part in live if of == MAP and part[0] != entry]
        elif same:
            same[0][1:] = [value, self.now]
        else:
            live.append([entry, value, self.now])
