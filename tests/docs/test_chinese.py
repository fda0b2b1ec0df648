"""Chinese pages are the English ones in other words: their code, outputs and drawings are the same, so what needs Spark runs once."""

from __future__ import annotations

import ast
import re

import pages
import pytest

CHINESE = [pages.read(path) for path in pages.all_pages() if path.is_relative_to(pages.DOCS / "zh")]
LETTERS = re.compile(r"[\u4e00-\u9fff]")


def english(page):
    return pages.read(pages.DOCS / page.name.removeprefix("zh/"))


def without_words(text):
    """The code as a tree: no comments, no docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def told(block):
    """What has to be the same of a block, beside its kind and argument."""
    if block.kind == "python":
        return without_words(block.text)
    if block.kind == "{timeline}":
        return re.findall(r"^:(\w+):", block.text, re.MULTILINE)  # the words are translated
    return block.text


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_blocks_are_those_of_the_english_page(page):
    original = english(page)
    assert page.front == original.front
    assert [(block.kind, block.argument, block.follows) for block in page.blocks] == [
        (block.kind, block.argument, block.follows) for block in original.blocks
    ]
    for block, its in zip(page.blocks, original.blocks, strict=True):
        assert told(block) == told(its), f"{page.name}:{block.line} is not what {original.name}:{its.line} is"


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_words_are_chinese(page):
    """Also those of drawings, and comments in code: a page is not half translated."""
    for block in page.blocks:
        said = block.text.splitlines()
        comments = [line for line in said if line.lstrip().startswith("# ") or "  # " in line] if block.kind == "python" else []
        words = said if block.kind == "{timeline}" else comments
        left = [line for line in words if line.strip() and not LETTERS.search(line)]
        assert left == [], f"{page.name}:{block.line}"
    text = page.path.read_text("utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    assert [heading for heading in headings if not LETTERS.search(heading) and heading != "panestream"] == []


def test_what_differs_is_found():
    assert without_words("def f():\n    '''Says.'''\n    return 1  # one") == without_words(
        "def f():\n    '''说。'''\n    return 1"
    )
    assert without_words("print('late')") != without_words("print('迟到')")


def test_chinese_pages_on_spark_are_not_run_again():
    assert [page.name for page in CHINESE if page.needs == "spark" and page in pages.to_run_on_spark(CHINESE)] == []
    assert pages.to_run_on_spark([english(page) for page in CHINESE if page.needs == "spark"])
