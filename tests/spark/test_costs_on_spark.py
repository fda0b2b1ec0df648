"""The cost of a micro-batch as counts instead of times: Spark's jobs and tasks, files, and calls of the state store.

A job takes 10 to 30 ms of a micro-batch, a task some milliseconds, and a file at least one request to an object store. The limits
are the counts at the time of writing. A commit that raises a limit gives the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident

import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import SparkSession

import panestream as pst
from panestream import agg
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

ROWS, BATCHES = 100, 4
JOBS = 3
"""One for the operator with its key groups' counters, and one for each sink with rows."""
TASKS = 5
"""One reads the file of a micro-batch, two process the key groups in turn, and one writes for each sink with rows."""
CALLS = 4
"""Calls of a key group: meta record and witness read and written. The record holds the few panes."""


ASKED = 1300
"""Calls from Python to Java until a query runs, some tenths of a millisecond each.

Spark needs a dozen for each function of a column.
"""


@dataclass(frozen=True)
class Counted:
    """The cost of a run whose micro-batches all had rows.

    Attributes:
        jobs, tasks: The numbers for Spark over all micro-batches.
        progress: The progress of each micro-batch.
        files: How many files each wrote, by sink and folder.
        spark_calls: Reads and writes of the state store in each, as Spark counts them.
        asked: How often Python called Java until the query ran.
    """

    jobs: int
    tasks: int
    progress: list[BatchProgress]
    files: Counter[str]
    spark_calls: list[int]
    asked: int


@contextmanager
def questions() -> Iterator[list[str]]:
    """Record the calls from this thread to Java."""
    asked, here = list[str](), get_ident()

    def send(client: JavaClient, command: str, *more: object, **others: object) -> object:
        if get_ident() == here:
            asked.append(command)
        return ask(client, command, *more, **others)

    ask = JavaClient.send_command
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JavaClient, "send_command", send)
        yield asked


class Shop:
    """A stream whose outputs have rows in each micro-batch. Two windows close, and one of 20 rows lacks an event time."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.added = spark, folder, 0
        self.orders = MicroBatches(spark, folder / "in", "user long, price long, at timestamp")

    def run(self, batches: int, *, groups: int = 2, invalid: bool = True) -> Counted:
        """Add this many micro-batches, and run the query over them from its checkpoint."""
        for _ in range(batches):
            time = "timestamp_seconds(id DIV 10)"
            at = f"if(id % 20 = 0, null, {time})" if invalid else time
            rows = self.spark.range(self.added * ROWS, (self.added + 1) * ROWS).selectExpr("id % 37", "id", at)
            self.orders.add([tuple(row) for row in rows.collect()])
            self.added += 1
        before = self._files()
        with questions() as asked:
            query = self._query(groups).start(
                main=pst.ParquetSink(str(self.folder / "main")),
                invalid=pst.ParquetSink(str(self.folder / "invalid")),
                checkpoint=str(self.folder / "checkpoint"),
            )
        query.await_termination()
        progress = list(query.recent_progress)
        assert [one.rows for one in progress] == [ROWS] * batches
        jobs, tasks = self._jobs_and_tasks(str(query.query.runId))
        metrics = [one["stateOperators"][0]["customMetrics"] for one in query.query.recentProgress]
        calls = [one["rocksdbGetCount"] + one["rocksdbPutCount"] for one in metrics]
        return Counted(jobs, tasks, progress, self._files() - before, calls, len(asked))

    def _query(self, groups: int) -> pst.datastream.WindowedResult:
        timed = pst.stream(self.orders.stream()).assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps())
        keyed = timed.side_output_invalid("invalid").key_by("user")
        sliding = keyed.window(pst.SlidingEventTimeWindows.of("10 seconds", "5 seconds")).options(key_groups=groups, tasks=2)
        return sliding.aggregate(agg.sum("price").alias("total"), agg.count("price").alias("orders"))

    def _files(self) -> Counter[str]:
        outputs = (self.folder / name for name in ("main", "invalid"))
        return Counter(str(file.parent.relative_to(self.folder)) for output in outputs for file in output.rglob("*.parquet"))

    def _jobs_and_tasks(self, run: str) -> tuple[int, int]:
        # Spark puts the jobs of a query into a job group with the name of its run.
        status = self.spark.sparkContext.statusTracker()
        jobs = [status.getJobInfo(job) for job in status.getJobIdsForGroup(run)]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        infos = [status.getStageInfo(stage) for stage in stages]
        return len(jobs), sum(info.numCompletedTasks for info in infos if info is not None)


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """A restart from a checkpoint, with two sinks that get rows in each micro-batch."""
    shop = Shop(spark, tmp_path_factory.mktemp("shop"))
    shop.run(1)
    found = shop.run(BATCHES)
    assert [one.output_rows.keys() for one in found.progress] == [{"main", "invalid"}] * BATCHES
    return found


def test_micro_batch_runs_at_most_the_expected_jobs(counted: Counted) -> None:
    assert 0 < counted.jobs <= JOBS * BATCHES


def test_micro_batch_runs_at_most_the_expected_tasks(counted: Counted) -> None:
    assert 0 < counted.tasks <= TASKS * BATCHES


def test_each_sink_writes_one_file_per_micro_batch(counted: Counted) -> None:
    assert set(counted.files.values()) == {1}
    assert len(counted.files) == 2 * BATCHES


def test_key_group_makes_at_most_the_expected_state_calls(counted: Counted) -> None:
    for one, by_spark in zip(counted.progress, counted.spark_calls, strict=True):
        assert one.groups_reporting == one.groups == 2
        assert 0 < one.state_calls <= CALLS * one.groups
        # Counts of RocksDB, where a removal is a put.
        assert 0 < by_spark <= CALLS * one.groups


def test_empty_output_adds_no_job_and_key_groups_add_no_tasks(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(1, groups=6, invalid=False)
    found = shop.run(BATCHES, groups=6, invalid=False)
    # The first micro-batch of a run writes an empty file, so that readers of the output find its columns.
    assert 0 < found.jobs <= (JOBS - 1) * BATCHES + 1
    assert 0 < found.tasks <= (TASKS - 1) * BATCHES + 1
    assert set(found.files.values()) == {1}
    assert len(found.files) <= BATCHES + 1
    assert max(one.state_calls for one in found.progress) <= CALLS * 6


def test_start_makes_at_most_the_expected_calls_to_java(counted: Counted) -> None:
    assert 0 < counted.asked <= ASKED
