"""Chinese pages are translations of the English ones, with the same code, outputs and drawings, so code with Spark runs once."""

from __future__ import annotations

import ast
import re

import pages
import pytest

CHINESE = [pages.read(path) for path in pages.all_pages() if path.is_relative_to(pages.DOCS / "zh")]
LETTERS = re.compile(r"[\u4e00-\u9fff]")


def english(page):
    return pages.read(pages.DOCS / page.name.removeprefix("zh/"))


def code_tree(text):
    """Return the syntax tree of code without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def fixed_parts(block):
    """Return the parts of a block that must be the same, in addition to its kind and argument."""
    if block.kind == "python":
        return code_tree(block.text)
    if block.kind == "{timeline}":
        return re.findall(r"^:(\w+):", block.text, re.MULTILINE)  # the words are translated
    return block.text


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_chinese_page_has_the_blocks_of_the_english_page(page):
    original = english(page)
    assert page.front.get("panestream") == original.front.get("panestream")
    assert [(block.kind, block.argument, block.follows) for block in page.blocks] == [
        (block.kind, block.argument, block.follows) for block in original.blocks
    ]
    for block, its in zip(page.blocks, original.blocks, strict=True):
        assert fixed_parts(block) == fixed_parts(its), f"{page.name}:{block.line} is not what {original.name}:{its.line} is"


def prose(page):
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def outline(text):
    """Return the levels of the headings, the number of list items, links and table rows, and all names in backticks."""
    counts = [len(re.findall(rule, text, re.MULTILINE)) for rule in (r"^(?:- |\d+\. )", r"\]\(", r"^\|")]
    return re.findall(r"^#+", text, re.MULTILINE), counts, sorted(set(re.findall(r"`([^`\n]+)`", text)))


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_chinese_page_has_the_sections_and_names_of_the_english_page(page):
    translated = prose(page).split("\n## 术语")[0]  # only the Chinese home page has a glossary
    assert outline(translated) == outline(prose(english(page)))


def test_outline_notices_a_dropped_section_and_an_old_name():
    assert outline("# A\n\n## B\n\n`f()`") != outline("# A\n\n`f()`")
    assert outline("# A\n\n`f()`") != outline("# A\n\n`g()`")


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_comments_and_drawings_are_translated(page):
    """Check comments in code and words of drawings too, so that no page is half translated."""
    for block in page.blocks:
        said = block.text.splitlines()
        comments = [line for line in said if line.lstrip().startswith("# ") or "  # " in line] if block.kind == "python" else []
        words = said if block.kind == "{timeline}" else comments
        left = [line for line in words if line.strip() and not LETTERS.search(line)]
        assert left == [], f"{page.name}:{block.line}"
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    assert [heading for heading in headings if not LETTERS.search(heading) and heading != "panestream"] == []


def test_changed_code_in_a_translation_is_reported():
    assert code_tree("def f():\n    '''Says.'''\n    return 1  # one") == code_tree("def f():\n    '''说。'''\n    return 1")
    assert code_tree("print('late')") != code_tree("print('迟到')")


def test_chinese_pages_on_spark_are_not_run_again():
    assert [page.name for page in CHINESE if page.needs == "spark" and page in pages.to_run_on_spark(CHINESE)] == []
    assert pages.to_run_on_spark([english(page) for page in CHINESE if page.needs == "spark"])
