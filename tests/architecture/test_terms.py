"""docs/reference/terms.md lists each term once, and its names in code exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.test_walls import nodes

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "panestream"
PAGE = (ROOT / "docs" / "reference" / "terms.md").read_text("utf-8")


def rows(page: str) -> Iterator[list[str]]:
    """Yield the cells of each term: word, meaning, names in code, Flink's word."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "term":
            yield cells


@cache
def names_in_code() -> set[str]:
    """Return all names that the package defines: modules, classes, functions, attributes, constants."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        found.add(path.stem)
        for node in nodes(path.read_text("utf-8")):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def unknown(page: str, known: set[str]) -> list[str]:
    """Return the names in the third column that are not defined."""
    given = [name for cells in rows(page) for code in re.findall(r"`([^`]+)`", cells[2]) for name in code.split(".")]
    return sorted({name for name in given if name not in known})


def test_every_term_has_a_meaning_and_an_existing_name_in_code():
    told = list(rows(PAGE))
    assert len(told) > 60
    assert not [cells[0] for cells in told if len(cells) != 4 or not cells[1].endswith((".", ")")) or not cells[2]]
    assert not unknown(PAGE, names_in_code())


def test_terms_are_listed_once():
    told = [word.strip() for cells in rows(PAGE) for word in cells[0].split(",")]
    assert not {word for word in told if told.count(word) > 1}


def test_missing_name_in_code_is_reported():
    page = "| term | what it is | in code | Flink |\n|---|---|---|---|\n| lane | An old word. | `Lane`, `WindowPlan.keys` | |"
    assert unknown(page, names_in_code()) == ["Lane"]


def test_readme_and_contributing_link_to_the_terms():
    for page in ("README.md", "CONTRIBUTING.md"):
        assert "(docs/reference/terms.md)" in (ROOT / page).read_text("utf-8")
