"""Processor time of filled windows, compared with unfilled ones and with pandas in a batch.

Run: ``python -m benchmarks.fill [--keys 20000] [--repeats 5] [--write]``, without Spark. Half of the keys have rows in a window.
Seconds are processor time of one core, so other load on the machine does not count much. All contestants of a repetition run one
after another. The peer builds each key's missing windows with ``reindex`` and ``ffill`` from results that are already aggregated,
so it does less: it does not aggregate, and it keeps no state. (Spark itself has no filling. Its usual way, ``sequence`` and a
join, needs all results at once, as pandas does.)
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from panestream.engine.plan import Chunk, WindowPlan
from panestream.engine.planner import plan_aggregates
from panestream.engine.query import WindowQuery
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.fill import Fill
from panestream.windowing.watermarks import WatermarkStrategy

SIZE, WINDOWS, ROWS_PER_KEY = 60_000_000, 20, 3
KEYS = pa.schema([("key", pa.int64())])
RESULTS = Path(__file__).parent / "results"


def plan_of(fill: Fill | None) -> WindowPlan:
    """Return the plan of a count and a mean."""
    window = WindowQuery(TumblingEventTimeWindows(SIZE), fill=fill)
    aggregates = (agg.count().alias("n"), agg.mean("x").alias("mean"))
    operator = plan_aggregates(window, aggregates, {"x": pa.float64()}, KEYS)
    return WindowPlan(("key",), KEYS, window.assigner, operator, WatermarkStrategy(0), "ts", 1)


def micro_batches(keys: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return keys, times and values of one micro-batch for each window; each key is in every other window."""
    rng, made = np.random.default_rng(7), []
    for number in range(WINDOWS):
        some = np.flatnonzero((np.arange(keys) + number) % 2 == 0) if number else np.arange(keys)
        names = np.repeat(some, ROWS_PER_KEY)
        made.append((names, number * SIZE + rng.integers(0, SIZE, len(names)), rng.random(len(names))))
    return made


def run(plan: WindowPlan, batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> int:
    """Run the micro-batches with a new operator on the stored bytes each time; return the number of emitted rows."""
    state, emitted = MemoryState(), 0
    for keys, times, values in batches:
        given = GroupInput(input_rows=len(keys), seen={"": int(times.max())})
        for kind, part in plan.operator.pack(plan, Chunk(times, [pa.array(keys)], [pa.array(values)])):
            given.parts.setdefault(kind, []).append(part)
        output = plan.operator.for_group(plan, state, 0).process(given)
        emitted += sum(table.num_rows for _, table in output.tables)
    return emitted


def aggregated(batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> pd.DataFrame:
    """Return the results of all windows but the last, which time does not pass."""
    parts = [pd.DataFrame({"key": keys, "window": times // SIZE, "x": values}) for keys, times, values in batches[:-1]]
    return pd.concat(parts).groupby(["key", "window"]).x.agg(["size", "mean"])


def by_pandas(results: pd.DataFrame) -> int:
    """Fill aggregated results from the first window of all keys to the last."""
    every = pd.MultiIndex.from_product([results.index.levels[0], range(WINDOWS - 1)], names=["key", "window"])
    filled = results.reindex(every)
    filled["size"] = filled["size"].fillna(0)
    filled["mean"] = filled["mean"].groupby(level=0).ffill()
    return len(filled)


def seconds(work: Callable[[], int]) -> tuple[float, int]:
    """Return the processor seconds of some work, and its result."""
    begun = time.process_time()
    rows = work()
    return time.process_time() - begun, rows


def measure(keys: int, repeats: int) -> str:
    """Return the table of all contestants."""
    batches = micro_batches(keys)
    results = aggregated(batches)
    contestants: dict[str, Callable[[], int]] = {
        "unfilled windows": lambda: run(plan_of(None), batches),
        "filled by zero": lambda: run(plan_of(Fill("zero")), batches),
        "filled by last": lambda: run(plan_of(Fill("last", (("n", "zero"),))), batches),
        "filled by linear": lambda: run(plan_of(Fill("zero", (("mean", "linear"),))), batches),
        "pandas, reindex and ffill of results": lambda: by_pandas(results),
    }
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    emitted: dict[str, int] = {}
    for _ in range(repeats):
        for name, work in contestants.items():
            one_run, emitted[name] = seconds(work)
            taken[name].append(one_run)
    ratios = {
        name: [own / base for own, base in zip(spent, taken["unfilled windows"], strict=True)] for name, spent in taken.items()
    }
    lines = [
        f"{keys:,} keys, {WINDOWS} windows and micro-batches, {sum(len(names) for names, _, _ in batches):,} rows, "
        f"{repeats} repetitions",
        "",
        "| | rows emitted | processor seconds, median | spread | µs an emitted row | ratio to unfilled, median |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, spent in taken.items():
        middle, each = statistics.median(spent), statistics.median(spent) / max(emitted[name], 1) * 1e6
        spread = f"{min(spent):.2f} to {max(spent):.2f}"
        lines.append(
            f"| {name} | {emitted[name]:,} | {middle:.2f} | {spread} | {each:.2f} | {statistics.median(ratios[name]):.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table, and write it if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/fill.md")
    options = parser.parse_args()
    table = measure(options.keys, options.repeats)
    print(table)
    if options.write:
        command = f"`python -m benchmarks.fill --keys {options.keys} --repeats {options.repeats}`"
        (RESULTS / "fill.md").write_text(f"# Windows without rows\n\n{command}\n\n{table}\n")


if __name__ == "__main__":
    main()
