"""Which of several operators of a query a plan belongs to, by their stored identity. Without Spark."""

from dataclasses import replace

import pytest

from panestream.engine.plan import KEY_GROUPS
from panestream.errors import CheckpointError, PlanMismatchError
from panestream.spark.savepoint import decode
from panestream.spark.savepoint.decode import StoredState, operator_and_plan, operator_of
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness


def plan_of(seconds, groups=1):
    windowing = harness.WindowQuery(TumblingEventTimeWindows(seconds * 1_000_000))
    return replace(harness.Query(windowing, (agg.count().alias("n"),)).columnar(), groups=groups)


TENS, TWENTIES, THIRTIES = plan_of(10), plan_of(20), plan_of(30)
STORED = StoredState(None, "there", 4, TENS, 1)


@pytest.fixture
def states(monkeypatch):
    """Set the plans whose identity is in the state of the operators, by number. None means no state yet."""

    def lie(**plans):
        known = {int(name.removeprefix("of_")): plan and plan.identity() for name, plan in plans.items()}

        def identity(stored):
            assert stored == replace(STORED, operator_id=stored.operator_id)
            return known[stored.operator_id]

        monkeypatch.setattr(decode, "_identity_of", identity)
        return list(known)

    return lie


def test_operator_of_a_plan_is_found_with_its_stored_key_groups(states):
    there = states(of_0=plan_of(10, groups=3), of_1=plan_of(20, groups=5), of_2=THIRTIES)
    for plan, number, groups in ((TENS, 0, 3), (TWENTIES, 1, 5), (THIRTIES, 2, 1)):
        assert operator_of(STORED, there, plan.identity()) == number
        found, told = operator_and_plan(STORED, there, plan)
        assert (found, told.groups, told.assigner) == (number, groups, plan.assigner)
        assert told.identity() == {**plan.identity(), KEY_GROUPS: str(groups)}


def test_last_of_several_equal_operators_is_chosen_without_a_given_plan(states):
    there = states(of_0=TENS, of_1=TWENTIES, of_2=plan_of(20, groups=2))
    assert operator_of(STORED, there, TWENTIES.identity()) == 1
    with pytest.raises(CheckpointError, match=r"^2 operators of the query in there run this plan, .* Leave plan= out"):
        operator_and_plan(STORED, there, TWENTIES)


def test_unknown_plan_belongs_to_the_operator_without_state(states):
    there = states(of_0=TENS, of_1=None, of_2=None)
    assert operator_of(STORED, there, TWENTIES.identity()) == 1
    number, told = operator_and_plan(STORED, there, replace(TWENTIES, groups=7))
    assert (number, told.groups, told.assigner) == (1, 7, TWENTIES.assigner)


def test_unknown_plan_is_refused_with_the_difference_to_the_most_similar_operator(states):
    other = replace(TENS, event_time="at")
    there = states(of_0=TWENTIES, of_1=plan_of(10, groups=4), of_2=THIRTIES)
    for find in (lambda: operator_of(STORED, there, other.identity()), lambda: operator_and_plan(STORED, there, other)):
        with pytest.raises(PlanMismatchError) as refused:
            find()
        # The number of key groups is not reported as a difference.
        assert refused.value.changed == {"event time": ("ts", "at")}
        assert str(refused.value).splitlines() == [
            "the state in the checkpoint there is of another plan (there -> given):",
            "  event time: ts  ->  at",
        ]
