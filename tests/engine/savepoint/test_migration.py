"""Accumulators and states of users' own functions, made into others when a query starts from saved state."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.planner import plan_functions
from panestream.engine.query import WindowSpec
from panestream.engine.savepoint.migration import check_migrations, migrated, migrated_identity
from panestream.errors import InvalidPlanError, PlanMismatchError
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.failures import WindowFunctionError
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction
from panestream.windowing.state import ValueStateDescriptor
from tests.comparison import harness
from tests.comparison.savepoints import GROUPS, Query, placement, rescaled, shuffled

RESULTS = pa.schema([("n", pa.int64()), ("total", pa.int64())])


class Counted(AggregateFunction):
    """What ran until now: the sum and the number."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + (value.v or 0), accumulator[1] + 1

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]

    def get_result(self, accumulator):
        return accumulator[1], accumulator[0]


class CountedByName(AggregateFunction):
    """What runs from now on: the same under names."""

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
    shown = function.function if isinstance(function, AggregateRows) else function
    operator = plan_functions(windowing, function, RESULTS, harness.ROWS, shown, harness.KEYS, accumulators)
    return harness.plan_for(operator, windowing, 3)


def started(rng, old, new, migrate, batches):
    """What the new query says from a random micro-batch on, and what it would have said had it run from the start."""
    at = rng.randint(1, len(batches))
    query, whole = Query(old, rng.choice(GROUPS)), Query(new, 2)
    for batch in batches[:at]:
        query.run(batch)
        whole.run(batch)
    groups = rng.choice(GROUPS)
    saved = [shuffled(one, rng) for one in rescaled(query.tables(), query.plan, placement, groups)]
    query = Query(new, groups)
    query.restore([migrated(one, migrate, query.plan) for one in saved])
    for batch in [*batches[at:], harness.MicroBatch([], end=True)]:
        yield query.run(batch).fired, whole.run(batch).fired


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("in_two_phases", [False, True])
def test_another_accumulator_of_another_function(seed, in_two_phases):
    rng = random.Random(seed)
    windows = rng.choice([TumblingEventTimeWindows(7), SlidingEventTimeWindows(12, 3), EventTimeSessionWindows(5)])
    windowing = WindowSpec(windows, allowed_lateness=rng.choice([0, 4]))
    old = plan_of(windowing, AggregateRows(Counted()), OLD if in_two_phases else None)
    new = plan_of(windowing, AggregateRows(CountedByName()), NEW if in_two_phases else None)
    migrate = {"accumulator": by_name}
    check_migrations(migrate, new)
    batches = [batch for batch in harness.random_stream(rng, 10) if not batch.end]
    for found, expected in started(rng, old, new, migrate, batches):
        assert found == expected


class Remembering(ProcessWindowFunction):
    """Counts what it has seen of a key, as ``begin`` makes it."""

    begin, add, told = 0, staticmethod(lambda seen, n: seen + n), staticmethod(lambda seen: seen)

    def process(self, key, context, elements):
        state = context.global_state().get_state(ValueStateDescriptor("seen"))
        seen = self.add(state.value() if state.value() is not None else self.begin, len(elements))
        state.update(seen)
        yield len(elements), self.told(seen)


class RememberingByName(Remembering):
    begin = Counter()  # noqa: RUF012 (never changed)
    add, told = staticmethod(lambda seen, n: seen + Counter(rows=n)), staticmethod(lambda seen: seen["rows"])


@pytest.mark.parametrize("seed", range(10))
def test_another_state_of_a_function(seed):
    rng = random.Random(seed)
    windowing = WindowSpec(TumblingEventTimeWindows(7))
    old, new = (plan_of(windowing, KeepRows(one())) for one in (Remembering, RememberingByName))
    batches = [batch for batch in harness.random_stream(rng, 10) if not batch.end]
    migrate = {"state:seen": lambda old: Counter(rows=old)}
    check_migrations(migrate, new)
    for found, expected in started(rng, old, new, migrate, batches):
        assert found == expected


def test_without_a_function_another_accumulator_is_refused():
    windowing, rng = WindowSpec(TumblingEventTimeWindows(100)), random.Random(1)
    batches = [harness.MicroBatch([[("a", 1, 2, 0.5, 3)]])] * 2
    for accumulators in ((None, None), (OLD, NEW)):
        plans = [
            plan_of(windowing, AggregateRows(one()), of) for one, of in zip((Counted, CountedByName), accumulators, strict=True)
        ]
        if accumulators[0] is None:
            with pytest.raises(PlanMismatchError, match="CountedByName"):
                list(started(rng, *plans, {}, batches))
    same_name = type("Counted", (CountedByName,), {"__qualname__": "Counted"})
    with pytest.raises(PlanMismatchError, match="accumulators of a function that has other ones now"):
        list(
            started(
                rng,
                plan_of(windowing, AggregateRows(Counted()), OLD),
                plan_of(windowing, AggregateRows(same_name()), NEW),
                {},
                batches,
            )
        )


@pytest.mark.parametrize("migrate", [{}, {"state:seen": by_name}])
def test_what_no_function_is_for_stays_as_it_is(migrate):
    plan = plan_of(WindowSpec(TumblingEventTimeWindows(100), every_firing=True), AggregateRows(Counted()))
    query = Query(plan, 1)
    query.run(harness.MicroBatch([[("a", 1, 2, 0.5, 3)]]))
    (saved,) = query.tables()
    found = migrated(saved, migrate, query.plan)
    assert found.header == saved.header
    assert {name: table.to_pylist() for name, table in found.tables.items()} == {
        name: table.to_pylist() for name, table in saved.tables.items()
    }


def test_a_function_that_fails_is_named_with_the_value():
    windowing = WindowSpec(TumblingEventTimeWindows(100))
    old, new = plan_of(windowing, AggregateRows(Counted())), plan_of(windowing, AggregateRows(CountedByName()))
    with pytest.raises(WindowFunctionError, match=r"migrate\['accumulator'\] raised KeyError.*old value \(2, 1\)"):
        list(
            started(
                random.Random(1), old, new, {"accumulator": lambda one: {}[one]}, [harness.MicroBatch([[("a", 1, 2, 0.5, 3)]])]
            )
        )


@pytest.mark.parametrize(
    ("migrate", "words"),
    [
        ({"acumulator": by_name}, "got 'acumulator'"),
        ({"state:": by_name}, "got 'state:'"),
        ({"accumulator": 3}, "must be a function of the old value"),
        ([by_name], "wants functions by what they change"),
    ],
)
def test_what_cannot_be_migrated(migrate, words):
    windowing = WindowSpec(TumblingEventTimeWindows(7))
    with pytest.raises(InvalidPlanError) as refused:
        check_migrations(migrate, plan_of(windowing, AggregateRows(Counted())))
    assert words in str(refused.value)
    with pytest.raises(InvalidPlanError, match="keeps no accumulators"):
        check_migrations({"accumulator": by_name}, plan_of(windowing, KeepRows(Remembering())))
    with pytest.raises(InvalidPlanError, match="keep no states"):
        check_migrations({"state:seen": by_name}, plan_of(windowing, AggregateRows(Counted()), OLD))
    check_migrations({"accumulator": by_name}, plan_of(windowing, ReduceRows(lambda a, b: a)))


def test_one_function_takes_the_place_of_another_and_of_nothing_else():
    windowing, migrate = WindowSpec(TumblingEventTimeWindows(7)), {"accumulator": by_name}
    plan = plan_of(windowing, AggregateRows(CountedByName()))
    assert plan.identity()["function"] == "aggregate with CountedByName"
    saved = {"function": "aggregate with Counted", "windows": "others"}
    assert migrated_identity(saved, migrate, plan) == {"function": "aggregate with CountedByName", "windows": "others"}
    assert migrated_identity(saved, {"state:seen": by_name}, plan) == saved
    # What declared aggregates keep, or nothing, is made into no accumulator of a function.
    for other in ({"function": "agg.sum('v')", "windows": "others"}, {"windows": "others"}):
        assert migrated_identity(other, migrate, plan) == other
    # Nor is that of a function made into what reduce keeps.
    assert migrated_identity(saved, migrate, plan_of(windowing, ReduceRows(lambda a, b: a))) == saved


class Total(Counted):
    """Keeps the sum alone."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + (value.v or 0)

    def merge(self, a, b):
        return a + b

    def get_result(self, accumulator):
        return 0, accumulator


def test_an_accumulator_of_one_column_is_handed_to_the_function_as_it_is():
    windowing, kept = WindowSpec(TumblingEventTimeWindows(100)), pa.schema([("total", pa.int64())])
    old, new = plan_of(windowing, AggregateRows(Total()), kept), plan_of(windowing, AggregateRows(CountedByName()), NEW)
    query, again, seen = Query(old, 1), Query(new, 1), []
    query.run(harness.MicroBatch([[("a", 1, 2, None, 1), ("a", 2, 5, None, 2), ("b", 3, 4, None, 3)]]))
    again.restore(
        [
            migrated(one, {"accumulator": lambda total: seen.append(total) or {"total": total, "n": 9}}, new)
            for one in query.tables()
        ]
    )
    assert sorted(seen) == [4, 7]
    fired = again.run(harness.MicroBatch([[("a", 5, 1, None, 4)]], end=True)).fired
    assert fired == {"a": [((0, 100), (10, 8))], "b": [((0, 100), (9, 4))]}


def test_where_an_evictor_looks_at_rows_a_reduce_function_keeps_no_accumulator():
    windowing = WindowSpec(TumblingEventTimeWindows(7), evictor=CountEvictor.of(3))
    plan = plan_of(windowing, ReduceRows(lambda a, b: a))
    assert plan.operator.row_plan.keeps_elements
    with pytest.raises(InvalidPlanError, match="keeps no accumulators"):
        check_migrations({"accumulator": by_name}, plan)
