"""A schedule that does not keep a promise, made as small as it goes: fewer micro-batches, rows and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from panestream.testing.simulation.explore import KINDS, BrokenError, first_broken
from panestream.testing.simulation.schedule import SIDES, MicroBatch, Query, Row, Schedule, Settings
from panestream.testing.simulation.subject import Known, Subject

TRIES = 300
"""So many smaller ones are tried at most: a number, not a time, so that the same seed gives the same script."""


@dataclass(frozen=True)
class Case:
    """A schedule, the settings with which it is started again, and what is wrong with it.

    Attributes:
        schedule: without what closes all windows, which is added.
        change: the other settings.
        error: the first run that did not keep a promise.
    """

    schedule: Schedule
    change: Settings | None
    error: BrokenError


def shrunk(
    case: Case, subject_of: Callable[[Schedule], Subject] = Known.of, tries: int = TRIES, *, rows_only: bool = False
) -> Case:
    """The smallest case that is found in which the same kind of disturbance breaks a promise.

    Args:
        case: a broken one.
        subject_of: makes what is run of a schedule.
        tries: so many smaller ones are tried at most.
        rows_only: whether the query stays as it is.
    """
    kinds = {case.error.disturbance.kind} & set(KINDS)
    smaller = True
    while smaller:
        smaller = False
        for schedule, change in candidates(case, rows_only=rows_only):
            if tries <= 0:
                return case
            tries -= 1
            error = _broken(lambda schedule=schedule: subject_of(schedule), change, kinds)  # type: ignore[misc]
            # Another kind is another fault: a smaller query may simply make no sense.
            if error is not None and error.disturbance.kind == case.error.disturbance.kind:
                case, smaller = Case(schedule, change, error), True
                break
    return case


def breaks_again(case: Case, subject_of: Callable[[Schedule], Subject] = Known.of) -> bool:
    """Whether the case, run once more, breaks a promise once more; where it does not, nothing smaller can be found of it."""
    return _broken(lambda: subject_of(case.schedule), case.change, {case.error.disturbance.kind} & set(KINDS)) is not None


def _broken(subject: Callable[[], Subject], change: Settings | None, kinds: set[str]) -> BrokenError | None:
    try:
        made = subject()
    except Exception:  # noqa: BLE001 - a query that cannot be made is no smaller case
        return None
    return first_broken(made, change, kinds)


def candidates(case: Case, *, rows_only: bool = False) -> Iterator[tuple[Schedule, Settings | None]]:
    """Smaller ones, the much smaller first."""
    schedule, change = case.schedule, case.change
    batches = schedule.batches
    for number in range(len(batches)):
        if len(batches) > 1:
            yield replace(schedule, batches=batches[:number] + batches[number + 1 :]), change
    for number, batch in enumerate(batches):
        for smaller in _fewer_rows(batch):
            yield replace(schedule, batches=(*batches[:number], smaller, *batches[number + 1 :])), change
    if rows_only:
        return
    if change is not None:
        yield schedule, None
    for query in _simpler(schedule.query):
        yield replace(schedule, query=query), change
    for number, batch in enumerate(batches):
        for plainer in _plainer(batch):
            yield replace(schedule, batches=(*batches[:number], plainer, *batches[number + 1 :])), change


def _fewer_rows(batch: MicroBatch) -> Iterator[MicroBatch]:
    for task in range(len(batch.tasks)):
        if len(batch.tasks) > 1:
            yield replace(batch, tasks=batch.tasks[:task] + batch.tasks[task + 1 :])
    for place, task_rows in enumerate(batch.tasks):
        for row in range(len(task_rows)):
            if len(task_rows) > 1:
                fewer = task_rows[:row] + task_rows[row + 1 :]
                yield replace(batch, tasks=(*batch.tasks[:place], fewer, *batch.tasks[place + 1 :]))


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
