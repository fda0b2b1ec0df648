"""The cells of the table: a query of one operator into one sink, struck by one kind of kill, with its needs and its result."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.recovery.crashes.places import SINKS, Place, make_topics
from tests.recovery.crashes.queries import QUERIES, Row, ordered, settled


@dataclass
class Cell:
    """One query that is struck.

    Attributes:
        kind: The kind of kill.
        operator: The operator that runs the query.
        sink: The sink of the query.
        wanted: How many kills the query gets. A cell with 0 does not run.
        struck: A description of each kill that struck.
        difference: None until the query was compared. Empty if its output equals the undisturbed run and the batch.
    """

    kind: str
    operator: str
    sink: str
    wanted: int
    struck: list[str] = field(default_factory=list)
    difference: str | None = None

    @property
    def name(self) -> str:
        """A name for folders, topics and catalogs."""
        kind = self.kind.replace("-", "_")
        return f"{kind}_{self.operator}_{self.sink}"

    @property
    def title(self) -> str:
        """The cell as ``--only`` takes it."""
        return f"{self.kind}/{self.operator}/{self.sink}"

    def chance(self, seed: int) -> random.Random:
        """Return a random generator for this cell. Its kills do not depend on other cells."""
        return random.Random(f"{seed}/{self.title}")

    def plan(self, folder: Path, clicks: Path, servers: str) -> dict[str, Any]:
        """Return the victim's instructions."""
        work = folder / self.name
        where = {"folder": str(work / "sink"), "checkpoint": str(work / "checkpoint"), "clicks": str(clicks)}
        return {"name": self.name, "operator": self.operator, "sink": self.sink, "servers": servers, **where}

    def compare(self, found: dict[str, list[Row]], expected: dict[str, list[Row]]) -> None:
        """Compare the rows of each output with the expected rows."""
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


def cells_of(
    kind: str,
    kills: int,
    each: int,
    sinks: Sequence[str] = (),
    operators: Sequence[str] = (),
    suits: Callable[[str, str], bool] = lambda operator, sink: True,
) -> list[Cell]:
    """Return a cell for every operator with every sink that suits the kind, in the order of striking, with their kills.

    The first cells have each operator once, with the sinks in turn. The next cells have each operator with the next sink, and so
    on.
    An interrupted run has therefore seen all operators and all sinks.

    Args:
        kind: The kind of kill.
        kills: How many kills to distribute.
        each: Kills for one cell. A cell gets fewer if each operator and each sink would otherwise not get a cell.
        sinks: The sinks to strike, or all if empty.
        operators: The operators to strike, or all if empty.
        suits: Returns whether an operator can write to a sink. Other pairs get no cell.
    """
    sinks, operators = sinks or SINKS, operators or tuple(QUERIES)
    suited = {operator: found for operator in operators if (found := [sink for sink in sinks if suits(operator, sink)])}
    pairs = [
        (operator, found[(place + turn) % len(found)])
        for turn in range(len(sinks))
        for place, (operator, found) in enumerate(suited.items())
        if turn < len(found)
    ]
    # The first pairs, up to this number, cover every operator and every sink.
    covered = {sink for _, sink in pairs}
    fewest = max(len(suited), next(n for n in range(len(pairs) + 1) if {sink for _, sink in pairs[:n]} == covered))
    struck = min(max(kills // each, fewest), kills, len(pairs))
    cells = [Cell(kind, operator, sink, 0) for operator, sink in pairs]
    for number in range(kills if struck else 0):
        cells[number % struck].wanted += 1
    return cells


def in_turns(cells: Sequence[Cell], together: Mapping[str, int]) -> list[list[Cell]]:
    """Group cells of one kind that run together, breadth first: the first cells of every kind precede the next cells of any kind.

    Args:
        cells: The cells of each kind in the order of striking. Cells without kills are left out.
        together: The largest group of each kind. A group shares what is slow to start.
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
    """Create the topics of a cell that writes to Kafka."""
    if cell.sink == "kafka":
        make_topics(servers, Place("kafka", cell.name, folder, servers), QUERIES[cell.operator], rows)
