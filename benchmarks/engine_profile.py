"""Rows per second of the columnar operators of sessions and counts alone: pack, process and state calls, without Spark.

Run: ``python -m benchmarks.engine_profile [--rows 1000000] [--keys 10000] [--batches 5]``. Seconds are processor time of one
core; compare only figures of one run. A micro-batch is one chunk of one key group; its state is encoded and decoded as on Spark.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.plan import Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.watermarks import WatermarkStrategy

KEYS = pa.schema([("key", pa.int64())])
AGGREGATES = (agg.sum("value").alias("total"), agg.count().alias("n"))
SECOND = 1_000_000


@dataclass(frozen=True)
class Case:
    """One workload.

    Attributes:
        name: the name of the case.
        windowing: the windows.
        rate: rows per second of event time.
        late: the share of rows that are a minute or more too late.
    """

    name: str
    windowing: WindowQuery
    rate: int
    late: float = 0.0


def counted(size: int, slide: int | None = None) -> WindowQuery:
    """Return count windows."""
    return WindowQuery(*CountWindows(size, slide).parts)


CASES = (
    Case("session 30 s, 10,000 rows/s", WindowQuery(EventTimeSessionWindows(30 * SECOND)), 10_000),
    Case("session 2 s, 10,000 rows/s (Flink's c)", WindowQuery(EventTimeSessionWindows(2 * SECOND)), 10_000),
    Case("session 2 s, 5 % late", WindowQuery(EventTimeSessionWindows(2 * SECOND)), 10_000, 0.05),
    Case("session 2 s, 30 % late", WindowQuery(EventTimeSessionWindows(2 * SECOND)), 10_000, 0.3),
    Case("count 100 (Flink's e)", counted(100), 10_000),
    Case("count 100, slide 10", counted(100, 10), 10_000),
    Case("count 100, slide 7", counted(100, 7), 10_000),
)


def plan_of(case: Case) -> WindowPlan:
    """Return the plan over ``key, value`` with one key group."""
    operator = plan_aggregates(case.windowing, AGGREGATES, {"value": pa.int64()}, KEYS)
    return WindowPlan(("key",), KEYS, case.windowing.assigner, operator, WatermarkStrategy(SECOND), "ts", 1)


def chunk_of(case: Case, rows: int, keys: int, number: int) -> Chunk:
    """Return the rows of one micro-batch with random keys and event times in whole milliseconds, a second out of order."""
    rng = np.random.default_rng(number)
    begin = number * rows // case.rate * SECOND
    times = begin + np.arange(rows) * 1000 // case.rate * 1000 - rng.integers(0, 1000, rows) * 1000
    if case.late:
        late = rng.random(rows) < case.late
        times[late] -= rng.integers(60, 600, int(late.sum())) * SECOND
    return Chunk(times, [pa.array(rng.integers(0, keys, rows))], [pa.array(rng.integers(0, 1000, rows))])


def _packed(plan: WindowPlan, chunk: Chunk) -> list[tuple[str, pa.Table]]:
    return list(plan.operator.pack(plan, chunk))


def _processed(plan: WindowPlan, state: MemoryState, batch: GroupInput) -> GroupOutput:
    return plan.operator.for_group(plan, state, 0).process(batch)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time, and the result."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def measure(case: Case, rows: int, keys: int, batches: int) -> None:
    """Print one line with medians over the micro-batches after the first."""
    plan, state = plan_of(case), MemoryState()
    packed, processed, sizes, calls = [], [], [], []
    for number in range(batches + 1):
        chunk = chunk_of(case, rows, keys, number)
        values = chunk.values[: len(plan.operator.inputs)]
        given = Chunk(chunk.times, chunk.keys, values)
        pack_s, parts = timed(partial(_packed, plan, given))
        batch = GroupInput(input_rows=rows, seen={"": int(chunk.times.max())})
        for kind, table in parts:
            batch.parts.setdefault(kind, []).append(table)
        operator_s, output = timed(partial(_processed, plan, state, batch))
        packed.append(pack_s)
        processed.append(operator_s)
        sizes.append(sum(table.nbytes for _, table in parts))
        calls.append(
            (output.metrics.state_calls, output.metrics.fired_rows, output.metrics.state_bytes, output.metrics.late_rows)
        )
    pack_s, operator_s = float(np.median(packed[1:])), float(np.median(processed[1:]))
    state_calls, fired, state_bytes, late = calls[-1]
    print(
        f"{case.name:40} pack {rows / pack_s / 1e6:6.2f} M rows/s   process {rows / operator_s / 1e6:6.2f}   "
        f"both {rows / (pack_s + operator_s) / 1e6:6.2f}   exchange {np.median(sizes) / rows:5.1f} B/row   "
        f"state calls {state_calls}, {state_bytes / 1e6:.2f} MB   fired {fired:,}, late {late:,}"
    )


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a micro-batch")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    options = parser.parse_args()
    for case in CASES:
        if options.only in case.name:
            measure(case, options.rows, options.keys, options.batches)


if __name__ == "__main__":
    main()
