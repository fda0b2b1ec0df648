"""The error message for user windows that broke a promise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from panestream.errors import PanestreamError
from panestream.testing.simulation.explore import COPIES, CRASH, NOTHING, SAVEPOINT, BrokenError, Disturbance, Explorer
from panestream.testing.simulation.formatting import Micros
from panestream.testing.simulation.own import UserQuery, UserSubject
from panestream.testing.simulation.process import BrokenPromiseError
from panestream.testing.simulation.schedule import Schedule, Settings
from panestream.testing.simulation.shrink import Case, breaks_again, shrunk, with_fewer_rows
from panestream.windowing.failures import WindowFunctionError
from panestream.windowing.time import format_duration

TRIES = 100
"""The maximum number of smaller schedules to try; each may call a user function a few hundred times."""
CHANCE = (
    "The same rows gave another result. Look in the function for values outside of state (a global, an attribute, a cache), "
    "random numbers, a clock, or the order of a set."
)
GONE = (
    "Run once more, the same rows passed, so they were not made fewer: what the function keeps outlives a run (a global, an "
    "attribute, a cache), or it draws by chance."
)


def failure_report(user_query: UserQuery, schedule: Schedule, error: BrokenError, found: str) -> str:
    """Describe the error with its rows and step, reduced as far as possible."""

    def own(rows: Schedule) -> UserSubject:
        return UserSubject(user_query, user_query.closed(rows))

    case = Case(schedule, None, error)
    again = breaks_again(case, own)
    if again:
        case = shrunk(case, own, _with_fewer_rows, TRIES)
    lines = [f"{found}: {case.error.disturbance}: {_wrong(case.error)}", rows_of(user_query, case.schedule)]
    if case.error.disturbance.kind != NOTHING:
        lines += _steps(case, own(case.schedule))
    if not again:
        lines.append(GONE)
    elif (
        user_query.query is not None
        and case.error.disturbance.kind != NOTHING
        and isinstance(case.error.__cause__, BrokenPromiseError)
    ):
        lines.append(CHANCE)
    return "\n".join(lines)


def _with_fewer_rows(case: Case[Schedule]) -> Iterator[tuple[Schedule, Settings | None]]:
    return ((replace(case.schedule, batches=fewer), None) for fewer in with_fewer_rows(case.schedule.batches))


def _steps(case: Case[Schedule], own: UserSubject) -> Iterator[str]:
    """Yield the steps of the disturbed micro-batch."""
    explorer = Explorer(own, None, ())
    with suppress(BrokenError):
        explorer.explore()
    batch, within = case.error.disturbance.batch, False
    for line in steps_of(explorer, case.error.disturbance):
        if not line.startswith(" "):
            within = line == f"micro-batch {batch}"
            if within or not line.startswith("micro-batch"):
                yield f"the steps of {line}:" if within else line
        elif within:
            yield line


def _wrong(error: BrokenError) -> str:
    cause = error.__cause__
    if isinstance(cause, WindowFunctionError):
        return str(cause.with_instants())
    return str(cause) if isinstance(cause, BrokenPromiseError) else error.what


def cause_of(error: BrokenError) -> BaseException | None:
    """Return the cause of an error, unless its message is already complete (broken promises, errors of panestream)."""
    cause = error.__cause__
    return None if isinstance(cause, BrokenPromiseError | PanestreamError) else cause


def rows_of(user_query: UserQuery, schedule: Schedule) -> str:
    """Return the rows by micro-batch, including those that close all windows."""
    own = len(schedule.batches)
    lines = [f"the watermark is {format_duration(schedule.settings.delay)} behind; key groups: {schedule.groups}"]
    for number, batch in enumerate(user_query.closed(schedule).batches):
        closes = ", which closes all windows" if number >= own else ""
        lines.append(f"micro-batch {number}, clock {Micros(batch.clock)!r}{closes}:")
        lines += [f"  {row.key} at {Micros(row.time)!r}: {row.value!r}" for row in batch.rows if row.time is not None]
    return "\n".join(lines)


def steps_of(explorer: Explorer, disturbance: Disturbance) -> Iterator[str]:
    """Yield the steps of the undisturbed run and the place of the disturbance as lines."""
    at, kind = None, disturbance.kind
    shown = -1
    for step, moment in enumerate(explorer.moments):
        if moment.batch != shown:
            shown = moment.batch
            yield f"micro-batch {shown}"
        if kind == CRASH:
            at = step == disturbance.step
        yield f"  {step:4}  {moment.name}{'  <- crash' if at else ''}"
    if kind in (COPIES, SAVEPOINT):
        yield f"in micro-batch {disturbance.batch}: {kind}, before its step {disturbance.step} ({disturbance.name})"
    elif kind not in (CRASH, NOTHING):
        yield f"after micro-batch {disturbance.batch}: {kind}"
