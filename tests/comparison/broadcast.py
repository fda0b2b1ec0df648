"""Keyed broadcast process functions over several key groups, and by definition: one list of rows and rules in order.

A row or rule has a word that says what the function does with it. :class:`Scripted` does it in the engine, :func:`expected`
naively. :class:`RulesEngine` packs rows as on Spark: each has its side as its source partition.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, replace

import pyarrow as pa

import panestream as pst
from panestream.engine.operators.row.broadcast import broadcast_spec
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.sides import LEFT, RIGHT, SIDE_COLUMN, Sides
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage.state import MemoryState
from panestream.testing.simulation.own import KEY, TIME, UserEngine
from panestream.testing.simulation.schedule import MicroBatch, Row
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy

VALUES = pa.schema([("word", pa.string()), ("n", pa.int64())])
ROWS = pa.schema([(KEY, pa.string()), (TIME, pa.int64()), (SIDE_COLUMN, pa.string()), ("row", pa.null())])
RESULTS = pa.schema([("what", pa.string()), ("at", pa.int64()), ("seen", pa.list_(pa.int64()))])
SIDE = "side"
WAIT = 7


class Scripted(pst.functions.KeyedBroadcastProcessFunction):
    """Rows add numbers to a list, read rules, or wait. Rules write a map, and read or clear the lists of all keys."""

    RULES = pst.state.MapStateDescriptor("rules")
    NUMBERS = pst.state.ListStateDescriptor("numbers")

    def process_element(self, value, ctx):
        if value.word in ("add", "wait"):
            ctx.get_list_state(self.NUMBERS).add(value.n)
        if value.word == "wait":
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + WAIT)
        if value.word == "say":
            ctx.output(SIDE, ("row", ctx.timestamp(), [value.n]))
        yield "row", ctx.timestamp(), self._rules(ctx)

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(self.RULES)
        if value.word == "set":
            rules.put(value.n % 4, (value.n, ctx.timestamp()))
        elif value.word == "remove":
            rules.remove(value.n % 4)
        elif value.word == "apply":
            ctx.apply_to_keyed_state(self.NUMBERS, lambda key, numbers: self._applied(ctx, value.n, numbers))
        else:
            ctx.output(SIDE, ("rule", ctx.timestamp(), self._rules(ctx)))
            yield "rule", ctx.timestamp(), self._rules(ctx)

    def on_timer(self, timestamp, ctx):
        numbers = ctx.get_list_state(self.NUMBERS)
        yield "timer", timestamp, [*self._rules(ctx), -1, *numbers.get()]
        numbers.clear()

    @staticmethod
    def _applied(ctx, n, numbers):
        found = numbers.get()
        ctx.output(SIDE, ("applied", n, found))
        if n % 2:
            numbers.clear()
        else:
            numbers.add(n)
        return [("applied", ctx.timestamp(), found)]

    @classmethod
    def _rules(cls, ctx):
        return [number for _, written in ctx.get_broadcast_state(cls.RULES).items() for number in written]


@dataclass
class RulesEngine(UserEngine):
    """The function over rows whose partition is their side, or a partition of it."""

    def table(self, rows):
        sides = [
            pa.array([dict(zip(VALUES.names, row.value, strict=True)) if row.side == side else None for row in rows], _STRUCT)
            for side in (LEFT, RIGHT)
        ]
        columns = [pa.array(column, pa.string()) for column in ([row.key for row in rows], [row.partition for row in rows])]
        times = pa.array([row.time for row in rows], pa.int64())
        row = pa.StructArray.from_arrays(sides, names=[LEFT, RIGHT])
        return pa.table({KEY: columns[0], TIME: times, SIDE_COLUMN: columns[1], "row": row})


_STRUCT = pa.struct(list(VALUES))


def engine(groups, delay, function=None, *, idle=None, follows=False, results=RESULTS):
    """Return an engine of ``groups`` key groups; rules are idle after ``idle``, or never, or have no watermark and follow."""
    rules = WatermarkStrategy(delay) if idle is None else WatermarkStrategy(delay).with_idleness(f"{idle} microseconds")
    rules = WatermarkStrategy.no_watermarks() if follows else rules
    plan = WindowPlan(
        keys=(KEY,),
        key_schema=pa.schema([("key", pa.string())]),
        assigner=pst.GlobalWindows.create(),
        operator=broadcast_spec(function or Scripted(), results, VALUES, VALUES),
        watermark=WatermarkStrategy.of_sides({LEFT: WatermarkStrategy(delay), RIGHT: rules}, SIDE_COLUMN, follower=RIGHT),
        event_time=TIME,
        groups=groups,
        row_schema=pa.schema([(LEFT, _STRUCT), (RIGHT, _STRUCT)]),
        side_outputs={SIDE: RESULTS},
        ticks=1,
        sides=Sides(VALUES, VALUES, (("key",), ("key",))),
    )
    return RulesEngine(plan, ROWS)


def random_batches(rng, *, in_order=False, timers=True):
    """Return micro-batches of rows and rules, sometimes of one of them; ``in_order`` if no time is before an earlier one."""
    keys, time, number, made = rng.choice([["a"], ["a", "b", "c"], ["a", "b", "c", "d", "e", None]]), 0, 0, []
    words = ["add", "add", "read", "say", *(["wait", "wait"] if timers else [])]
    rules = rng.choice([0.1, 0.3, 0.6])
    for _ in range(rng.randrange(1, 6)):
        rows = []
        for _ in range(rng.randrange(1, 9)):
            time += rng.choice([0, 1, rng.randrange(6)])
            number += 1
            at = time if in_order else max(time - rng.randrange(8), 0)
            if rng.random() < rules:
                rows.append(Row(None, at, (rng.choice(["set", "set", "remove", "apply", "tell"]), number), number, RIGHT))
            else:
                rows.append(Row(rng.choice(keys), at, (rng.choice(words), number), number, LEFT))
        cut = rng.randrange(len(rows) + 1)
        made.append(MicroBatch(tuple(task for task in (tuple(rows[:cut]), tuple(rows[cut:])) if task), len(made) + 1))
        time += in_order
    return made


class Naive:
    """One list of rows and rules, dicts for state, and sets for timers."""

    def __init__(self, delay, follows=False):
        self._delay = delay
        self._seen = {LEFT: MIN_TIMESTAMP} if follows else {LEFT: MIN_TIMESTAMP, RIGHT: MIN_TIMESTAMP}
        self._watermark = MIN_TIMESTAMP
        self._rules, self._numbers, self._timers = {}, defaultdict(list), defaultdict(set)
        self.results, self.side = [], []

    def take(self, rows, *, end=False):
        self.results, self.side = [], []
        for row in sorted(rows, key=lambda row: (row.time, row.side != RIGHT)):
            word, n = row.value
            (self._rule if row.side == RIGHT else self._row)(row.key, row.time, word, n)
        for row in rows:
            if row.side in self._seen:
                self._seen[row.side] = max(self._seen[row.side], row.time)
        slowest = min(self._seen.values())
        reached = MIN_TIMESTAMP if slowest == MIN_TIMESTAMP else slowest - self._delay - 1
        reached = MAX_TIMESTAMP if end else reached
        if reached <= self._watermark:
            return self.results, self.side
        self._watermark = reached
        for key, timers in self._timers.items():
            for time in sorted(time for time in timers if time <= self._watermark):
                timers.discard(time)
                self.results.append((key, "timer", time, (*self._known(), -1, *self._numbers.pop(key, ()))))
        return self.results, self.side

    def _known(self):
        return [number for written in self._rules.values() for number in written]

    def _row(self, key, time, word, n):
        if word in ("add", "wait"):
            self._numbers[key].append(n)
        if word == "wait":
            self._timers[key].add(time + WAIT)
        if word == "say":
            self.side.append((key, "row", time, (n,)))
        self.results.append((key, "row", time, tuple(self._known())))

    def _rule(self, _, time, word, n):
        if word == "set":
            self._rules[n % 4] = (n, time)
        elif word == "remove":
            self._rules.pop(n % 4, None)
        elif word == "apply":
            for key, numbers in list(self._numbers.items()):
                self.results.append((key, "applied", time, tuple(numbers)))
                self.side.append((key, "applied", n, tuple(numbers)))
                if n % 2:
                    del self._numbers[key]
                else:
                    numbers.append(n)
        else:
            self.results.append((None, "rule", time, tuple(self._known())))
            self.side.append((None, "rule", time, tuple(self._known())))


def by_key(rows):
    """Return the rows of each key in order. Those without a key come from several key groups, in any order."""
    found = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return {key: sorted(own, key=repr) if key is None else own for key, own in found.items()}


@dataclass
class Query:
    """A query that has only the stored bytes between micro-batches."""

    engine: RulesEngine

    def __post_init__(self):
        self.states = [MemoryState() for _ in range(self.engine.groups)]

    def run(self, batch, rng=None):
        """Return the rows of the main output, of the side output, and the counters."""
        arrived = self.engine.pack(batch, "", rng or random.Random(0))
        found, counted = {MAIN: [], SIDE: []}, 0
        for group, state in enumerate(self.states):
            output = self.engine.operate(state, group, arrived[group], batch.clock, "")
            counted += output.metrics["windowed_rows"]
            for tag, rows in output.rows.items():
                found[tag] += rows
        assert counted == len(batch.rows)
        return found[MAIN], found[SIDE]

    def headers(self):
        """Return the header of each key group's state tables."""
        plan = self.engine.plan
        return [plan.operator.for_group(plan, state, group).header() for group, state in enumerate(self.states)]

    def restored(self, groups):
        """Return the query with another number of key groups, from tables that a process without the function reads."""
        reader = RulesEngine(plan_of(json.loads(json.dumps(plan_json(self.engine.plan)))), ROWS)
        made = Query(type(self.engine)(replace(self.engine.plan, groups=groups), ROWS))
        dealt = reader.dealt([state.values for state in self.states], made.engine)
        made.states = [MemoryState(values) for values, _ in dealt]
        return made
