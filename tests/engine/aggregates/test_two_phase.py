"""User functions in two phases: accumulators as columns, refusals, errors, explain(), and the rows that cross the shuffle."""

from collections import Counter, defaultdict, namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates.two_phase import AccumulatorColumns, PartialAccumulator
from panestream.engine.explain import explain_plan
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.plan import Chunk, WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import AggregateFunction, WindowFunctionError, applied
from tests.comparison import harness

Pair = namedtuple("Pair", ["total", "n"])  # noqa: PYI024 - as users write them
LONG, DOUBLE, TEXTS, COUNTS = pa.int64(), pa.float64(), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64())
POINT = pa.struct([("x", LONG), ("y", LONG)])
counts_of_words = defaultdict(int)
counts_of_words["a"] = 3


@pytest.mark.parametrize(
    ("types", "empty", "accumulators"),
    [
        ([DOUBLE, LONG], (0, 0), [(1.5, 2), (None, 3)]),
        ([DOUBLE, LONG], Pair(0, 0), [Pair(1.5, 2)]),
        ([DOUBLE, LONG], [0, 0], [[1.5, 2]]),
        ([DOUBLE, LONG], {"c1": 0, "c0": 0}, [{"c0": 1.5, "c1": 2}]),
        ([DOUBLE, LONG], None, [None, (1.5, 2)]),
        ([LONG], 0, [1, 2, None]),
        ([LONG], (0,), [(1,), (2,)]),
        ([LONG], [0], [[1], [2]]),
        ([TEXTS], set(), [{"a", "b"}, set()]),
        ([TEXTS], frozenset(), [frozenset("ab")]),
        ([TEXTS], (set(),), [({"a", "b"},)]),
        ([TEXTS], [], [["a"], []]),
        ([LONG, TEXTS], (0, set()), [(1, {"a"}), (2, set())]),
        ([COUNTS], {}, [{"a": 1}, {}]),
        ([COUNTS], Counter(), [Counter(a=2), Counter()]),
        ([COUNTS], defaultdict(int), [counts_of_words]),
        ([POINT], (0, 0), [(1, 2)]),
        ([POINT, LONG], ((0, 0), 0), [((1, 2), 3)]),
        ([POINT], [0, 0], [[1, 2], [None, 3]]),
        ([POINT, LONG], ([0, 0], 0), [([1, 2], 3)]),
        ([pa.struct([("at", POINT), ("n", LONG)])], [[0, 0], 0], [[[1, 2], 3]]),
        ([pa.struct([("at", POINT), ("words", TEXTS)])], ([0, 0], set()), [([1, 2], {"a", "b"})]),
        ([POINT], {"x": 0, "y": 0}, [{"x": 1, "y": 2}]),
        ([pa.list_(POINT)], [], [[{"x": 1, "y": 2}]]),
    ],
)
def test_accumulators_survive_columns_unchanged(types, empty, accumulators):
    columns = AccumulatorColumns(pa.schema([(f"c{place}", type_) for place, type_ in enumerate(types)]), empty)
    encoded = columns.encode(accumulators)
    assert [column.type for column in encoded] == types
    back = columns.decode(encoded)
    assert back == accumulators
    assert [type(accumulator) for accumulator in back] == [type(accumulator) for accumulator in accumulators]
    assert columns.decode(encoded)[-1] is not back[-1] or not isinstance(empty, (dict, set, list))


@pytest.mark.parametrize(
    ("names", "empty", "message"),
    [
        ("t", (0, 0), "write a column for each of its 2 values"),
        ("tn", {"t": 0}, "a column for each of its keys with the same name"),
        ("tn", 0, "declare one column for all of it"),
    ],
)
def test_accumulator_type_that_does_not_match_the_empty_accumulator_is_refused(names, empty, message):
    with pytest.raises(InvalidPlanError, match=message):
        AccumulatorColumns(pa.schema([(name, LONG) for name in names]), empty)


def test_error_names_the_accumulator_value_that_does_not_fit():
    columns = AccumulatorColumns(pa.schema([("t", LONG), ("n", LONG)]), (0, 0))
    with pytest.raises(InvalidPlanError, match=r"the value 1.5 does not fit the column 't of the accumulator'"):
        columns.encode([(1.5, 2)])
    deep = AccumulatorColumns(pa.schema([("counts", COUNTS)]), {})
    with pytest.raises(InvalidPlanError, match=r"the value 0.5 does not fit the column 'counts of the accumulator'"):
        deep.encode([{"a": 1, "b": 0.5}])
    point = AccumulatorColumns(pa.schema([("at", POINT)]), [0, 0])
    with pytest.raises(InvalidPlanError, match=r"the value \(1, 2, 3\) does not fit the column 'at of the accumulator'"):
        point.encode([[1, 2], [1, 2, 3]])
    with pytest.raises(InvalidPlanError, match=r"must have 2 values \(t, n\)"):
        columns.encode([(1, 2, 3)])


@pytest.mark.parametrize("half", [0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5)], ids=repr)
@pytest.mark.parametrize(
    ("type_", "empty", "holding"),
    [
        (LONG, 0, lambda half: half),
        (pa.list_(LONG), [], lambda half: [1, half]),
        (pa.list_(LONG), set(), lambda half: {half}),
        (COUNTS, Counter(), lambda half: Counter(a=half)),
        (POINT, {"x": 0, "y": 0}, lambda half: {"x": 0, "y": half}),
        (POINT, [0, 0], lambda half: [0, half]),
    ],
)
def test_accumulator_with_fraction_is_refused_for_whole_numbers(type_, empty, holding, half):
    columns = AccumulatorColumns(pa.schema([("total", type_)]), empty)
    with pytest.raises(InvalidPlanError, match=r"the column 'total of the accumulator' of type .* would cut its fraction off"):
        columns.encode([empty, holding(half)])


def test_two_phase_reduce_refuses_fraction_in_integer_column():
    halves = ReduceRows(lambda a, b: a.replace(v=a.v + b.v + Decimal("0.5")))
    with pytest.raises(InvalidPlanError, match=r"the value Decimal\('2.5'\) does not fit the column 'v' of type int64"):
        pack_rows(operator(SLIDING, halves, harness.ROWS, harness.ROWS.remove(0)), rows_of_one_key(2))


class Halves(AggregateFunction):
    """An exact total of half of each value."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + Decimal(value.v) / 2

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


@pytest.mark.parametrize("batches", [1, 3])
def test_inexact_accumulators_are_refused_in_one_and_in_several_micro_batches(batches):
    """Otherwise a batch and a stream could give different totals."""
    rows = [("a", time, 1, None, time) for time in range(3)]
    parts = [rows] if batches == 1 else [[row] for row in rows]
    total = pa.schema([("total", LONG)])
    plan = harness.plan_for(operator(function=AggregateRows(Halves()), accumulators=total, results=RESULT), SLIDING)
    with pytest.raises(InvalidPlanError, match="would cut its fraction off"):
        harness.run(plan, [harness.MicroBatch([part]) for part in parts], MemoryState())


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value.v, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Unmerged(Mean):
    merge = AggregateFunction.merge


SLIDING = WindowQuery(SlidingEventTimeWindows(60, 10))
RESULT, ACCUMULATOR = pa.schema([("mean", DOUBLE)]), pa.schema([("t", LONG), ("n", LONG)])


def operator(window=SLIDING, function=None, accumulators=ACCUMULATOR, results=RESULT):
    return plan_functions(window, function or AggregateRows(Mean()), results, harness.ROWS, "it", harness.KEYS, accumulators)


@pytest.mark.parametrize(
    ("window", "function", "message"),
    [
        (
            WindowQuery(SLIDING.assigner, evictor=CountEvictor(3)),
            None,
            "an evictor needs all elements.*Leave out accumulator_type",
        ),
        (WindowQuery(SLIDING.assigner, every_firing=True), None, "every firing was asked for"),
        (WindowQuery(*CountWindows(3).parts), None, "GlobalWindows are not aligned windows"),
        (SLIDING, AggregateRows(Mean(), applied(lambda key, window, rows: [])), "then= sees one window at a time"),
        (SLIDING, KeepRows(applied(lambda key, window, rows: [])), "sees rows, which cannot be merged"),
        (SLIDING, AggregateRows(Unmerged()), r"Unmerged needs merge\(a, b\)"),
    ],
)
def test_two_phases_are_refused_if_every_row_is_needed(window, function, message):
    with pytest.raises(InvalidPlanError, match=message):
        operator(window, function)


def rows_of_one_key(rows, value=1):
    table = pa.table({"key": ["a"] * rows, "ts": range(rows), "v": [value] * rows, "x": [0.5] * rows, "u": range(rows)})
    return table.cast(harness.ROWS).combine_chunks()


def pack_rows(spec, table):
    plan = harness.plan_for(spec, SLIDING)
    inputs = [table[text].chunk(0) for text in spec.inputs]
    rows = table if plan.carries_rows else None
    return list(spec.pack(plan, Chunk(np.asarray(table["ts"]), [table["key"].chunk(0)], inputs, rows)))


def test_one_accumulator_per_key_and_pane_crosses_the_shuffle():
    ((_, before),) = pack_rows(operator(accumulators=None), rows_of_one_key(600))
    ((_, after),) = pack_rows(operator(), rows_of_one_key(600))
    assert (before.num_rows, after.num_rows) == (600, 60)
    assert sum(after["rows"].to_pylist()) == 600


def test_error_of_a_two_phase_function_names_the_row():
    with pytest.raises(WindowFunctionError, match=r"Mean.add raised TypeError: .*\(at the row Row\(key='a', ts=0, v=None"):
        pack_rows(operator(), rows_of_one_key(3, None))


def explain_spec(spec, **more):
    return explain_plan(harness.plan_for(spec, SLIDING, **more), streaming=True, chosen=None)


def test_explain_says_what_is_reduced_before_the_shuffle():
    assert "accumulator_type of aggregate would have them added before it" in explain_spec(operator(accumulators=None))
    combined = ReduceRows(lambda a, b: a)
    assert "two_phase=True of reduce would combine them before it" in explain_spec(
        operator(SLIDING, combined, None, harness.ROWS)
    )
    alone = operator(WindowQuery(SLIDING.assigner, evictor=CountEvictor(3)), accumulators=None)
    assert "before it" not in explain_spec(alone)
    own = explain_spec(operator())
    assert "pre-aggregated per (key, pane) before the shuffle" in own
    assert "rows are added before the shuffle, accumulators merged" in own
    grows = plan_aggregates(SLIDING, [agg.count_distinct("u"), agg.collect_list("v"), agg.sum("x")], harness.TYPES, harness.KEYS)
    assert "every distinct value of u crosses it all the same" in explain_spec(grows)
    assert "every value of v crosses it all the same" in explain_spec(grows)
    assert "of x crosses" not in explain_spec(grows)
    for window in (WindowQuery(EventTimeSessionWindows(5)), WindowQuery(TumblingEventTimeWindows(5))):
        lists = plan_aggregates(window, [agg.collect_list("v")], harness.TYPES, harness.KEYS)
        assert "every value of v crosses it all the same" in explain_spec(lists)
        ordered = explain_spec(lists, arrival=pa.schema([("u", LONG)]))
        assert "before the shuffle" not in ordered
        assert "rows cross unreduced, and are put in order in their key group" in ordered


class Total(AggregateFunction):
    """A sum and the number of values. The sum starts at 7."""

    def create_accumulator(self):
        return 7, 0

    def add(self, value, accumulator):
        return accumulator[0] + value.v, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


def test_accumulator_without_rows_is_the_initial_one():
    columns, results = pa.schema([("total", LONG), ("n", LONG)]), pa.schema([("total", LONG)])
    partial = PartialAccumulator(0, Total(), (0,), pa.schema([("v", LONG)]), columns, results)
    assert [column.to_pylist() for column in partial.nothing(2)] == [[7, 7], [0, 0]]
    assert [(column.type, len(column)) for column in partial.nothing(0)] == [(LONG, 0), (LONG, 0)]


def test_two_phase_reduce_has_no_accumulator_without_rows():
    rows = pa.schema([("v", LONG), ("x", DOUBLE)])
    partial = PartialAccumulator(0, max, (0, 1), rows, rows, rows)
    assert [(column.type, len(column)) for column in partial.nothing(0)] == [(LONG, 0), (DOUBLE, 0)]
    with pytest.raises(InvalidPlanError, match=r"^a reduce function needs all rows, but earlier rows are not stored"):
        partial.nothing(1)
