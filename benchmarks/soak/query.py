"""The query of the soak test as a process, which ends on a signal: ``python -m benchmarks.soak.query FOLDER RATE KEPT PACE``.

Events are numbers from 0 at a fixed rate. Key and event time follow from the number alone, so that the answer is known without
reading the input. Event times are out of order by less than the delay, so no row may be late.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import panestream as pst
from panestream import agg

KEYS = 1_000
SIZE_MS, SLIDE_MS, DELAY_MS = 30_000, 10_000, 5_000
START_MS = 1_767_225_600_000
PER_FOLDER = 100
PACES = {
    "clock": ("rate", "rowsPerSecond", "1 second"),
    "hurried": ("rate-micro-batch", "rowsPerBatch", "0 seconds"),
}
"""The source, its option for the rate, and the trigger: by the clock, or the micro-batch of the next second at once."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}


@dataclass(frozen=True)
class Folders:
    """The folders of the soak test."""

    root: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def main(self) -> Path:
        return self.root / "main"

    @property
    def late(self) -> Path:
        return self.root / "late"

    @property
    def progress(self) -> Path:
        """The file with a line of JSON for each look at the query."""
        return self.root / "progress.jsonl"


def event_time_ms(numbers: Any, rate: int) -> Any:
    """Return the time of event ``number`` in milliseconds since the epoch: in order, but up to four seconds too early."""
    return START_MS + numbers * 1000 // rate - numbers * 7919 % 4001


def expected(upto_ms: int, rate: int) -> tuple[Any, Any]:
    """Return counts and sums: a row for each key, a column for each window end from ``START_MS + SLIDE_MS`` to ``upto_ms``."""
    panes = (upto_ms - START_MS) // SLIDE_MS + 1
    counts, sums = np.zeros((KEYS, panes), np.int64), np.zeros((KEYS, panes), np.int64)
    last = (upto_ms - START_MS + 4001) * rate // 1000 + 1
    for first in range(0, last, 5_000_000):
        numbers = np.arange(first, min(first + 5_000_000, last), dtype=np.int64)
        times = event_time_ms(numbers, rate)
        inside = times < upto_ms
        # The first pane is before START_MS, because some events are too early.
        where = ((numbers % KEYS) * panes + (times - START_MS) // SLIDE_MS + 1)[inside]
        counts += np.bincount(where, minlength=KEYS * panes).reshape(KEYS, panes)
        for part, shift in ((numbers[inside] & 0xFFFFF, 0), (numbers[inside] >> 20, 20)):
            # A sum of doubles is exact below 2**53.
            sums += np.bincount(where, weights=part, minlength=KEYS * panes).reshape(KEYS, panes).astype(np.int64) << shift
    return _windows(counts), _windows(sums)


def _windows(panes: Any) -> Any:
    """Return the sum of each pane and earlier panes in the same window, from the first window that ends after START_MS."""
    whole = np.cumsum(panes, axis=1)
    reach = SIZE_MS // SLIDE_MS
    whole[:, reach:] -= whole[:, :-reach].copy()
    return whole[:, 1:]


def _events(spark: Any, rate: int, pace: str) -> Any:
    numbers = spark.readStream.format(PACES[pace][0]).option(PACES[pace][1], rate).load()
    time_ms = f"{START_MS} + value * 1000 div {rate} - value * 7919 % 4001"
    return numbers.selectExpr(f"value % {KEYS} AS key", "value", f"timestamp_millis({time_ms}) AS ts")


def main(folder: str, rate: int, kept: int, pace: str) -> None:
    """Run the query until SIGTERM, or until its parent process ends.

    Args:
        folder: the folder for all files.
        rate: rows a second.
        kept: the number of micro-batches for which Spark keeps its logs.
        pace: a name in ``PACES``.
    """
    folders, ended = Folders(Path(folder)), threading.Event()
    spark = pst.build_session("soak", {**SETTINGS, "spark.sql.streaming.minBatchesToRetain": str(kept)})
    result = (
        pst.stream(_events(spark, rate, pace))
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{DELAY_MS} ms"))
        .key_by("key")
        .window(pst.SlidingEventTimeWindows.of(f"{SIZE_MS} ms", f"{SLIDE_MS} ms"))
        .side_output_late_data("late")
        .aggregate(agg.count().alias("n"), agg.sum("value").alias("total"))
    )
    sinks: dict[str, Any] = {
        "main": pst.ParquetSink(str(folders.main), batches_per_folder=PER_FOLDER),
        "late": pst.ParquetSink(str(folders.late), batches_per_folder=PER_FOLDER),
    }
    query = result.start(checkpoint=str(folders.checkpoint), trigger={"processingTime": PACES[pace][2]}, **sinks)
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    seen, parent = -1, os.getppid()
    with folders.progress.open("a") as told:
        # The parent process may have died, and then nobody watches this one.
        while not ended.wait(1) and query.is_active and os.getppid() == parent:
            for each in query.recent_progress:
                if each.batch_id > seen:
                    seen = each.batch_id
                    line = {"at": time.time(), "batch": seen, "rows": each.rows, "ms": each.duration_ms, "late": each.late_rows}
                    told.write(json.dumps(line | {"state": each.state_bytes}) + "\n")
            told.flush()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
