"""Which faults are tried, and with which tests."""

from __future__ import annotations

import random
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
    "engine/savepoint",
    "spark",
    "spark/operator",
    "spark/sinks",
    "spark/savepoint",
    "spark/progress",
    "spark/kafka",
)
"""What the table has a line for: each file counts for the longest of these that leads to it."""
DRIVER = "spark"
"""Most of this side is reached only by tests that start Spark: faults are drawn from what the tests that run here reach."""


@dataclass(frozen=True)
class Reached:
    """A test, and the functions that it reaches."""

    test: TimedTest
    places: frozenset[str]


def package_of(module: str) -> str:
    """The line of the table that a file counts for."""
    return max((each for each in PACKAGES if module.startswith(each + "/")), key=len)


def possible(package: Path, chosen: Iterable[str]) -> dict[str, list[Fault]]:
    """All faults of some packages, each in the order of files and lines."""
    found: dict[str, list[Fault]] = {name: [] for name in chosen}
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).as_posix()
        if module.split("/")[0] in ("windowing", "engine", "spark") and package_of(module) in found:
            found[package_of(module)] += faults_of(path.read_text("utf-8"), module)
    return found


def drawn(faults: list[Fault], seed: int, package: str) -> list[Fault]:
    """The faults in an order that a seed decides: a larger sample of a package begins with the smaller one."""
    mixed = sorted(faults, key=lambda fault: fault.name)
    random.Random(f"{seed}:{package}").shuffle(mixed)
    return mixed


def in_reach(faults: Iterable[Fault], reach: Iterable[Reached]) -> list[Fault]:
    """Those in functions that some test reaches."""
    places = set().union(*(each.places for each in reach))
    return [fault for fault in faults if fault.place in places]


def likeliest_tests(fault: Fault, reach: Iterable[Reached], budget: float) -> list[TimedTest]:
    """The tests that reach the fault's function, the likeliest to notice first, of at most so many seconds of the processor.

    Those of the fault's room come first, then the cheap; of a test with many parameters one is taken before any second one.
    """
    by_function: Mapping[str, list[TimedTest]] = defaultdict(list)
    for each in reach:
        if fault.place in each.places:
            by_function[each.test.name.partition("[")[0]].append(each.test)
    room = PurePosixPath(fault.module).parent.as_posix()
    ranked = [
        (turn, not _is_of_room(test.name, room), test.seconds, test.name, test)
        for tests in by_function.values()
        for turn, test in enumerate(sorted(tests, key=lambda test: (test.seconds, test.name)))
    ]
    taken: list[TimedTest] = []
    for *_, test in sorted(ranked, key=lambda each: each[:4]):
        if not taken or test.seconds <= budget:
            taken.append(test)
            budget -= test.seconds
    return taken


def _is_of_room(name: str, room: str) -> bool:
    return PurePosixPath(name.partition("::")[0]).parent.as_posix() in (f"tests/{room}", f"src/panestream/{room}")
