"""Options of a query: accepted values and refused values, without Spark."""

from __future__ import annotations

import pytest

from panestream.datastream.events import _RANGES, Options, check_options
from panestream.errors import InvalidPlanError


def test_every_option_is_described_and_numbers_have_a_range():
    for name, kind in Options.__annotations__.items():
        assert f"        {name}: " in (Options.__doc__ or "")
        assert (name in _RANGES) == (getattr(kind, "__forward_arg__", kind) == "int")


@pytest.mark.parametrize(
    "options",
    [
        {"key_groups": 1},
        {"key_groups": 32768, "tasks": 2, "memory_limit": 1_000_000, "split_distinct": 2, "rows_per_pane": 1},
        {"every_firing": True, "allow_pickled_state": False},
    ],
)
def test_options_within_their_ranges_are_taken(options):
    assert check_options(options) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "options needs at least one option: key_groups, tasks, "),
        ({"keygroups": 3}, "there is no option 'keygroups'; did you mean 'key_groups'?"),
        ({"key_groups": 0}, "the option key_groups must be a whole number from 1 to 32768, got 0"),
        ({"key_groups": "8"}, "the option key_groups must be a whole number from 1 to 32768, got '8'"),
        ({"key_groups": True}, "the option key_groups must be a whole number from 1 to 32768, got True"),
        ({"tasks": 1.5}, "the option tasks must be a whole number from 1 to 32768, got 1.5"),
        ({"memory_limit": 999_999}, "the option memory_limit must be a whole number from 1,000,000 on, got 999999"),
        ({"split_distinct": 1}, "the option split_distinct must be a whole number from 2 to 32768, got 1"),
        ({"every_firing": 1}, "the option every_firing must be True or False, got 1"),
    ],
)
def test_wrong_option_is_refused_with_what_it_takes(options, said):
    with pytest.raises(InvalidPlanError) as error:
        check_options(options)
    assert said in str(error.value)


def test_option_that_this_kind_of_query_does_not_take_is_refused():
    with pytest.raises(InvalidPlanError, match="there is no option 'every_firing'"):
        check_options({"every_firing": True}, {"key_groups": int})
