"""Shrink a broken run of the campaign, and write a script that reproduces it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, TypeAlias

from panestream.testing.simulation.explore import NOTHING, BrokenError, Disturbance, Explorer
from panestream.testing.simulation.failure_report import steps_of
from panestream.testing.simulation.schedule import MicroBatch, Row, Settings
from panestream.testing.simulation.shrink import Case, shrunk, with_fewer_rows
from tests.testing.simulation.campaign.queries import SIDES, Query, QuerySchedule
from tests.testing.simulation.campaign.subjects import ReferenceSubject

TRIES = 300
"""The maximum number of smaller schedules to try."""
QueryCase: TypeAlias = Case[QuerySchedule]


def script_of(case: QueryCase, found: str = "") -> str:
    """Return a Python script that runs the case again.

    Args:
        case: a broken case.
        found: a description of its origin.
    """
    said = [line for line in (found, case.error.what[:1000]) if line]
    return "\n".join(
        [
            *(f"# {line}" for text in said for line in text.splitlines()),
            "from panestream.testing.simulation.explore import Disturbance",
            "from panestream.testing.simulation.schedule import MicroBatch, Row, Settings",
            "from tests.testing.simulation.campaign.queries import Query, QuerySchedule",
            "from tests.testing.simulation.campaign.script import replay",
            "",
            "schedule = QuerySchedule(",
            f"    {source(case.schedule.query)},",
            "    (",
            *(f"        {line}" for batch in case.schedule.batches for line in _batch(batch)),
            "    ),",
            ")",
            f"replay(schedule, {source(case.error.disturbance)}, {source(case.change)})",
            "",
        ]
    )


def _batch(batch: MicroBatch) -> Iterator[str]:
    yield f"MicroBatch(clock={batch.clock}, tasks=("
    for rows in batch.tasks:
        yield "    ("
        yield from (f"        {source(row)}," for row in rows)
        yield "    ),"
    yield ")),"


def source(value: Any) -> str:
    """Return the source text of a value. Fields of an object that have their default are omitted.

    >>> print(source(Settings(delay=3)))
    Settings(delay=3)
    """
    if isinstance(value, Row):
        return f"Row{tuple(value)!r}"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    given = [
        f"{each.name}={source(getattr(value, each.name))}"
        for each in fields(value)
        if each.default is MISSING or getattr(value, each.name) != each.default
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def replay(schedule: QuerySchedule, disturbance: Disturbance, change: Settings | None = None) -> None:
    """Run one schedule with one disturbance, and print its steps.

    Args:
        schedule: the query and its input. Rows that close all windows are added.
        disturbance: what disturbs the run.
        change: the settings with which the query may be started again.

    Raises:
        BrokenError: a promise was broken.

    >>> from tests.testing.simulation.campaign.queries import Query
    >>> minutes = Query("panes", {"type": "tumbling", "size": 10, "offset": 0})
    >>> rows = (Row("a", 3, 1, 1, "p0"),)
    >>> replay(QuerySchedule(minutes, (MicroBatch((rows,), 5),)), Disturbance("crash", step=3))  # doctest: +ELLIPSIS
    micro-batch 0
         0  enter the run into the checkpoint
         1  plan micro-batch 0
         2  put meta 0 of key group 0
         3  put meta 1 of key group 0  <- crash
    ...
    All promises were kept.
    """
    explorer = Explorer(ReferenceSubject.of(schedule), change, kinds=())
    try:
        explorer.explore()
        if disturbance.kind != NOTHING:
            explorer.run(disturbance)
    finally:
        for line in steps_of(explorer, disturbance):
            print(line)
    print("All promises were kept.")


def failure_of(case: QueryCase, found: str) -> str:
    """Return the report of a broken case: the error, its steps, and the script."""
    explorer = Explorer(ReferenceSubject.of(case.schedule), case.change, kinds=())
    with suppress(BrokenError):
        explorer.explore()
    steps = "\n".join(steps_of(explorer, case.error.disturbance))
    return f"{found}: {case.error}\n\n{steps}\n\n{script_of(case, found)}"


def smaller_cases(case: QueryCase) -> Iterator[tuple[QuerySchedule, Settings | None]]:
    """Yield smaller schedules and settings, the smallest first."""
    schedule, change = case.schedule, case.change
    batches = schedule.batches
    for fewer in with_fewer_rows(batches):
        yield replace(schedule, batches=fewer), change
    if change is not None:
        yield schedule, None
    for query in _simpler(schedule.query):
        yield replace(schedule, query=query), change
    for number, batch in enumerate(batches):
        for plainer in _plainer(batch):
            yield replace(schedule, batches=(*batches[:number], plainer, *batches[number + 1 :])), change


def shrunk_case(case: QueryCase, tries: int = TRIES) -> QueryCase:
    """Return the smallest case found, with fewer micro-batches and rows, and a simpler query."""
    return shrunk(case, ReferenceSubject.of, smaller_cases, tries)


def _simpler(query: Query) -> Iterator[Query]:
    plain = {"groups": 1, "idle": None, "partitions": False, "late": False, "invalid": False, "trigger": None, "evictor": None}
    for name, value in {**plain, "settings": Settings(), "exchanges": True, "exact": False, "behind": 0, "how": "inner"}.items():
        if getattr(query, name) != value and not (name == "partitions" and query.idle is not None):
            yield replace(query, **{name: value})  # type: ignore[arg-type]


def _plainer(batch: MicroBatch) -> Iterator[MicroBatch]:
    for place, rows in enumerate(batch.tasks):
        for at, row in enumerate(rows):
            plain = Row("a", row.time, None, row.number, row.partition if row.side in SIDES else "p0")
            if row != plain:
                yield replace(
                    batch, tasks=(*batch.tasks[:place], (*rows[:at], plain, *rows[at + 1 :]), *batch.tasks[place + 1 :])
                )
