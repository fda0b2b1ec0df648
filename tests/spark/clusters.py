"""A standalone Spark cluster on this machine: processes of a master and two workers with one core each."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

WORKERS = 2
PATIENCE = 300
"""Seconds until the workers must have registered with the master."""


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster(folder: Path, python: str | Path, **environment: str) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield the master's address, and the processes of the workers, whose children are the executors.

    Args:
        folder: The folder of logs and workers' files.
        python: The Python of Spark's Python workers.
        environment: Further environment variables. The current ``PYTHONPATH`` is removed.
    """
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    home = Path(pyspark.__file__).parent
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ours |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python), "ON_A_WORKER_MACHINE": "1"}
    listening = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [["org.apache.spark.deploy.master.Master", *listening, "--port", str(port)]]
    for number in range(1, WORKERS + 1):
        size = ["-c", "1", "-m", "1g", "-d", str(folder / f"worker{number}")]
        commands.append(["org.apache.spark.deploy.worker.Worker", *listening, *size, master])
    processes, logs = [], []
    try:
        for number, command in enumerate(commands):
            logs.append((folder / f"process{number}.log").open("wb"))
            program = [str(home / "bin" / "spark-class"), *command]
            processes.append(subprocess.Popen(program, env=ours | environment, stdout=logs[-1], stderr=subprocess.STDOUT))
        deadline = time.monotonic() + PATIENCE
        while (folder / "process0.log").read_text().count("Registering worker") < WORKERS:
            assert time.monotonic() < deadline, (folder / "process0.log").read_text()[-2000:]
            time.sleep(0.2)
        yield master, processes[1:]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)
        for log in logs:
            log.close()
