"""The choice of faults to try, and of the tests to try them with."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.mutants.faults import Fault, faults_of
from tests.mutants.planting import TimedTest

PACKAGES = (
    "windowing",
    "engine",
    "engine/kernels",
    "engine/storage",
    "engine/runtime",
    "engine/exchange",
    "engine/aggregates",
    "engine/operators/panes",
    "engine/operators/sessions",
    "engine/operators/counts",
    "engine/operators/accumulating",
    "engine/operators/row",
    "engine/operators/intervals",
    "engine/operators/look_back",
    "engine/operators/predicates",
    "engine/tiles",
    "engine/savepoint",
    "spark",
    "spark/operator",
    "spark/sinks",
    "spark/savepoint",
    "spark/progress",
    "spark/kafka",
)
"""The lines of the table. Each file counts for the longest matching path."""
DRIVER = "spark"
"""A package that is reached mostly by tests with Spark. Its faults are drawn from functions that the selected tests reach."""


@dataclass(frozen=True)
class Reached:
    """A test, and the functions that it reaches."""

    test: TimedTest
    places: frozenset[str]


def package_of(module: str) -> str:
    """Return the package in whose line of the table a file counts."""
    return max((each for each in PACKAGES if module.startswith(each + "/")), key=len)


def possible(package: Path, chosen: Iterable[str]) -> dict[str, list[Fault]]:
    """Return all faults of some packages, each in the order of files and lines."""
    found: dict[str, list[Fault]] = {name: [] for name in chosen}
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).as_posix()
        if module.split("/")[0] in ("windowing", "engine", "spark") and package_of(module) in found:
            found[package_of(module)] += faults_of(path.read_text("utf-8"), module)
    return found


def drawn(faults: list[Fault], seed: int) -> list[Fault]:
    """Return the faults in an order that the seed decides. A larger sample starts with the smaller one. New faults from changed code
    do not change the order of the others.
    """
    return sorted(faults, key=lambda fault: hashlib.sha256(f"{seed}:{fault.name}".encode()).digest())


def in_reach(faults: Iterable[Fault], reach: Iterable[Reached]) -> list[Fault]:
    """Return the faults in functions that some test reaches."""
    places = set().union(*(each.places for each in reach))
    return [fault for fault in faults if fault.place in places]


def likeliest_tests(fault: Fault, reach: Iterable[Reached], budget: float, spark_budget: float = 0.0) -> list[TimedTest]:
    """Return the tests that reach the fault's function, the most likely to detect it first.

    Tests of the same folder come first, then cheap ones. Each parametrized test is used once before any second case. Tests with
    Spark come last.

    Args:
        fault: the fault to detect.
        reach: the functions that each test reaches.
        budget: processor seconds for tests without Spark.
        spark_budget: seconds by the clock for tests with Spark.
    """
    found = [each.test for each in reach if fault.place in each.places]
    room = PurePosixPath(fault.module).parent.as_posix()
    return [
        *_within(budget, [test for test in found if not test.spark], room),
        *_within(spark_budget, [test for test in found if test.spark], room),
    ]


def _within(budget: float, tests: Iterable[TimedTest], room: str) -> list[TimedTest]:
    """Return tests in the order of use, as many as the budget allows."""
    by_function: Mapping[str, list[TimedTest]] = defaultdict(list)
    for test in tests:
        by_function[test.name.partition("[")[0]].append(test)
    ranked = [
        (turn, not _is_of_room(test.name, room), _cost(test), test.name, test)
        for alike in by_function.values()
        for turn, test in enumerate(sorted(alike, key=lambda test: (_cost(test), test.name)))
    ]
    taken: list[TimedTest] = []
    for *_, test in sorted(ranked, key=lambda each: each[:4]):
        if not taken or _cost(test) <= budget:
            taken.append(test)
            budget -= _cost(test)
    return taken


def _cost(test: TimedTest) -> float:
    return test.waited if test.spark else test.seconds


def _is_of_room(name: str, room: str) -> bool:
    return PurePosixPath(name.partition("::")[0]).parent.as_posix() in (f"tests/{room}", f"src/panestream/{room}")
