"""A batch of tumbling windows: rows reduced by Spark's own aggregation, which is the default, and reduced in Python.

The more rows a key has in a pane, the better is Spark's aggregation. The measured crossing is ``ROWS_PER_PANE`` of
``panestream.spark.catalyst``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

import panestream as pst
from benchmarks.features.contest import BEGIN, SECOND, Contest, Contestant, shuffled, write_parts
from panestream import agg

ROWS, KEYS = 4_000_000, 10_000


def write(folder: Path, scale: float, rows_per_pane: int) -> int:
    """Write one file of 10,000 keys with so many rows for each key and 10 seconds."""
    rng = np.random.default_rng(7)
    rows = int(ROWS * scale)
    times = BEGIN + np.sort(rng.integers(0, max(1, rows // KEYS // rows_per_pane) * 10 * SECOND, rows))
    columns = {"key": rng.integers(0, KEYS, rows), "at": times, "value": rng.integers(0, 1000, rows)}
    order = shuffled(times, SECOND, rng)
    write_parts(folder / "rows", [{name: values[order] for name, values in columns.items()}])
    return rows


def tumbling(hint: int | None, spark: SparkSession, source: Path, folder: Path) -> None:
    """Sum and count, with the option ``rows_per_pane`` if there is a hint."""
    keyed = pst.stream(spark.read.parquet(str(source / "rows")), time="at", out_of_orderness="1 second").key_by("key")
    windows = keyed.window(pst.tumbling("10 seconds"))
    windows = windows if hint is None else windows.options(rows_per_pane=hint)
    results = windows.aggregate(agg.sum("value").alias("total"), agg.count().alias("n"))
    results.main.write.parquet(str(folder / "out"))


WAYS: dict[str, Contestant] = {"in Python": partial(tumbling, 1), "by Spark": partial(tumbling, None)}
CONTESTS = [
    Contest(
        f"batch-{number}",
        f"tumbling 10 s, sum and count, {KEYS:,} keys, {number} rows of a key in a pane, batch",
        WAYS,
        partial(write, rows_per_pane=number),
    )
    for number in (4, 10, 40, 130, 400)
]
