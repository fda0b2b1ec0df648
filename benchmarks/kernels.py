"""Nanoseconds per row of the aggregation kernels, against pyarrow's own group_by on the same rows in the same run.

Run: ``python benchmarks/kernels.py [rows]``. Every figure is processor time, the best of a few runs in one process; compare only
figures of one run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates import Aggregate

TYPES = {"v": pa.int64(), "price": pa.float64(), "cents": pa.decimal128(12, 2), "name": pa.string()}
SETS: dict[str, list[Aggregate]] = {
    "count": [agg.count()],
    "sum + count": [agg.sum("v"), agg.count()],
    "sum + mean + count of a column": [agg.sum("v"), agg.mean("v"), agg.count("v")],
    "min + max": [agg.min("v"), agg.max("v")],
    "sum of double": [agg.sum("price")],
    "sum of decimal": [agg.sum("cents")],
    "stddev": [agg.stddev("price")],
    "first + last": [agg.first("v"), agg.last("v")],
    "max_by string": [agg.max_by("name", "v")],
    "count_distinct": [agg.count_distinct("v")],
    "collect_list": [agg.collect_list("v")],
    "top_k 3": [agg.top_k("v", 3)],
}
SHORT = ("count", "sum + count")


def best(call: Callable[[], Any], repeat: int = 3) -> tuple[float, Any]:
    """Return the processor seconds of the fastest call, and its result. Wall time would include other load on the machine."""
    fastest, result = float("inf"), None
    for _ in range(repeat):
        started = time.process_time()
        result = call()
        fastest = min(fastest, time.process_time() - started)
    return fastest, result


def data(rows: int, keys: int, panes: int) -> tuple[pa.Array, np.ndarray, np.ndarray, dict[str, pa.Array]]:
    """Return rows in the order of event time, with random keys."""
    random = np.random.default_rng(1)
    times = np.sort(random.integers(0, panes * 1000, rows))
    values = random.integers(0, 1000, rows)
    decimals = np.stack([values, np.zeros_like(values)], axis=1)
    columns = {
        "v": pa.array(values),
        "price": pa.array(random.random(rows)),
        "cents": pa.Array.from_buffers(TYPES["cents"], rows, [None, pa.py_buffer(decimals)]),
        "name": pa.array(values).cast(pa.string()),
    }
    return pa.array(random.integers(0, keys, rows) * 7919), times // 1000, times, columns


@dataclass(frozen=True)
class Shape:
    """The shape of a table's rows and windows, with a window for every pane."""

    title: str
    rows: int
    keys: int
    panes: int
    size: int


def measure(shape: Shape, names: Iterable[str]) -> None:
    """Measure and print a table with a line per set of aggregates."""
    key, pane, times, columns = data(shape.rows, shape.keys, shape.panes)
    print(f"\n{shape.title}: {shape.rows:,} rows, {shape.keys:,} keys, {shape.panes} panes, windows of {shape.size} panes")
    table = pa.table({"k": key, "p": pane, "v": columns["v"]})
    spent, _ = best(lambda: table.group_by(["k", "p"], use_threads=False).aggregate([("v", "sum"), ([], "count_all")]))
    print(f"  {'pyarrow group_by, sum + count':32} partials {spent / shape.rows * 1e9:6.1f}")
    first = np.arange(1 - shape.size, shape.panes)
    for name in names:
        aggregation = Aggregation.build(SETS[name], TYPES, pa.schema([("k", pa.int64())]))
        values = [columns[e] for e in aggregation.inputs]
        partials_s, partials = best(partial(aggregation.partials, [key], pane, values, times))
        halves = _halves(aggregation, key, pane, values, times)
        merge_s, _ = best(partial(aggregation.merge, halves))
        windows_s, (_, output) = best(partial(aggregation.windows, partials, first, first + shape.size), 2)
        print(
            f"  {name:32} partials {partials_s / shape.rows * 1e9:6.1f}   merge {merge_s / sum(map(len, halves)) * 1e9:6.1f}   "
            f"windows {windows_s / max(len(output), 1) * 1e9:6.1f}   ({len(partials):,} partials, {len(output):,} outputs)"
        )


def _halves(
    aggregation: Aggregation, key: pa.Array, pane: np.ndarray, values: list[pa.Array], times: np.ndarray
) -> list[pa.Table]:
    """Split rows into two chunks, as two tasks would get them."""
    tables = []
    for begin in (0, 1):
        rows = np.arange(begin, len(pane), 2)
        tables.append(aggregation.partials([key.take(rows)], pane[rows], [v.take(rows) for v in values], times[rows]))
    return tables


def main() -> None:
    """Prints all tables."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print("nanoseconds: partials per input row, merge per partial row, windows per output row")
    measure(Shape("tumbling", rows, 10_000, 100, 1), SETS)
    measure(Shape("sliding", rows, 10_000, 100, 60), SETS)
    measure(Shape("sparse, one window", rows, 1_000_000, 100, 1), SHORT)
    measure(Shape("sparse", rows, 1_000_000, 100, 20), SHORT)
    measure(Shape("few keys", rows, 10, 10_000, 60), SHORT)


if __name__ == "__main__":
    main()
