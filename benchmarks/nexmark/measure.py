"""Run one query of one contestant as a stream once in this process, and print a line of JSON at the end.

python -m benchmarks.nexmark.measure '{"contestant": "panestream", "query": "q5", "spec": {"events": 1000000}, ...}'
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.harness import SETTINGS
from benchmarks.nexmark import native, source
from benchmarks.nexmark.answers import ANSWERS, bound_ms
from benchmarks.nexmark.generator import NexmarkSpec
from benchmarks.nexmark.queries import QUERIES, Query
from benchmarks.processes import tell
from panestream import ForeachBatchSink
from panestream.spark.session import STREAM_SETTINGS

WARM_UP = 2
"""Warm-up micro-batches, in which the JVM compiles and workers start."""
_CLOCK_LIMIT_S = 120
"""The time limit for processing-time windows to close."""


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        contestant: panestream, native, or source, which only makes the events and is the limit.
        query: e.g. ``q5``.
        spec: the events.
        events_per_batch: the events of all kinds in a micro-batch.
        cores: of the local master, and also tasks of the source and shuffle partitions.
    """

    contestant: str
    query: str
    spec: dict[str, int]
    events_per_batch: int
    cores: int = 2

    @property
    def events(self) -> NexmarkSpec:
        return NexmarkSpec(**self.spec)


@dataclass(frozen=True)
class Measured:
    """The measurements of one run.

    Attributes:
        events_per_second: of each micro-batch that counts, events of all kinds, including kinds that the query does not read.
        rows_per_second: the same for the rows that the query reads.
        seconds: of all micro-batches, including closing ones without data.
        checks: of the output rows up to the bound.
        right: the expected checks, or None if the clock decides or there is no check.
    """

    contestant: str
    query: str
    events_per_second: list[float]
    rows_per_second: list[float]
    seconds: list[float]
    checks: dict[str, int]
    right: dict[str, int] | None

    @property
    def median(self) -> float:
        """Median events per second."""
        return statistics.median(self.events_per_second)


def load(spark: SparkSession, query: Query, run: Run, *, streaming: bool = True) -> DataFrame:
    """Return the events that the query reads."""
    source.register(spark)
    options = {**query.source, **{name: str(value) for name, value in run.spec.items()}, "partitions": str(run.cores)}
    if streaming:
        options["events_per_batch"] = str(run.events_per_batch)
        return spark.readStream.format(source.FORMAT).options(**options).load()
    return spark.read.format(source.FORMAT).options(**options).load()


def checks(bound: int | None) -> list[Column]:
    """Return the sums of :attr:`Answer.checks` over columns ``window_end, who, what``."""
    end, who, what = F.unix_millis("window_end"), F.col("who"), F.col("what")
    crossed = who % 1_000_003 * (what % 1_009) + F.floor(end / 1_000).cast("bigint") % 100_003 * (what % 997)
    closed = F.lit(True) if bound is None else end <= bound
    return [
        F.count(F.when(closed, 1)).alias("rows"),
        F.sum(F.when(closed, who)).alias("who"),
        F.sum(F.when(closed, what)).alias("what"),
        F.sum(F.when(closed, crossed)).alias("crossed"),
    ]


@dataclass
class Collected:
    """The checks of a stream whose rows go through ``foreachBatch``."""

    query: Query
    bound: int | None
    sums: dict[str, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        found = self.query.answer(rows).agg(*checks(self.bound)).first()
        with self.lock:
            self.add({} if found is None else found.asDict())

    def add(self, found: dict[str, int | None]) -> None:
        """Add the sums of one micro-batch."""
        for name, value in found.items():
            self.sums[name] = self.sums.get(name, 0) + (value or 0)


def drain(
    rows: DataFrame, query: Query, bound: int | None, checkpoint: Path, *, checked: bool
) -> tuple[list[Any], dict[str, int]]:
    """Run a plain stream into the noop sink to the end of its input. Return Spark's progress and the checks."""
    if checked:
        rows = query.answer(rows).observe("checks", *checks(bound))
    writer = rows.writeStream.format("noop").outputMode("append").option("checkpointLocation", str(checkpoint))
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    collected = Collected(query, bound)
    progress = [json.loads(each.json) for each in running.recentProgress]
    for batch in progress:
        collected.add(batch.get("observedMetrics", {}).get("checks", {}))
    return progress, collected.sums


def through_start(
    query: Query, events: DataFrame, bound: int | None, checkpoint: Path, rows: int
) -> tuple[list[Any], dict[str, int]]:
    """Run panestream's ``start`` for ``top``, and for processing-time windows, whose query must be stopped."""
    collected = Collected(query, bound)
    trigger = {"processingTime": "0 seconds"} if query.by_processing_time else {"availableNow": True}
    running = query.build(events).start(
        main=ForeachBatchSink(collected, idempotent=True), checkpoint=str(checkpoint), trigger=trigger
    )
    if query.by_processing_time:
        limit = time.monotonic() + _CLOCK_LIMIT_S
        while collected.sums.get("what", 0) < rows and time.monotonic() < limit and not running.await_termination(1):
            pass
        progress = [json.loads(each.json) for each in running.query.recentProgress]
        running.stop()
    else:
        running.await_termination()
        progress = [json.loads(each.json) for each in running.query.recentProgress]
    return progress, collected.sums


def measure(run: Run) -> Measured:
    """Run it, and stop the session."""
    query, spec = QUERIES[run.query], run.events
    own = STREAM_SETTINGS if run.contestant == "panestream" else {}
    builder = SparkSession.builder.master(f"local[{run.cores}]").appName(f"nexmark {run.query}")
    for name, value in {**SETTINGS, **own, "spark.sql.shuffle.partitions": str(run.cores)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    checkpoint = Path(tempfile.mkdtemp(prefix="nexmark-"))
    try:
        progress, sums = _run(run, query, load(spark, query, run), bound_ms(spec), checkpoint)
    finally:
        spark.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    full = [each for each in progress if each["numInputRows"]]
    times = [each["durationMs"]["triggerExecution"] / 1000 for each in full]
    steady = range(min(WARM_UP, len(full) - 1), spec.events // run.events_per_batch)
    right = None
    if run.contestant != "source" and not query.by_processing_time:
        right = ANSWERS[run.query](spec).until(bound_ms(spec)).checks
    return Measured(
        run.contestant,
        run.query,
        [run.events_per_batch / times[at] for at in steady],
        [full[at]["numInputRows"] / times[at] for at in steady],
        [each["durationMs"]["triggerExecution"] / 1000 for each in progress],
        sums,
        right,
    )


def _run(run: Run, query: Query, events: DataFrame, bound: int, checkpoint: Path) -> tuple[list[Any], dict[str, int]]:
    if run.contestant == "source":
        return drain(events, query, None, checkpoint, checked=False)
    if run.contestant == "native":
        return drain(native.QUERIES[run.query](events), query, bound, checkpoint, checked=True)
    if query.by_processing_time:
        bids = run.spec["events"] // 50 * 46 + max(0, run.spec["events"] % 50 - 4)
        return through_start(query, events, None, checkpoint, bids)
    result = query.build(events)
    if result.largest is not None:
        return through_start(query, events, bound, checkpoint, 0)
    return drain(result.main, query, bound, checkpoint, checked=True)


if __name__ == "__main__":
    tell(asdict(measure(Run(**json.loads(sys.argv[1])))))
