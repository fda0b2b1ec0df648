"""How many rows a key has in a pane of a batch, by a sample. It decides whether Spark or Python reduces the rows.

The sample is the beginning of the first file. It is taken only if the plan does nothing but read files: behind a join, a filter
or a shuffle, the first rows may cost as much as all. Files in the order of time show the number. In others the rows of a pane may
be anywhere.
"""

from __future__ import annotations

import re

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.engine.kernels.columns import Ints
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.session import explained

SAMPLE_ROWS = 10_000
_CHUNKS = 10
_TREND = 0.2
"""In the order of time, the chunks of a sample are later and later, by this share of its spread in all."""
_NODE = re.compile(r"^[\s:+|-]*(?:\*\(\d+\) )?(\w+)")
_READS = {"Project", "ColumnarToRow", "FileScan", "BatchScan"}
"""The nodes of Spark's plan whose first rows cost little."""


def sampled_rows_per_pane(projected: DataFrame, keys: int, pane: float) -> float | None:
    """Return how many rows a key has in a pane on average, or None if a sample cannot show it. It runs a small job.

    Args:
        projected: the input of ``pack``: event times in microseconds, ``key_0`` and so on.
        keys: the number of key columns.
        pane: the length of a pane in microseconds.
    """
    key = F.xxhash64(*(f"key_{position}" for position in range(keys))) if keys else F.lit(0).cast("bigint")
    rows = projected.select(key.alias("key"), "time")
    try:
        with silence_analysis_errors():
            sample = rows.head(SAMPLE_ROWS) if only_reads_files(explained(rows)) else []
    except Exception:  # noqa: BLE001 (the query itself raises the error when it runs)
        return None
    if len(sample) < SAMPLE_ROWS or any(time is None for _, time in sample):
        return None
    found = np.array(sample, np.int64)
    return rows_per_pane(found[:, 0], found[:, 1], pane)


def only_reads_files(plan: str) -> bool:
    """Return whether a physical plan, as Spark prints it, only reads columns of files."""
    _, *lines = [line for line in plan.splitlines() if line.strip()] or [""]
    nodes = [_NODE.match(line) for line in lines]
    return bool(nodes) and all(node is not None and node.group(1) in _READS for node in nodes)


def rows_per_pane(keys: Ints, times: Ints, pane: float) -> float | None:
    """Return the average number of rows of a key in a pane, given consecutive rows, or None if they are not in the order of time.

    A sample shorter than two panes shows how many keys there are by how often one repeats: keys that come equally often in
    random order make up ``(1 - exp(-x)) / x`` of the rows, with ``x`` rows for each.

    >>> rng = np.random.default_rng(7)
    >>> keys, times = rng.integers(0, 5_000, 10_000), np.arange(10_000) * 1_000
    >>> round(rows_per_pane(keys, times, 40_000_000))
    8
    >>> round(rows_per_pane(keys, times, 2_000_000), 1)
    1.2
    >>> rows_per_pane(keys, rng.permutation(times), 40_000_000) is None
    True
    """
    middles = [float(np.median(chunk)) for chunk in np.array_split(times, _CHUNKS)]
    span = abs(middles[-1] - middles[0]) * _CHUNKS / (_CHUNKS - 1)
    spread = float(np.quantile(times, 0.95) - np.quantile(times, 0.05))
    if span == 0 or span < _TREND * spread:
        return None
    if span >= 2 * pane:
        return len(times) / len(np.unique(np.stack([keys, (times // pane).astype(np.int64)], axis=1), axis=0))
    return max(1.0, _rows_per_key(len(times), len(np.unique(keys))) * pane / span)


def _rows_per_key(rows: int, distinct: int) -> float:
    """Return the rows of each key if keys come equally often in random order. A few repetitions are always assumed."""
    share = min(distinct, rows - 10) / rows
    low, high = 1e-9, rows / share
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if -np.expm1(-middle) / middle > share else (low, middle)
    return low
