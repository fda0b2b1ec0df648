"""Code on pages is run, and what is shown as its output is what it prints; job files are jobs; commands exist."""

from __future__ import annotations

import ast

import pages
import pytest
import yaml
from commands import wrong_in

from panestream.jobs.document import load_document
from panestream.jobs.loading import load_job
from tests.processes import ran

ROOT = pages.DOCS.parent
ALL = [pages.read(path) for path in pages.all_pages()]
PLAIN = [page for page in ALL if page.needs == "" and page.runs]
ON_SPARK = pages.to_run_on_spark(ALL)
ELSEWHERE = [page for page in ALL if page.needs not in ("", "spark")]


def called(page):
    return page.name


@pytest.mark.parametrize("page", PLAIN, ids=called)
def test_a_page_runs(page):
    pages.run(page)


@pytest.mark.spark
def test_pages_run_on_spark():
    """In one process, in a folder of its own: relative paths begin where Spark's JVM was started."""
    said = ran(ROOT / "scripts" / "docs_counts.py", "--only-spark")
    assert [page.name for page in ON_SPARK if f"{page.name}: " not in said] == []


@pytest.mark.parametrize("page", ELSEWHERE, ids=called)
def test_a_page_that_another_test_runs_is_named_there(page):
    text = (ROOT / page.needs).read_text("utf-8")
    assert page.path.name in text
    assert "exec(" in text


@pytest.mark.parametrize("page", ALL, ids=called)
def test_what_is_not_run_is_checked(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in page.of("python", "py", "python3"):
        assert block.kind == "python", f"{page.name}:{block.line}: a block is `python`"
        assert block.argument in ("", "fragment"), f"{page.name}:{block.line}: python {block.argument}"
        ast.parse(block.text)
    for block in page.of("sh", "bash", "shell", "console"):
        assert block.kind == "sh", f"{page.name}:{block.line}: a block for the shell is `sh`"
        assert wrong_in(block.text) == [], f"{page.name}:{block.line}"
    for block in page.of("toml", "yaml"):
        file = tmp_path / f"job.{block.kind}"
        file.write_text(block.text, "utf-8")
        if block.argument == "fragment" and block.kind == "yaml":
            yaml.safe_load(block.text)
        elif block.argument == "fragment":
            load_document(file)
        else:
            load_job(file)


@pytest.mark.parametrize("page", [page for page in ALL if page.of("{timeline}")], ids=called)
def test_drawings_say_what_they_show(page):
    for block in page.of("{timeline}"):
        assert ":alt:" in block.text, f"{page.name}:{block.line}: a drawing needs :alt:"


def test_most_pages_are_run():
    """Blocks that are only looked at stay few: each says `fragment`."""
    blocks = [block for page in ALL for block in page.of("python")]
    assert sum(block.argument == "fragment" for block in blocks) <= len(blocks) // 2
