"""Equal names of columns, allowed names of outputs, and keys of sinks."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest

from panestream.datastream.result import WindowedResult
from panestream.datastream.starting import checked_tag, sinks_of
from panestream.errors import InvalidPlanError, SinkError
from panestream.spark.columns import Names, shown_names
from panestream.spark.sinks.base import Sink
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
def test_first_two_names_of_one_column_are_found(names, alike, to_the_letter):
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
def test_exact_name_is_found_before_another_case(name, known, alike, to_the_letter):
    assert Names().find(name, iter(known)) == alike
    assert Names(case_sensitive=True).find(name, iter(known)) == to_the_letter


@pytest.mark.parametrize(
    ("set_to", "told"), [(None, False), ("false", False), ("true", True), ("TRUE", True), (True, True), ("maybe", False)]
)
def test_case_sensitivity_follows_the_session(set_to, told):
    settings = {} if set_to is None else {"spark.sql.caseSensitive": set_to}
    assert Names.of(SimpleNamespace(conf=SimpleNamespace(get=settings.get))) == Names(told)


def test_two_names_are_both_shown_if_they_differ():
    assert shown_names("k", "k") == "'k'"
    assert shown_names("k", "K") == "'k' and 'K', which are one name here (spark.sql.caseSensitive)"


class IdleSink(Sink):
    """A sink that does nothing."""

    def write(self, batch, batch_id):
        pass


SINK = IdleSink()
METHODS = [WindowedResult.start, WindowedResult.bootstrap, WindowedResult.run, WindowedResult.explain]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_output_named_like_an_option_is_given_in_outputs(method):
    *options, keywords = inspect.signature(method).parameters
    assert keywords == "sinks"
    for tag in options:
        assert checked_tag(tag) == tag
        assert sinks_of(method.__name__, {tag: SINK}, {}, {}, ["main", tag]) == {tag: SINK}


@pytest.mark.parametrize("tag", ["late", "late rows", "zu spät", "key", "to-fix"])
def test_output_may_have_an_unusual_name(tag):
    assert checked_tag(tag) == tag


@pytest.mark.parametrize("tag", ["", "main", "_late", "a\nb", None, 3])
def test_invalid_name_of_an_output_is_refused(tag):
    with pytest.raises(InvalidPlanError, match="the name of an output is a text other than 'main'"):
        checked_tag(tag)


def test_outputs_and_keywords_are_combined():
    assert sinks_of("start", {"late": SINK}, {"main": SINK}, {"name": "clicks"}, ["main", "late"]) == {"late": SINK, "main": SINK}


@pytest.mark.parametrize(
    ("outputs", "keywords", "options", "said"),
    [
        (None, {"chekpoint": "folder"}, {}, "start has no option 'chekpoint'; did you mean 'checkpoint'?"),
        (None, {"lat": SINK}, {}, "there is no output 'lat'; did you mean 'late'?"),
        ({"lat": SINK}, {}, {}, "there is no output 'lat'; did you mean 'late'?"),
        ({"main": SINK}, {"main": SINK}, {}, "start: the output 'main' was given twice, in outputs= and as a keyword"),
        (None, {}, {"checkpoint": SINK}, "checkpoint is an option of start; for an output of that name write outputs="),
        (SINK, {}, {}, "start: outputs must be a dict from outputs to sinks"),
        (None, {"processingTime": "1 second"}, {}, "processingTime is a trigger, not an output: write start(trigger="),
    ],
)
def test_wrong_output_or_option_is_refused_with_the_way_out(outputs, keywords, options, said):
    with pytest.raises(InvalidPlanError) as error:
        sinks_of("start", outputs, keywords, options, ["main", "late"])
    assert said in str(error.value)


def test_value_that_is_not_a_sink_is_refused():
    with pytest.raises(SinkError, match="the sink of 'late' must be one of panestream's"):
        sinks_of("start", {"late": 3}, {}, {}, ["main", "late"])


@pytest.mark.parametrize("keys", [[], ["user"], ("user", "page")])
def test_keys_of_a_sink_are_lists_of_names(keys):
    assert check_keys(keys, "a MergeSink") is None


@pytest.mark.parametrize("keys", ["user", None, 3, {"user"}, ["user", 3], [None]])
def test_keys_that_are_not_a_list_of_names_are_refused(keys):
    with pytest.raises(SinkError) as error:
        check_keys(keys, "a MergeSink")
    advice = ": write ['user']" if keys == "user" else ""
    assert str(error.value) == f"a MergeSink needs the names of the key columns as a list, got {keys!r}{advice}"


def test_first_key_that_is_not_a_column_is_named():
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
def test_columns_that_identify_a_row_are_key_and_window(keys, columns, told):
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
def test_search_for_many_names_does_not_compare_each_with_all(names):
    known = [CountedName(f"k{number}") for number in range(200)]
    find, CountedName.compared = names.finder(known), 0
    assert [find(f"K{number}") for number in range(200)] == ([None] * 200 if names.case_sensitive else known)
    assert CountedName.compared <= 1_000
