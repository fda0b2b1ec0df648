"""The error about state that belongs to another plan."""

from __future__ import annotations

import pytest

from panestream.engine.plan import KEY_GROUPS, STATE_FORMAT, WindowQuery, check_identity, check_taken_over
from panestream.errors import PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness


def error_text(saved, now):
    with pytest.raises(PlanMismatchError) as error:
        check_identity(saved, now, "the checkpoint c")
    return str(error.value)


def test_state_of_an_equal_plan_is_accepted():
    check_identity({"key": "user"}, {"key": "user"}, "the checkpoint c")


def test_error_explains_key_groups_only_for_the_same_key():
    words = "The number of key groups is fixed when a checkpoint is born: .options(key_groups=4)."
    message = error_text({"key": "user", KEY_GROUPS: "4"}, {"key": "user", KEY_GROUPS: "8"})
    assert message.splitlines()[:3] == [
        "the checkpoint c belongs to another plan. Changes (then -> now):",
        "  key groups: 4  ->  8",
        words,
    ]
    assert words not in error_text({"key": "none", KEY_GROUPS: "4"}, {"key": "user", KEY_GROUPS: "8"})
    assert words not in error_text({"key": "user", KEY_GROUPS: "4"}, {"key": "none", KEY_GROUPS: "1"})
    assert words not in error_text({"key": "user", KEY_GROUPS: "4"}, {"key": "item", KEY_GROUPS: "4"})


def test_error_shows_each_difference_and_partials_only_alone():
    message = error_text({"aggregates": "sum", "partials": "p", "trigger": "t"}, {"aggregates": "count", "partials": "q"})
    assert "  aggregates: sum  ->  count\n  trigger: t  ->  (absent)\n" in message
    assert "partials" not in message
    assert "  partials: p  ->  q\n" in error_text({"partials": "p"}, {"partials": "q"})


PLAN = harness.Query(WindowQuery(TumblingEventTimeWindows(10)), (agg.count().alias("n"),)).columnar()


@pytest.mark.parametrize("free", [KEY_GROUPS, STATE_FORMAT, *sorted(PLAN.operator.changeable)])
def test_saved_state_may_differ_in_changeable_parts(free):
    check_taken_over({**PLAN.identity(), free: "another"}, PLAN)


@pytest.mark.parametrize(
    ("saved", "lines", "by_name"),
    [
        ({"key": "u (string)"}, "  key: u (string)  ->  key (string)\n", True),
        ({"event time": "at"}, "  event time: at  ->  ts\n", True),
        ({"operator": "", "more": "m"}, "  more: m  ->  (absent)\n  operator: (absent)  ->  aligned panes\n", False),
        ({"key": "none", KEY_GROUPS: "9", "event time": "at"}, "  event time: at  ->  ts\n  key: none  ->  key (string)\n", True),
    ],
    ids=["key", "event time", "neither", "both"],
)
def test_error_shows_fixed_parts_and_how_columns_are_identified(saved, lines, by_name):
    with pytest.raises(PlanMismatchError) as error:
        check_taken_over({**PLAN.identity(), **saved}, PLAN)
    way = "Start with the old ones, or without saved state. (docs/how-to/savepoints.md lists the possible changes.)"
    named = " Columns are identified by name. Rename a column back before the windows (.withColumnRenamed)." if by_name else ""
    assert str(error.value) == f"the saved state belongs to another plan (then -> now):\n{lines}{way}{named}"
