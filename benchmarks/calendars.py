"""Rows per second of calendar windows compared with fixed windows, in turns: pack, process and state calls, without Spark.

Run: ``python -m benchmarks.calendars [--rows 200000] [--rounds 5]``. It compares days of New York with days of UTC, and others.
Seconds are processor time of one core, and the median of the rounds, in which all kinds take turns. A micro-batch has about an
hour of event time. The rows span the days of the clock changes.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

from benchmarks.pane_profile import Case, chunk_of, plan_of, timed
from panestream.engine.plan import WindowQuery
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import (
    CalendarDays,
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)

ZONE = "America/New_York"
PAIRS: dict[str, tuple[WindowAssigner, WindowAssigner]] = {
    "days": (TumblingEventTimeWindows.of("1 day"), CalendarDays.of(1, zone=ZONE)),
    "7 days, every day": (SlidingEventTimeWindows.of("7 days", "1 day"), CalendarDays.of(7, zone=ZONE, every=1)),
    "the day so far, every hour": (CumulatingEventTimeWindows.of("1 day", "1 hour"), CalendarDays.of(1, zone=ZONE, step="hour")),
}
BEGIN = 1_741_392_000_000_000
"""8 March 2025, 00:00 UTC, a day before the clocks of New York move forward."""
_SECONDS = 3600


def seconds(assigner: WindowAssigner, rows: int, keys: int, batches: int) -> float:
    """Return the processor time of some micro-batches of an hour each."""
    case = Case("", WindowQuery(assigner))
    plan, state, total = plan_of(case), MemoryState(), 0.0
    for number in range(batches):
        chunk = chunk_of(case, plan, rows, keys, max(rows // _SECONDS, 1), number)
        chunk = replace(chunk, times=chunk.times + BEGIN)
        packing, parts = timed(lambda chunk=chunk: list(plan.operator.pack(plan, chunk)))  # type: ignore[misc]
        batch = GroupInput(input_rows=rows, seen={"": int(chunk.times.max())})
        for kind, table in parts:
            batch.parts.setdefault(kind, []).append(table)
        operating, _ = timed(lambda batch=batch: plan.operator.for_group(plan, state, 0).process(batch))  # type: ignore[misc]
        total += packing + operating
    return total


def main() -> None:
    """Print a line for each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a micro-batch")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=48, help="micro-batches, of an hour each")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for name, pair in PAIRS.items():
        found = [[seconds(each, given.rows, given.keys, given.batches) for each in pair] for _ in range(given.rounds)]
        fixed, calendar = (statistics.median(column) for column in zip(*found, strict=True))
        rows = given.rows * given.batches / 1e6
        speed = f"fixed {rows / fixed:6.2f} M rows/s   calendar {rows / calendar:6.2f} M rows/s"
        print(f"{name:28} {speed}   ratio {fixed / calendar:.2f}", flush=True)


if __name__ == "__main__":
    main()
