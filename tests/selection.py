"""The tests with Spark that `make test` runs, as listed in ``selection.txt``. `make test-all` runs every test.

The engine's tests prove the semantics without Spark. The list holds each thing that only Spark can show, once. A line is a file,
a test or one case of a test. Lines that start with ``#`` explain the tests below them. Files run in the order of the list. Long
files come first, so that no process waits for another at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

LIST = Path(__file__).with_name("selection.txt")


def read(path: Path = LIST) -> dict[str, int]:
    """Return the entries of the list with their places in it."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return {line: place for place, line in enumerate(line for line in lines if line and not line.startswith("#"))}


def holds(selected: Collection[str], node: str) -> bool:
    """Return whether a test belongs to an entry.

    >>> holds({"a.py::test_x"}, "a.py::test_x[1]"), holds({"a.py::test_x"}, "a.py::test_xy")
    (True, False)
    """
    name = node.partition("[")[0]
    return node in selected or name in selected or name.partition("::")[0] in selected


def in_order(selected: Mapping[str, int], nodes: Sequence[str]) -> list[int]:
    """Return the positions of tests, with listed files first. Tests of one file stay together."""
    files: dict[str, int] = {}
    for entry, place in selected.items():
        files.setdefault(entry.partition("::")[0], place)
    return sorted(range(len(nodes)), key=lambda at: files.get(nodes[at].partition("::")[0], len(selected)))


def stale(selected: Iterable[str], nodes: Iterable[str]) -> list[str]:
    """Return the entries that no test belongs to."""
    every = list(nodes)
    return sorted(entry for entry in selected if not any(holds({entry}, node) for node in every))
