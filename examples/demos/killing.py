"""Run panestream in its own processes, and kill them with SIGKILL at a random moment or when the viewer presses Enter."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path


def last_batch(folder: Path) -> int:
    """Return the largest number of a micro-batch in a folder of the checkpoint, or -1."""
    return max((int(file.name) for file in folder.glob("[0-9]*")), default=-1)


def run(work: Path, *arguments: str, is_moment: Callable[[], bool] = lambda: False) -> bool:
    """Run panestream, and kill it with all its processes if ``is_moment``. Return whether it was killed."""
    with (work / "job.log").open("ab") as log:
        command = [sys.executable, "-m", "panestream.jobs", *arguments]
        process = subprocess.Popen(command, cwd=work, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)  # noqa: S603
    try:
        while process.poll() is None:
            if is_moment():
                return True
            time.sleep(0.02)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise SystemExit((work / "job.log").read_text("utf-8")[-3000:])
    return False


def random_moment(checkpoint: Path, chance: random.Random) -> Callable[[], bool]:
    """Return a function that is true a random time after the run has planned one or two micro-batches."""
    wanted, pause, planned = last_batch(checkpoint / "offsets") + chance.randint(1, 2), chance.uniform(0, 0.8), list[float]()

    def is_moment() -> bool:
        if not planned and last_batch(checkpoint / "offsets") >= wanted:
            planned.append(time.monotonic())
        return bool(planned) and time.monotonic() >= planned[0] + pause

    return is_moment


def key_pressed() -> bool:
    """Return whether the viewer has pressed Enter."""
    return bool(select.select([sys.stdin], [], [], 0)[0]) and bool(sys.stdin.readline())


def moment(checkpoint: Path, chance: random.Random, *, by_hand: bool, left: int) -> Callable[[], bool]:
    """Return a function that tells whether to kill the job now."""
    if by_hand:
        return key_pressed
    return random_moment(checkpoint, chance) if left > 0 else partial(bool)
