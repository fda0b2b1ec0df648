"""A summary as text, JSON and page. Its content cannot affect a terminal or a browser."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from panestream.insight.inspect_json import DOCUMENT_FORMAT, render_json
from panestream.insight.inspect_page import render_notebook, render_page
from panestream.insight.inspect_text import render_text
from tests.insight.schema import wrong
from tests.insight.summaries import EVERY, HOSTILE, made

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "inspecting.schema.json").read_text("utf-8"))
VOID = {"meta", "br", "img", "input", "link", "hr", "path", "use", "rect", "line", "circle", "polygon", "polyline"}


class Page(HTMLParser):
    """Parse a page, and require that its elements are closed in order. Collect tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def text_at(summary, width, encoding="utf-8"):
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", write_through=True)
    console = Console(file=output, width=width)
    for each in render_text(summary, console):
        console.print(each)
    return output.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("name", EVERY)
def test_json_document_follows_its_schema(name):
    document = json.loads(json.dumps(render_json(EVERY[name]), allow_nan=False))
    assert wrong(document, SCHEMA) == []
    assert document["format"] == DOCUMENT_FORMAT


def test_violations_of_the_schema_are_reported():
    document = render_json(made())
    assert wrong({**document, "novel": 1}, SCHEMA) == [".novel is not in the schema"]
    assert wrong({name: value for name, value in document.items() if name != "time"}, SCHEMA) == [".time is missing"]
    assert wrong({**document, "totals": {**document["totals"], "windows": "12"}}, SCHEMA)
    assert wrong({**document, "oldest": [{}]}, SCHEMA)


def test_times_of_the_document_are_iso_8601_in_utc():
    document = render_json(made())
    assert document["taken"] == "2026-01-01T00:10:00Z"
    assert document["time"]["behind_newest"] == 300
    assert document["oldest"][0]["due"] == "2025-12-31T23:59:59.999999Z"
    assert document["by_end"]["bins"][0]["from"] == "2026-01-01T00:00:00Z"


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_page_loads_no_resources_and_runs_no_scripts(name):
    for text in (render_page(EVERY[name]), render_notebook(EVERY[name])):
        page = Page(text)
        assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base"} & set(page.tags)
        assert not [each for each in page.attributes if each[1].startswith("on")]
        targets = [value for _, attribute, value in page.attributes if attribute in ("href", "src", "xlink:href")]
        assert all(target.startswith("#") for target in targets)
        styles = " ".join([*re.findall(r"<style>(.*?)</style>", text, re.DOTALL), *(str(each[2]) for each in page.attributes)])
        assert not re.search(r"@import|url\((?!#)|expression\(", styles)
        ids = [value for _, attribute, value in page.attributes if attribute == "id"]
        assert len(ids) == len(set(ids))
        assert {target[1:] for target in targets} <= set(ids)


def test_page_shows_hostile_names_as_text():
    page = Page(render_page(EVERY["hostile"]))
    text = "\n".join(page.text)
    for each in HOSTILE[:4]:
        assert each in text
    assert "\\x1b[2J\\x00" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)


def test_page_adapts_to_dark_mode_and_narrow_screens():
    text = render_page(made())
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert text.count('<svg class="wide"') == text.count('<svg class="narrow"') == 3
    # Pictures have no fixed colours.
    assert not re.search(r"<svg.*#0[1-5]0[1-5]0[1-5].*</svg>", text, re.DOTALL)


def test_page_without_matplotlib_has_tables_only(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    page = Page(render_page(made()))
    assert "svg" not in page.tags
    assert "Key groups" in page.text


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize("name", EVERY)
def test_text_fits_the_width_and_has_no_control_characters(name, width):
    text = text_at(EVERY[name], width)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", text)
    assert max(map(len, text.splitlines())) <= width


def test_text_uses_ascii_if_the_terminal_needs_it():
    assert "####" in text_at(made(), 80, "ascii")


def test_empty_result_for_a_key_names_the_key_columns():
    """A misspelt name of the only key column looks like a value."""
    nothing = {"windows": 0, "elements": 0, "user_state": (), "timers": ()}
    asked = replace(made(), filters={"key": ("usr=ann",)}, **nothing)
    assert re.search(r"found +this key has no state; .* \(key columns: user\)", text_at(asked, 140))
    assert "this key has no state" not in text_at(replace(made(), filters={"key": ("user=ann",)}), 140)


def test_text_shows_lag_skew_and_largest_keys():
    text = text_at(made(), 140)
    assert "5 min behind the newest event, 11 min behind the clock" in text
    assert re.search(r"^largest / mean .* 2\.\d\d", text, re.MULTILINE)
    assert re.search(r"^ann +12 +1,200 +56.0 kB", text, re.MULTILINE)
    assert "12 dropped" in text_at(EVERY["no rows known"], 80)
