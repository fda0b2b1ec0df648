"""Hot keys, long sessions, large rows, many columns: speed, memory, and the answer. ``python -m benchmarks.heavy.run --help``.

Each case runs in a separate process with its own JVM. Its output is compared with an answer computed from the row numbers alone.
A case that fails or exceeds its time limit is in the table too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import panestream as pst
from benchmarks.harness import _memory
from benchmarks.heavy.cases import CASES, Case, closing
from benchmarks.run import HERE, machine

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.maxPartitionBytes": "16m",
    "spark.log.level": "ERROR",
}
_SMALL, _SMALL_FILES = 1_000, 40
_MARK = "HEAVY "


class Peaks(threading.Thread):
    """The largest driver (Python), JVM (driver and executor in one), and single Python worker; several looks a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.mb = {"driver": 0, "jvm": 0, "worker": 0}
        self.ended = threading.Event()

    def run(self) -> None:
        me = psutil.Process()
        while not self.ended.wait(0.2):
            self._see("driver", me.memory_info().rss)
            for process in me.children(recursive=True):
                try:
                    java = "java" in process.name()
                    self._see("jvm" if java else "worker", process.memory_info().rss if java else _memory(process))
                except psutil.Error:
                    continue

    def _see(self, what: str, size: int) -> None:
        self.mb[what] = max(self.mb[what], size >> 20)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.heavy.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES], metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the full number of rows (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="that a case may take (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=4, help="key groups (default: %(default)s)")
    parser.add_argument("--launcher", nargs="*", default=[], help="a command that each case's process is started by")
    parser.add_argument("--data", default=str(HERE / ".data" / "heavy"))
    parser.add_argument("--results", default=str(HERE / "results"))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _write(case: Case, rows: int, folder: Path, burst: bool) -> int:
    """Write the files with times a second apart, since Spark reads them in this order. Return their number."""
    tables = list(case.tables(rows)) if burst else case.tables(rows)
    if burst:
        whole, last = tables
        small = [whole.slice(at * _SMALL, _SMALL) for at in range(_SMALL_FILES)]
        tables = [*small, whole.slice(_SMALL * _SMALL_FILES), last]
    number = 0
    for number, table in enumerate(tables):
        file = folder / f"{number:05d}.parquet"
        pq.write_table(table, file, compression="lz4")
        os.utime(file, (1_700_000_000 + number,) * 2)
    return number + 1


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run one case in this process."""
    case, folder = CASES[options.case], Path(options.data) / options.case
    rows = max(int(case.rows * options.scale), 100)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    burst = options.case == "burst"
    rows = max(rows, 2 * _SMALL * _SMALL_FILES) if burst else rows
    files = _write(case, rows, folder / "in", burst)
    spark = pst.build_session("heavy", {**SETTINGS, **case.settings, "spark.sql.shuffle.partitions": str(options.groups)})
    stream = spark.readStream.schema(case.schema).option("maxFilesPerTrigger", files - 1 if case.at_once else 1)
    result = case.query(stream.parquet(str(folder / "in")))
    peaks = Peaks()
    batches: list[Any] = []
    peaks.start()
    began = time.perf_counter()
    query = result.start(
        checkpoint=str(folder / "checkpoint"), main=pst.ParquetSink(str(folder / "out")), on_progress=batches.append
    )
    query.await_termination()
    seconds = time.perf_counter() - began
    peaks.ended.set()
    peaks.join()
    spark.stop()
    found, wanted = _found(folder / "out"), case.answer(rows)
    told = {
        "rows": rows,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        **peaks.mb,
        "state_mb": max((batch.state_bytes for batch in batches), default=0) >> 20,
        "right": {name: found[name] for name in wanted} == dict(wanted),
    }
    return told | ({} if told["right"] else {"found": found, "wanted": dict(wanted)})


def _found(folder: Path) -> dict[str, int]:
    """Return the number of results and their sums, without the results of the row that closes the windows."""
    counted = {"results": 0, "n": 0, "total": 0}
    rows = ds.dataset(folder, partitioning="hive", format="parquet").scanner(["key", "n", "total"])
    for batch in rows.to_batches():
        ours = batch.filter(ds.field("key") >= 0) if batch.num_rows else batch
        counted["results"] += ours.num_rows
        for name in ("n", "total"):
            counted[name] += sum(value or 0 for value in ours.column(name).to_pylist())
    return counted


def _in_a_process(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Run one case in a separate process.

    Return its report, or the reason of its failure without raising, so that the other cases still run.
    """
    arguments = [f"--{each}={getattr(options, each)}" for each in ("scale", "groups", "data")]
    command = [*options.launcher, sys.executable, "-m", "benchmarks.heavy.run", "--case", name, *arguments]
    paths = [str(HERE.parent / "src"), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    began = time.monotonic()
    # Write to a file, because a pipe stays open while a worker of a killed query has it.
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
        )
        try:
            process.wait(options.minutes * 60)
        except subprocess.TimeoutExpired:
            pass
        finally:
            in_time = process.poll() is not None
            _end(process)
            shutil.rmtree(Path(options.data) / name, ignore_errors=True)
        log.seek(0)
        told = _told(log.read(), process.returncode, in_time=in_time, minutes=options.minutes)
    return told if "failed" not in told else {**told, "after_seconds": round(time.monotonic() - began)}


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and its descendants. Spark's workers have a separate process group."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        below = []
    for each in below:
        with suppress(psutil.Error):
            each.kill()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # Free the memory before the next case starts.
    psutil.wait_procs(below, timeout=10)


def _told(log: str, status: int, *, in_time: bool, minutes: float) -> dict[str, Any]:
    """Return the final report of a case's process. For a failure, return the error and the end of the output."""
    lines = log.splitlines()
    marked = [line for line in lines if line.startswith(_MARK)]
    if in_time and not status and marked:
        found: dict[str, Any] = json.loads(marked[-1].removeprefix(_MARK))
        return found
    said = [line for line in lines if re.match(r"[A-Za-z_.]+(Error|Exception)\b", line)]
    why = said[-1] if said else f"exit status {status}"
    return {
        "failed": why if in_time else f"not done after {minutes:g} minutes" + (f"; {why}" if said else ""),
        "log": log[-3000:],
    }


def _line(name: str, told: dict[str, Any]) -> str:
    case = CASES[name]
    if "failed" in told:
        why = told["failed"][:300].replace("|", "\\|")
        return f"| {name} | {case.what} | {case.rows:,} | | | | | | | **failed: {why}** |"
    size = f"{told['rows']:,}" + ("" if told["rows"] == case.rows else f" (full: {case.rows:,})")
    numbers = " | ".join(f"{told[each]:,}" for each in ("rows_per_second", "driver", "jvm", "worker", "state_mb"))
    return f"| {name} | {case.what} | {size} | {told['seconds']:,} | {numbers} | {'right' if told['right'] else '**wrong**'} |"


def page(options: argparse.Namespace, told: dict[str, dict[str, Any]]) -> str:
    """The table."""
    about = machine()
    lines = [
        "# Hot and heavy",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']} at the end. Python {about['python']}, Spark {about['pyspark']}.",
        f"- Settings: {', '.join(f'`{name}={value}`' for name, value in SETTINGS.items())}; {options.groups} key groups.",
        "  A JVM of its own for each case, cold: seconds are those of the whole query, with its start.",
        f"- A case may take {options.minutes:g} minutes, with making its rows. Of one that fails the end of its log is in "
        "heavy.json.",
        "- Peaks in MB: the driver's Python; the JVM (driver and executor in one); the largest single Python worker. State:",
        "  the largest of all key groups together, as they tell it.",
        "- The answer: the number of results and the sums of their columns, against what follows from the rows' numbers.",
        "",
        "| case | | rows | seconds | rows/s | driver | JVM | worker | state | answer |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
        *(_line(name, each) for name, each in told.items()),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, add them to saved results, and write table and figures. Return 1 if a case failed or is wrong."""
    options = parse(arguments)
    if options.case:
        print(_MARK + json.dumps(measure(options)))
        return 0
    results = Path(options.results)
    results.mkdir(parents=True, exist_ok=True)
    kept = results / "heavy.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    ours: dict[str, dict[str, Any]] = {}
    for name in options.cases:
        ours[name] = _in_a_process(options, name)
        print(_line(name, ours[name]), flush=True)
        told = {each: {**before, **ours}[each] for each in CASES if each in {**before, **ours}}
        kept.write_text(json.dumps(told, indent=1) + "\n")
        (results / "heavy.md").write_text(page(options, told))
    return int(not all(each.get("right") for each in ours.values()))


__all__ = ["closing", "main", "measure"]

if __name__ == "__main__":
    sys.exit(main())
