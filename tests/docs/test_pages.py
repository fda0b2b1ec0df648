"""Code on pages runs and prints the shown output. Job files are valid, and commands exist."""

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
def test_code_of_a_page_runs_and_prints_its_output(page):
    pages.run(page)


@pytest.mark.spark
def test_code_of_pages_on_spark_runs_and_prints_its_output():
    """Run all pages in another process. Relative paths start at the folder in which Spark's JVM was started."""
    said = ran(ROOT / "scripts" / "docs_counts.py", "--only-spark")
    assert [page.name for page in ON_SPARK if f"{page.name}: " not in said] == []


@pytest.mark.parametrize("page", ELSEWHERE, ids=called)
def test_page_that_another_test_runs_is_named_in_that_test(page):
    text = (ROOT / page.needs).read_text("utf-8")
    assert page.path.name in text
    assert "exec(" in text


@pytest.mark.parametrize("page", ALL, ids=called)
def test_blocks_that_do_not_run_are_valid(page, tmp_path, monkeypatch):
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
def test_drawings_have_alternative_text(page):
    for block in page.of("{timeline}"):
        assert ":alt:" in block.text, f"{page.name}:{block.line}: a drawing needs :alt:"


def test_at_most_half_of_the_blocks_are_fragments():
    """Blocks that are only parsed must stay the minority. They are marked `fragment`."""
    blocks = [block for page in ALL for block in page.of("python")]
    assert sum(block.argument == "fragment" for block in blocks) <= len(blocks) // 2
