"""The operators of a query and those of a savepoint are matched by their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.savepoint.operators import (
    NamedPlan,
    check_chain,
    check_names,
    match_operators,
    migrations_by_operator,
    recorded_groups,
)
from panestream.errors import InvalidPlanError, PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness

SECOND = 1_000_000


def named(*names: str) -> list[NamedPlan]:
    """Return an operator for each name, with windows of one second, two seconds and so on."""
    queries = [WindowQuery(TumblingEventTimeWindows(SECOND * size)) for size in range(1, len(names) + 1)]
    plans = [harness.Query(query, (agg.count().alias("n"),)).columnar() for query in queries]
    return [NamedPlan(name, plan) for name, plan in zip(names, plans, strict=True)]


def recorded(*operators: NamedPlan):
    return [{"uid": each.name, "identity": each.plan.identity()} for each in operators]


def test_operators_are_matched_by_name_in_any_order():
    assert match_operators(named("a", "b"), named("b", "new", "a"), may_drop=False) == {"a": "a", "b": "b"}


@pytest.mark.parametrize(
    ("query", "continues"),
    [(["x"], "x"), (["x", "y"], "x"), (["new", "operator-1"], "operator-1"), (["operator-1"], "operator-1")],
)
def test_unnamed_savepoint_of_one_operator_fits_the_first_or_the_one_with_the_default_name(query, continues):
    assert match_operators(named(""), named(*query), may_drop=False) == {continues: ""}


def test_missing_operator_is_refused_with_its_name_and_dropped_on_request():
    with pytest.raises(PlanMismatchError) as caught:
        match_operators(named("counts", "largest"), named("count", "largest"), may_drop=False)
    assert str(caught.value) == (
        "the savepoint has state of 'counts' (TumblingEventTimeWindows.of('1 second')), and the query has no operator of that name, "
        "only 'count' (TumblingEventTimeWindows.of('1 second')), 'largest' (TumblingEventTimeWindows.of('2 seconds')). Give the "
        "operator that continues it this name, .uid('counts'); if it was removed, start with allow_non_restored_state=True "
        "(--allow-non-restored-state), which drops its state"
    )
    assert caught.value.changed == {"operator counts": ("saved", None)}
    assert match_operators(named("counts", "largest"), named("count", "largest"), may_drop=True) == {"largest": "largest"}


def test_two_operators_of_one_name_are_refused():
    check_names(["a", "b"])
    with pytest.raises(InvalidPlanError, match="two operators of the query are called 'a'"):
        check_names(["a", "b", "a"])


def test_checkpoint_of_other_operators_is_refused_and_names_may_change():
    first, second = named("a", "b")
    there = recorded(first, second)
    check_chain(there, [first, replace(second, name="other")], "the checkpoint /cp")
    check_chain([], [first], "the checkpoint /cp")
    check_chain(there, [], "the checkpoint /cp")  # the query does not know its operators
    with pytest.raises(PlanMismatchError, match=r"/cp belongs to a query with 3 operators, and this query has 2"):
        check_chain(there, [first], "the checkpoint /cp")
    with pytest.raises(PlanMismatchError, match=r"the state of the operator 'b' in the checkpoint /cp belongs to another plan"):
        check_chain(there, [first, replace(first, name="b")], "the checkpoint /cp")


def test_operators_find_their_key_groups_by_their_place():
    first, second = named("a", "b")
    there = recorded(replace(first, plan=replace(first.plan, groups=7)), second)
    assert recorded_groups(there, named("x", "y")) == {"x": 7, "y": second.plan.groups}
    assert recorded_groups([], named("x")) == {}


def test_conversions_of_several_operators_need_their_names():
    assert migrations_by_operator({"accumulator": abs}, ["a"]) == {"a": {"accumulator": abs}}
    assert migrations_by_operator({"a": {"accumulator": abs}}, ["a"]) == {"a": {"accumulator": abs}}
    assert migrations_by_operator({"b": {"accumulator": abs}}, ["a", "b"]) == {"b": {"accumulator": abs}}
    assert migrations_by_operator({}, ["a", "b"]) == {}
    for wrong in ({"accumulator": abs}, {"c": {"accumulator": abs}}, {"a": abs}):
        with pytest.raises(InvalidPlanError, match="migrate: the query has the operators 'a', 'b', so write"):
            migrations_by_operator(wrong, ["a", "b"])
