"""What is said where state belongs to another plan."""

from __future__ import annotations

import pytest

from panestream.engine.plan import KEY_GROUPS, check_identity
from panestream.errors import PlanMismatchError


def said(saved, now):
    with pytest.raises(PlanMismatchError) as error:
        check_identity(saved, now, "the checkpoint c")
    return str(error.value)


def test_equal_plans_are_taken():
    check_identity({"key": "user"}, {"key": "user"}, "the checkpoint c")


def test_other_key_groups_are_named_where_there_is_a_key():
    words = "The number of key groups is fixed when a checkpoint is born: .key_groups(4)."
    assert words in said({"key": "user", KEY_GROUPS: "4"}, {"key": "user", KEY_GROUPS: "8"})
    assert words not in said({"key": "none", KEY_GROUPS: "4"}, {"key": "user", KEY_GROUPS: "8"})
    assert words not in said({"key": "user", KEY_GROUPS: "4"}, {"key": "none", KEY_GROUPS: "1"})
    assert words not in said({"key": "user", KEY_GROUPS: "4"}, {"key": "item", KEY_GROUPS: "4"})


def test_each_difference_is_shown_and_partials_only_alone():
    found = said({"aggregates": "sum", "partials": "p", "trigger": "t"}, {"aggregates": "count", "partials": "q"})
    assert "  aggregates: sum  ->  count\n  trigger: t  ->  (absent)\n" in found
    assert "partials" not in found
    assert "  partials: p  ->  q\n" in said({"partials": "p"}, {"partials": "q"})
