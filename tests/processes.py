"""Run a script of the tests in its own Python process, as users' programs run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 900
"""Seconds."""
ANY_PORT = {"SPARK_TESTING": "1"}
"""Environment of a script with a Spark Connect server, on a free port instead of 15002, which another test may use."""


def ran(script: str | Path, *arguments: object, python: str | Path = sys.executable, **environment: str) -> str:
    """Run a script with the project's code on the path, and wait for its end.

    Args:
        script: the file.
        arguments: passed on as words.
        python: the interpreter of the script and of Spark's workers.
        environment: additional environment variables.

    Returns:
        The script's stderr followed by its stdout.

    Raises:
        AssertionError: the script failed. The message ends with the end of its output.
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
