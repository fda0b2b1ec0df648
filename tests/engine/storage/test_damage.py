"""Damaged state: every operator returns the right output or raises StateDamagedError, and never returns wrong output.

``PANESTREAM_CASES=20000 pytest tests/engine/storage/test_damage.py`` runs more cases, ``PANESTREAM_SEED`` others.

A case runs some micro-batches, damages the state, restarts, and runs the other micro-batches, the last of which closes every
window. Damage to values that are not read again changes nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import pyarrow as pa
import pytest

from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.operators.row import pages as row_index
from panestream.engine.operators.row.broadcast import broadcast_spec
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.operators.row.process import process_spec
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.runtime.sides import SIDES, Sides
from panestream.engine.storage import keyed_pages
from panestream.engine.storage import sealed_state as seal
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_age import StateAge, check_that_groups_agree
from panestream.errors import StateDamagedError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    ProcessingTimeSessionWindows,
    RollingWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.fill import Fill
from panestream.windowing.functions import ProcessWindowFunction, applied
from panestream.windowing.process_functions import KeyedBroadcastProcessFunction, KeyedProcessFunction
from panestream.windowing.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, PurgingTrigger
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness, look_backs, predicates, rolling
from tests.comparison.fills import listed
from tests.costs import random_cases, thinned

pytestmark = pytest.mark.usefixtures("values_apart")

CHUNKS = 4
Values = dict[tuple[str, int], bytes]
RESULTS = pa.schema([("n", pa.int64()), ("vs", pa.list_(pa.int64()))])
SUMS = (agg.count().alias("n"), agg.sum("v").alias("s"), agg.max_by("x", "u").alias("m"), agg.collect_list("v").alias("l"))


def list_rows(key, window, rows):
    return [(len(rows), [row.v for row in rows])]


class Counting(ProcessWindowFunction):
    """Has a state per window and one per key."""

    def process(self, key, context, elements):
        firings = context.window_state().get_state(ValueStateDescriptor("firings"))
        ever = context.global_state().get_state(ValueStateDescriptor("ever"))
        firings.update((firings.value() or 0) + 1)
        ever.update((ever.value() or 0) + len(elements))
        yield (ever.value(), [firings.value(), *(row.v for row in elements)])

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("firings")).clear()


def plan_declared(windowing: WindowQuery, *, row: bool = False, **more) -> WindowPlan:
    query = harness.Query(windowing, SUMS, 3, more=more)
    return query.row() if row else query.columnar()


def plan_function(windowing: WindowQuery, called=None) -> WindowPlan:
    operator = plan_functions(windowing, KeepRows(called or applied(list_rows)), RESULTS, harness.ROWS, list_rows, harness.KEYS)
    return harness.plan_for(operator, windowing, 3)


def interval() -> WindowPlan:
    operator = IntervalSpec(-8, 5, "full", harness.SIDED, harness.SIDED, harness.KEYS)
    return harness.plan_for(operator, WindowQuery(GlobalWindows.create()), 3)


class Waiting(KeyedProcessFunction):
    """Has values, lists and maps of each key, and timers."""

    def process_element(self, value, ctx):
        count = ctx.get_state(ValueStateDescriptor("count"))
        count.update((count.value() or 0) + 1)
        ctx.get_list_state(ListStateDescriptor("values")).add(value.v)
        ctx.get_map_state(MapStateDescriptor("last")).put(value.v % 3, value.u)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 15)
        yield count.value(), []

    def on_timer(self, timestamp, ctx):
        values = ctx.get_list_state(ListStateDescriptor("values"))
        yield timestamp, [*values.get(), *(last for _, last in ctx.get_map_state(MapStateDescriptor("last")).items())]
        values.clear()


class Ruled(KeyedBroadcastProcessFunction):
    """Counts the rows of each key, and knows the rules."""

    RULES = MapStateDescriptor("rules")

    def process_element(self, value, ctx):
        count = ctx.get_state(ValueStateDescriptor("count"))
        count.update((count.value() or 0) + 1)
        yield count.value(), [last for _, last in ctx.get_broadcast_state(self.RULES).items()]

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.RULES).put(value.v % 5, value.u)


def plan_process() -> WindowPlan:
    return harness.plan_for(process_spec(Waiting(), RESULTS, harness.ROWS), WindowQuery(GlobalWindows.create()), 3)


def plan_rules() -> WindowPlan:
    schema = pa.schema(list(harness.SIDED))
    plan = harness.plan_for(broadcast_spec(Ruled(), RESULTS, schema, schema), WindowQuery(GlobalWindows.create()), 3)
    rows = pa.schema([(side, harness.SIDED) for side in SIDES])
    return replace(plan, row_schema=rows, sides=Sides(schema, schema, (("key",), ("key",))))


def windows(assigner, trigger=None, evictor=None, *, exact: bool = False, lateness: int = 12) -> WindowQuery:
    return WindowQuery(assigner, trigger, evictor, lateness, every_firing=exact)


SLIDING, TUMBLING, SESSIONS = SlidingEventTimeWindows(20, 5), TumblingEventTimeWindows(20), EventTimeSessionWindows(6)
PLANS: dict[str, Callable[[], WindowPlan]] = {
    "panes": lambda: plan_declared(windows(SlidingEventTimeWindows(100, 1), lateness=0)),
    "panes, late firings": lambda: plan_declared(windows(SLIDING), with_firing=True, changelog=True),
    "panes, purging": lambda: plan_declared(windows(TUMBLING, PurgingTrigger.of(ContinuousEventTimeTrigger(7)), lateness=0)),
    "panes, filled": lambda: plan_declared(replace(windows(SLIDING), fill=Fill("last"))),
    "panes, filled with listed keys": lambda: plan_declared(
        replace(windows(SLIDING, lateness=0), fill=Fill("last"), listed_keys=listed(["y", "z"]))
    ),
    "panes by the clock": lambda: plan_declared(windows(TumblingProcessingTimeWindows(20), lateness=0)),
    "accumulating panes": lambda: plan_function(windows(SLIDING)),
    "sessions": lambda: plan_declared(windows(SESSIONS)),
    "sessions by the clock": lambda: plan_declared(windows(ProcessingTimeSessionWindows(15), lateness=0)),
    "interval join": interval,
    "counts": lambda: plan_declared(windows(*CountWindows(7, 3).parts, lateness=0)),
    "look-backs": lambda: look_backs.plan_of(LookBackWindows(20), SUMS, ("u", "v"), 3),
    "look-backs with panes": lambda: look_backs.plan_of(LookBackWindows(20), SUMS[:3], ("u", "v"), 3),
    "rolling values": lambda: rolling.plan_of(RollingWindows((("short", 20), ("ever", None)), 2), SUMS),
    "predicates": lambda: predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1", 9), SUMS, 3),
    "row, declared": lambda: plan_declared(windows(SLIDING), row=True),
    "row, sessions": lambda: plan_declared(windows(SESSIONS), row=True),
    "row, elements": lambda: plan_function(windows(TUMBLING, exact=True)),
    "row, state of triggers": lambda: plan_function(windows(TUMBLING, CountTrigger.of(3))),
    "row, state of functions": lambda: plan_function(windows(TUMBLING, CountTrigger.of(2)), Counting()),
    "row, watermarks of keys": lambda: plan_declared(
        replace(windows(SLIDING), per_key=True), row=True, watermark=WatermarkStrategy(3, key_idle_after=40)
    ),
    "process function": plan_process,
    "rules": plan_rules,
    "row, evictor": lambda: plan_function(windows(GlobalWindows.create(), CountTrigger.of(2), CountEvictor.of(5), lateness=0)),
}
BATCHES = 9


def stream(seed: int) -> list[harness.MicroBatch]:
    """Return micro-batches of many keys, some of which pause for a long time. The last batches close all event-time windows."""
    rng, time, number, micro_batches = random.Random(seed), 0, 0, []
    for place in range(BATCHES):
        rows = []
        for _ in range(14):
            time += rng.randint(0, 1)
            number += 1
            key = f"k{rng.randint(0, 4) + 5 * (place % 4)}"
            rows.append((key, time - rng.randint(0, 12), rng.randint(-9, 9), number / 8, number * 7919 % 65_537))
        micro_batches.append(harness.MicroBatch([rows], 10 * place + 1))
    micro_batches.append(harness.MicroBatch([[("k0", time + 1000, 1, 1.0, 1)]], 1000))
    return [*micro_batches, harness.MicroBatch([[("k0", time + 9000, 1, 1.0, 1)]], 9000)]


def step(plan: WindowPlan, state: MemoryState, batch: harness.MicroBatch, group: int):
    """Return all output of one micro-batch, processed by a new operator on the stored state."""
    output = plan.operator.for_group(plan, state, group).process(harness.group_input(plan, batch))
    return [(tag, table.to_pylist()) for tag, table in output.tables], output.metrics.late_rows, output.wake_up


@dataclass(frozen=True)
class Run:
    """A run of a plan without faults in two key groups: the output of each micro-batch, and the state after it."""

    plan: WindowPlan
    batches: list[harness.MicroBatch]
    outputs: list
    state_after: list[Values]
    elsewhere: list[Values]


@cache
def run_of(name: str, seed: int) -> Run:
    plan, state_after, outputs = PLANS[name](), [[], []], []
    for group in (0, 1):
        state = MemoryState()
        for batch in stream(seed + 1000 * group):
            outputs.append(step(plan, state, batch, group))
            state_after[group].append(dict(state.values))
    return Run(plan, stream(seed), outputs[: BATCHES + 2], *state_after)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Put few keys on a page, so that there are several pages to mix up."""
    monkeypatch.setattr(keyed_pages, "MOST_ROWS", 8)
    monkeypatch.setattr(row_index, "PAGE_BYTES", 700)
    monkeypatch.setattr(row_index, "FEWEST_KEYS", 2)


# ---------------------------------------------------------------------------------------------------------------- faults


def flipped_bits(rng, values, place, run, at):
    data = bytearray(values[place])
    for _ in range(rng.choice([1, 1, 2, 9])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    values[place] = bytes(data)


def other_bytes(rng, values, place, run, at):
    data = values[place]
    begin = rng.randrange(len(data))
    end = min(len(data), begin + rng.choice([1, 4, 64]))
    values[place] = data[:begin] + rng.choice([bytes(end - begin), rng.randbytes(end - begin)]) + data[end:]


def cut(rng, values, place, run, at):
    values[place] = values[place][: rng.choice([0, len(values[place]) - 1, rng.randrange(len(values[place]))])]


def longer(rng, values, place, run, at):
    values[place] += rng.randbytes(rng.choice([1, 8, 100]))


def stale(rng, values, place, run, at):
    """Restore the value that a place had after an earlier micro-batch."""
    older = [
        (place_, older_state[place_])
        for place_ in sorted(values)
        for older_state in run.state_after[:at]
        if older_state.get(place_, values[place_]) != values[place_]
    ]
    if older:
        place, value = rng.choice(older)
        values[place] = value


def dropped(rng, values, place, run, at):
    del values[place]


def swapped(rng, values, place, run, at):
    """Exchange two values of the key group."""
    other = rng.choice(sorted(values))
    values[place], values[other] = values[other], values[place]


def from_another_group(rng, values, place, run, at):
    other = run.elsewhere[at]
    values[place] = other[place] if place in other else rng.choice(list(other.values()))


def several_stale(rng, values, place, run, at):
    """Restore any number of values as they were after one earlier micro-batch, but keep the meta record or its witness."""
    older = run.state_after[rng.randrange(at)] if at else {}
    kept_place = rng.choice([("meta", 0), ("meta", 1)])
    for other in sorted(values):
        if other != kept_place and rng.random() < 0.7:
            values[other] = older.get(other, values[other])


FAULTS = (flipped_bits, other_bytes, cut, longer, stale, dropped, swapped, from_another_group, several_stale)


def outcome(rng: random.Random, seed: int) -> tuple[str, str]:
    """Run one random fault. Return the fault and "nothing to change", "right" or "error". Other outcomes fail."""
    name, fault = rng.choice(sorted(PLANS)), rng.choice(FAULTS)
    run, at = run_of(name, rng.randrange(random_cases(3))), rng.randrange(BATCHES)
    what = f"seed {seed}: {name}, {fault.__name__} after micro-batch {at}"
    values = dict(run.state_after[at])
    place = rng.choice(sorted(values))
    fault(rng, values, place, run, at)
    if values == run.state_after[at]:
        return fault.__name__, "nothing to change"
    state = MemoryState(values)
    for number in range(at + 1, len(run.batches)):
        damaged = None
        try:
            actual = step(run.plan, state, run.batches[number], 0)
        except StateDamagedError as error:
            damaged = error
        except Exception as error:
            raise AssertionError(f"{what} at {place}: {type(error).__name__}: {error}") from error
        if damaged is not None:
            assert f"key group 0 ({run.plan.operator.name}) is damaged" in str(damaged), what
            assert (damaged.space, damaged.key) in run.state_after[at], f"{what}: {damaged}"
            return fault.__name__, "error"
        assert actual == run.outputs[number], f"{what} at {place}: another answer in micro-batch {number}"
    return fault.__name__, "right"


# ---------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_damage_is_an_error_or_changes_nothing(chunk):
    outcomes: Counter = Counter()

    def case(rng, seed):
        outcomes[outcome(rng, seed)] += 1

    harness.run_cases(160, chunk, CHUNKS, case)
    for fault, what in sorted(outcomes):
        print(f"{fault:20} {what:20} {outcomes[fault, what]:6}")
    cases = Counter(fault for (fault, what), count in outcomes.items() for _ in range(count) if what != "nothing to change")
    assert all(outcomes[fault, "error"] for fault, count in cases.items() if count >= 10), "the faults find something to damage"


@pytest.mark.parametrize("name", PLANS)
def test_restart_without_faults_gives_the_same_output(name):
    run = run_of(name, 0)
    assert any(tables for tables, _, _ in run.outputs), "it fires"
    assert len({space for values in run.state_after for space, _ in values}) > 1, "it keeps more than its meta record"
    state = MemoryState(dict(run.state_after[4]))
    assert [step(run.plan, state, batch, 0) for batch in run.batches[5:]] == run.outputs[5:]


@pytest.mark.parametrize(("name", "back"), thinned([(name, back) for name in PLANS if "clock" not in name for back in (2, 4)], 3))
def test_outdated_key_group_is_found_by_comparing_the_groups(name, back):
    """Also after micro-batches that bring nothing for a group: all groups write their state in all of them."""
    plan, states, states_of_group_1 = PLANS[name](), [MemoryState(), MemoryState()], []
    for number, batch in enumerate(stream(5)[:5]):
        metrics = []
        for group, state in enumerate(states):
            group_input = harness.group_input(plan, batch if group == 0 or number < 2 else harness.MicroBatch([]))
            metrics.append(plan.operator.for_group(plan, state, group).process(group_input).metrics.to_json())
        assert [(group_metrics["key_group"], group_metrics["state_of"]) for group_metrics in metrics] == [
            (0, number - 1),
            (1, number - 1),
        ]
        check_that_groups_agree(metrics)
        states_of_group_1.append(dict(states[1].values))
    states[1].values = states_of_group_1[-1 - back] if back < 4 else {}
    group_input = harness.group_input(plan, stream(5)[5])
    metrics = [
        plan.operator.for_group(plan, state, group).process(group_input).metrics.to_json() for group, state in enumerate(states)
    ]
    what = "is that of micro-batch 2" if back < 4 else "is gone"
    with pytest.raises(
        StateDamagedError, match=f"key group 1 is damaged: all of it {what}, where that of key group 0 is of micro"
    ):
        check_that_groups_agree(metrics)


@pytest.mark.full
@pytest.mark.parametrize("fault", [stale, swapped])
def test_damage_gives_wrong_output_without_the_checks(fault, monkeypatch):
    """Otherwise the test above could not find anything. Flipped bits are left out, because they can crash Arrow and the test
    process.
    """

    def get_unchecked(self, space, key):
        value = self.counted.get(space, key)
        if value is None:
            return None
        body = value[seal._HEAD.size + seal._PLACE.size + len(space) :]
        if (space, key) == ("meta", 0):
            (pages,) = seal._NUMBER.unpack_from(body)
            return body[seal._NUMBER.size + 20 * pages :]
        return body

    for name in PLANS:
        for seed in range(3):
            run_of(name, seed)  # cached for all tests, so these runs must be made with the checks
    monkeypatch.setattr(seal.SealedState, "get", get_unchecked)
    monkeypatch.setitem(globals(), "FAULTS", (fault,))
    wrong = 0
    for seed in range(150):
        try:
            outcome(random.Random(seed), seed)
        except AssertionError:
            wrong += 1
    assert wrong > 10


class Groups:
    """Two key groups with micro-batches, some of them without rows. The run may end after each micro-batch."""

    def __init__(self, name, seed):
        self.plan, self.rng = PLANS[name](), random.Random(seed)
        self.is_woken = "clock" in name
        self.states, self.batches = [MemoryState(), MemoryState()], stream(seed)
        self.versions, self.number = [({}, {})], 0
        self.age, self.has_gap, self.known = StateAge(is_woken=self.is_woken), False, None

    def restart(self):
        """Restart. The checkpoint names the last micro-batch, or the last one before the micro-batches without rows of the
        last run.
        """
        last = self.number - 1
        if self.known is None or not self.has_gap:
            self.known = last
        self.age = StateAge(last, min(self.known, last) if last >= 0 else None, self.is_woken)
        self.has_gap = False

    def step(self):
        rows = self.rng.random() < 0.7
        metrics = []
        for group, state in enumerate(self.states) if rows else ():
            group_input = harness.group_input(self.plan, self.batches[self.number % len(self.batches)])
            metrics.append(
                self.plan.operator.for_group(self.plan, AtBatch(state, self.number), group).process(group_input).metrics.to_json()
            )
        self.age.check(metrics, self.number)
        before = self.age.state_of if self.number == self.age.after + 1 else None
        if not self.age.advance(metrics, self.number) and not self.has_gap:
            self.has_gap, self.known = True, -1 if before is None else before
        elif not self.has_gap:
            self.known = self.number
        self.number += 1
        self.versions.append(tuple(dict(state.values) for state in self.states))
        return rows

    def go_on(self, *, until_rows=False):
        for _ in range(20):
            if self.step() and until_rows:
                return
            if self.rng.random() < 0.3:
                self.restart()


class AtBatch(MemoryState):
    """A store that knows its micro-batch, like Spark's."""

    def __init__(self, state, number):
        self.values, self.number = state.values, number

    @property
    def micro_batch(self):
        return self.number


@pytest.mark.parametrize("name", PLANS)
def test_restarts_and_empty_micro_batches_are_not_reported_as_damage(name):
    Groups(name, 0).go_on()


def exchanged_groups(groups):
    if (groups.age.state_of or -1) < 0:
        return False  # the checkpoint knows of no state yet
    # Spark finds no value of one key group in the folder of the other.
    groups.states[0].values, groups.states[1].values = {}, {}
    return True


def all_put_back(groups):
    if groups.age.state_of != groups.number - 1 or groups.number < 2:
        return False  # after a micro-batch without rows, the state may be that old
    for state, values in zip(groups.states, groups.versions[groups.number - 1], strict=True):
        state.values = dict(values)
    return True


def all_are_newer(groups):
    while not groups.step():
        pass
    groups.number -= 1
    groups.age = StateAge(groups.number - 1, None, groups.is_woken)
    return not groups.is_woken


@pytest.mark.parametrize(("name", "damage"), thinned(list(product(PLANS, [exchanged_groups, all_put_back, all_are_newer])), 4))
@pytest.mark.parametrize("has_ended", [pytest.param(False, marks=pytest.mark.full), True])
def test_damage_to_all_key_groups_is_found_with_the_next_rows(name, damage, has_ended):
    cases_found, by_clock = 0, damage is all_are_newer and "clock" in name  # then it is not damage
    for seed in range(1 if by_clock else 20):  # in most runs the last micro-batches have rows, which shows the damage
        if cases_found == random_cases(3):
            break
        groups = Groups(name, seed)
        for _ in range(3 + seed % 3):
            groups.step()
        if has_ended:
            groups.restart()
        if not damage(groups):
            continue
        cases_found += 1
        with pytest.raises(StateDamagedError, match=r"key group 0 is damaged: all of it is .*, where .*micro-batch"):
            groups.go_on(until_rows=True)
    assert bool(cases_found) != by_clock
