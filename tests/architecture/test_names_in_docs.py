"""Files and modules that the documents name exist: what was moved is named where it is now.

A page of docs/decisions may speak of the past; what it names may then be gone, if a paragraph that begins with ``**Today.**`` says what
holds now.
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
# Files of others, and of nobody, that pages speak of.
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
    """Every file of the project that is text of its own, by its path below the root."""
    rooms = ("src", "tests", "docs", "benchmarks", "scripts", "examples", "packaging", ".ci")
    found = [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file()]
    return frozenset(path.relative_to(ROOT).as_posix() for path in [*found, *ROOT.glob("*.*")])


def is_file(name: str) -> bool:
    """Whether a file's path ends so."""
    wanted = re.sub(r"^(\.\./)+", "", name)
    return any(path == wanted or path.endswith("/" + wanted) for path in files())


def lost_files(text: str) -> Iterator[str]:
    """What a page calls a file, and is none. (JOB.toml stands for any.)"""
    for name in _FILE.findall(text):
        if not is_file(name) and name not in FOREIGN and not name.split("/")[-1].split(".")[0].isupper():
            yield name


def lost_tests(text: str) -> Iterator[str]:
    """Files of tests that are gone."""
    return (name for name in lost_files(text) if name.startswith("tests/"))


def lost_folders(text: str) -> Iterator[str]:
    """Paths below the project's folders that lead nowhere; a decision may be named by its number."""
    for name in _ROOM.findall(text):
        if "." not in name.split("/")[-1] and not (ROOT / name).exists() and not [*ROOT.glob(f"{name}-*.md")]:
            yield name


def lost_modules(text: str) -> Iterator[str]:
    """Dotted names below the package that lead nowhere."""
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
    """What a page says that holds now."""
    return text.rsplit(TODAY, maxsplit=1)[-1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_exists(page):
    text = page.read_text("utf-8")
    held = of_today(text) if "decisions" in page.parts else text
    assert not [*lost_files(held), *lost_folders(held), *lost_modules(held)]


def test_what_comments_and_docstrings_name_exists():
    lost = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in [path.read_text("utf-8")]
        for name in (*lost_folders(text), *lost_modules(text), *lost_tests(text))
    }
    assert not lost


def test_the_commands_that_tests_and_programs_show_name_tests_that_exist():
    files = [path for room in ("tests", "benchmarks", "scripts") for path in sorted((ROOT / room).rglob("*.py"))]
    lost = {f"{path.relative_to(ROOT)}: {name}" for path in files for name in lost_tests(path.read_text("utf-8"))}
    assert not lost


def test_what_does_not_exist_is_found():
    text = "See `engine/operation.py`, `choice.py`, tests/columnar and panestream.engine.operation, `engine.garbage.settle`; JOB.toml is yours."
    assert [*lost_files(text)] == ["engine/operation.py", "choice.py"]
    assert [*lost_folders(text)] == ["tests/columnar"]
    assert [*lost_modules(text)] == ["panestream.engine.operation", "engine.garbage.settle"]


def test_a_decision_may_speak_of_the_past():
    assert [*lost_files(of_today(f"It was in `choice.py`.\n\n{TODAY} It is in `planner.py`, and not in `novel.py`."))] == [
        "novel.py"
    ]


def test_what_exists_is_left_alone():
    text = "`engine/plan.py`, [x](../tests/conftest.py), `planner.py`, tests/engine, docs/decisions/0007, panestream.engine.plan.WindowPlan.groups"
    assert not [*lost_files(text), *lost_folders(text), *lost_modules(text)]
