"""What consoles and notebooks show of the objects of a query, without Spark."""

from __future__ import annotations

import pytest

from panestream.engine.explain import Explanation, ReprHtml, listed, parts_of, small_table


class Page(ReprHtml):
    def __init__(self, **parts):
        self.said = parts

    def _parts(self):
        return self.said


def test_a_plan_shows_itself_as_it_is_read():
    plan = Explanation("windows  <a>\noperator  b")
    assert repr(plan) == "windows  <a>\noperator  b"
    assert plan._repr_html_() == "<pre>windows  &lt;a&gt;\noperator  b</pre>"


@pytest.mark.parametrize(
    ("page", "line"),
    [(Page(), "<Page>"), (Page(late=""), "<Page>"), (Page(rows="3 & more", late="", of="b"), "<Page: rows 3 & more | of b>")],
)
def test_one_line_says_what_there_is(page, line):
    assert repr(page) == line


@pytest.mark.parametrize(("letters", "cut"), [(149, False), (150, True)])
def test_a_line_has_160_characters_at_most_besides_its_brackets(letters, cut):
    """``Page: rows`` and a blank are eleven of them."""
    shown = repr(Page(rows="x" * letters))
    assert shown == ("<Page: rows " + "x" * 148 + "…>" if cut else f"<Page: rows {'x' * 149}>")
    assert len(shown) == 162


def test_what_has_nothing_to_say_of_itself_is_no_such_object():
    with pytest.raises(NotImplementedError):
        repr(ReprHtml())


LEFT = ' style="text-align: left"'


def test_a_notebook_shows_a_table():
    page = Page(rows="3 & more", late="", of="b")
    assert parts_of(page) == {"rows": "3 & more", "late": "", "of": "b"}
    rows = f"<tr><th{LEFT}>rows</th><td{LEFT}>3 &amp; more</td></tr><tr><th{LEFT}>of</th><td{LEFT}>b</td></tr>"
    assert page._repr_html_() == f"<table><caption>Page</caption>{rows}</table>"
    assert small_table("<b>", []) == "<table><caption>&lt;b&gt;</caption></table>"
    assert (
        small_table("b", [("<i>", "")]) == f"<table><caption>b</caption><tr><th{LEFT}>&lt;i&gt;</th><td{LEFT}></td></tr></table>"
    )


@pytest.mark.parametrize(
    ("names", "shown"),
    [([], ""), (["a"], "a"), (list("abcdefgh"), "a, b, c, d, e, f, g, h"), (list("abcdefghi"), "a, b, c, d, e, f, g, h, … (9)")],
)
def test_the_first_few_names(names, shown):
    assert listed(names) == shown
