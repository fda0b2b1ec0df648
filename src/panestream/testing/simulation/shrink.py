"""Reduces a schedule that breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from panestream.testing.simulation.explore import KINDS, BrokenError, first_broken
from panestream.testing.simulation.schedule import MicroBatch, Settings
from panestream.testing.simulation.subject import Subject

AnySchedule = TypeVar("AnySchedule")
Smaller: TypeAlias = tuple[AnySchedule, Settings | None]


@dataclass(frozen=True)
class Case(Generic[AnySchedule]):
    """A schedule without closing rows, the settings of its restart, and the first error."""

    schedule: AnySchedule
    change: Settings | None
    error: BrokenError


def shrunk(
    case: Case[AnySchedule],
    subject_of: Callable[[AnySchedule], Subject],
    smaller_of: Callable[[Case[AnySchedule]], Iterable[Smaller[AnySchedule]]],
    tries: int,
) -> Case[AnySchedule]:
    """Return the smallest case found in which the same kind of disturbance breaks a promise.

    ``smaller_of`` yields much smaller schedules and settings first. The limit of ``tries`` is a number and not a time, so that a
    seed always gives the same script.
    """
    kind = case.error.disturbance.kind
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for schedule, change in smaller_of(case):
            if tries <= 0:
                return case
            tries -= 1
            error = _error_of(schedule, change, kind, subject_of)
            # Another kind is another error: a smaller query may be meaningless.
            if error is not None and error.disturbance.kind == kind:
                case, is_smaller = Case(schedule, change, error), True
                break
    return case


def breaks_again(case: Case[AnySchedule], subject_of: Callable[[AnySchedule], Subject]) -> bool:
    """Return whether the case breaks a promise again; otherwise it cannot be reduced."""
    return _error_of(case.schedule, case.change, case.error.disturbance.kind, subject_of) is not None


def _error_of(
    schedule: AnySchedule, change: Settings | None, kind: str, subject_of: Callable[[AnySchedule], Subject]
) -> BrokenError | None:
    try:
        subject = subject_of(schedule)
    except Exception:  # noqa: BLE001 - a query that cannot be made is no smaller case
        return None
    return first_broken(subject, change, {kind} & set(KINDS))


def with_fewer_rows(batches: tuple[MicroBatch, ...]) -> Iterator[tuple[MicroBatch, ...]]:
    """Yield the micro-batches without one of them, or without some of its rows."""
    for number in range(len(batches)):
        if len(batches) > 1:
            yield batches[:number] + batches[number + 1 :]
    for number, batch in enumerate(batches):
        for smaller in _fewer_rows(batch):
            yield (*batches[:number], smaller, *batches[number + 1 :])


def _fewer_rows(batch: MicroBatch) -> Iterator[MicroBatch]:
    for task in range(len(batch.tasks)):
        if len(batch.tasks) > 1:
            yield replace(batch, tasks=batch.tasks[:task] + batch.tasks[task + 1 :])
    for place, task_rows in enumerate(batch.tasks):
        for row in range(len(task_rows)):
            if len(task_rows) > 1:
                fewer = task_rows[:row] + task_rows[row + 1 :]
                yield replace(batch, tasks=(*batch.tasks[:place], fewer, *batch.tasks[place + 1 :]))
