"""Measurements in processes of their own: a fresh Java and fresh Python workers for each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_MARK = "BENCHMARK-RESULT "


def tell(figures: Any) -> None:
    """Print figures for the process that asked for them."""
    print(_MARK + json.dumps(figures), flush=True)


def ask(module: str, *arguments: str) -> Any:
    """Run a module of the benchmarks in a process, and return the figures that it tells.

    Raises:
        RuntimeError: it failed. The message has the end of its output.
    """
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    told = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not told:
        raise RuntimeError(f"{' '.join(command[2:])} failed:\n{done.stderr[-4000:]}")
    return json.loads(told[-1])
