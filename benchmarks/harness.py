"""Run one contestant once in this process, and measure it.

The events are read from Parquet as micro-batches of the same rows (``maxFilesPerTrigger``, ``availableNow``) and go to the noop
sink. ``DataFrame.observe`` adds up checksums as rows leave, at the same cost for all contestants. Every run has a separate
process, JVM and checkpoint, so that no run starts with a warm compiler, a full heap or cached pages of state::

    python -m benchmarks.harness '{"contestant": "native", "case": "sliding", ...}'      # prints a line of JSON at the end
"""

from __future__ import annotations

import importlib
import json
import math
import shutil
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, cast

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.cases import Case
from benchmarks.catalog import case_of
from benchmarks.events import SCHEMA, EventSpec, write
from benchmarks.processes import tell
from panestream.spark.session import LOCAL_FILES

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Spark's default (true) reads before every put. Turned off for all, it helps the contestant with most state rows most.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Spark's default starts three processes for each file of a checkpoint on a local file system, which all contestants have.
    **LOCAL_FILES,
}
"""The settings of every contestant. The number of shuffle partitions, which equals the cores, is added."""


class Contestant(Protocol):
    """A module of a contestant. It may have ``SETTINGS``, a dict of Spark settings that its users would have too."""

    def query(self, events: DataFrame, case: Case, spec: EventSpec) -> DataFrame:
        """Return columns ``key, window_end, total, events``, one row per key and closed window. Others are only compared."""


@dataclass(frozen=True)
class Run:
    """One run of one contestant.

    Attributes:
        contestant: a contestant of the case.
        case: a name for ``case_of``.
        spec: the events.
        data: the folder with event files.
        cores: of the local master, and also the number of shuffle partitions.
        settings: Spark settings that override all others.
        options: keyword arguments for the contestant's ``query``.
    """

    contestant: str
    case: str
    spec: EventSpec
    data: str
    cores: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> Run:
        raw = json.loads(text)
        return cls(**{**raw, "spec": EventSpec(**raw["spec"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Measured:
    """The measurements of one run.

    Attributes:
        rows_per_second: of each steady batch, its rows divided by its whole time (``triggerExecution``).
        seconds: of every batch, including warm-up and the closing batch without data.
        checks: ``rows``, ``total``, ``events`` and ``digest`` of the output of windows up to the bound.
        state_bytes: the largest ``memoryUsedBytes`` that a batch reported, summed over state operators.
        checkpoint_bytes: the final size of the checkpoint's ``state`` folder.
        jvm_peak_mb: the largest resident set of the driver JVM, which is also the executor in local mode.
        cpu_seconds: the processor time of JVM and workers over the steady batches, in seconds per million rows. A busy machine
            disturbs this figure least.
        workers_peak_mb: the largest sum over Python workers at one moment, with shared pages counted once if possible.
        state_metrics: the custom metrics of the last steady batch.
        phases: the time of each phase of each batch with data in ms, as Spark reports it.
    """

    contestant: str
    case: str
    rows_per_second: list[float]
    seconds: list[float]
    checks: dict[str, int]
    state_bytes: int
    checkpoint_bytes: int
    jvm_peak_mb: float
    workers_peak_mb: float
    cpu_seconds: float
    spark: str
    java: str
    state_metrics: dict[str, int]
    phases: list[dict[str, int]]

    @property
    def state_calls(self) -> int:
        """Return RocksDB's count of reads and writes of the state store in the last steady batch."""
        return sum(self.state_metrics.get(name, 0) for name in ("rocksdbGetCount", "rocksdbPutCount"))

    @property
    def median(self) -> float:
        """Median rows per second over the steady batches."""
        return statistics.median(self.rows_per_second)


class MemorySampler(threading.Thread):
    """Sample the JVM of this process and the Python workers of the JVM, several times a second."""

    def __init__(self, period: float = 0.25) -> None:
        super().__init__(daemon=True)
        self.period, self.jvm_peak, self.workers_peak = period, 0, 0
        self.cpu: list[tuple[float, float]] = []
        self._halt = threading.Event()

    def run(self) -> None:
        while not self._halt.wait(self.period):
            self.sample()

    def stop(self) -> None:
        self._halt.set()
        self.join()

    def sample(self) -> None:
        """Take one sample. Processes may end meanwhile."""
        for child in psutil.Process().children():
            try:
                if "java" not in child.name():
                    continue
                self.jvm_peak = max(self.jvm_peak, child.memory_info().rss)
                workers = [worker for worker in child.children(recursive=True) if "python" in worker.name()]
                self.workers_peak = max(self.workers_peak, sum(_memory(worker) for worker in workers))
                self.cpu.append((time.time(), sum(_cpu(process) for process in (child, *workers))))
            except psutil.Error:
                continue

    def cpu_between(self, start: float, end: float) -> float:
        """Return the seconds of processor time between two moments (seconds since the epoch), as exactly as the samples allow."""
        at = [min(self.cpu, key=lambda sample: abs(sample[0] - moment))[1] for moment in (start, end)]
        return at[1] - at[0]


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _memory(process: psutil.Process) -> int:
    """Return the bytes of one process.

    Use its proportional share if Linux provides it, because forked workers share much, or its resident set.
    """
    try:
        info = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(info, "pss", info.rss))


def warm_up_batches(spec: EventSpec, case: Case) -> int:
    """Return the number of warm-up batches, in which the JVM compiles and the state grows to its full span of event time.

    The JVM compiles for some twenty small batches, half a core long: a query that runs for weeks is not measured by its first
    half minute. Large batches are long, and two of them do.
    """
    batch_ms = spec.rows_per_batch * 1000 / spec.rate
    compiling = min(20, math.ceil(2_000_000 / spec.rows_per_batch))
    return max(compiling, math.ceil((case.span_ms + spec.disorder_ms) / batch_ms) + 1)


def measure(run: Run) -> Measured:
    """Run it, and stop the session."""
    case = case_of(run.case)
    if run.spec.batches <= warm_up_batches(run.spec, case):
        raise ValueError(f"{run.spec.batches} batches are too few: {warm_up_batches(run.spec, case)} are warm-up")
    folder = write(run.spec, Path(run.data))
    module = importlib.import_module({**case.contestants, **case.limits}[run.contestant])
    spark = _session(run, {**SETTINGS, **getattr(module, "SETTINGS", {}), **run.settings})
    checkpoint = Path(tempfile.mkdtemp(prefix="benchmark-"))
    sampler = MemorySampler()
    sampler.start()
    try:
        source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", run.spec.files_per_batch).parquet(str(folder))
        answer = cast("Contestant", module).query(source, case, run.spec, **run.options)
        progress = _drain(observed(answer, case.bound_ms(run.spec)), checkpoint)
        java = str(spark._jvm.System.getProperty("java.version"))  # type: ignore[union-attr]
        return _measured(run, progress, sampler, checkpoint, spark.version, java)
    finally:
        sampler.stop()
        spark.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)


def _session(run: Run, settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{run.cores}]").appName(f"{run.contestant} {run.case}")
    for name, value in {"spark.sql.shuffle.partitions": str(run.cores), **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def observed(answer: DataFrame, bound_ms: int | None) -> DataFrame:
    """Add up checks of the windows that end at the bound or before (or of all for None) as rows leave."""
    closed = F.lit(True) if bound_ms is None else F.col("window_end") <= F.timestamp_millis(F.lit(bound_ms))
    # Use half of the hash, so that a sum of millions stays within 64 bits.
    digest = F.shiftright(F.xxhash64(*sorted(answer.columns)), 32)
    return answer.observe(
        "checks",
        F.count(F.when(closed, 1)).alias("rows"),
        F.sum(F.when(closed, F.col("total"))).alias("total"),
        F.sum(F.when(closed, F.col("events"))).alias("events"),
        F.sum(F.when(closed, digest)).alias("digest"),
    )


def _drain(answer: DataFrame, checkpoint: Path) -> list[dict[str, Any]]:
    """Run the stream to the end of its input, and return Spark's reports of each batch."""
    query = (
        answer.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(progress.json) for progress in query.recentProgress]


def _measured(
    run: Run, progress: list[dict[str, Any]], sampler: MemorySampler, checkpoint: Path, spark: str, java: str
) -> Measured:
    full = [p for p in progress if p["numInputRows"] == run.spec.rows_per_batch]
    if len(full) != run.spec.batches:
        rows = run.spec.rows_per_batch
        raise RuntimeError(f"{len(full)} batches of {rows} rows, not {run.spec.batches}: files were cut otherwise")
    steady = full[warm_up_batches(run.spec, case_of(run.case)) :]
    checks: dict[str, int] = dict.fromkeys(("rows", "total", "events", "digest"), 0)
    for batch in progress:
        for name, value in batch.get("observedMetrics", {}).get("checks", {}).items():
            checks[name] += value or 0
    state = [sum(operator["memoryUsedBytes"] for operator in p["stateOperators"]) for p in full]
    begin, end = _moment(steady[0]), _moment(steady[-1]) + steady[-1]["durationMs"]["triggerExecution"] / 1000
    cpu = sampler.cpu_between(begin, end)
    files = (checkpoint / "state").rglob("*")
    return Measured(
        contestant=run.contestant,
        case=run.case,
        rows_per_second=[1000 * p["numInputRows"] / p["durationMs"]["triggerExecution"] for p in steady],
        seconds=[p["durationMs"]["triggerExecution"] / 1000 for p in progress],
        checks=checks,
        state_bytes=max(state, default=0),
        checkpoint_bytes=sum(path.stat().st_size for path in files if path.is_file()),
        jvm_peak_mb=round(sampler.jvm_peak / 2**20, 1),
        workers_peak_mb=round(sampler.workers_peak / 2**20, 1),
        cpu_seconds=round(cpu / (len(steady) * run.spec.rows_per_batch / 1e6), 3),
        spark=spark,
        java=java,
        state_metrics=_custom_metrics(steady[-1]),
        phases=[p["durationMs"] for p in full],
    )


def _moment(batch: dict[str, Any]) -> float:
    """Return the start of a batch in seconds since the epoch."""
    return datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()


def _custom_metrics(batch: dict[str, Any]) -> dict[str, int]:
    metrics: dict[str, int] = {}
    for operator in batch["stateOperators"]:
        for name, value in operator.get("customMetrics", {}).items():
            metrics[name] = metrics.get(name, 0) + value
    return metrics


if __name__ == "__main__":
    started = time.perf_counter()
    result = measure(Run.from_json(sys.argv[1]))
    print(f"{time.perf_counter() - started:.1f} s in all", file=sys.stderr)
    tell(asdict(result))
