"""What a user is told of windows of his own that did not end as they must."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from panestream.errors import PanestreamError
from panestream.testing.simulation.explore import NOTHING, BrokenError, Explorer
from panestream.testing.simulation.own import Asked, Own
from panestream.testing.simulation.process import BrokenPromiseError
from panestream.testing.simulation.schedule import Schedule
from panestream.testing.simulation.script import steps_of
from panestream.testing.simulation.shown import Micros
from panestream.testing.simulation.shrink import Case, breaks_again, shrunk
from panestream.windowing.failures import WindowFunctionError
from panestream.windowing.time import format_duration

TRIES = 100
"""So many smaller schedules are tried: each may run a function of the user's a few hundred times."""
CHANCE = (
    "The same rows gave another result: look in the function for what outlives a call and is no state (a global, an attribute, a "
    "cache), for chance, a clock, the order of a set."
)
GONE = (
    "Run once more, the same rows passed, so they were not made fewer: what the function keeps outlives a run (a global, an "
    "attribute, a cache), or it draws by chance."
)


def broken(asked: Asked, schedule: Schedule, error: BrokenError, found: str) -> str:
    """What is wrong, with which rows and at which step, as small as it is found."""

    def own(rows: Schedule) -> Own:
        return Own(asked, asked.closed(rows))

    case = Case(schedule, None, error)
    again = breaks_again(case, own)
    if again:
        case = shrunk(case, own, TRIES, rows_only=True)
    lines = [f"{found}: {case.error.disturbance}: {_wrong(case.error)}", rows_of(asked, case.schedule)]
    if case.error.disturbance.kind != NOTHING:
        lines += _steps(case, own(case.schedule))
    if not again:
        lines.append(GONE)
    elif (
        asked.query is not None
        and case.error.disturbance.kind != NOTHING
        and isinstance(case.error.__cause__, BrokenPromiseError)
    ):
        lines.append(CHANCE)
    return "\n".join(lines)


def _steps(case: Case, own: Own) -> Iterator[str]:
    """Those of the micro-batch that was disturbed."""
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
    """What else says where it was; promises that were broken, and errors of panestream's own, have said it in the message."""
    cause = error.__cause__
    return None if isinstance(cause, BrokenPromiseError | PanestreamError) else cause


def rows_of(asked: Asked, schedule: Schedule) -> str:
    """The rows, micro-batch by micro-batch, with those that close all windows."""
    query, own = schedule.query, len(schedule.batches)
    lines = [f"the watermark is {format_duration(query.settings.delay)} behind; key groups: {query.groups}"]
    for number, batch in enumerate(asked.closed(schedule).batches):
        closes = ", which closes all windows" if number >= own else ""
        lines.append(f"micro-batch {number}, clock {Micros(batch.clock)!r}{closes}:")
        lines += [f"  {row.key} at {Micros(row.time)!r}: {row.value!r}" for row in batch.rows if row.time is not None]
    return "\n".join(lines)
