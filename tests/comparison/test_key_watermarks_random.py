"""A watermark for each key, against its definition: one plain row operator for each key, whose watermark is recomputed each time.

The definition knows all rows so far, and keeps every key forever. The operator under test only has the stored bytes. A change of
the allowed lateness closes windows of a key when it is next read, and the definition is told which keys that are.
"""

from __future__ import annotations

import random
from collections.abc import Container
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

import panestream as pst
from panestream.engine.operators.row.contents import KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.operator import row_operator
from panestream.engine.operators.row.window_operator import Output, RowOperator
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.storage.state import MemoryState
from panestream.windowing.functions import applied
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.watermarks import KeyWatermarks, WatermarkStrategy
from tests.comparison import harness, test_panes_random
from tests.comparison.harness import MicroBatch, run_cases

CHUNKS = 4


def listed(key, window, elements):
    return [(window.start, list(elements))]


def random_windows(rng: random.Random) -> tuple[WindowQuery, int]:
    """Return windows of event time, with triggers that fire early, late and by the clock, and about their size."""
    if rng.random() < 0.4:
        span = rng.choice([4, 10, 30])
        assigner = pst.windows.EventTimeSessionWindows(rng.choice([span, lambda element: 1 + element % span]))
    else:
        assigner, span = test_panes_random.random_assigner(rng, by_processing_time=False)
    triggers = [
        None, None, None, pst.triggers.CountTrigger.of(rng.randint(1, 3)), pst.triggers.ContinuousEventTimeTrigger(rng.randint(1, span)),
        pst.triggers.ContinuousProcessingTimeTrigger(rng.randint(1, 9)),
    ]  # fmt: skip
    trigger = rng.choice(triggers)
    if trigger is not None and rng.random() < 0.3:
        trigger = pst.triggers.PurgingTrigger.of(trigger)
    evictor = rng.choice([None, None, pst.evictors.CountEvictor(rng.randint(1, 3))])
    return WindowQuery(assigner, trigger, evictor, rng.choice([0, 0, 1, span])), span


def random_plan(rng: random.Random) -> tuple[RowPlan, int]:
    windows, span = random_windows(rng)
    function = ReduceRows(max) if windows.evictor is None and rng.random() < 0.5 else KeepRows(applied(listed))
    of_keys = KeyWatermarks(rng.choice([0, 3, span]), rng.choice([1, span, 4 * span]))
    late = rng.choice([None, "late"])
    return RowPlan(windows, function, late, numbers_firings=rng.random() < 0.5, key_watermarks=of_keys), span


def random_rows(rng: random.Random, span: int) -> list[list[tuple[str, int, int]]]:
    """Return micro-batches of rows of keys, each of which has its own time: some pause for long, or start far behind."""
    keys = "abcd"[: rng.randint(1, 4)]
    times = {key: rng.choice([0, -2 * span, -9 * span]) for key in keys}
    number, made = 0, []
    for _ in range(rng.randint(1, 10)):
        rows = []
        awake = [key for key in keys if rng.random() < 0.6]
        for _ in range(rng.randint(0, 8) if awake else 0):
            key, number = rng.choice(awake), number + 1
            times[key] += rng.choice([0, 1, rng.randint(0, span), rng.randint(0, 3 * span)])
            rows.append((key, times[key] - rng.choice([0, 0, rng.randint(0, span), rng.randint(0, 5 * span)]), number))
        made.append(rows)
    return made


@dataclass
class Definition:
    """Each key by itself; ``floor`` is the largest watermark of the stream so far, minus the idle time."""

    operators: dict[str, RowOperator] = field(default_factory=dict)
    states: dict[str, MemoryState] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    latenesses: dict[str, int] = field(default_factory=dict)
    floor: int = MIN_TIMESTAMP
    before: int = MIN_TIMESTAMP
    closed: int = MIN_TIMESTAMP
    clock: int = MIN_TIMESTAMP

    def process(self, plan: RowPlan, rows, watermark: int, clock: int, read: Container[str]) -> dict[str, Output]:
        delay, idle_after = plan.key_watermarks
        self.floor = max(self.floor, watermark if watermark == MAX_TIMESTAMP else watermark - idle_after)
        for key, time, _ in rows:
            self.newest[key] = max(self.newest.get(key, time), time)
        found = {}
        for key in self.newest:
            state = self.states.setdefault(key, MemoryState())
            if key not in self.watermarks:
                # It starts where the keys are that have no rows.
                self.watermarks[key] = self.before
            is_read = key in read or not state.values
            if is_read:
                self.latenesses[key] = plan.window.allowed_lateness
            own = replace(plan.window, allowed_lateness=self.latenesses[key])
            operator = RowOperator(replace(plan, window=own, key_watermarks=None), state)
            operator.begin_at(self.watermarks[key], self.clock, max(self.closed, operator.store.meta["closed"]))
            self.watermarks[key] = max(self.watermarks[key], self.newest[key] - delay - 1, self.floor)
            found[key] = operator.process([row for row in rows if row[0] == key], self.watermarks[key], clock)
            if is_read:
                operator.commit()
        self.clock = clock
        self.before = self.floor
        if self.floor > MIN_TIMESTAMP:
            lateness = 0 if self.floor == MAX_TIMESTAMP else plan.window.allowed_lateness
            self.closed = max(self.closed, self.floor - lateness)
        return found


def by_key(output: Output) -> dict[str, tuple]:
    """Return results with their firings, late rows and side outputs of each key, in order."""
    firings = output.firings or [None] * len(output.fired)
    found: dict[str, tuple] = {}
    for place, one in enumerate(zip(output.fired, firings, strict=True)):
        found.setdefault(output.fired[place][0], ([], []))[0].append(one)
    for row in output.late:
        found.setdefault(row[0], ([], []))[1].append(row)
    return found


def case(rng: random.Random, seed: int) -> None:
    plan, span = random_plan(rng)
    definition, state, clock, watermark = Definition(), MemoryState(), 1, MIN_TIMESTAMP
    batches = random_rows(rng, span)
    lag = rng.choice([0, 0, span])  # a slow source partition holds the stream back
    for number, rows in enumerate([*batches, []]):
        clock += rng.randint(0, 5)
        if number == len(batches):
            watermark = MAX_TIMESTAMP
        elif rows:
            watermark = max(watermark, max(time for _, time, _ in rows) - plan.key_watermarks.delay - 1 - lag)
        if rng.random() < 0.1:
            changed = replace(plan.window, allowed_lateness=rng.choice([0, 1, span, 3 * span]))
            of_keys = plan.key_watermarks._replace(idle_after=rng.choice([1, span, 4 * span]))
            plan = replace(plan, window=changed, key_watermarks=of_keys)
        operator = row_operator(plan, state)
        found = operator.process(rows, watermark, clock)
        read = {owner.key for owner in operator.store.loaded_keys()}
        operator.commit()
        expected = definition.process(plan, rows, watermark, clock, read)
        ours, what = by_key(found), f"seed {seed}, micro-batch {number} of {batches}, {plan}"
        for key, output in expected.items():
            assert ours.get(key, ([], [])) == by_key(output).get(key, ([], [])), f"{key}: {what}"
        assert found.late_dropped == sum(output.late_dropped for output in expected.values()), what
    assert not [space for space, _ in state.values if space != "meta"], f"state is left: seed {seed}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_keys_agree_with_operators_that_have_one_key_each(chunk):
    run_cases(4000, chunk, CHUNKS, case)


LISTED = pa.schema([("v", pa.list_(pa.int64()))])


def of_row_plan(rng: random.Random) -> tuple[WindowPlan, int]:
    """Return a query over rows, whose keys are never idle while rows come."""
    windows, span = random_windows(rng)
    windows = replace(windows, trigger=None, evictor=None, allowed_lateness=rng.choice([0, span]))
    function = KeepRows(applied(lambda key, window, rows: [([row.u for row in rows],)]))
    if callable(getattr(windows.assigner, "gap", None)):
        windows = replace(windows, assigner=pst.windows.EventTimeSessionWindows(span))
    operator = plan_functions(replace(windows, per_key=True), function, LISTED, harness.ROWS, "listed", harness.KEYS)
    return harness.plan_for(
        operator, windows, watermark=WatermarkStrategy(0, key_idle_after=10**6), late=rng.random() < 0.5
    ), span


def micro_batches(batches: list[list[tuple[str, int, int]]]) -> list[MicroBatch]:
    return [MicroBatch([[(key, time, number, None, number) for key, time, number in rows]]) for rows in batches]


def test_stream_agrees_with_a_batch_if_the_rows_of_each_key_are_in_order():
    def one(rng: random.Random, seed: int) -> None:
        plan, span = of_row_plan(rng)
        batches, times = random_rows(rng, span), {}
        for rows in batches:
            for place, (key, time, number) in enumerate(rows):
                times[key] = max(times.get(key, time), time)
                rows[place] = key, times[key], number
        given = micro_batches(batches)
        stream = harness.run(plan, [*given, MicroBatch([], end=True)])
        (batch,) = harness.run(plan, [MicroBatch([chunk for each in given for chunk in each.chunks], end=True)])
        assert sorted((fired for each in stream for fired in each.fired), key=repr) == sorted(batch.fired, key=repr), seed
        assert not sum(each.metrics.late_rows for each in stream), seed

    run_cases(400, 0, 1, one)


def test_repeated_micro_batch_gives_the_same_rows_and_bytes():
    def one(rng: random.Random, seed: int) -> None:
        plan, span = of_row_plan(rng)
        plan = replace(plan, watermark=replace(plan.watermark, key_idle_after=rng.choice([1, span])))
        harness.check_reruns(plan, micro_batches(random_rows(rng, span)), seed)

    run_cases(200, 0, 1, one)
