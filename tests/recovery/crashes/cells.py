"""The cells of the table: a query of one operator into one sink, that one kind of kills strikes; what it needs, and what it gave."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.recovery.crashes.places import SINKS, Place, make_topics
from tests.recovery.crashes.queries import QUERIES, Row, ordered, settled

FILES = 6
"""Micro-batches of a query."""


@dataclass
class Cell:
    """One query that is struck.

    Attributes:
        kind: of the kills.
        operator: which runs it.
        sink: where it writes.
        wanted: how many kills it shall get; 0: it is not run.
        struck: what each kill struck.
        difference: None until it has ended and was compared; empty: the output is what it is undisturbed, and the batch's answer.
    """

    kind: str
    operator: str
    sink: str
    wanted: int
    struck: list[str] = field(default_factory=list)
    difference: str | None = None

    @property
    def name(self) -> str:
        """For folders, topics and catalogs."""
        kind = self.kind.replace("-", "_")
        return f"{kind}_{self.operator}_{self.sink}"

    @property
    def title(self) -> str:
        """What ``--only`` takes."""
        return f"{self.kind}/{self.operator}/{self.sink}"

    def chance(self, seed: int) -> random.Random:
        """Of this cell alone: it strikes alike whatever else runs."""
        return random.Random(f"{seed}/{self.title}")

    def plan(self, folder: Path, clicks: Path, servers: str) -> dict[str, Any]:
        """What the victim is told."""
        work = folder / self.name
        where = {"folder": str(work / "sink"), "checkpoint": str(work / "checkpoint"), "clicks": str(clicks)}
        return {"name": self.name, "operator": self.operator, "sink": self.sink, "servers": servers, **where}

    def compare(self, found: dict[str, list[Row]], expected: dict[str, list[Row]]) -> None:
        """Finds whether the rows of each output are what they should be."""
        query, place = QUERIES[self.operator], Place(self.sink, self.name, Path())
        wrong = []
        for output in query.outputs:
            rows = ordered(found[output])
            merged = output == "main" and place.merges(query)
            wrong += _differences(output, rows, ordered(expected["batch" if merged else output]), merged)
        if not place.merges(query):
            wrong += _differences("main beside the batch", settled(query, found["main"]), ordered(expected["batch"]), True)
        self.difference = "; ".join(wrong)


def _differences(output: str, found: list[Row], expected: list[Row], of_batch: bool) -> list[str]:
    if of_batch and expected:
        names = set(expected[0])
        found = ordered({name: value for name, value in row.items() if name in names} for row in found)
    if found == expected:
        return []
    have, want = Counter(map(_text, found)), Counter(map(_text, expected))
    return [
        f"{output}: {(want - have).total()} rows missing, {(have - want).total()} too many, e.g. {next(iter((want - have) + (have - want)))}"
    ]


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True)


def cells_of(kind: str, kills: int, each: int, sinks: Sequence[str] = (), operators: Sequence[str] = ()) -> list[Cell]:
    """Every operator with every sink that the kind makes sense for, in the order in which they are struck; the kills dealt out.

    The first cells are one of each operator, with the sinks in turns; then one of each operator with the next sink, and so on:
    whatever is cut short has seen all of both.

    Args:
        kind: of the kills.
        kills: how many.
        each: so many for a cell; where that is not enough for a cell of each operator and of each sink, fewer.
        sinks: none: all.
        operators: none: all.
    """
    sinks, operators = sinks or SINKS, operators or tuple(QUERIES)
    pairs = [
        (operator, sinks[(place + turn) % len(sinks)]) for turn in range(len(sinks)) for place, operator in enumerate(operators)
    ]
    # So many of the first pairs have every operator, and every sink.
    fewest = max(len(operators), next(n for n in range(len(pairs) + 1) if {sink for _, sink in pairs[:n]} == set(sinks)))
    struck = min(max(kills // each, fewest), kills, len(pairs))
    cells = [Cell(kind, operator, sink, 0) for operator, sink in pairs]
    for number in range(kills if struck else 0):
        cells[number % struck].wanted += 1
    return cells


def in_turns(cells: Sequence[Cell], together: Mapping[str, int]) -> list[list[Cell]]:
    """Cells of one kind each that are run together, breadth first: the first cells of every kind come before the next of any.

    Args:
        cells: those of each kind in the order in which they are to be struck; those without kills are left out.
        together: of each kind, so many at most. They share what takes long to start.
    """
    of_kind: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.wanted:
            of_kind.setdefault(cell.kind, []).append(cell)
    turns = [
        (begin, of_one[begin : begin + together[kind]])
        for kind, of_one in of_kind.items()
        for begin in range(0, len(of_one), together[kind])
    ]
    return [cells for _, cells in sorted(turns, key=lambda turn: turn[0])]


def prepare_topics(cell: Cell, folder: Path, servers: str, rows: list[list[tuple[Any, ...]]]) -> None:
    """The topics of a cell that writes to Kafka."""
    if cell.sink == "kafka":
        make_topics(servers, Place("kafka", cell.name, folder, servers), QUERIES[cell.operator], rows)
