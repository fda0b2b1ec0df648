"""How consoles and notebooks show the objects of a query, without Spark."""

from __future__ import annotations

import pytest

from panestream.engine.explain import Explanation, ReprHtml, listed, parts_of, small_table


class Page(ReprHtml):
    def __init__(self, **parts):
        self.said = parts

    def _parts(self):
        return self.said


def test_explanation_is_shown_as_text_and_html():
    plan = Explanation("windows  <a>\noperator  b")
    assert repr(plan) == "windows  <a>\noperator  b"
    assert plan._repr_html_() == "<pre>windows  &lt;a&gt;\noperator  b</pre>"


@pytest.mark.parametrize(
    ("page", "line"),
    [(Page(), "<Page>"), (Page(late=""), "<Page>"), (Page(rows="3 & more", late="", of="b"), "<Page: rows 3 & more | of b>")],
)
def test_repr_shows_the_non_empty_parts_in_one_line(page, line):
    assert repr(page) == line


@pytest.mark.parametrize(("letters", "cut"), [(149, False), (150, True)])
def test_repr_is_cut_to_160_characters_without_brackets(letters, cut):
    """``Page: rows`` and a blank are eleven characters."""
    text = repr(Page(rows="x" * letters))
    assert text == ("<Page: rows " + "x" * 148 + "…>" if cut else f"<Page: rows {'x' * 149}>")
    assert len(text) == 162


def test_repr_html_without_parts_is_not_implemented():
    with pytest.raises(NotImplementedError):
        repr(ReprHtml())


LEFT = ' style="text-align: left"'


def test_notebook_shows_the_parts_in_a_table():
    page = Page(rows="3 & more", late="", of="b")
    assert parts_of(page) == {"rows": "3 & more", "late": "", "of": "b"}
    rows = f"<tr><th{LEFT}>rows</th><td{LEFT}>3 &amp; more</td></tr><tr><th{LEFT}>of</th><td{LEFT}>b</td></tr>"
    assert page._repr_html_() == f"<table><caption>Page</caption>{rows}</table>"
    assert small_table("<b>", []) == "<table><caption>&lt;b&gt;</caption></table>"
    assert (
        small_table("b", [("<i>", "")]) == f"<table><caption>b</caption><tr><th{LEFT}>&lt;i&gt;</th><td{LEFT}></td></tr></table>"
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["a"], "a"), (list("abcdefgh"), "a, b, c, d, e, f, g, h"), (list("abcdefghi"), "a, b, c, d, e, f, g, h, … (9)")],
)
def test_list_of_names_is_cut_after_eight(names, expected):
    assert listed(names) == expected
