"""The shared frame of self-contained pages and pictures."""

import sys

import pytest

from panestream.insight.drawing import BAR, both
from panestream.insight.page import Column, ShownTable, facts, page, part, table


def bars(axes, wide):
    axes.bar([1, 2], [3, 4 if wide else 5], color=BAR)
    axes.set_xlabel("$not$ <math>")


def test_picture_has_wide_and_narrow_form_in_colours_of_the_page():
    wide, narrow = both(bars, 2, "some-bars")
    assert '<svg class="wide" role="img" aria-label="some-bars"' in wide
    assert '<svg class="narrow"' in narrow
    assert "var(--bar)" in wide
    assert "#030303" not in wide + narrow
    assert "$not$ &lt;math&gt;" in wide
    assert "xmlns" not in wide


def test_page_has_no_picture_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert both(bars, 2, "some-bars") is None


@pytest.mark.parametrize("make", [page, lambda title, body: part(body)])
def test_page_escapes_user_text(make):
    shown = ShownTable("<t>", "<n>", (Column("<c>", numeric=True),), (("<v>",),))
    text = make("<title>&", facts([("<a>", "<b>")]) + table(shown))
    assert not {f"<{each}>" for each in ("t", "n", "c", "v", "a", "b", "title&")} & set(text.split())
    assert "&lt;a&gt;" in text
    assert '<td class="n">&lt;v&gt;</td>' in text
