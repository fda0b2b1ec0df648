"""A job is upgraded by a savepoint, and killed at random points of it: what it leaves is what it leaves undisturbed.

Hot items with two key groups get five and one aggregate more. ``kill -9`` strikes while the savepoint is taken, and while the new
job starts: before it has a checkpoint, before its first micro-batch is planned, before that is committed, and after. The same
command is given again each time.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from hot_items.clicks import Shape, make_clicks, write_clicks
from tests.recovery.kill_loop import LONGEST_RUN_SECONDS, ROOT, last_batch
from tests.recovery.test_kill import JOB

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("PANESTREAM_KILLS", "2"))
SEED = int(os.environ.get("PANESTREAM_SEED", "20261122"))
FILES = 6
TAKE = """
import sys
import panestream as pst
from panestream.errors import CheckpointError
from panestream.spark.session import build_session
spark = build_session("savepoint", {"spark.ui.enabled": "false"}, "local[2]")
try:
    pst.savepoint(spark, "out/checkpoint", "savepoint")
except CheckpointError as error:
    if "holds a savepoint already" not in str(error):
        raise
"""


def started(work: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A Python of its own process group, in a folder."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    with (work / "job.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=work,
            env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def done(work: Path, *arguments: str) -> None:
    assert started(work, *arguments).wait(timeout=LONGEST_RUN_SECONDS) == 0, (work / "job.log").read_text()[-3000:]


def newer(folder: Path, pattern: str, begun: float) -> bool:
    """Whether something was written there since."""
    try:
        return any(path.stat().st_mtime >= begun for path in folder.glob(pattern))
    except FileNotFoundError:
        return False  # moved into place while we looked


@dataclass(frozen=True)
class Point:
    """Where a kill strikes: what the run must have written before, and how many seconds later at most."""

    name: str
    patterns: tuple[str, ...]
    longest: float

    def struck(self, work: Path, chance: random.Random, *arguments: str) -> bool:
        """Runs a command and kills it there; False: it ended before."""
        pause, begun = chance.uniform(0, self.longest), time.time()
        process = started(work, *arguments)
        try:
            while process.poll() is None and not any(newer(work, pattern, begun) for pattern in self.patterns):
                assert time.time() - begun < LONGEST_RUN_SECONDS, (work / "job.log").read_text()[-3000:]
                time.sleep(0.01)
            try:
                assert process.wait(timeout=pause) == 0, (work / "job.log").read_text()[-3000:]
            except subprocess.TimeoutExpired:
                committed = last_batch(work / "out" / "new" / "commits")
                print(
                    f"seed {SEED}: killed {pause:.2f} s after: {self.name}; last micro-batch committed: {committed}", flush=True
                )
                return True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return False


COMMITTED = "out/new/commits/[0-9]*"
OF_SAVEPOINT = (
    Point("the savepoint is begun", ("savepoint/sources/0/*",), 1),
    Point("it has a table", ("savepoint/state/*/*",), 1),
)
OF_START = (
    Point("the new checkpoint has the run", ("out/new/panestream/runs/*/part-*",), 2),
    Point("the query is about to start", ("out/new/panestream/files_read/0/_SUCCESS", COMMITTED), 6),
    Point("a micro-batch is committed", (COMMITTED,), 1),
)


def upgraded(work: Path, files: list[Path], kills: int) -> int:
    """Old job, savepoint, new job; how many kills struck."""
    (work / "clicks").mkdir(parents=True)
    (work / "old.toml").write_text("key_groups = 2\n" + JOB)
    more = 'last_user = "last(user_id)"\nlast_user_known = "complete(last_user)"\nviews = "count"'
    new = JOB.replace('views = "count"', more).replace("out/checkpoint", "out/new")
    (work / "new.toml").write_text("key_groups = 5\n" + new)
    run, take, chance = ("-m", "panestream.jobs", "run"), ("-c", TAKE), random.Random(SEED)
    for file in files[: FILES // 2]:
        shutil.copy2(file, work / "clicks")
    done(work, *run, "old.toml")
    for file in files[FILES // 2 :]:
        shutil.copy2(file, work / "clicks")
    of_savepoint = (kills + 1) * 2 // 5
    struck = sum(OF_SAVEPOINT[number % 2].struck(work, chance, *take) for number in range(of_savepoint))
    done(work, *take)
    start = (*run, "new.toml", "--savepoint", "savepoint")
    # By turns, but those before the first commit first.
    order = sorted(number % 3 for number in range(kills - of_savepoint))
    struck += sum(OF_START[number].struck(work, chance, *start) for number in order)
    done(work, *start)
    return struck


def test_an_upgrade(tmp_path):
    write_clicks(make_clicks(Shape(rows=12_000, seed=SEED, hours=4)), tmp_path / "all", FILES)
    files = sorted((tmp_path / "all").iterdir())
    for number, file in enumerate(files):
        os.utime(file, (1e9 + number, 1e9 + number))
    outputs = {}
    for way, kills in (("undisturbed", 0), ("killed", KILLS)):
        work = tmp_path / way
        # A savepoint of little state may be there before the kill.
        assert upgraded(work, files, kills) >= (kills + 1) // 2, "jobs ended before they could be killed: give them more to do"
        outputs[way] = {tag: rows_of(work / "out" / tag) for tag in ("main", "late", "invalid")}
    assert outputs["killed"] == outputs["undisturbed"]
    # And as if the old job had never stopped, but for the aggregate that it had not.
    whole = tmp_path / "whole"
    whole.mkdir()
    shutil.copytree(tmp_path / "all", whole / "clicks")
    (whole / "job.toml").write_text("key_groups = 2\n" + JOB)
    done(whole, "-m", "panestream.jobs", "run", "job.toml")
    assert len(common(whole)) > 1000
    assert common(tmp_path / "killed") == common(whole)


def rows_of(output: Path, names: list[str] | None = None) -> list[tuple[object, ...]]:
    """The rows of an output, sorted, with all their columns: the old job's have fewer than the new one's."""
    parts = [ds.dataset(part).to_table(columns=names).to_pylist() for part in sorted(output.glob("batch_id=*"))]
    return sorted((tuple(row.items()) for rows in parts for row in rows), key=repr)


def common(work: Path) -> list[tuple[object, ...]]:
    """The rows of main by what both jobs compute."""
    return rows_of(work / "out" / "main", ["item_id", "window_start", "window_end", "views", "users", "first_user"])
