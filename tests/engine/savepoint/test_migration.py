"""Migrating accumulators and states of user functions when a query starts from saved state."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.savepoint.migration import check_migrations, migrated, migrated_identity
from panestream.errors import InvalidPlanError, PlanMismatchError
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.failures import WindowFunctionError
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction
from panestream.windowing.state import ValueStateDescriptor
from tests.comparison import harness
from tests.comparison.savepoints import GROUPS, Query, placement, rescaled, shuffled
from tests.costs import random_cases

RESULTS = pa.schema([("n", pa.int64()), ("total", pa.int64())])


class SumAndCount(AggregateFunction):
    """The old function: sum and number of values."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + (value.v or 0), accumulator[1] + 1

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]

    def get_result(self, accumulator):
        return accumulator[1], accumulator[0]


class SumAndCountByName(AggregateFunction):
    """The new function: the same accumulator with names."""

    def create_accumulator(self):
        return {"total": 0, "n": 0}

    def add(self, value, accumulator):
        return {"total": accumulator["total"] + (value.v or 0), "n": accumulator["n"] + 1}

    def merge(self, a, b):
        return {name: a[name] + b[name] for name in a}

    def get_result(self, accumulator):
        return accumulator["n"], accumulator["total"]


OLD = pa.schema([("total", pa.int64()), ("n", pa.int64())])
NEW = pa.schema([("n", pa.int64()), ("total", pa.int64())])


def by_name(old):
    return {"total": old[0], "n": old[1]}


def plan_of(windowing, function, accumulators=None):
    described = function.function if isinstance(function, AggregateRows) else function
    operator = plan_functions(windowing, function, RESULTS, harness.ROWS, described, harness.KEYS, accumulators)
    return harness.plan_for(operator, windowing, 3)


def outputs_after_restart(rng, old, new, migrate, batches):
    """Yield the output of the new query from a random micro-batch on, and the output that it would have had from the start."""
    at = rng.randint(1, len(batches))
    query, whole = Query(old, rng.choice(GROUPS)), Query(new, 2)
    for batch in batches[:at]:
        query.run(batch)
        whole.run(batch)
    groups = rng.choice(GROUPS)
    saved = [shuffled(tables, rng) for tables in rescaled(query.tables(), query.plan, placement, groups)]
    query = Query(new, groups)
    query.restore([migrated(tables, migrate, query.plan) for tables in saved])
    for batch in [*batches[at:], harness.MicroBatch([], end=True)]:
        yield query.run(batch).fired, whole.run(batch).fired


@pytest.mark.parametrize("seed", range(random_cases(40)))
@pytest.mark.parametrize("in_two_phases", [False, True])
def test_migrated_accumulators_equal_those_of_a_query_from_the_start(seed, in_two_phases):
    rng = random.Random(seed)
    windows = rng.choice([TumblingEventTimeWindows(7), SlidingEventTimeWindows(12, 3), EventTimeSessionWindows(5)])
    windowing = WindowQuery(windows, allowed_lateness=rng.choice([0, 4]))
    old = plan_of(windowing, AggregateRows(SumAndCount()), OLD if in_two_phases else None)
    new = plan_of(windowing, AggregateRows(SumAndCountByName()), NEW if in_two_phases else None)
    migrate = {"accumulator": by_name}
    check_migrations(migrate, new)
    batches = [batch for batch in harness.random_stream(rng, 10) if not batch.end]
    for actual, expected in outputs_after_restart(rng, old, new, migrate, batches):
        assert actual == expected


class CountingByKey(ProcessWindowFunction):
    """Counts the rows of a key in state. ``begin``, ``add`` and ``count_of`` define the form of the count."""

    begin, add, count_of = 0, staticmethod(lambda seen, n: seen + n), staticmethod(lambda seen: seen)

    def process(self, key, context, elements):
        state = context.global_state().get_state(ValueStateDescriptor("seen"))
        seen = self.add(state.value() if state.value() is not None else self.begin, len(elements))
        state.update(seen)
        yield len(elements), self.count_of(seen)


class CountingByKeyWithCounter(CountingByKey):
    begin = Counter()  # noqa: RUF012 (never changed)
    add, count_of = staticmethod(lambda seen, n: seen + Counter(rows=n)), staticmethod(lambda seen: seen["rows"])


@pytest.mark.parametrize("seed", range(10))
def test_migrated_state_equals_that_of_a_query_from_the_start(seed):
    rng = random.Random(seed)
    windowing = WindowQuery(TumblingEventTimeWindows(7))
    old, new = (plan_of(windowing, KeepRows(function())) for function in (CountingByKey, CountingByKeyWithCounter))
    batches = [batch for batch in harness.random_stream(rng, 10) if not batch.end]
    migrate = {"state:seen": lambda old: Counter(rows=old)}
    check_migrations(migrate, new)
    for actual, expected in outputs_after_restart(rng, old, new, migrate, batches):
        assert actual == expected


def test_other_accumulators_are_refused_without_a_migration():
    windowing, rng = WindowQuery(TumblingEventTimeWindows(100)), random.Random(1)
    batches = [harness.MicroBatch([[("a", 1, 2, 0.5, 3)]])] * 2
    for accumulators in ((None, None), (OLD, NEW)):
        plans = [
            plan_of(windowing, AggregateRows(function()), of)
            for function, of in zip((SumAndCount, SumAndCountByName), accumulators, strict=True)
        ]
        if accumulators[0] is None:
            with pytest.raises(PlanMismatchError, match="SumAndCountByName"):
                list(outputs_after_restart(rng, *plans, {}, batches))
    same_name = type("SumAndCount", (SumAndCountByName,), {"__qualname__": "SumAndCount"})
    with pytest.raises(PlanMismatchError, match="accumulators of a function that has changed"):
        list(
            outputs_after_restart(
                rng,
                plan_of(windowing, AggregateRows(SumAndCount()), OLD),
                plan_of(windowing, AggregateRows(same_name()), NEW),
                {},
                batches,
            )
        )


@pytest.mark.parametrize("migrate", [{}, {"state:seen": by_name}])
def test_state_without_a_migration_is_unchanged(migrate):
    plan = plan_of(WindowQuery(TumblingEventTimeWindows(100), every_firing=True), AggregateRows(SumAndCount()))
    query = Query(plan, 1)
    query.run(harness.MicroBatch([[("a", 1, 2, 0.5, 3)]]))
    (saved,) = query.tables()
    new_tables = migrated(saved, migrate, query.plan)
    assert new_tables.header == saved.header
    assert {name: table.to_pylist() for name, table in new_tables.tables.items()} == {
        name: table.to_pylist() for name, table in saved.tables.items()
    }


def test_error_of_a_migration_shows_the_old_value():
    windowing = WindowQuery(TumblingEventTimeWindows(100))
    old, new = plan_of(windowing, AggregateRows(SumAndCount())), plan_of(windowing, AggregateRows(SumAndCountByName()))
    with pytest.raises(WindowFunctionError, match=r"migrate\['accumulator'\] raised KeyError.*old value \(2, 1\)"):
        list(
            outputs_after_restart(
                random.Random(1),
                old,
                new,
                {"accumulator": lambda old_value: {}[old_value]},
                [harness.MicroBatch([[("a", 1, 2, 0.5, 3)]])],
            )
        )


@pytest.mark.parametrize(
    ("migrate", "words"),
    [
        ({"acumulator": by_name}, "got 'acumulator'"),
        ({"state:": by_name}, "got 'state:'"),
        ({"accumulator": 3}, "must be a function of the old value"),
        ([by_name], "needs functions by their subject"),
    ],
)
def test_migration_of_unknown_state_is_refused(migrate, words):
    windowing = WindowQuery(TumblingEventTimeWindows(7))
    with pytest.raises(InvalidPlanError) as refused:
        check_migrations(migrate, plan_of(windowing, AggregateRows(SumAndCount())))
    assert words in str(refused.value)
    with pytest.raises(InvalidPlanError, match="does not keep accumulators"):
        check_migrations({"accumulator": by_name}, plan_of(windowing, KeepRows(CountingByKey())))
    with pytest.raises(InvalidPlanError, match="do not keep states"):
        check_migrations({"state:seen": by_name}, plan_of(windowing, AggregateRows(SumAndCount()), OLD))
    check_migrations({"accumulator": by_name}, plan_of(windowing, ReduceRows(lambda a, b: a)))


def test_migration_replaces_only_an_aggregate_function_by_another():
    windowing, migrate = WindowQuery(TumblingEventTimeWindows(7)), {"accumulator": by_name}
    plan = plan_of(windowing, AggregateRows(SumAndCountByName()))
    assert plan.identity()["function"] == "aggregate with SumAndCountByName"
    saved = {"function": "aggregate with SumAndCount", "windows": "others"}
    assert migrated_identity(saved, migrate, plan) == {"function": "aggregate with SumAndCountByName", "windows": "others"}
    assert migrated_identity(saved, {"state:seen": by_name}, plan) == saved
    # Accumulators of declared aggregates, or missing ones, are not migrated to an accumulator of a function.
    for other in ({"function": "agg.sum('v')", "windows": "others"}, {"windows": "others"}):
        assert migrated_identity(other, migrate, plan) == other
    # An accumulator of a function is not migrated to the row of a reduce function either.
    assert migrated_identity(saved, migrate, plan_of(windowing, ReduceRows(lambda a, b: a))) == saved


class Total(SumAndCount):
    """Keeps only the sum."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + (value.v or 0)

    def merge(self, a, b):
        return a + b

    def get_result(self, accumulator):
        return 0, accumulator


def test_migration_gets_a_one_column_accumulator_as_a_plain_value():
    windowing, schema = WindowQuery(TumblingEventTimeWindows(100)), pa.schema([("total", pa.int64())])
    old, new = plan_of(windowing, AggregateRows(Total()), schema), plan_of(windowing, AggregateRows(SumAndCountByName()), NEW)
    query, again, old_values = Query(old, 1), Query(new, 1), []
    query.run(harness.MicroBatch([[("a", 1, 2, None, 1), ("a", 2, 5, None, 2), ("b", 3, 4, None, 3)]]))
    again.restore(
        [
            migrated(tables, {"accumulator": lambda total: old_values.append(total) or {"total": total, "n": 9}}, new)
            for tables in query.tables()
        ]
    )
    assert sorted(old_values) == [4, 7]
    fired = again.run(harness.MicroBatch([[("a", 5, 1, None, 4)]], end=True)).fired
    assert fired == {"a": [((0, 100), (10, 8))], "b": [((0, 100), (9, 4))]}


def test_reduce_with_an_evictor_has_no_accumulator_to_migrate():
    windowing = WindowQuery(TumblingEventTimeWindows(7), evictor=CountEvictor.of(3))
    plan = plan_of(windowing, ReduceRows(lambda a, b: a))
    assert plan.operator.row_plan.keeps_elements
    with pytest.raises(InvalidPlanError, match="does not keep accumulators"):
        check_migrations({"accumulator": by_name}, plan)
