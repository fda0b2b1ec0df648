"""Kill a whole job with ``kill -9`` at chosen places, restart it until it ends, and compare the content of its sinks.

The killed process runs this file (``python -m tests.connectors.kills FOLDER``), and dies with everything that it started, Java
included. It runs one streaming query for each *target*, all at the same time in one session, over the same files of clicks.
A target defines where the results are written and how they are read. It has a name that another process can import::

    # tests/connectors/delta/delta_targets.py
    APPEND = Target(
        lambda spark, folder: {"main": pst.TableSink(f"delta.`{folder / 'clicks'}`")},
        lambda spark, folder: spark.read.format("delta").load(str(folder / "clicks")).collect(),
    )

    # tests/connectors/delta/test_delta_kills.py
    def test_append(spark, tmp_path):
        compare(spark, tmp_path, {"tests.connectors.delta.delta_targets:APPEND": ["main"]})

``compare`` runs the targets once undisturbed in the current session and once with kills. The rows must be the same: none is lost,
and none is repeated. A restarted job has lost its tables if its catalog is in memory. The first function of a target must then
register them again (``CREATE TABLE IF NOT EXISTS ... LOCATION``).

Kills alternate between two places:

``after``
    directly after ``write`` of the sink has returned. The table has the micro-batch, but Spark has not committed it, and
    writes it again.
``within``
    a random time after ``write`` was called: during the write or after it.

Each kill belongs to a target, an output and a micro-batch, strikes once, and is recorded in ``FOLDER/kills.log``. By default each
output gets one kill, after its write. ``PANESTREAM_KILLS`` sets another number, ``PANESTREAM_SEED`` decides the moments::

    PANESTREAM_KILLS=40 make test-connectors ARGS="-k kills -s"
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import panestream as pst
from panestream import agg
from panestream.spark.sinks.base import QueryRunInfo, Sink
from tests.connectors import components

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("PANESTREAM_SEED", "20261122"))
FILES = 6
LONGEST_RUN_SECONDS = 900
LONGEST_WRITE_SECONDS = 1.5
OVERLOADED = ("Python worker failed to connect back", "CANNOT_OPEN_SOCKET")
"""Spark gives its Python processes a few seconds to answer.

A job that fails on a busy machine with such an error is restarted.
"""
FAILURES = 5


@dataclass(frozen=True)
class Target:
    """Where the results are written, and how they are read.

    Attributes:
        sinks: From the session and the folder of the job, makes the sinks by output (``main``, ``late``). Every kill strikes one
            sink.
        read: From the session and the folder, returns all rows at the end, in any order.
        changes: True if the results are a ``.changelog()``.
        sessions: True for sessions, which merge. Otherwise the windows last a minute.
    """

    sinks: Callable[[SparkSession, Path], Mapping[str, Sink]]
    read: Callable[[SparkSession, Path], Sequence[Row]]
    changes: bool = False
    sessions: bool = False


@dataclass(frozen=True)
class Kill:
    """The place of one kill: ``seconds`` after the write starts, or directly after the write if None.

    The number makes it unique.
    """

    target: str
    output: str
    batch: int
    seconds: float | None
    number: int = 0


@dataclass(frozen=True)
class KillingSink(Sink):
    """A sink that kills the job if the plan says so."""

    sink: Sink
    target: str
    output: str
    folder: Path
    kills: tuple[Kill, ...] = field(default=(), repr=False)

    def place(self, spark: SparkSession) -> str | None:
        return self.sink.place(spark)

    def check_columns(self, names: Sequence[str]) -> None:
        self.sink.check_columns(names)

    def open(self, spark: SparkSession, run: QueryRunInfo) -> Sink:
        opened = self.sink.open(spark, run) or self.sink
        return KillingSink(opened, self.target, self.output, self.folder, self.kills)

    def begin(self, df: Any, batch_id: int) -> None:
        self.sink.begin(df, batch_id)

    def write(self, df: Any, batch_id: int | None) -> None:
        kill = next(
            (one for one in self.kills if (one.target, one.output, one.batch) == (self.target, self.output, batch_id)), None
        )
        if kill is not None and kill.seconds is not None:
            timer = threading.Timer(kill.seconds, strike, (self.folder, kill))
            timer.daemon = True
            timer.start()
        self.sink.write(df, batch_id)
        if kill is not None and kill.seconds is None:
            strike(self.folder, kill)

    def guarantee(self, spark: SparkSession) -> str:
        return self.sink.guarantee(spark)

    def describe(self) -> str:
        return self.sink.describe()


def strike(folder: Path, kill: Kill) -> None:
    """Record the kill, and kill the whole process group."""
    with (folder / "kills.log").open("a") as log:
        log.write(json.dumps(asdict(kill)) + "\n")
    os.killpg(0, signal.SIGKILL)


def target_named(name: str) -> Target:
    """Return the target that ``module:NAME`` refers to."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def write_clicks(folder: Path, files: int = FILES) -> None:
    """Write files of 60 clicks each, one minute per file.

    Some clicks are minutes late, and from the third file on a few are too late.
    """
    numbers = random.Random(7)
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    folder.mkdir(parents=True)
    for number in range(files):
        late = [numbers.choice([0, 0, 0, 0, 1, 2, 9]) for _ in range(60)]
        times = [begin + timedelta(minutes=10 + number - minutes, seconds=second) for second, minutes in enumerate(late)]
        columns = {"user": [numbers.randrange(5) for _ in late], "price": [numbers.randrange(100) for _ in late]}
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({**columns, "ts": pa.array(times, pa.timestamp("us", tz="UTC"))}), path)
        # Spark orders files by age.
        os.utime(path, (number, number))


def start(spark: SparkSession, name: str, folder: Path, kills: Sequence[Kill] = ()) -> Any:
    """Start the query of a target. Each file is a micro-batch."""
    target = target_named(name)
    clicks = spark.readStream.schema("user BIGINT, price BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    sessions = pst.EventTimeSessionWindows.with_gap("15 seconds")
    result = (
        pst.stream(clicks.parquet(str(folder / "clicks")))
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("10 seconds"))
        .key_by("user")
        .window(sessions if target.sessions else pst.TumblingEventTimeWindows.of("1 minute"))
        .allowed_lateness("3 minutes")
        .side_output_late_data("late")
        .options(key_groups=1)
        .aggregate(agg.count().alias("clicks"), agg.sum("price").alias("revenue"))
    )
    result = result.changelog() if target.changes else result
    sinks = {
        output: KillingSink(sink, name, output, folder, tuple(kills)) if kills else sink
        for output, sink in target.sinks(spark, folder).items()
    }
    return result.start(checkpoint=str(folder / "checkpoints" / name.replace(":", ".")), **sinks)


def run_job(folder: Path) -> None:
    """Run the job that is killed: all targets of ``plan.json`` in one session."""
    from panestream.spark.session import build_session

    plan = json.loads((folder / "plan.json").read_text())
    done = _struck(folder)
    kills = [kill for kill in (Kill(**entry) for entry in plan["kills"]) if kill not in done]
    settings = components.session_settings(folder / "warehouse")
    if plan["jars"]:
        # The jars are already resolved. Resolving them takes seconds at each start.
        del settings["spark.jars.packages"]
        settings["spark.jars"] = plan["jars"]
    spark = build_session("panestream kills", settings, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    queries = [start(spark, name, folder, kills) for name in plan["targets"]]
    for query in queries:
        query.await_termination()
    spark.stop()


def run_with_kills(folder: Path, names: Sequence[str], kills: Sequence[Kill], jars: str = "") -> list[Kill]:
    """Run the targets to their end, with all these kills in between.

    Args:
        folder: The folder of the job, with its clicks.
        names: The names of the targets.
        kills: The kills, each of which strikes once.
        jars: The jars that a session resolved for ``spark.jars.packages``, as its ``spark.jars``.

    Raises:
        RuntimeError: The job failed by itself, took too long, or ended before all kills.
    """
    plan = {"targets": list(names), "kills": [asdict(kill) for kill in kills], "jars": jars}
    (folder / "plan.json").write_text(json.dumps(plan))
    log, failures = folder / "job.log", 0
    while True:
        before = len(_struck(folder))
        written = log.stat().st_size if log.exists() else 0
        code = end_of(start_job(folder))
        if code == 0:
            break
        if code > 0 and failures < FAILURES and any(words in log.read_text()[written:] for words in OVERLOADED):
            failures += 1
        elif code != -signal.SIGKILL or len(_struck(folder)) == before:
            raise RuntimeError(f"the job ended with {code}:\n{(folder / 'job.log').read_text()[-4000:]}")
    struck = _struck(folder)
    if len(struck) < len(kills):
        raise RuntimeError(f"the job ended after {len(struck)} of {len(kills)} kills: give it more files")
    return struck


def kills_of(outputs: Mapping[str, Sequence[str]], number: int, seed: int = SEED, files: int = FILES) -> list[Kill]:
    """Plan ``number`` kills for each output of each target. Each micro-batch gets two, one after the write and one within."""
    numbers = random.Random(seed)
    kills = []
    for target, tags in outputs.items():
        for tag in tags:
            for turn in range(number):
                batch = 2 + (turn // 2) % (files - 2)
                kills.append(
                    Kill(target, tag, batch, None if turn % 2 == 0 else numbers.uniform(0, LONGEST_WRITE_SECONDS), len(kills))
                )
    return kills


def compare(spark: SparkSession, folder: Path, outputs: Mapping[str, Sequence[str]]) -> None:
    """Run targets undisturbed and with kills, and compare their rows.

    Args:
        spark: The session for the undisturbed run and for reading.
        folder: An empty folder.
        outputs: By target (``module:NAME``), the outputs whose sink is struck. Each must write in every micro-batch from the
            third on.
    """
    struck = sum(len(tags) for tags in outputs.values())
    number = max(1, int(os.environ.get("PANESTREAM_KILLS", str(struck))) // struck)
    # Two kills for each micro-batch from the third on, and one more file, so that the last kill strikes a running query.
    files = max(FILES, 3 + (number + 1) // 2)
    undisturbed, killed = folder / "undisturbed", folder / "killed"
    for work in (undisturbed, killed):
        write_clicks(work / "clicks", files)
    began = time.monotonic()
    jars = spark.sparkContext.getConf().get("spark.jars", "") or ""
    kills = run_with_kills(killed, list(outputs), kills_of(outputs, number, files=files), jars)
    for kill in kills:
        print(f"seed {SEED}: {kill}")
    print(f"{len(kills)} kills in {time.monotonic() - began:.0f} s, {files} files")
    for name in outputs:
        start(spark, name, undisturbed).await_termination()
        expected, found = (sorted(map(tuple, target_named(name).read(spark, work)), key=repr) for work in (undisturbed, killed))
        assert expected
        assert found == expected, f"{name}: {len(found)} rows after {len(kills)} kills, {len(expected)} undisturbed"


def _struck(folder: Path) -> list[Kill]:
    log = folder / "kills.log"
    return [Kill(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def start_job(folder: Path) -> subprocess.Popen[bytes]:
    """Start the job of ``plan.json`` in its own process group."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with (folder / "job.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.connectors.kills", str(folder)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a job, and return its exit code.

    Raises:
        RuntimeError: The job took too long. It is killed.
    """
    try:
        return process.wait(timeout=LONGEST_RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the job did not end within {LONGEST_RUN_SECONDS} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="the job that is killed")
    parser.add_argument("folder", type=Path)
    # The targets import this file by its name. Run that module, not a second copy of it.
    importlib.import_module("tests.connectors.kills").run_job(parser.parse_args().folder)
