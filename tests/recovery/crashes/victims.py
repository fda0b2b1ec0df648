"""A victim seen from outside: its processes, its log, its progress, and its checkpoint after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from scripts.class_archive import ARCHIVE, OPTIONS
from tests.recovery.kill_loop import ROOT, last_batch

LONGEST_LIFE_SECONDS = 1800
DAEMON, EXECUTOR = "pyspark.daemon", "CoarseGrainedExecutorBackend"


@dataclass
class Victim:
    """A process and all its child processes."""

    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, folder: Path, plan: Mapping[str, Any]) -> Victim:
        """Start the plan in its own process group."""
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "current").unlink(missing_ok=True)
        mapped = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.is_file() else ""
        ours = {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": OPTIONS + mapped,
        }
        with (folder / "job.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.recovery.crashes.victim", str(folder)],
                cwd=folder,
                env={**os.environ, **ours},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(folder, process)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def current(self) -> str | None:
        """The name of the query that runs."""
        file = self.folder / "current"
        return file.read_text() if file.exists() else None

    def has_rows(self, name: str) -> bool:
        """Return whether that query has ended and its output was read."""
        return (self.folder / f"rows-{name}.json").exists()

    def said(self, *words: str) -> int:
        """Return how many lines of its log contain one of these words."""
        log = self.folder / "job.log"
        with log.open(errors="replace") as lines:
            return sum(any(word in line for word in words) for line in lines)

    def failures(self, name: str) -> list[str]:
        """Return the error of each failure of a query."""
        log = self.folder / "failures.log"
        entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [entry["error"] for entry in entries if entry["name"] == name]

    def workers(self) -> list[psutil.Process]:
        """Return the Python processes that run tasks: children that Spark's daemon forked."""
        return [one for one in self._below() if _is(one, DAEMON) and _parent_is(one, DAEMON)]

    def kill(self) -> None:
        """Kill the process and all its children with ``kill -9``."""
        try:
            everyone = [*psutil.Process(self.process.pid).children(recursive=True), psutil.Process(self.process.pid)]
        except psutil.NoSuchProcess:
            everyone = []
        for one in reversed(everyone):
            _kill(one)
        self.process.wait(timeout=60)

    def _below(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def tail(self) -> str:
        return (self.folder / "job.log").read_text(errors="replace")[-3000:]


def executors(pid: int) -> list[psutil.Process]:
    """Return the executors of a standalone cluster's worker: the Java processes, not the scripts that start them."""
    below = psutil.Process(pid).children(recursive=True)
    return [one for one in below if _is(one, EXECUTOR) and "java" in _name(one)]


def _kill(one: psutil.Process) -> bool:
    try:
        one.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return False
    return True


def killed(one: psutil.Process) -> bool:
    """Kill a process with ``kill -9``. Return False if it had already ended."""
    return _kill(one)


def _is(one: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in one.cmdline())
    except psutil.Error:
        return False


def _name(one: psutil.Process) -> str:
    try:
        return one.name()
    except psutil.Error:
        return ""


def _parent_is(one: psutil.Process, word: str) -> bool:
    try:
        above = one.parent()
    except psutil.Error:
        return False
    return above is not None and _is(above, word)


def wait_until(true: Callable[[], bool], seconds: float, every: float = 0.02) -> bool:
    """Wait until a condition holds. Return whether it held in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


@dataclass(frozen=True)
class Progress:
    """The progress of a checkpoint.

    Attributes:
        planned: The last micro-batch that Spark planned, or -1.
        committed: The last micro-batch that Spark committed, or -1.
    """

    planned: int
    committed: int

    @classmethod
    def of(cls, checkpoint: Path) -> Progress:
        return cls(last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits"))

    @property
    def under_way(self) -> bool:
        return self.planned > self.committed


def state_files(checkpoint: Path) -> dict[str, int]:
    """Return the newest version of each partition of the state."""
    found = {}
    for partition in (checkpoint / "state" / "0").glob("[0-9]*"):
        try:
            versions = [
                int(part) for file in partition.iterdir() if (part := file.name.partition(".")[0].partition("_")[0]).isdigit()
            ]
        except FileNotFoundError:
            continue
        found[partition.name] = max(versions, default=0)
    return found


def where_struck(checkpoint: Path, published: Callable[[int], bool | None]) -> str:
    """Return at which step of a micro-batch the driver died, judged by the files that it left.

    Args:
        checkpoint: The checkpoint of the query.
        published: Returns whether the sink has a micro-batch of that number, or None if that is unknown.
    """
    progress = Progress.of(checkpoint)
    if progress.planned < 0:
        return "before the first micro-batch"
    if not progress.under_way:
        return "between micro-batches"
    versions = state_files(checkpoint)
    done = [version > progress.planned for version in versions.values()]
    if not any(done):
        return "while computing"
    if not all(done) or len(done) < 2:
        return "within the commit of the state"
    return {True: "published, not committed", False: "state committed, not published", None: "state committed, or published"}[
        published(progress.planned)
    ]
