"""Random queries of every operator, restored with another number of key groups, agree with queries that never stopped.


``PANESTREAM_CASES=20000 pytest tests/comparison/test_savepoints_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import panestream as pst
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.operators.panes.rule import why_not_panes
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.operators.row.process import process_spec
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions, split_of
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from panestream.windowing.functions import ProcessWindowFunction, applied
from panestream.windowing.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import (
    fills,
    harness,
    look_backs,
    predicates,
    rolling,
    test_accumulating,
    test_calendars_random,
    test_counts_random,
    test_panes_random,
    test_sessions_random,
    test_split_random,
    test_two_phase_random,
)
from tests.comparison.calendars import random_stream
from tests.comparison.savepoints import Query, compare_with_restored

CHUNKS = 8


def with_random_options(rng: random.Random, plan: WindowPlan) -> WindowPlan:
    """Return the plan, sometimes with numbered firings or as a changelog."""
    more = rng.choice([{}, {}, {"with_firing": True}, {"changelog": True}, {"changelog": True, "with_firing": True}])
    if plan.operator.capabilities.no_firings is not None or (
        more.get("changelog") and plan.operator.capabilities.no_changelog is not None
    ):
        return plan
    return replace(plan, **more)


def panes(rng: random.Random, seed: int) -> None:
    query, span = test_panes_random.random_query(rng)
    if rng.random() < 0.2:
        query = test_two_phase_random.own(rng, query)
    clock = not query.windowing.assigner.is_event_time
    compare_with_restored(with_random_options(rng, query.columnar()), harness.random_stream(rng, span, clock=clock), rng, seed)


def filled(rng: random.Random, seed: int) -> None:
    lists = rng.random() < 0.4
    query = fills.random_query(rng, linear=rng.random() < 0.3, lateness=0 if lists else None)
    query = fills.listing(query, ["a", "y", "z"]) if lists else query
    batches = harness.random_stream(rng, query.windowing.assigner.size)
    compare_with_restored(with_random_options(rng, query.columnar()), batches, rng, seed)


def several(rng: random.Random, seed: int) -> None:
    by_processing_time = rng.random() < 0.3
    pairs = [test_panes_random.random_assigner(rng, by_processing_time) for _ in range(rng.randint(1, 3))]
    together = SeveralWindows.of({label: assigner for label, (assigner, _) in zip("abc", pairs, strict=False)})
    span = max(size for _, size in pairs)
    trigger = test_panes_random.random_trigger(rng, by_processing_time)
    windowing = WindowQuery(together, trigger, allowed_lateness=rng.choice([0, 0, 1, span]))
    if why_not_panes(windowing):
        return
    query = harness.Query(windowing, harness.random_aggregates(rng), 3, rng.random() < 0.4)
    compare_with_restored(
        with_random_options(rng, query.columnar()), harness.random_stream(rng, span, clock=by_processing_time), rng, seed
    )


def continuous(rng: random.Random, seed: int) -> None:
    """Continuous firings while time advances slowly and rows come far ahead or far behind. They test the stored firing times."""
    interval = rng.randint(5, 12)
    trigger = ContinuousEventTimeTrigger(interval, only_changed=rng.random() < 0.4)
    trigger = PurgingTrigger.of(trigger) if rng.random() < 0.6 else trigger
    delay = rng.choice([0, 25])
    query = harness.Query(WindowQuery(TumblingEventTimeWindows(40), trigger), harness.random_aggregates(rng), delay)
    time, batches, number = 100, [], 0
    for _ in range(rng.randint(4, 10)):
        time += rng.randint(0, 4)
        rows = []
        for _ in range(rng.randint(1, 4)):
            number += 1
            rows.append((rng.choice("abcdefgh"), time - rng.choice([0, rng.randint(0, 30)]), number, number / 4, number))
        batches.append(harness.MicroBatch([rows]))
    compare_with_restored(with_random_options(rng, query.columnar()), batches, rng, seed)


def sessions(rng: random.Random, seed: int) -> None:
    clock = rng.random() < 0.3
    query, span = test_sessions_random.random_query(rng, clock=clock)
    if rng.random() < 0.2:
        query = test_two_phase_random.own(rng, query)
    compare_with_restored(with_random_options(rng, query.columnar()), harness.random_stream(rng, span, clock=clock), rng, seed)


def counts(rng: random.Random, seed: int) -> None:
    query = test_counts_random.random_query(rng)
    compare_with_restored(query.columnar(), harness.random_stream(rng, 10), rng, seed)


class Remembers(pst.functions.KeyedProcessFunction):
    """Rows wait for a timer, of the clock if ``clock``; values that were seen live for a time."""

    SEEN = pst.state.MapStateDescriptor("seen", pst.state.StateTtlConfig(25))
    WAITING = pst.state.ListStateDescriptor("waiting")

    def __init__(self, clock):
        self._clock = clock

    @property
    def uses_processing_time(self):
        return self._clock

    def process_element(self, value, ctx):
        ctx.get_map_state(self.SEEN).put(value.u % 5, ctx.timestamp())
        ctx.get_list_state(self.WAITING).add(value.u)
        timers = ctx.timer_service()
        if self._clock and value.u % 2:
            timers.register_processing_time_timer(timers.current_processing_time() + 7)
        else:
            timers.register_event_time_timer(ctx.timestamp() + 5)

    def on_timer(self, timestamp, ctx):
        waiting = ctx.get_list_state(self.WAITING)
        yield timestamp, [*waiting.get(), -1, *(key for key, _ in ctx.get_map_state(self.SEEN).items())]
        waiting.clear()


def intervals(rng: random.Random, seed: int) -> None:
    span, lower = rng.choice([4, 12, 30]), rng.randint(-12, 6)
    how = rng.choice(["inner", "left", "right", "full"])
    operator = IntervalSpec(lower, lower + rng.randint(0, span), how, harness.SIDED, harness.SIDED, harness.KEYS)
    plan = harness.plan_for(operator, WindowQuery(GlobalWindows.create()), rng.choice([0, 3, span]))
    compare_with_restored(plan, harness.random_stream(rng, span), rng, seed)


def processes(rng: random.Random, seed: int) -> None:
    clock = rng.random() < 0.5
    operator = process_spec(Remembers(clock), pa.schema([("at", pa.int64()), ("seen", pa.list_(pa.int64()))]), harness.ROWS)
    plan = harness.plan_for(operator, WindowQuery(GlobalWindows.create()), rng.choice([0, 3, 10]))
    compare_with_restored(plan, harness.random_stream(rng, 10, clock=clock), rng, seed)


def accumulating(rng: random.Random, seed: int) -> None:
    assigner, span = test_panes_random.random_assigner(rng, by_processing_time=False)
    lateness = rng.choice([0, 0, 1, span])
    evictors = [None, None, CountEvictor(rng.randint(1, 4)), TimeEvictor(rng.randint(1, span))]
    windowing = WindowQuery(assigner, evictor=None if lateness else rng.choice(evictors), allowed_lateness=lateness)
    _, plan = test_accumulating.plans(
        windowing, rng.choice(["rows", "arrow", "all"]), rng.random() < 0.5, rng.choice([0, 3, span])
    )
    compare_with_restored(plan, harness.random_stream(rng, span), rng, seed)


def split(rng: random.Random, seed: int) -> None:
    assigner, span = test_panes_random.random_assigner(rng, False)
    if why_not_panes(WindowQuery(assigner)):
        return
    query = harness.Query(WindowQuery(assigner), test_split_random.AGGREGATES, rng.choice([0, 3, span]))
    plan, parts = query.columnar(), rng.choice([2, 3])
    plan = replace(plan, split=split_of(parts, test_split_random.AGGREGATES, plan.operator))
    compare_with_restored(plan, harness.random_stream(rng, span), rng, seed, lambda row: hash(row[2]) % parts, parts)


def calendars(rng: random.Random, seed: int) -> None:
    """Calendar windows: of one kind, of several, and on the row operator."""
    several_of_them = rng.random() < 0.3
    if several_of_them:
        together, span, zone = test_calendars_random.random_several(rng)
        query = harness.Query(WindowQuery(together), harness.random_aggregates(rng), 0, rng.random() < 0.4)
    else:
        query, span, zone = test_calendars_random.random_query(rng)
    clock = not query.windowing.assigner.is_event_time
    plan = query.row() if rng.random() < 0.2 and not several_of_them else query.columnar()
    compare_with_restored(with_random_options(rng, plan), random_stream(rng, zone, span, clock=clock), rng, seed)


def of_look_backs(rng: random.Random, seed: int) -> None:
    plan, span = look_backs.random_plan(rng)
    compare_with_restored(plan, harness.random_stream(rng, span), rng, seed)


def rolling_values(rng: random.Random, seed: int) -> None:
    plan, span = rolling.random_plan(rng)
    compare_with_restored(plan, harness.random_stream(rng, span), rng, seed)


def by_predicates(rng: random.Random, seed: int) -> None:
    plan, span = predicates.random_plan(rng)
    compare_with_restored(plan, harness.random_stream(rng, span), rng, seed)


def declared_on_rows(rng: random.Random, seed: int) -> None:
    clock = rng.random() < 0.3
    query, span = (
        test_sessions_random.random_query(rng, clock=clock) if rng.random() < 0.4 else test_panes_random.random_query(rng)
    )
    clock = not query.windowing.assigner.is_event_time
    compare_with_restored(with_random_options(rng, query.row()), harness.random_stream(rng, span, clock=clock), rng, seed)


class Remembering(ProcessWindowFunction):
    """Store states of all kinds, of the window and of the key."""

    def process(self, key, context, elements):
        runs = context.window_state().get_list_state(ListStateDescriptor("runs"))
        runs.add((len(elements), {"v": [row.v for row in elements]}))
        seen = context.global_state().get_map_state(MapStateDescriptor("seen"))
        for row in elements:
            seen.put((row.v, row.x), {row.ts})
        last = context.global_state().get_state(ValueStateDescriptor("last"))
        before = last.value()
        last.update(elements[-1] if elements else None)
        text = repr((runs.get(), sorted(seen.items(), key=repr), before))
        yield len(elements), [len(runs.get()), len(list(seen.items()))], sum(map(ord, text))

    def clear(self, context):
        context.window_state().get_list_state(ListStateDescriptor("runs")).clear()


def distance(old, new) -> float:
    return float(abs((new.u or 0) - (old.u or 0)))


def on_rows(rng: random.Random, seed: int) -> None:
    """Functions, triggers and evictors that only the row operator runs."""
    kind, clock = rng.random(), False
    if kind < 0.4:
        clock = rng.random() < 0.3
        assigner, span = test_panes_random.random_assigner(rng, clock)
    elif kind < 0.7:
        span, clock = rng.choice([4, 10, 30]), rng.random() < 0.3
        assigner = (ProcessingTimeSessionWindows if clock else EventTimeSessionWindows)(span)
    else:
        assigner, span = GlobalWindows.create(), 10
    merges = 0.4 <= kind < 0.7
    triggers = [None, CountTrigger.of(rng.randint(1, 4)), ContinuousProcessingTimeTrigger(rng.randint(1, 9))]
    triggers += [] if merges else [DeltaTrigger(float(rng.choice([10, 1000, 30000])), distance)]
    triggers += [] if clock or kind >= 0.7 else [ContinuousEventTimeTrigger(rng.randint(1, 9))]
    trigger = rng.choice(triggers)
    if trigger is None and kind >= 0.7:
        trigger = CountTrigger.of(2)
    if trigger is not None and rng.random() < 0.3:
        trigger = PurgingTrigger.of(trigger)
    if trigger is not None and not merges and rng.random() < 0.2:
        trigger = ProcessingTimeoutTrigger(trigger, rng.randint(0, 9), rng.random() < 0.5, rng.random() < 0.5)
    evictors = [CountEvictor(rng.randint(0, 4), rng.random() < 0.4), TimeEvictor(rng.randint(0, span), rng.random() < 0.4)]
    evictor = rng.choice([None, None, *evictors, DeltaEvictor(500.0, distance)])
    windowing = WindowQuery(assigner, trigger, evictor, rng.choice([0, 0, span]), every_firing=True)
    results, function = rng.choice(
        [
            (test_accumulating.RESULTS, KeepRows(applied(test_accumulating.listed))),
            (pa.schema([("n", pa.int64()), ("of", pa.list_(pa.int64())), ("hash", pa.int64())]), KeepRows(Remembering())),
            *((one.results, AggregateRows(one)) for one in test_two_phase_random.FUNCTIONS[:3]),
            (pa.schema([one for one in harness.ROWS if one.name != "key"]), ReduceRows(test_two_phase_random.largest)),
        ]
    )
    if kind >= 0.7 and isinstance(function, KeepRows) and not isinstance(function.function, ProcessWindowFunction):
        return  # it needs the start of the window
    if evictor is not None and isinstance(function, ReduceRows):
        return  # evictors may remove everything
    if merges and isinstance(getattr(function, "function", None), Remembering):
        return  # merging windows do not have their own state
    operator = plan_functions(windowing, function, results, harness.ROWS, function, harness.KEYS)
    assert isinstance(operator, RowSpec)
    idle_after = rng.choice([None, 1, 3 * span]) if assigner.is_event_time else None
    strategy = WatermarkStrategy(rng.choice([0, 3]), key_idle_after=idle_after)
    plan = harness.plan_for(operator, windowing, late=rng.random() < 0.5, watermark=strategy)
    batches = harness.random_stream(rng, span, clock=windowing.uses_processing_time)
    if kind >= 0.7:
        batches = [replace(batch, end=False) for batch in batches]
    compare_with_restored(with_random_options(rng, plan), batches, rng, seed)


CASES = {
    panes: 80,
    filled: 40,
    several: 32,
    continuous: 48,
    sessions: 48,
    intervals: 16,
    processes: 24,
    counts: 24,
    accumulating: 24,
    split: 16,
    calendars: 16,
    of_look_backs: 32,
    by_predicates: 32,
    rolling_values: 32,
    declared_on_rows: 32,
    on_rows: 64,
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_query_restored_with_other_key_groups_agrees_with_one_that_never_stopped(case, chunk):
    harness.run_cases(CASES[case], chunk, CHUNKS, case)


def test_restored_queries_agree_on_seeds_that_once_failed():
    """Seed 100,467: one micro-batch retracts two sessions of a key, and the earlier one comes first in any saved order."""
    sessions(random.Random(100_467), 100_467)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_row_that_was_not_shown_fires_after_a_savepoint_into_a_query_for_changed_windows(before, after):
    """A savepoint of a query that fires all windows has no numbers of last rows."""

    def query(only_changed):
        trigger = ContinuousEventTimeTrigger(10, only_changed=only_changed)
        counts = [agg.count().alias("n")]
        return Query(harness.Query(WindowQuery(TumblingEventTimeWindows(100), trigger), counts, 0).columnar(), 1)

    def batch(time):
        return harness.MicroBatch([[("a", time, 1, 1.0, 1)]])

    old, new = query(before), query(after)
    assert [old.run(batch(time)).fired for time in (1, 25, 26)] == [{}, {"a": [((0, 100), (2,))]}, {}]
    new.restore(old.tables())
    assert new.run(batch(150)).fired == {"a": [((0, 100), (3,))]}
