"""Kill a job's process group at random moments, restart it each time, and let it end.

By hand:  python tests/recovery/kill_loop.py JOB.toml --kills 10 --seed 7

Each kill comes a random time after the run has planned a micro-batch, so that kills hit all phases of a micro-batch.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST_RUN_SECONDS = 400


@dataclass
class Kill:
    """One kill: how long the run had lived, and which micro-batches were planned and committed."""

    after_seconds: float
    planned: int
    committed: int


def run_job(job: Path) -> subprocess.Popen[bytes]:
    """Start the job in its own process group."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    log = (job.parent / "job.log").open("ab")
    return subprocess.Popen(
        [sys.executable, "-m", "panestream.jobs", "run", str(job)],
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def last_batch(folder: Path) -> int:
    """Return the largest number of a micro-batch in a folder of Spark's checkpoint, or -1."""
    numbers = [int(file.name) for file in folder.glob("*") if file.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=-1)


def run_with_kills(job: Path, checkpoint: Path, kills: int, seed: int) -> list[Kill]:
    """Run the job to its end with this many ``kill -9`` in between.

    Raises:
        RuntimeError: The job failed by itself, or ended before all kills.
    """
    random_numbers = random.Random(seed)
    done: list[Kill] = []
    while True:
        planned_before = last_batch(checkpoint / "offsets")
        process = run_job(job)
        started = time.monotonic()
        # Each run must plan at least one new micro-batch. Otherwise a job that is killed often would never end.
        wait_for = planned_before + random_numbers.choice([1, 1, 2])
        pause = random_numbers.uniform(0, 1.5)
        try:
            while process.poll() is None and time.monotonic() - started < LONGEST_RUN_SECONDS:
                if len(done) < kills and last_batch(checkpoint / "offsets") >= wait_for:
                    time.sleep(pause)
                    break
                time.sleep(0.01)
            if process.poll() is not None:
                break
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if len(done) == kills:
            raise RuntimeError(f"{job} did not end within {LONGEST_RUN_SECONDS} s")
        done.append(Kill(time.monotonic() - started, last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")))
    if process.returncode != 0:
        raise RuntimeError(f"{job} ended with {process.returncode}:\n{(job.parent / 'job.log').read_text()[-3000:]}")
    if len(done) < kills:
        raise RuntimeError(f"{job} ended after {len(done)} of {kills} kills: give it more micro-batches")
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for number, kill in enumerate(run_with_kills(options.job, options.checkpoint, options.kills, options.seed)):
        print(f"kill {number + 1}: after {kill.after_seconds:.1f} s, planned {kill.planned}, committed {kill.committed}")


if __name__ == "__main__":
    main()
