"""Declared aggregates row by row agree with the columnar kernels, which share no code with them, and are stored without
pickles.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.python_values import RowType, python_values
from panestream.engine.operators.row.contents import AggregateRows, RowPlan
from panestream.engine.operators.row.operator import DeclaredFunction
from panestream.engine.operators.row.pages import ColumnReader, ColumnWriter, pickled_columns
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.errors import AggregateOverflowError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor
from tests.costs import random_cases
from tests.engine.aggregates import naive
from tests.engine.aggregates.test_against_naive import TYPES, VALUES, recipes


@st.composite
def cases(draw):
    recipes_ = draw(st.lists(recipes(), min_size=1, max_size=6, unique_by=lambda recipe: recipe.name))
    inputs = Aggregation.build(recipes_, TYPES, pa.schema([])).inputs
    nullable = {expr: draw(st.booleans()) for expr in inputs}
    rows = [
        (
            *(draw(st.none() | VALUES[expr] if nullable[expr] else VALUES[expr]) for expr in inputs),
            draw(st.integers(-3, 3)),
        )
        for _ in range(draw(st.integers(1, 12)))
    ]
    return recipes_, rows, sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))


def by_kernel(aggregates, rows):
    """Return the columnar results over all rows as Python values."""
    aggregation = Aggregation.build(aggregates, TYPES, pa.schema([]))
    *columns, times = zip(*rows, strict=True)
    values = [pa.array(column, TYPES[expr]) for column, expr in zip(columns, aggregation.inputs, strict=True)]
    partials = aggregation.partials([], np.zeros(len(rows), np.int64), values, np.array(times, np.int64))
    _, results = aggregation.windows(partials, np.zeros(1, np.int64), np.ones(1, np.int64))
    return [python_values(column)[0] for column in results.columns]


def after_restart(accumulator):
    """Return the accumulator as it is after a restart."""
    writer = ColumnWriter()
    writer.values("contents", [accumulator, None])
    data = writer.finish()
    assert pickled_columns(data) == []
    return ColumnReader(data).values("contents")[0]


@settings(max_examples=random_cases(200), suppress_health_check=list(HealthCheck))
@given(case=cases(), merged=st.booleans())
def test_declared_aggregates_row_by_row_equal_the_kernels(case, merged):
    aggregates, rows, cuts = case
    function = DeclaredFunction(aggregates, TYPES)
    whole = function.create_accumulator()
    for begin, until in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        part = function.create_accumulator() if merged else whole
        for row in rows[begin:until]:
            part = function.add(row, part)
        whole = after_restart(function.merge(whole, part) if merged else part)
    results = function.get_result(whole)
    assert type(results) is tuple
    for recipe, result, expected in zip(aggregates, results, by_kernel(aggregates, rows), strict=True):
        assert naive.same(result, expected, scale_of(recipe, rows, function)), (recipe, result, expected)
    again = function.get_result(whole)
    assert repr(again) == repr(results), "asking changes nothing"


def scale_of(recipe, rows, function):
    numbers = [abs(float(value)) for row in rows for value in row if isinstance(value, (int, float, Decimal))]
    largest = max([1.0, *(number for number in numbers if math.isfinite(number))])
    return largest * largest if isinstance(recipe, agg.Var) else largest


def aggregate_of(aggregates, rows):
    function = DeclaredFunction(aggregates, TYPES)
    accumulator = function.create_accumulator()
    for row in rows:
        accumulator = function.add(row, accumulator)
    return function.get_result(accumulator)


def test_sum_may_overflow_in_between_but_not_at_the_end():
    rows = [(2**62, 0), (2**62, 1), (2**62, 2)]
    assert aggregate_of([agg.sum("long")], [*rows, (-(2**62), 3), (-(2**62), 4)]) == (2**62,)
    with pytest.raises(AggregateOverflowError, match=r"agg.sum\('long'\) \(column 'sum\(long\)'\) left the range of int64: cast"):
        aggregate_of([agg.sum("long")], rows)
    assert aggregate_of([agg.mean("long")], rows) == (float(2**62),)
    with pytest.raises(AggregateOverflowError):
        aggregate_of([agg.sum("long")], [(-value, time) for value, time in rows])
    assert aggregate_of([agg.sum("long")], [(-value, time) for value, time in rows[:2]]) == (-(2**63),)


def test_decimal_sums_are_exact_and_means_are_rounded_half_up():
    digits = Decimal("12345678901234567890123.45678")
    assert aggregate_of([agg.sum("wide_dec")], [(digits, 0)] * 3) == (digits * 3,)
    assert of_digits(agg.sum("d"), Decimal(10**37 + 7), Decimal(2)) == Decimal(10**37 + 9)
    assert aggregate_of([agg.mean("short_dec")], [(Decimal("0.01"), 0), (Decimal("0.02"), 0)]) == (Decimal("0.015000"),)
    rows = [(Decimal("0.00"), 0)] * 31 + [(Decimal("0.01"), 0)]
    assert aggregate_of([agg.mean("short_dec")], rows) == (Decimal("0.000313"),), "0.0003125"


def of_digits(recipe, *values):
    function = DeclaredFunction([recipe], {"d": pa.decimal128(38, 0)})
    accumulator = function.create_accumulator()
    for value in values:
        accumulator = function.add((value, 0), accumulator)
    return function.get_result(accumulator)[0]


def test_decimal_sum_beyond_38_digits_is_an_error():
    largest = Decimal("9" * 38)
    assert of_digits(agg.sum("d"), largest, Decimal(1), Decimal(-1)) == largest
    with pytest.raises(AggregateOverflowError, match=r"left the range of decimal128\(38, 0\): cast .* fewer digits"):
        of_digits(agg.sum("d"), largest, Decimal(1))


def test_results_of_no_rows():
    """This happens after an evictor that removed all rows."""
    aggregates = [
        agg.count(),
        agg.sum("int"),
        agg.mean("dec"),
        agg.min("text"),
        agg.var("int"),
        agg.last("int"),
        agg.top_k("int", 2),
    ]
    aggregates += [
        agg.arg_max("int", "text"),
        agg.histogram("int", [0]),
        agg.weighted_mean("int", "weight"),
        agg.collect_list("int"),
    ]
    aggregates += [agg.count_distinct("int"), agg.approx_count_distinct("int"), agg.approx_quantile("int", 0.5)]
    results = aggregate_of(aggregates, [])
    assert results == (0, None, None, None, None, None, [], None, [0, 0], None, [], 0, 0, None)


def test_changing_a_result_does_not_change_the_accumulator():
    function = DeclaredFunction([agg.collect_list("int"), agg.top_k("int", 2), agg.histogram("int", [0])], TYPES)
    accumulator = function.add((5, 1), function.create_accumulator())
    for result in function.get_result(accumulator):
        result.append("spoiled")
    assert function.get_result(accumulator) == ([5], [5], [0, 1])


def test_declared_aggregates_in_merging_sessions_with_restarts():
    aggregates = [
        agg.first("int"),
        agg.last("int"),
        agg.count_distinct("int"),
        agg.collect_list("int"),
        agg.approx_quantile("int", 0.5),
    ]
    row_type = RowType(pa.schema([("int", pa.int32()), ("__time", pa.int64())]))
    plan = RowPlan(
        WindowQuery(EventTimeSessionWindows(10)),
        AggregateRows(DeclaredFunction(aggregates, TYPES)),
        element_type=row_type.element,
    )
    state, fired = MemoryState(), []
    for value, time in ((1, 20), (2, 0), (3, 40), (4, 30), (5, 10), (1, 12)):
        operator = RowOperator(plan, state)
        operator.process([("k", time, row_type.make((value, time)))])
        operator.commit()
    fired = RowOperator(plan, state).process([], new_watermark=1000).fired
    assert [value for _, _, value, _ in fired] == [(2, 3, 5, [2, 5, 1, 1, 4, 3], 2.5)]


def test_declared_aggregates_with_an_evictor_use_the_remaining_rows():
    row_type = RowType(pa.schema([("int", pa.int32()), ("__time", pa.int64())]))
    function = AggregateRows(DeclaredFunction([agg.sum("int"), agg.count()], TYPES))
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10), evictor=CountEvictor(2)), function, element_type=row_type.element)
    operator = RowOperator(plan, MemoryState())
    rows = [("k", time, row_type.make((time, time))) for time in range(5)]
    ((_, _, value, _),) = operator.process(rows, new_watermark=9).fired
    assert value == (7, 2)


def column_values(name, values):
    """Return rows with one of the columns in TYPES."""
    chosen_inputs = Aggregation.build([agg.max(name)], TYPES, pa.schema([])).inputs
    assert list(chosen_inputs) == [name]
    return [(value, at) for at, value in enumerate(values)]


def test_count_of_a_column_skips_nulls():
    assert aggregate_of([agg.count("long")], column_values("long", [1, None, 2, None])) == (2,)
    assert aggregate_of([agg.count()], [(at,) for at in range(4)]) == (4,)


def test_nan_is_larger_than_all_numbers_and_counts_as_one_value():
    rows = column_values("double", [math.nan, 1.0, -math.inf, math.nan])
    for order in (rows, rows[::-1]):
        largest, smallest = aggregate_of([agg.max("double"), agg.min("double")], order)
        assert math.isnan(largest)
        assert smallest == -math.inf
    (distinct,) = aggregate_of(
        [agg.count_distinct("double")], column_values("double", [math.nan, math.nan, 0.0, -0.0, float("nan")])
    )
    assert distinct == 2


def test_value_at_an_edge_of_a_histogram_belongs_to_the_upper_bin():
    aggregates, rows = [agg.histogram("long", [0, 10])], column_values("long", [-1, 0, 9, 10, 11])
    assert list(aggregate_of(aggregates, rows)) == by_kernel(aggregates, rows) == [[1, 2, 2]]
