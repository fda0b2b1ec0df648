"""The cost of composed triggers compared with plain ones, on panes and on the row operator, without Spark.

Run: ``python -m benchmarks.composed [--rows 200000] [--keys 1000] [--rounds 5]``. Tumbling minutes, five seconds of event time a
micro-batch, a tenth of the rows late within the allowed lateness. Seconds are processor time of one core; the contestants take
turns, and each line has the median of the rounds. Compare only figures of one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from statistics import median

from benchmarks.pane_profile import SECOND, Case, chunk_of, plan_of
from panestream.engine.plan import WindowQuery
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.triggers import AfterCount, AfterWatermark, ContinuousEventTimeTrigger, Trigger

MINUTE, LATENESS = 60 * SECOND, 600 * SECOND
EVERY = ContinuousEventTimeTrigger(10 * SECOND)
LATE = AfterCount.of(1)
ON_PANES: Mapping[str, Trigger | None] = {
    "plain: the default trigger": None,
    "composed: late at every row": AfterWatermark().late(LATE),
    "plain: every 10 s": EVERY,
    "composed: early every 10 s, late at every row": AfterWatermark().early(EVERY).late(LATE),
    "composed: early and late at every row": AfterWatermark().early(AfterCount.of(1)).late(LATE),
}
ON_ROWS: Mapping[str, Trigger | None] = {
    "row operator, plain": None,
    "row operator, composed: early at 100 rows, late at each": AfterWatermark().early(AfterCount.of(100)).late(LATE),
}


def case_of(name: str, trigger: Trigger | None, *, exact: bool) -> Case:
    """Return the workload with a trigger."""
    windows = WindowQuery(TumblingEventTimeWindows(MINUTE), trigger, allowed_lateness=LATENESS, every_firing=exact)
    return Case(name, windows, fill=60, late=0.1)


def seconds(case: Case, rows: int, keys: int, batches: int) -> tuple[float, int]:
    """Return the processor time of some micro-batches, and the number of fired rows."""
    plan, state, spent, fired = plan_of(case), MemoryState(), 0.0, 0
    for number in range(batches):
        chunk = chunk_of(case, plan, rows, keys, rows // 5, number)
        started = time.process_time()
        batch = GroupInput(input_rows=rows, seen={"": int(chunk.times.max())})
        for kind, table in plan.operator.pack(plan, chunk):
            batch.parts.setdefault(kind, []).append(table)
        output = plan.operator.for_group(plan, state, 0).process(batch)
        spent += time.process_time() - started
        fired += output.metrics.fired_rows
    return spent, fired


def compare(contestants: Mapping[str, Trigger | None], rows: int, keys: int, rounds: int, *, exact: bool) -> None:
    """Print a line for each contestant, compared with the first."""
    cases = {name: case_of(name, trigger, exact=exact) for name, trigger in contestants.items()}
    for case in cases.values():
        seconds(replace(case), rows // 10, keys, 5)  # the work that is done once
    taken: dict[str, list[tuple[float, int]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            taken[name].append(seconds(case, rows, keys, 30))
    first = median(spent for spent, _ in next(iter(taken.values())))
    for name, found in taken.items():
        spent = median(each for each, _ in found)
        speed, fired = 30 * rows / spent / 1e6, found[0][1]
        print(f"{name:56} {speed:7.3f} M rows/s   {first / spent:5.2f} x the first   {fired:>9,} rows fired", flush=True)


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a micro-batch")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    compare(ON_PANES, given.rows, given.keys, given.rounds, exact=False)
    compare(ON_ROWS, given.rows // 10, given.keys, given.rounds, exact=True)


if __name__ == "__main__":
    main()
