"""Files and modules that the documents name exist, so that a moved file gets its new name.

A page of docs/decisions may name files that no longer exist, if a paragraph that starts with ``**Today.**`` describes the current
state.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "panestream"
TODAY = "**Today.**"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*/README.md"),
        *(ROOT / name for name in ("Makefile", "pyproject.toml", ".ci/run")),
    ]
)
# Names of files that are not part of this project.
FOREIGN = {
    "pyspark/daemon.py": "PySpark's",
    "json.py": "a file of a user's that has the name of a module of Python's",
    "demo-output/hot_items.toml": "what `make run` leaves",
}

_FILE = re.compile(r"(?<![\w./*>-])((?:\.\./)*[\w-]+(?:/[\w.-]+)*\.(?:py|toml|json|sh|md|java))\b(?!\.\w)", re.IGNORECASE)
_ROOM = re.compile(r"(?<![\w./])((?:tests|src|docs|benchmarks|scripts|examples)/[\w/.-]*\w)(?![\w<])")
_MODULE = re.compile(r"\bpanestream(?:\.(?!zip\b)[A-Za-z_]\w*)+|(?<=`)(?:engine|windowing|datastream)(?:\.[a-z_]\w*)(?:\.\w+)*")


@cache
def files() -> frozenset[str]:
    """Return the paths of all text files of the project that are not generated."""
    rooms = ("src", "tests", "docs", "benchmarks", "scripts", "examples", ".ci")
    found = [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file()]
    return frozenset(path.relative_to(ROOT).as_posix() for path in [*found, *ROOT.glob("*.*")])


def is_file(name: str) -> bool:
    """Return whether a file's path ends with this name."""
    wanted = re.sub(r"^(\.\./)+", "", name)
    return any(path == wanted or path.endswith("/" + wanted) for path in files())


def lost_files(text: str) -> Iterator[str]:
    """Yield names that look like files and do not exist. JOB.toml is a placeholder."""
    for name in _FILE.findall(text):
        if not is_file(name) and name not in FOREIGN and not name.split("/")[-1].split(".")[0].isupper():
            yield name


def lost_tests(text: str) -> Iterator[str]:
    """Yield missing files of tests."""
    return (name for name in lost_files(text) if name.startswith("tests/"))


def lost_folders(text: str) -> Iterator[str]:
    """Yield missing paths below the project's folders. A decision may be named by its number."""
    for name in _ROOM.findall(text):
        if "." not in name.split("/")[-1] and not (ROOT / name).exists() and not [*ROOT.glob(f"{name}-*.md")]:
            yield name


def lost_modules(text: str) -> Iterator[str]:
    """Yield missing dotted names below the package."""
    for name in _MODULE.findall(text):
        if not leads_somewhere(name if name.startswith("panestream") else f"panestream.{name}"):
            yield name


@cache
def leads_somewhere(name: str) -> bool:
    thing: object = importlib.import_module("panestream")
    parts = name.split(".")
    for at, part in enumerate(parts[1:], start=2):
        if not hasattr(thing, part):
            try:
                importlib.import_module(".".join(parts[:at]))
            except ModuleNotFoundError:
                return part in getattr(thing, "__annotations__", {})
        thing = getattr(thing, part)
    return True


def of_today(text: str) -> str:
    """Return the parts of a page that describe the current state."""
    return text.rsplit(TODAY, maxsplit=1)[-1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_in_each_page_exist(page):
    text = page.read_text("utf-8")
    held = of_today(text) if "decisions" in page.parts else text
    assert not [*lost_files(held), *lost_folders(held), *lost_modules(held)]


def test_names_in_comments_and_docstrings_exist():
    lost = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in [path.read_text("utf-8")]
        for name in (*lost_folders(text), *lost_modules(text), *lost_tests(text))
    }
    assert not lost


def test_tests_named_in_commands_exist():
    files = [path for room in ("tests", "benchmarks", "scripts") for path in sorted((ROOT / room).rglob("*.py"))]
    lost = {f"{path.relative_to(ROOT)}: {name}" for path in files for name in lost_tests(path.read_text("utf-8"))}
    assert not lost


def test_missing_names_are_reported():
    text = "See `engine/operation.py`, `choice.py`, tests/columnar and panestream.engine.operation, `engine.garbage.settle`; JOB.toml is yours."
    assert [*lost_files(text)] == ["engine/operation.py", "choice.py"]
    assert [*lost_folders(text)] == ["tests/columnar"]
    assert [*lost_modules(text)] == ["panestream.engine.operation", "engine.garbage.settle"]


def test_decision_may_name_files_that_no_longer_exist():
    assert [*lost_files(of_today(f"It was in `choice.py`.\n\n{TODAY} It is in `planner.py`, and not in `novel.py`."))] == [
        "novel.py"
    ]


def test_existing_names_are_accepted():
    text = "`engine/plan.py`, [x](../tests/conftest.py), `planner.py`, tests/engine, docs/decisions/0007, panestream.engine.plan.WindowPlan.groups"
    assert not [*lost_files(text), *lost_folders(text), *lost_modules(text)]
