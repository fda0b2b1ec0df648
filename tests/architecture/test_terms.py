"""docs/reference/terms.md: every name in code that it gives exists, and its table has no word twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "panestream"
PAGE = (ROOT / "docs" / "reference" / "terms.md").read_text("utf-8")


def rows(page: str) -> Iterator[list[str]]:
    """The cells of each term: word, meaning, names in code, Flink's word."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "term":
            yield cells


def names_in_code() -> set[str]:
    """Everything that is defined in the package: modules, classes, functions, attributes, constants."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        found.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def unknown(page: str, known: set[str]) -> list[str]:
    """Names that the third column gives and nobody defines."""
    given = [name for cells in rows(page) for code in re.findall(r"`([^`]+)`", cells[2]) for name in code.split(".")]
    return sorted({name for name in given if name not in known})


def test_every_term_has_a_meaning_and_a_name_that_exists():
    told = list(rows(PAGE))
    assert len(told) > 60
    assert not [cells[0] for cells in told if len(cells) != 4 or not cells[1].endswith((".", ")")) or not cells[2]]
    assert not unknown(PAGE, names_in_code())


def test_no_term_is_told_twice():
    told = [word.strip() for cells in rows(PAGE) for word in cells[0].split(",")]
    assert not {word for word in told if told.count(word) > 1}


def test_a_name_that_is_gone_is_found():
    page = "| term | what it is | in code | Flink |\n|---|---|---|---|\n| lane | An old word. | `Lane`, `WindowPlan.keys` | |"
    assert unknown(page, names_in_code()) == ["Lane"]


def test_readme_and_contributing_lead_there():
    for page in ("README.md", "CONTRIBUTING.md"):
        assert "(docs/reference/terms.md)" in (ROOT / page).read_text("utf-8")
