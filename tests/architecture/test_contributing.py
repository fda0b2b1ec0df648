"""CONTRIBUTING shows the tree as it is, and what it says of adding something is true as far as that can be tried."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "panestream"
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def packages_shown(page: str) -> Iterator[str]:
    """The packages that the tree in the page shows, by their paths below the first line's folder."""
    block = page.split("    src/panestream/\n")[1].split("    tests/", maxsplit=1)[0]
    way: list[str] = []
    for line in block.splitlines():
        shown = re.match(r"( +)(\w+)/ +\S", line)
        assert shown, f"no package in the line {line!r}"
        way = [*way[: (len(shown[1]) - 6) // 2], shown[2]]
        yield "/".join(way)


def packages_there(home: Path) -> list[str]:
    return sorted(path.parent.relative_to(home).as_posix() for path in home.rglob("__init__.py") if path.parent != home)


def test_the_tree_shows_every_package_and_no_other():
    assert sorted(packages_shown(PAGE)) == packages_there(PACKAGE)


def test_a_tree_is_read_by_its_indents():
    page = "    src/panestream/\n      a/    x\n        b/    y\n          c/  z\n        d/    y\n      e/   x\n    tests/"
    assert list(packages_shown(page)) == ["a", "a/b", "a/b/c", "a/d", "e"]


@pytest.mark.parametrize("thing", ["trigger", "assigner", "aggregate", "sink", "operator"])
def test_adding_takes_five_steps_at_most(thing):
    section = re.search(rf"^### An? {thing}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    assert section
    assert len(re.findall(r"^\d+\. ", section[1], re.MULTILINE)) <= 5
