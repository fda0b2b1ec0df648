"""Aggregates that saved state lacks: they miss earlier rows, and an ``agg.complete`` column must show it."""

import pytest

from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.savepoint.migration import check_added, untold_results
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import PredicateWindows, TumblingEventTimeWindows
from panestream.windowing.functions import applied
from tests.comparison import harness, predicates

TOTAL = agg.sum("v").alias("total")


def plan(*aggregates, by_row=False):
    query = harness.Query(WindowQuery(TumblingEventTimeWindows(10)), aggregates)
    return query.row() if by_row else query.columnar()


def header(*aggregates, by_row=False):
    new_plan = plan(*aggregates, by_row=by_row)
    return new_plan.operator.for_group(new_plan, MemoryState(), 0).tables().header


@pytest.mark.parametrize("by_row", [False, True])
def test_added_aggregate_is_refused_without_a_complete_column_or_permission(by_row):
    saved, now = header(agg.count(), by_row=by_row), plan(agg.count(), TOTAL, by_row=by_row)
    with pytest.raises(PlanMismatchError) as refused:
        check_added(saved, now)
    assert "'total' is new" in str(refused.value)
    assert "agg.complete('total').alias('total_complete')" in str(refused.value)
    assert "allow_incomplete=True" in str(refused.value)
    assert refused.value.changed == {"aggregate total": (None, "added")}
    check_added(saved, now, allow_incomplete=True)
    check_added(saved, plan(agg.complete("total"), agg.count(), TOTAL, by_row=by_row))
    check_added(header(TOTAL, by_row=by_row), plan(TOTAL.alias("sum"), by_row=by_row))


def test_aggregate_added_to_windows_by_predicates_is_refused():
    before, now = (predicates.plan_of(PredicateWindows("v > 0", None), made) for made in ([agg.count()], [agg.count(), TOTAL]))
    saved = before.operator.for_group(before, MemoryState(), 0).tables().header
    with pytest.raises(PlanMismatchError, match="the aggregate 'total' is new"):
        check_added(saved, now)
    check_added(saved, now, allow_incomplete=True)


def test_error_names_all_added_aggregates_without_a_complete_column():
    with pytest.raises(PlanMismatchError, match=r"'total', 'most' are new.*and so on for each"):
        check_added(header(agg.count()), plan(TOTAL, agg.max("u").alias("most"), agg.min("u"), agg.complete("min(u)")))


def test_added_aggregate_of_existing_partials_is_complete():
    saved = header(agg.mean("v"))
    assert untold_results(saved, plan(agg.mean("v"), agg.sum("v"), agg.count())) == []


def test_plan_without_declared_aggregates_adds_none():
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    function = KeepRows(applied(lambda key, window, rows: []))
    operator = plan_functions(windowing, function, harness.KEYS, harness.ROWS, function, harness.KEYS)
    assert untold_results(header(agg.count()), harness.plan_for(operator, windowing)) == []


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(
    ("aggregates", "words"),
    [
        ((agg.count(), agg.complete("totl"), TOTAL), "no result is called 'totl'; did you mean 'total'"),
        ((agg.complete("complete(total)").alias("a"), agg.complete("total"), TOTAL), "checks another result"),
    ],
)
def test_complete_refuses_unknown_results(aggregates, words, by_row):
    with pytest.raises(InvalidPlanError) as refused:
        plan(*aggregates, by_row=by_row)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: agg.complete(""), "must be the name of another result"),
        (lambda: agg.complete(3), "must be the name of another result"),
        (lambda: agg.complete("total").alias("total"), "is called 'total' itself"),
    ],
)
def test_complete_refuses_invalid_names(make, words):
    with pytest.raises(InvalidPlanError) as refused:
        make()
    assert words in str(refused.value)
