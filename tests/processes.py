"""A script of the tests run by a Python of its own, as users' programs are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 900
"""Seconds."""
ANY_PORT = {"SPARK_TESTING": "1"}
"""Environment of a script that starts a server of Spark Connect: on a free port, not on 15002, where another test may have its own."""


def ran(script: str | Path, *arguments: object, python: str | Path = sys.executable, **environment: str) -> str:
    """Runs a script with the project's code at hand, to its end.

    Args:
        script: its file.
        arguments: as words.
        python: which runs it, and Spark's workers.
        environment: what is set besides.

    Returns:
        What it wrote to stderr and then to stdout.

    Raises:
        AssertionError: it failed; with the end of what it wrote.
    """
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ours = {"PYTHONPATH": path, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    done = subprocess.run(
        [python, script, *map(str, arguments)],
        env={**os.environ, **ours, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stderr + done.stdout
