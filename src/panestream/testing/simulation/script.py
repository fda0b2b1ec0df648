"""A broken run as a script that shows it again, and as a list of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from panestream.testing.simulation.explore import COPIES, CRASH, NOTHING, SAVEPOINT, BrokenError, Disturbance, Explorer
from panestream.testing.simulation.schedule import MicroBatch, Row, Schedule, Settings
from panestream.testing.simulation.shrink import Case
from panestream.testing.simulation.subject import Known, Subject


def script_of(case: Case, found: str = "") -> str:
    """A Python script that runs the case again.

    Args:
        case: a broken one.
        found: where it comes from, in words.
    """
    said = [line for line in (found, case.error.what[:1000]) if line]
    return "\n".join(
        [
            *(f"# {line}" for text in said for line in text.splitlines()),
            "from panestream.testing.simulation.explore import Disturbance",
            "from panestream.testing.simulation.schedule import MicroBatch, Query, Row, Schedule, Settings",
            "from panestream.testing.simulation.script import replay",
            "",
            "schedule = Schedule(",
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
    """A value as it is written; of an object what is not its default.

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


def replay(schedule: Schedule, disturbance: Disturbance, change: Settings | None = None) -> None:
    """Runs one schedule with one disturbance, and prints what happens.

    Args:
        schedule: what comes; what closes all windows is added.
        disturbance: what happens to it.
        change: the settings that the query may be started again with.

    Raises:
        BrokenError: a promise was not kept.

    >>> from panestream.testing.simulation.schedule import Query
    >>> minutes = Query("panes", {"type": "tumbling", "size": 10, "offset": 0})
    >>> rows = (Row("a", 3, 1, 1, "p0"),)
    >>> replay(Schedule(minutes, (MicroBatch((rows,), 5),)), Disturbance("crash", step=3))  # doctest: +ELLIPSIS
    micro-batch 0
         0  enter the run into the checkpoint
         1  plan micro-batch 0
         2  put panes 0 of key group 0
         3  put meta 0 of key group 0  <- crash
    ...
    All promises were kept.
    """
    explorer = Explorer(Known.of(schedule), change, kinds=())
    try:
        explorer.explore()
        if disturbance.kind != NOTHING:
            explorer.run(disturbance)
    finally:
        for line in steps_of(explorer, disturbance):
            print(line)
    print("All promises were kept.")


def steps_of(explorer: Explorer, disturbance: Disturbance) -> Iterator[str]:
    """The steps of the undisturbed run, and where the disturbance is, line by line."""
    at, kind = None, disturbance.kind
    shown, in_batch = -1, 0
    for step, moment in enumerate(explorer.moments):
        if moment.batch != shown:
            shown, in_batch = moment.batch, 0
            yield f"micro-batch {shown}"
        if kind == CRASH:
            at = step == disturbance.step
        yield f"  {step:4}  {moment.name}{'  <- crash' if at else ''}"
        in_batch += 1
    if kind in (COPIES, SAVEPOINT):
        yield f"in micro-batch {disturbance.batch}: {kind}, before its step {disturbance.step} ({disturbance.name})"
    elif kind not in (CRASH, NOTHING):
        yield f"after micro-batch {disturbance.batch}: {kind}"


def failure_of(case: Case, found: str, subject: Subject) -> str:
    """What is said of a broken case: what is wrong, its steps, and the script."""
    explorer = Explorer(subject, case.change, kinds=())
    with suppress(BrokenError):
        explorer.explore()
    steps = "\n".join(steps_of(explorer, case.error.disturbance))
    return f"{found}: {case.error}\n\n{steps}\n\n{script_of(case, found)}"
