"""What the site has for tools: pages as Markdown, llms.txt, the skill, and a folder for each version."""

from __future__ import annotations

import json
import re
import subprocess

import markdown_pages
import pages
import pytest

import panestream as pst
from scripts import make_versions

DOCUMENTS = {
    path.relative_to(pages.DOCS).with_suffix("").as_posix()
    for path in [*pages.all_pages(), *(pages.DOCS / "decisions").glob("*.md")]
    if not path.is_relative_to(pages.DOCS / "zh")
}


def plain(docname):
    return markdown_pages.markdown(docname, lambda _, text: text)


def test_llms_txt_lists_every_page_but_the_decisions_once():
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\.md\)", markdown_pages.llms(DOCUMENTS), re.MULTILINE)
    decisions = {name for name in DOCUMENTS if name.startswith("decisions/")}
    assert sorted(listed) == sorted(DOCUMENTS - decisions | {"decisions/README"})
    assert listed[:2] == ["reference/skill", "index"]


def test_llms_txt_has_the_sections_of_the_home_page():
    text = markdown_pages.llms(DOCUMENTS)
    assert text.startswith("# panestream\n\n> ")
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sections == ["Begin here", "Start", "Ideas", "How to", "Coming from", "Reference", "Why", "More", "Optional"]


@pytest.mark.parametrize("docname", sorted(DOCUMENTS))
def test_a_page_as_markdown_has_no_directives_and_no_front_matter(docname):
    text = plain(docname)
    outside = re.sub(r"^```\w.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"^```\{|^:::", outside, re.MULTILINE)
    assert text.startswith("---\n") == (f"{docname}.md" == markdown_pages.SKILL)
    assert re.search(r"^# \S", text, re.MULTILINE)


def test_the_reference_as_markdown_has_signatures_and_docstrings():
    text = plain("reference/api/assigners")
    assert "## `pst.TumblingEventTimeWindows" in text
    assert "### `SlidingEventTimeWindows.of(size: Duration, slide: Duration" in text
    assert ":func:`" not in text
    assert "## `panestream run`" in plain("reference/command-line")


def test_a_drawing_becomes_its_description():
    assert "*Drawing: Five rows that come out of order; the row of minute 45 comes last" in plain("ideas/session")


def test_chinese_pages_are_markdown_too(tmp_path):
    markdown_pages.write(tmp_path, {"ideas/session"}, lambda _, text: text, pages.DOCS / "zh")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")] == ["ideas/session.md"]
    assert "*Drawing: " in (tmp_path / "ideas" / "session.md").read_text("utf-8")


def test_words_of_the_front_matter_are_entries_of_the_index():
    pytest.importorskip("sphinx")
    from panestream_docs import with_index

    text = "---\nsearch: unit test, pytest\n---\n# Planted\n"
    made = with_index(pages.read(pages.DOCS / "planted.md", text), text)
    assert made.startswith("---\nsearch: unit test, pytest\n---\n\n```{index} ! single: unit test\n```\n")
    assert made.endswith("```{index} ! single: pytest\n```\n\n# Planted\n")


def test_the_skill_names_only_what_exists():
    skill = pages.read(pages.DOCS / markdown_pages.SKILL)
    assert skill.front["name"] == "panestream"
    assert 100 < len(skill.front["description"]) < 1024
    named = set(re.findall(r"\bpst\.([A-Za-z_]+(?:\.[A-Za-z_]+)*)", skill.path.read_text("utf-8")))
    assert len(named) >= 20
    for dotted in named:
        value = pst
        for part in dotted.split("."):
            value = getattr(value, part)


def test_recipes_have_at_most_fifteen_lines():
    page = pages.read(pages.DOCS / "how-to" / "recipes.md")
    recipes = re.findall(r"^## (.+)$", page.path.read_text("utf-8"), re.MULTILINE)
    blocks = [block for block in page.of("python") if block.argument != "fragment"][1:]  # the first has the rows
    assert len(recipes) == len(blocks) == 11
    assert [block.line for block in blocks if len(block.text.strip().splitlines()) > 15] == []


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two tags, whose site is a page with the names of the versions."""
    root = tmp_path / "repository"
    (root / "scripts").mkdir(parents=True)
    build = "import os, pathlib, sys\nto = pathlib.Path(sys.argv[1])\nto.mkdir(parents=True)\n"
    build += "to.with_name(to.name + '-trees').mkdir()\n"
    build += "(to / 'llms.txt').write_text('- [Home](index.md)\\n')\n"
    build += "(to / 'index.html').write_text(os.environ['PANESTREAM_VERSIONS'] + ' ' + open('word').read())\n"
    (root / "scripts" / "make_docs.py").write_text(build)

    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=root, check=True, capture_output=True)

    git("init")
    for word, tag in [("old", "v0.1.0"), ("fixed", "v0.1.1"), ("new", None)]:
        (root / "word").write_text(word)
        git("add", ".")
        git("commit", "--message", word)
        if tag:
            git("tag", tag)
    return root


def test_each_version_is_built_from_its_tag_and_links_to_the_others(repository, tmp_path):
    site = tmp_path / "site"
    assert make_versions.build(site, repository) == ["0.1.1", "latest"]
    assert {path.parent.name: path.read_text() for path in site.glob("*/index.html")} == {
        "latest": "latest 0.1.1 new",
        "0.1.1": "0.1.1 latest fixed",
    }
    assert {path.name for path in site.iterdir()} == {"latest", "0.1.1", "index.html", "versions.json", "llms.txt"}
    assert 'url=0.1.1/index.html"' in (site / "index.html").read_text()
    assert json.loads((site / "versions.json").read_text()) == ["0.1.1", "latest"]
    assert (site / "llms.txt").read_text() == "- [Home](0.1.1/index.md)\n"


@pytest.mark.full
def test_links_of_markdown_pages_lead_to_files_of_the_site(built_site):
    def targets(page):
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        found = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", re.sub(r"`[^`\n]*`", "", text))
        return [target for target in found if not re.match(r"https?:|mailto:", target)]

    written = [(page, target) for page in built_site.rglob("*.md") for target in targets(page)]
    assert len(written) > 500
    assert [(page.name, target) for page, target in written if not (page.parent / target).exists()] == []
