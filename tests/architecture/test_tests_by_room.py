"""Tests are found by room: tests/ mirrors src/, and every trigger and assigner has tests there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "panestream"
TESTS = ROOT / "tests"

# Folders of tests that mirror no package, with their purpose.
ACROSS = {
    "architecture": "the code and the documents as texts: walls, names, paths, tables that scripts make",
    "architecture/users": "code of users for type checkers: right, and with mistakes",
    "benchmarks": "the benchmarks measure what they say",
    "comparison": "columnar operators beside the row operator, and batch beside stream, on random queries",
    "conformance": "Flink's recorded answers, what runs them, and on what",
    "conformance/executors": "what runs them",
    "conformance/scenarios": "the answers",
    "connectors": "real Delta, Iceberg and Kafka",
    **{f"connectors/{name}": "one of them" for name in ("delta", "iceberg", "kafka", "serving")},
    "data": "real events with known answers",
    "mutants": "planted faults, and whether the tests notice them",
    "golden": "checkpoints and savepoints that every later version must read",
    "docs": "the pages: their code runs, the site builds, a browser shows it",
    "examples": "the scripts of examples/",
    "examples/hot_items": "the demo, without Spark",
    "bad_input": "what becomes of input that is not as it should be, in one table",
    "security": "state, savepoints and job files that are meant to do harm; what a scan of the code finds",
    "recovery": "jobs that are killed",
    "recovery/crashes": "hundreds of real kills by one command: every kind, operator and sink",
    "spark/open_lineage/schemas": "OpenLineage's published JSON Schemas, unchanged",
    "testing/simulation/campaign": "random queries through every crash: a command, and what its tests replay",
    "testing/simulation/campaign/reference_model": "what these queries mean, by definition",
    "versions": "every operator on each version of Spark, and on checkpoints of the one before",
}


def strays(folders: Iterable[str], rooms: Iterable[str]) -> list[str]:
    """Return the folders of tests that neither mirror a package nor look across packages."""
    return sorted(set(folders) - set(rooms) - set(ACROSS))


def rooms_below(home: Path) -> list[str]:
    return [path.parent.relative_to(home).as_posix() for path in home.rglob("*.*") if path.suffix in (".py", ".json")]


def classes_of(module: str) -> Iterator[str]:
    """Public classes that a module defines and users make: neither abstract bases nor what callbacks are given."""
    for node in ast.parse(module).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            text = ast.unparse(node)
            if "@dataclass" in text and not re.search(r"@abstractmethod|ABC|NotImplementedError", text):
                yield node.name


def without_tests(classes: Iterable[str], tests: Iterable[str]) -> list[str]:
    """Classes that no file of tests names."""
    texts = [*tests]
    return sorted(name for name in classes if not any(re.search(rf"\b{name}\b", text) for text in texts))


def test_every_folder_of_tests_mirrors_a_package_or_is_listed():
    assert not strays(rooms_below(TESTS), rooms_below(PACKAGE))
    assert not [room for room in ACROSS if not (TESTS / room).is_dir()]


def test_folder_that_mirrors_no_package_is_reported():
    assert strays(["engine", "columnar", "recovery"], ["engine"]) == ["columnar"]


@pytest.mark.parametrize("room", ["windowing/triggers", "windowing/assigners"])
def test_every_trigger_and_assigner_has_tests_in_its_room(room):
    classes = [name for path in (PACKAGE / room).glob("*.py") for name in classes_of(path.read_text("utf-8"))]
    tests = [text for path in (TESTS / room).glob("test_*.py") if "def test_" in (text := path.read_text("utf-8"))]
    assert len(classes) > 8
    assert not without_tests(classes, tests)


def test_class_without_tests_is_reported():
    module = "@dataclass(frozen=True)\nclass Novel(Trigger):\n    pass\n\n\nclass Context:\n    pass\n"
    assert [*classes_of(module)] == ["Novel"]
    assert without_tests(["CountTrigger", "Novel"], ["from x import CountTrigger, NovelTrigger\n"]) == ["Novel"]
