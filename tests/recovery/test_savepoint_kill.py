"""A job that is upgraded by a savepoint and killed during the upgrade has the same output as an undisturbed upgrade.

The upgrade of hot items changes two key groups to five, and adds an aggregate. ``kill -9`` strikes while the savepoint is
written,
and while the new job starts: before it has a checkpoint, before its first micro-batch is planned, before that is committed, and
after. The same command runs again each time.
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


def start_python(work: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start Python in a folder, in its own process group."""
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


def run_to_end(work: Path, *arguments: str) -> None:
    assert start_python(work, *arguments).wait(timeout=LONGEST_RUN_SECONDS) == 0, (work / "job.log").read_text()[-3000:]


def newer(folder: Path, pattern: str, begun: float) -> bool:
    """Return whether a file that matches the pattern was written since then."""
    try:
        return any(path.stat().st_mtime >= begun for path in folder.glob(pattern))
    except FileNotFoundError:
        return False  # moved into place while we looked


@dataclass(frozen=True)
class Point:
    """The moment of a kill: after the run has written certain files, plus at most some seconds."""

    name: str
    patterns: tuple[str, ...]
    longest: float

    def struck(self, work: Path, chance: random.Random, *arguments: str) -> bool:
        """Run a command and kill it at this point. Return False if it ended before."""
        pause, begun = chance.uniform(0, self.longest), time.time()
        process = start_python(work, *arguments)
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


def upgrade(work: Path, files: list[Path], kills: int) -> int:
    """Run the old job, take a savepoint, run the new job. Return how many kills struck."""
    (work / "clicks").mkdir(parents=True)
    (work / "old.toml").write_text("key_groups = 2\n" + JOB)
    more = 'last_user = "last(user_id)"\nlast_user_known = "complete(last_user)"\nviews = "count"'
    new = JOB.replace('views = "count"', more).replace("out/checkpoint", "out/new")
    (work / "new.toml").write_text("key_groups = 5\n" + new)
    run, take, chance = ("-m", "panestream.jobs", "run"), ("-c", TAKE), random.Random(SEED)
    for file in files[: FILES // 2]:
        shutil.copy2(file, work / "clicks")
    run_to_end(work, *run, "old.toml")
    for file in files[FILES // 2 :]:
        shutil.copy2(file, work / "clicks")
    of_savepoint = (kills + 1) * 2 // 5
    struck = sum(OF_SAVEPOINT[number % 2].struck(work, chance, *take) for number in range(of_savepoint))
    run_to_end(work, *take)
    start = (*run, "new.toml", "--savepoint", "savepoint")
    # In turn, but the points before the first commit come first.
    order = sorted(number % 3 for number in range(kills - of_savepoint))
    struck += sum(OF_START[number].struck(work, chance, *start) for number in order)
    run_to_end(work, *start)
    return struck


def test_killed_upgrade_by_savepoint_has_undisturbed_output(tmp_path):
    write_clicks(make_clicks(Shape(rows=12_000, seed=SEED, hours=4)), tmp_path / "all", FILES)
    files = sorted((tmp_path / "all").iterdir())
    for number, file in enumerate(files):
        os.utime(file, (1e9 + number, 1e9 + number))
    outputs = {}
    for way, kills in (("undisturbed", 0), ("killed", KILLS)):
        work = tmp_path / way
        # A small savepoint may be complete before the kill.
        assert upgrade(work, files, kills) >= (kills + 1) // 2, "jobs ended before they could be killed: give them more to do"
        outputs[way] = {tag: rows_of(work / "out" / tag) for tag in ("main", "late", "invalid")}
    assert outputs["killed"] == outputs["undisturbed"]
    # Apart from the added aggregate, the output also equals that of an old job that never stopped.
    whole = tmp_path / "whole"
    whole.mkdir()
    shutil.copytree(tmp_path / "all", whole / "clicks")
    (whole / "job.toml").write_text("key_groups = 2\n" + JOB)
    run_to_end(whole, "-m", "panestream.jobs", "run", "job.toml")
    assert len(common(whole)) > 1000
    assert common(tmp_path / "killed") == common(whole)


def rows_of(output: Path, names: list[str] | None = None) -> list[tuple[object, ...]]:
    """Return the sorted rows of an output with all their columns. The old job has fewer columns than the new job."""
    parts = [ds.dataset(part).to_table(columns=names).to_pylist() for part in sorted(output.glob("batch_id=*"))]
    return sorted((tuple(row.items()) for rows in parts for row in rows), key=repr)


def common(work: Path) -> list[tuple[object, ...]]:
    """Return the rows of main in the columns that both jobs compute."""
    return rows_of(work / "out" / "main", ["item_id", "window_start", "window_end", "views", "users", "first_user"])
