"""Run a workload on one Spark contestant several times in this process, as the Flink program does, with a line of JSON each.

The events are read from Parquet in micro-batches. A last file has one row in the far future, with another key. It moves the
watermark past all windows, so that every engine emits all results, as Flink does at the end of its input. Time is wall-clock time
from the start of the first micro-batch to the end of the last.

    python -m benchmarks.flink.spark_side '{"workload": "a", "contestant": "native", ...}'
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.cases import largest_ms
from benchmarks.events import SCHEMA, EventSpec, write
from benchmarks.flink.sweep import slide_workload
from benchmarks.flink.workloads import LIMITS, WORKLOADS, Workload
from benchmarks.harness import SETTINGS, Contestant, observed
from benchmarks.processes import tell

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        workload: a name in ``WORKLOADS``, or a slide in ms of the slide sweep.
        contestant: a contestant of the case, or a limit.
        rows: the minimum number of events.
        rows_per_batch: the rows of a micro-batch.
        repeats: the number of repeats.
        data: the folder with event files.
        cores: of the local master, and also the number of shuffle partitions.
    """

    workload: str
    contestant: str
    rows: int
    rows_per_batch: int
    repeats: int
    data: str
    cores: int = 2


def workload_of(name: str) -> Workload:
    """Return the workload with this name."""
    return WORKLOADS[name] if name in WORKLOADS else slide_workload(int(name))


def write_with_end(spec: EventSpec, folder: Path) -> Path:
    """Write the events of ``spec``, and the row that closes all windows."""
    target = write(spec, folder / "with-end")
    end = target / "end.parquet"
    if not end.exists():
        far = (largest_ms(spec) + 30 * _DAY_MS) * 1000
        instant = pa.array([far]).cast(pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"key": [spec.keys], "value": [0], "ts": instant, "batch": [spec.batches]}), end)
        later = 1_600_000_000 + spec.batches * spec.files_per_batch
        os.utime(end, (later, later))
    return target


def _session(run: Run, settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{run.cores}]").appName(f"{run.contestant} {run.workload}")
    for name, value in {**SETTINGS, **settings, "spark.sql.shuffle.partitions": str(run.cores)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def repeats(run: Run) -> Iterator[dict[str, Any]]:
    """Yield seconds and checks of each repeat, with the names of the Flink program."""
    workload = workload_of(run.workload)
    spec = workload.spec(run.rows, run.rows_per_batch, run.cores)
    folder = write_with_end(spec, Path(run.data))
    module = importlib.import_module({**workload.case.contestants, **LIMITS}[run.contestant])
    spark = _session(run, getattr(module, "SETTINGS", {}))
    for _ in range(run.repeats):
        checkpoint = tempfile.mkdtemp(prefix="benchmark-")
        try:
            source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", spec.files_per_batch).parquet(str(folder))
            answer = observed(cast("Contestant", module).query(source, workload.case, spec), None)
            writer = answer.writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            yield _seconds_and_checks([json.loads(each.json) for each in query.recentProgress], spec)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
    spark.stop()


def _seconds_and_checks(progress: list[dict[str, Any]], spec: EventSpec) -> dict[str, Any]:
    read = sum(each["numInputRows"] for each in progress)
    if read != spec.rows + 1:
        raise RuntimeError(f"{read} rows were read, not {spec.rows + 1}")
    sums = dict.fromkeys(("rows", "total", "events"), 0)
    for batch in progress:
        for name in sums:
            sums[name] += batch.get("observedMetrics", {}).get("checks", {}).get(name) or 0
    start = _start(progress[0])
    ends = [_start(each) + each["durationMs"]["triggerExecution"] / 1000 for each in progress]
    return {
        "total": ends[-1] - start,
        "ingest": ends[spec.batches - 1] - start,
        "rows": sums["rows"],
        "sum": sums["total"],
        "count": sums["events"],
    }


def _start(batch: dict[str, Any]) -> float:
    return datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()


if __name__ == "__main__":
    tell(list(repeats(Run(**json.loads(sys.argv[1])))))
