"""The site builds without a warning, its links work, and the reference has every public name."""

from __future__ import annotations

import re
import subprocess
import sys

import built
import pages
import public_names
import pytest
from chinese import PairsOfCharacters, pieces

import panestream

ROOT = pages.DOCS.parent


@pytest.mark.full
def test_every_link_and_anchor_leads_somewhere(built_site):
    found = built.look(built_site)
    assert found.faults == []
    assert found.pages > 100
    assert found.links > 5_000


@pytest.mark.full
def test_every_page_is_on_the_site(built_site):
    for page in pages.all_pages():
        assert (built_site / page.relative_to(pages.DOCS).with_suffix(".html")).is_file()
    drawn = sum(len(pages.read(page).of("{timeline}")) for page in pages.all_pages())
    assert drawn
    assert built.look(built_site).drawings == drawn


@pytest.mark.full
def test_the_reference_has_every_public_name(built_site):
    for page, names in public_names.names_by_page().items():
        where = "errors.html" if page == "errors" else f"api/{page}.html"
        text = (built_site / "reference" / where).read_text("utf-8")
        assert [name for name in names if f'id="panestream.{name}"' not in text] == []


def test_every_public_name_has_a_page():
    listed = {name.split(".")[0] for names in public_names.names_by_page().values() for name in names}
    assert listed == set(panestream.__all__)


def test_reference_of_a_class_lists_its_factory_methods():
    assert "of" in public_names.members(panestream.CumulatingEventTimeWindows)
    assert "with_gap" in public_names.members(panestream.EventTimeSessionWindows)
    assert not [name for name in public_names.members(panestream.datastream.WindowedStream) if name.startswith("_")]


def test_faults_of_a_site_are_reported(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="x"><p id="x"><a href="b.html#y">1</a><a href="c.html">2</a><a href="https://x.y">3</a>'
    )
    (tmp_path / "b.html").write_text('<p id="z"><script src="https://cdn.example/x.js"></script><a href="#z">4</a>')
    found = built.look(tmp_path)
    assert (found.pages, found.links, found.anchors, found.external) == (2, 3, 2, 1)
    assert found.faults == [
        "a.html: the id 'x' is there twice",
        "a.html: leads to b.html#y: there is no such place on that page",
        "a.html: leads to c.html, which is not there",
        "b.html: loads https://cdn.example/x.js from the network",
    ]


@pytest.mark.full
def test_a_page_that_no_index_links_to_fails_the_build(tmp_path):
    """Plant a page without a link to it, a broken link and a broken drawing. Each fails the build."""
    (tmp_path / "index.md").write_text("# Planted\n\n[Lost](lost.md#nowhere)\n")
    (tmp_path / "alone.md").write_text("# Alone\n\n[Gone](gone.md)\n")
    (tmp_path / "lost.md").write_text("---\norphan: true\n---\n# Lost\n")
    options = ["-q", "-W", "--keep-going", "-b", "dummy", "-c", str(pages.DOCS), str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-m", "sphinx", *options], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert re.search(r"alone.md: WARNING: document isn't included in any toctree", done.stderr)
    assert re.search(r"alone.md:3: WARNING: .*gone.md", done.stderr)
    assert re.search(r"index.md:3: WARNING: .*nowhere", done.stderr)


def test_search_index_cuts_chinese_into_pairs_of_characters():
    assert pieces("迟到的行 late_rows", singles=False) == ["迟到", "到的", "的行", "late_rows"]
    assert pieces("窗口", singles=True) == ["窗", "口", "窗口"]
    language = PairsOfCharacters({})
    assert all(language.word_filter(word) for word in language.split("会话窗口 window"))
    assert not language.word_filter("a")


def test_reference_has_classes_that_users_receive():
    assert {name for names in public_names.names_by_page().values() for name in names} >= public_names.GIVEN
