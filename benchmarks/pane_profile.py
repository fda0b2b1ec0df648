"""Rows per second of aligned panes alone, once the longest window is full: pack, process and state calls, without Spark.

Run: ``python -m benchmarks.pane_profile [--rows 200000] [--keys 1000] [--rate 10000]``. It measures one size (an hour) with ever
smaller slides, rolling windows alone and together, late rows, and continuous triggers. Seconds are processor time of one core, as
the median of the measured micro-batches. Compare only figures of one run. State is encoded and decoded as on Spark.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.plan import Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import SlidingEventTimeWindows
from panestream.windowing.watermarks import WatermarkStrategy

KEYS = pa.schema([("key", pa.int64())])
SUMS = (agg.sum("value").alias("total"), agg.count().alias("n"))
LARGEST = (agg.max("value").alias("largest"), agg.mean("price").alias("mean"))
TYPES = {"value": pa.int64(), "price": pa.float64()}
SECOND = 1_000_000
HOUR = 3600 * SECOND


@dataclass(frozen=True)
class Case:
    """One workload.

    Attributes:
        name: the name of the case.
        windowing: the windows.
        fill: the length of the longest window.
        aggregates: the aggregates to compute.
        late: the share of rows that are late, by up to ten minutes.
    """

    name: str
    windowing: WindowQuery
    fill: int = HOUR
    aggregates: tuple[agg.Aggregate, ...] = SUMS
    late: float = 0.0


def sliding(size: int, slide: int, **more: Any) -> WindowQuery:
    """Return sliding windows of seconds."""
    return WindowQuery(SlidingEventTimeWindows(size * SECOND, slide * SECOND), **more)


def cases() -> Iterator[Case]:
    """Return all workloads."""
    for slide in (3600, 600, 60, 10, 1):
        yield Case(f"1 h / {slide} s, sum and count", sliding(3600, slide))
    for slide in (3600, 60, 1):
        yield Case(f"1 h / {slide} s, max and mean", sliding(3600, slide), aggregates=LARGEST)
    for slide in (3600, 60, 1):
        yield Case(f"1 h / {slide} s, arg_max", sliding(3600, slide), aggregates=(agg.arg_max("value", "price", "value"),))
    yield Case("1 h / 60 s, 30 % late, lateness 10 min", sliding(3600, 60, allowed_lateness=600 * SECOND), late=0.3)
    try:
        from panestream.windowing.assigners.base import SeveralWindows
    except ImportError:
        return
    rolling = {f"{minutes} min": SlidingEventTimeWindows(minutes * 60 * SECOND, 10 * SECOND) for minutes in (60, 30, 5)}
    yield Case("60 min / 10 s alone", WindowQuery(rolling["60 min"]))
    yield Case("60, 30 and 5 min / 10 s together", WindowQuery(SeveralWindows.of(rolling)))


def plan_of(case: Case) -> WindowPlan:
    """Return the plan over ``key, value, price`` with one key group."""
    operator = plan_aggregates(case.windowing, case.aggregates, TYPES, KEYS)
    lateness = case.windowing.allowed_lateness
    strategy = WatermarkStrategy(SECOND)
    return WindowPlan(("key",), KEYS, case.windowing.assigner, operator, strategy, "ts", 1, allowed_lateness=lateness)


def chunk_of(case: Case, plan: WindowPlan, rows: int, keys: int, rate: int, number: int) -> Chunk:
    """Return the rows of one micro-batch with random keys and event times in whole milliseconds, a second out of order."""
    rng = np.random.default_rng(number)
    times = number * rows // rate * SECOND + np.arange(rows) * 1000 // rate * 1000 - rng.integers(0, 1000, rows) * 1000
    if case.late:
        late = rng.random(rows) < case.late
        times[late] -= rng.integers(2, 600, int(late.sum())) * SECOND
    values = {"value": pa.array(rng.integers(0, 1000, rows)), "price": pa.array(rng.random(rows))}
    return Chunk(times, [pa.array(rng.integers(0, keys, rows))], [values[name] for name in plan.operator.inputs])


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time, and the result."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def measure(case: Case, rows: int, keys: int, rate: int, batches: int) -> None:
    """Print one line about the micro-batches after the longest window is full."""
    plan, state = plan_of(case), MemoryState()
    filling = case.fill // SECOND * rate // rows + 1
    packed, processed, output = [], [], None
    fired = 0
    for number in range(filling + batches):
        chunk = chunk_of(case, plan, rows, keys, rate, number)
        pack_s, parts = timed(lambda chunk=chunk: list(plan.operator.pack(plan, chunk)))  # type: ignore[misc]
        batch = GroupInput(input_rows=rows, seen={"": int(chunk.times.max())})
        for kind, table in parts:
            batch.parts.setdefault(kind, []).append(table)
        operator_s, output = timed(lambda batch=batch: plan.operator.for_group(plan, state, 0).process(batch))  # type: ignore[misc]
        if number >= filling:
            packed.append(pack_s)
            processed.append(operator_s)
            fired += output.metrics.fired_rows
    assert output is not None  # noqa: S101 - there was a micro-batch
    pack_s, operator_s, worst = float(np.mean(packed)), float(np.mean(processed)), max(processed)
    metrics = output.metrics
    print(
        f"{case.name:40} pack {pack_s * 1e3:7.1f} ms   process {operator_s * 1e3:8.1f} ms (worst {worst * 1e3:8.1f})   "
        f"both {rows / (pack_s + operator_s) / 1e6:6.3f} M rows/s   fired {fired // len(packed):>9,} a batch   "
        f"state {metrics.state_bytes / 1e6:7.1f} MB, {metrics.blocks} blocks, {metrics.state_calls} calls, "
        f"{metrics.bytes_read / 1e6:6.1f} MB read, {metrics.bytes_written / 1e6:5.1f} written",
        flush=True,
    )


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a micro-batch")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=10_000, help="rows per second of event time")
    parser.add_argument("--batches", type=int, default=12, help="micro-batches measured")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    given = parser.parse_args()
    for case in cases():
        if given.only in case.name:
            measure(case, given.rows, given.keys, given.rate, given.batches)


if __name__ == "__main__":
    main()
