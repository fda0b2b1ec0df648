"""Random queries on Spark that start from a savepoint with other key groups agree with an engine that never stopped.


``PANESTREAM_CASES=60 pytest tests/comparison/test_savepoints_on_spark.py`` runs more; ``PANESTREAM_SEED`` others.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import panestream as pst
from panestream.engine.operators.panes.rule import why_not_panes
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.testing import MicroBatches
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.evictors import CountEvictor, TimeEvictor
from panestream.windowing.triggers import CountTrigger, PurgingTrigger
from tests.comparison import (
    harness,
    test_accumulating,
    test_counts_random,
    test_panes_random,
    test_savepoints_random,
    test_sessions_random,
    test_split_random,
)
from tests.comparison.on_spark import SCHEMA, by_place, fired, in_our_time, windowed_by, with_timestamps

# Random streams drop late rows.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

GROUPS = (1, 2, 3, 5, 7)
LISTED = "n bigint, vs array<bigint>, edge bigint"


@dataclass
class Case:
    """A query in two forms, for the engine with one key group and for Spark, and about the length of its windows."""

    plan: WindowPlan
    on_spark: Callable[[pst.datastream.WindowedStream], pst.datastream.WindowedResult]
    span: int
    delay: int
    windowing: WindowQuery
    least: int = 1


def declared(rng: random.Random, query: harness.Query, span: int, *, on_rows: bool = False) -> Case:
    """Return a query of declared aggregates, sometimes with numbered firings or as a changelog."""
    plan = test_savepoints_random.with_random_options(rng, query.row() if on_rows else query.columnar())

    def on_spark(windowed):
        result = (windowed.options(every_firing=True) if on_rows else windowed).aggregate(*query.aggregates)
        result = result.with_firing() if plan.with_firing else result
        return result.changelog() if plan.changelog else result

    return Case(plan, on_spark, span, query.delay, query.windowing)


def of_event_time(rng: random.Random, make: Callable[[random.Random], tuple[harness.Query, int]]) -> tuple[harness.Query, int]:
    while True:
        query, span = make(rng)
        assigner = query.windowing.assigner
        if assigner.is_event_time and isinstance(getattr(assigner, "gap", 1), int):
            return query, span


def panes(rng: random.Random) -> Case:
    return declared(rng, *of_event_time(rng, test_panes_random.random_query))


def several(rng: random.Random) -> Case:
    while True:
        pairs = [test_panes_random.random_assigner(rng, False) for _ in range(rng.randint(2, 3))]
        together = SeveralWindows.of({label: assigner for label, (assigner, _) in zip("abc", pairs, strict=False)})
        span = max(size for _, size in pairs)
        windowing = WindowQuery(together, allowed_lateness=rng.choice([0, 1, span]))
        if not why_not_panes(windowing):
            return declared(rng, harness.Query(windowing, harness.random_aggregates(rng), 3), span)


def sessions(rng: random.Random) -> Case:
    return declared(rng, *of_event_time(rng, test_sessions_random.random_query))


def counts(rng: random.Random) -> Case:
    return declared(rng, test_counts_random.random_query(rng), 10)


def declared_on_rows(rng: random.Random) -> Case:
    make = test_sessions_random.random_query if rng.random() < 0.4 else test_panes_random.random_query
    return declared(rng, *of_event_time(rng, make), on_rows=True)


def accumulating(rng: random.Random) -> Case:
    assigner, span = test_panes_random.random_assigner(rng, by_processing_time=False)
    lateness, delay = rng.choice([0, 0, 1, span]), rng.choice([0, 3, span])
    evictor = None if lateness else rng.choice([None, None, CountEvictor(rng.randint(1, 4)), TimeEvictor(rng.randint(1, span))])
    windowing = WindowQuery(assigner, evictor=evictor, allowed_lateness=lateness)
    shape = rng.choice(["rows", "arrow"])
    _, plan = test_accumulating.plans(windowing, shape, False, delay)

    def on_spark(windowed):
        if shape == "rows":
            return windowed.apply(test_accumulating.listed, LISTED)
        return windowed.apply_arrow(test_accumulating.as_table, LISTED)

    return Case(plan, on_spark, span, delay, windowing)


def remembering(rng: random.Random) -> Case:
    """Return a query of a function with states of window and key, with triggers that count."""
    assigner, span = test_panes_random.random_assigner(rng, by_processing_time=False)
    trigger = rng.choice([None, CountTrigger.of(rng.randint(1, 4)), PurgingTrigger.of(CountTrigger.of(2))])
    windowing = WindowQuery(assigner, trigger, None, rng.choice([0, span]), every_firing=True)
    function = Sizes()
    results = test_accumulating.pa.schema(
        [("n", test_accumulating.pa.int64()), ("seen", test_accumulating.pa.int64()), ("last", test_accumulating.pa.int64())]
    )
    operator = plan_functions(windowing, test_savepoints_random.KeepRows(function), results, harness.ROWS, function, harness.KEYS)
    plan = harness.plan_for(operator, windowing, 3)
    return Case(
        plan,
        lambda windowed: windowed.options(every_firing=True).process(function, "n bigint, seen bigint, last bigint"),
        span,
        3,
        windowing,
    )


class Sizes(pst.ProcessWindowFunction):
    """Store states of the window and of the key."""

    def process(self, key, context, elements):
        runs = context.window_state().get_list_state(pst.state.ListStateDescriptor("runs"))
        runs.add((len(elements), {"v": [row.v for row in elements]}))
        seen = context.global_state().get_map_state(pst.state.MapStateDescriptor("seen"))
        for row in elements:
            seen.put((row.v, row.x), {row.u})
        last = context.global_state().get_state(pst.state.ValueStateDescriptor("last"))
        before = last.value() or 0
        last.update(before + sum(row.u for row in elements))
        yield len(elements), 1000 * len(list(runs.get())) + len(list(seen.items())), before

    def clear(self, context):
        context.window_state().get_list_state(pst.state.ListStateDescriptor("runs")).clear()


def split(rng: random.Random) -> Case:
    while True:
        assigner, span = test_panes_random.random_assigner(rng, False)
        windowing = WindowQuery(assigner)
        if not why_not_panes(windowing):
            break
    aggregates = tuple(one.alias(f"r{place}") for place, one in enumerate(test_split_random.AGGREGATES))
    query, parts = harness.Query(windowing, aggregates, rng.choice([0, 3, span])), 2
    return Case(
        query.columnar(),
        lambda windowed: windowed.options(split_distinct=parts).aggregate(*aggregates),
        span,
        query.delay,
        windowing,
        parts,
    )


KINDS = (panes, several, sessions, counts, declared_on_rows, accumulating, remembering, split)


def batches_of(rng: random.Random, span: int) -> list[harness.MicroBatch]:
    while True:
        made = [batch.rows for batch in harness.random_stream(rng, span, batches=7) if batch.rows]
        if len(made) >= 2:
            made = [*made[:3], [row for rows in made[3:] for row in rows]] if made[3:] else made
            return [harness.MicroBatch([in_our_time(rows)]) for rows in made]


@pytest.mark.parametrize("seed", range(harness.first_seed(), harness.first_seed() + harness.cases(2)))
def test_query_from_savepoint_on_spark_agrees_with_one_that_never_stopped(spark, tmp_path, seed):
    rng = random.Random(seed)
    case = KINDS[seed % len(KINDS)](rng)
    batches = batches_of(rng, case.span)
    expected = [emitted.fired for emitted in harness.run(case.plan, batches)]
    numbers = [n for n in GROUPS if n >= case.least]
    before, after = rng.choice(numbers), rng.choice(numbers)
    stop = rng.randint(1, len(batches) - 1)
    found: dict[int, list[tuple]] = {}

    # Sinks number micro-batches on from the savepoint's.
    def collect(rows, batch_id):
        assert batch_id not in found
        found[batch_id] = fired(rows)

    for part, groups, first, how in (
        (batches[:stop], before, 0, {}),
        (batches[stop:], after, stop, {"savepoint": f"{tmp_path}/saved"}),
    ):
        files = MicroBatches(spark, tmp_path / f"in-{first}", SCHEMA)
        for batch in part:
            files.add(with_timestamps(batch.rows))
        result = case.on_spark(windowed_by(files.stream(), case.windowing, case.delay).options(key_groups=groups))
        assert result.operator.name == case.plan.operator.name
        sink = pst.ForeachBatchSink(collect, idempotent=True)
        result.start(main=sink, checkpoint=f"{tmp_path}/c-{first}", **how).await_termination()
        if not how:
            pst.savepoint(spark, f"{tmp_path}/c-0", f"{tmp_path}/saved")
    for number, wanted in enumerate(expected):
        wrong = harness.difference(by_place(wanted), by_place(found.get(number, ())))
        what = f"seed {seed}, {before} key groups, then {after} from micro-batch {stop} on"
        assert wrong is None, f"{what}: micro-batch {number}: {wrong}\n{case.plan.operator}\n{batches}"
