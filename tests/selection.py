"""Which tests with Spark `make test` runs: those that ``selection.txt`` lists. `make test-all` runs every one.

Semantics are proven on the engine, without Spark. The list holds what only Spark can show, each thing once. Each line is a file, a test
or one case of a test; lines that start with ``#`` say what the tests below them prove.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

LIST = Path(__file__).with_name("selection.txt")


def read(path: Path = LIST) -> frozenset[str]:
    """Return the entries of the list."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def holds(selected: Collection[str], node: str) -> bool:
    """Return whether a test belongs to an entry.

    >>> holds({"a.py::test_x"}, "a.py::test_x[1]"), holds({"a.py::test_x"}, "a.py::test_xy")
    (True, False)
    """
    name = node.partition("[")[0]
    return node in selected or name in selected or name.partition("::")[0] in selected


def stale(selected: Iterable[str], nodes: Iterable[str]) -> list[str]:
    """Return the entries that no test belongs to."""
    every = list(nodes)
    return sorted(entry for entry in selected if not any(holds({entry}, node) for node in every))
