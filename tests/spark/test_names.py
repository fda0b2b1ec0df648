"""Which names are one column, what outputs may be called, and what keys sinks take."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest

from panestream.datastream.names import checked_tag
from panestream.datastream.result import WindowedResult
from panestream.errors import InvalidPlanError, SinkError
from panestream.spark.names import Names, shown
from panestream.spark.sinks.keys import check_key_columns, check_keys, key_and_window


@pytest.mark.parametrize(
    ("names", "alike", "to_the_letter"),
    [
        ([], None, None),
        (["k"], None, None),
        (["k", "v", "w"], None, None),
        (["k", "v", "k"], ("k", "k"), ("k", "k")),
        (["k", "v", "K"], ("k", "K"), None),
        (["v", "K", "k", "K"], ("K", "k"), ("K", "K")),
        (["k", "v", "V", "k"], ("v", "V"), ("k", "k")),
        (["k", "K", "k"], ("k", "K"), ("k", "k")),
    ],
)
def test_the_first_two_names_of_one_column_are_told(names, alike, to_the_letter):
    assert Names().doubled(names) == alike
    assert Names(case_sensitive=True).doubled(names) == to_the_letter


@pytest.mark.parametrize(
    ("name", "known", "alike", "to_the_letter"),
    [
        ("k", ["K", "k"], "k", "k"),
        ("K", ["a", "k", "K"], "K", "K"),
        ("kEY", ["a", "Key", "KEY"], "Key", None),
        ("k", [], None, None),
        ("k", ["a"], None, None),
    ],
)
def test_a_name_is_found_to_the_letter_first(name, known, alike, to_the_letter):
    assert Names().find(name, iter(known)) == alike
    assert Names(case_sensitive=True).find(name, iter(known)) == to_the_letter


@pytest.mark.parametrize(
    ("set_to", "told"), [(None, False), ("false", False), ("true", True), ("TRUE", True), (True, True), ("maybe", False)]
)
def test_the_session_says_whether_case_matters(set_to, told):
    settings = {} if set_to is None else {"spark.sql.caseSensitive": set_to}
    assert Names.of(SimpleNamespace(conf=SimpleNamespace(get=settings.get))) == Names(told)


def test_names_are_shown_apart_where_they_differ():
    assert shown("k", "k") == "'k'"
    assert shown("k", "K") == "'k' and 'K', which are one name here (spark.sql.caseSensitive)"


@pytest.mark.parametrize(
    ("tag", "method"),
    [
        *((tag, "start") for tag in ("self", "checkpoint", "trigger", "name", "savepoint", "own_position", "on_progress")),
        *((tag, "start") for tag in ("allow_incomplete", "migrate", "fire_at_end")),
        *((tag, "bootstrap") for tag in ("history", "path", "until", "position")),
    ],
)
def test_output_called_like_an_argument_of_a_method_that_takes_sinks_is_refused(tag, method):
    with pytest.raises(InvalidPlanError) as error:
        checked_tag(tag)
    assert str(error.value) == f"an output cannot be called {tag!r}, which is another argument of {method}: choose another tag"


def test_no_argument_beside_the_sinks_is_left_out():
    """An argument that is new tomorrow is refused as a tag without a change here."""
    for method in (WindowedResult.start, WindowedResult.bootstrap, WindowedResult.run, WindowedResult.explain):
        *arguments, sinks = inspect.signature(method).parameters
        assert sinks == "sinks"
        for tag in arguments:
            with pytest.raises(InvalidPlanError, match="is another argument of"):
                checked_tag(tag)


@pytest.mark.parametrize("tag", ["late", "sinks", "key", "most_rows", "n"])
def test_output_may_be_called_like_an_argument_of_a_method_without_sinks(tag):
    assert checked_tag(tag) == tag


@pytest.mark.parametrize("keys", [[], ["user"], ("user", "page")])
def test_keys_are_lists_of_names(keys):
    assert check_keys(keys, "a MergeSink") is None


@pytest.mark.parametrize("keys", ["user", None, 3, {"user"}, ["user", 3], [None]])
def test_what_is_no_list_of_names_is_refused(keys):
    with pytest.raises(SinkError) as error:
        check_keys(keys, "a MergeSink")
    advice = ": write ['user']" if keys == "user" else ""
    assert str(error.value) == f"a MergeSink wants the names of the key columns as a list, got {keys!r}{advice}"


def test_of_keys_that_are_no_columns_the_first_is_named():
    assert check_key_columns(["b", "a"], ["a", "b", "c"], "the rows of 'main'") is None
    with pytest.raises(SinkError, match=r"^the rows of 'main' have no key column 'usr'; did you mean 'user'\?"):
        check_key_columns(["page", "usr", "nothing"], ["user", "page"], "the rows of 'main'")


@pytest.mark.parametrize(
    ("keys", "columns", "told"),
    [
        ([], ["n"], []),
        (["user"], ["user", "window_start", "window_end", "n"], ["user", "window_start", "window_end"]),
        (["user"], ["window_end", "user", "window", "window_start"], ["user", "window", "window_start", "window_end"]),
        (["window_start", "user"], ["user", "window_start", "window_end"], ["window_start", "user", "window_end"]),
    ],
)
def test_a_row_is_told_by_its_key_and_its_window(keys, columns, told):
    assert key_and_window(keys, columns) == told


class CountedName(str):
    """A name whose comparisons are counted."""

    __slots__ = ()
    __hash__ = str.__hash__
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("names", [Names(), Names(case_sensitive=True)])
def test_finding_many_names_among_many_compares_none_with_all(names):
    known = [CountedName(f"k{number}") for number in range(200)]
    find, CountedName.compared = names.finder(known), 0
    assert [find(f"K{number}") for number in range(200)] == ([None] * 200 if names.case_sensitive else known)
    assert CountedName.compared <= 1_000
