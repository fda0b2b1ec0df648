"""CONTRIBUTING shows the real tree of packages and has short instructions for additions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "panestream"
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def packages_shown(page: str) -> Iterator[str]:
    """Yield the paths of the packages in the page's tree, relative to the folder in its first line."""
    block = page.split("    src/panestream/\n")[1].split("    tests/", maxsplit=1)[0]
    way: list[str] = []
    for line in block.splitlines():
        shown = re.match(r"( +)(\w+)/ +\S", line)
        assert shown, f"no package in the line {line!r}"
        way = [*way[: (len(shown[1]) - 6) // 2], shown[2]]
        yield "/".join(way)


def packages_there(home: Path) -> list[str]:
    return sorted(path.parent.relative_to(home).as_posix() for path in home.rglob("__init__.py") if path.parent != home)


def test_tree_in_contributing_lists_exactly_the_packages():
    assert sorted(packages_shown(PAGE)) == packages_there(PACKAGE)


def test_indents_of_a_tree_give_the_paths_of_packages():
    page = "    src/panestream/\n      a/    x\n        b/    y\n          c/  z\n        d/    y\n      e/   x\n    tests/"
    assert list(packages_shown(page)) == ["a", "a/b", "a/b/c", "a/d", "e"]


@pytest.mark.parametrize("thing", ["trigger", "assigner", "aggregate", "sink", "operator"])
def test_each_addition_has_at_most_five_steps(thing):
    section = re.search(rf"^### An? {thing}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    assert section
    assert len(re.findall(r"^\d+\. ", section[1], re.MULTILINE)) <= 5
