"""A contest: the same files, panestream and its peers in turn, and the same answer from all."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.events import EPOCH_MS

Contestant = Callable[[SparkSession, Path, Path], None]
"""Reads the files of the first folder, and writes Parquet as ``out`` into the second."""

BEGIN = EPOCH_MS * 1000
"""The first event time in µs."""
SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
CORES = 2
OURS = "panestream"
LAST_KEY = -1
"""The key of a row far ahead, which makes all windows end. Its results are not compared."""


@dataclass(frozen=True)
class Contest:
    """One line of the table for each peer.

    Attributes:
        name: the name on the command line.
        title: the query, for the table.
        contestants: panestream first, then its peers.
        write: writes the input into a folder, for a share of the full size, and returns the number of rows.
        wanted: the speed-up that panestream should reach over each peer, if there is a goal.
        comparable: turns the output of a contestant into rows that are the same for all.
    """

    name: str
    title: str
    contestants: Mapping[str, Contestant]
    write: Callable[[Path, float], int]
    wanted: Mapping[str, float] = field(default_factory=dict)
    comparable: Mapping[str, Callable[[DataFrame], DataFrame]] = field(default_factory=dict)

    def without(self, peers: Collection[str]) -> Contest:
        """Return the contest without some peers."""
        return replace(self, contestants={name: one for name, one in self.contestants.items() if name not in peers})


@dataclass(frozen=True)
class Turn:
    """One turn of one contestant.

    Attributes:
        seconds: by the clock.
        processor: seconds of the processors, of this process and all below it.
    """

    seconds: float
    processor: float


def run(contest: Contest, spark: SparkSession, scale: float, rounds: int) -> tuple[int, dict[str, list[Turn]]]:
    """Return the number of rows, and the turns of each contestant after a turn of warming up.

    Raises:
        SystemExit: the answers differ.
    """
    turns: dict[str, list[Turn]] = {name: [] for name in contest.contestants}
    with tempfile.TemporaryDirectory() as source:
        rows = contest.write(Path(source), scale)
        answers = {}
        for number in range(rounds + 1):
            for name, taken in turns.items():
                turn, answer = _take_turn(contest, name, spark, Path(source))
                answers[name, number] = answer
                if number:
                    taken.append(turn)
    if len(set(answers.values())) != 1 or not next(iter(answers.values()))[0]:
        raise SystemExit(f"{contest.name}: the contestants do not have the same rows: {answers}")
    return rows, turns


def _take_turn(contest: Contest, name: str, spark: SparkSession, source: Path) -> tuple[Turn, tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        begin, before = time.perf_counter(), _processor_seconds()
        contest.contestants[name](spark, source, Path(folder))
        turn = Turn(time.perf_counter() - begin, _processor_seconds() - before)
        output = spark.read.parquet(f"{folder}/out")
        comparable = contest.comparable.get(name)
        return turn, _figures(comparable(output) if comparable else output)


def _figures(df: DataFrame) -> tuple[int, int]:
    """Return the number of rows and a hash of all columns, without the rows of the last key."""
    columns = sorted(set(df.columns) - {"batch_id"})  # which a sink of panestream adds
    hashed = F.sum(F.xxhash64(*columns).cast("decimal(38, 0)"))
    found = df.where(F.col("key") != LAST_KEY).agg(F.count("*"), hashed).collect()[0]
    return found[0], int(found[1] or 0)


def _processor_seconds() -> float:
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has ended
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def table(contest: Contest, rows: int, turns: Mapping[str, list[Turn]]) -> list[str]:
    """Return a line for each contestant. A ratio is of one round; its median and range are shown."""
    ours, *_ = turns
    lines = []
    for name, taken in turns.items():
        seconds = [turn.seconds for turn in taken]
        cells = [contest.title if name == ours else "", name, f"{rows:,}", _shown(seconds, ".2f")]
        for figure in ("seconds", "processor"):
            pairs = zip(taken, turns[ours], strict=True)
            cells.append("" if name == ours else _shown([getattr(a, figure) / getattr(b, figure) for a, b in pairs], ".2f"))
        cells.append(f"{contest.wanted[name]:g}" if name in contest.wanted else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


HEADING = [
    "| query | contestant | rows | seconds | ÷ panestream | processor ÷ panestream | wanted |",
    "|---|---|---:|---:|---:|---:|---:|",
]


def _shown(figures: list[float], form: str) -> str:
    return f"{statistics.median(figures):{form}} ({min(figures):{form}} to {max(figures):{form}})"


def write_parts(folder: Path, parts: Iterable[Mapping[str, Any]]) -> None:
    """Write a file for each micro-batch. Columns that end with ``at`` are times in µs."""
    folder.mkdir(parents=True)
    for number, columns in enumerate(parts):
        arrays = {
            name: pa.array(values).cast(pa.timestamp("us", tz="UTC")) if name.endswith("at") else pa.array(values)
            for name, values in columns.items()
        }
        path = folder / f"{number:06d}.parquet"
        pq.write_table(pa.table(arrays), path)
        os.utime(path, (number, number))  # Spark takes files in this order


def shuffled(times: np.ndarray[Any, Any], disorder: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return an order of arrival: half of the rows arrive up to ``disorder`` µs after their time."""
    delays = np.where(rng.random(len(times)) < 0.5, rng.integers(0, disorder, len(times)), 0)
    return np.argsort(times + delays, kind="stable")


def cut(columns: Mapping[str, np.ndarray[Any, Any]], batches: int) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Yield the rows of each micro-batch, and then the row that makes all windows end."""
    for places in np.array_split(np.arange(len(next(iter(columns.values())))), batches):
        yield {name: values[places] for name, values in columns.items()}
    far = {name: BEGIN + 30 * DAY if name.endswith("at") else LAST_KEY if name == "key" else 0 for name in columns}
    yield {name: np.asarray([far[name]], columns[name].dtype) for name in columns}


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Read a stream, one file in each micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def to_files(df: DataFrame, folder: Path) -> None:
    """Run a query of Spark alone."""
    sink = df.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    sink.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()


def start(result: pst.datastream.WindowedResult, folder: Path) -> None:
    """Run a query of panestream."""
    sink = pst.ParquetSink(str(folder / "out"))
    result.start(main=sink, checkpoint=str(folder / "checkpoint")).await_termination()
