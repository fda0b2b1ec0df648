"""Time and peak memory to read, save and start from large states. ``python -m benchmarks.state.run --help``.

Each step runs in a separate process, with one executor apart from the driver (``local-cluster``), so that their memory can be
measured separately. The output is checked: it has as many windows and rows as the input, before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import panestream as pst
from benchmarks.run import HERE, machine
from benchmarks.state.cases import CASES, SCHEMA, Case
from benchmarks.state.memory import Watcher

ROOT = HERE.parent
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
}
STEPS = ("inspect", "savepoint", "start", "start with twice the key groups")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.state.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--keys", type=int, default=1_000_000, help="of the case windows (default: %(default)s), ten windows each"
    )
    parser.add_argument("--megabytes", type=int, default=1000, help="of kept rows (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=8, help="key groups (default: %(default)s)")
    parser.add_argument(
        "--shares",
        nargs="+",
        type=float,
        default=[0.1, 1.0],
        help="of these sizes: what does not grow with the state? (default: a tenth, all)",
    )
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES])
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--data", default=str(HERE / ".data" / "state"))
    parser.add_argument("--results", default=str(HERE / "results"))
    parser.add_argument("--step", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _session(options: argparse.Namespace) -> Any:
    spark = pst.build_session("large states", SETTINGS, master=f"local-cluster[1,{options.cores},6144]")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _size(case: Case, options: argparse.Namespace) -> int:
    """Return the number of rows of a file."""
    return int(options.keys if case.name == "windows" else options.megabytes * 1000 // case.files)


def _go(spark: Any, case: Case, groups: int, folder: Path, checkpoint: str, **more: Any) -> None:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in" / "*"))
    sink = pst.ParquetSink(str(folder / f"out {checkpoint}"))
    case.query(stream, groups).start(checkpoint=str(folder / checkpoint), main=sink, **more).await_termination()


def _add(spark: Any, case: Case, folder: Path, size: int, number: int) -> None:
    case.rows(spark, size, number).coalesce(1).write.mode("overwrite").parquet(str(folder / "in" / str(number)))


def _step(options: argparse.Namespace) -> dict[str, Any]:
    """Run one step in this process."""
    name, step = options.step.split(":")
    case, folder = CASES[name], Path(options.data) / name
    spark, size = _session(options), _size(CASES[name], options)
    if step == "build":
        for number in range(case.files):
            _add(spark, case, folder, size, number)
        _go(spark, case, options.groups, folder, "checkpoint")
        return {
            "state_mb": round(
                sum(each.stat().st_size for each in (folder / "checkpoint" / "state").rglob("*") if each.is_file()) / 1e6
            )
        }
    told: dict[str, Any] = {}
    if step.startswith("start"):
        # Add a few rows, because Spark runs no micro-batch without rows.
        _add(spark, case, folder, 4, case.files)
    watcher = Watcher()
    watcher.start()
    began = time.perf_counter()
    if step == "inspect":
        summary = pst.state.read_checkpoint(spark, str(folder / "checkpoint")).summary()
        told["windows"], told["rows"] = summary.windows, summary.rows
        if summary.rows != size * case.files:
            raise AssertionError(f"{summary.rows:,} rows, there should be {size * case.files:,}")
    elif step == "savepoint":
        pst.savepoint(spark, str(folder / "checkpoint"), str(folder / "savepoint"))
    else:
        groups = options.groups * (2 if "twice" in step else 1)
        _go(spark, case, groups, folder, step.replace(" ", "_"), savepoint=str(folder / "savepoint"))
    told |= {"seconds": round(time.perf_counter() - began, 1), **watcher.stop().megabytes()}
    if step == "savepoint":
        told["mb"] = round(sum(each.stat().st_size for each in (folder / "savepoint").rglob("*") if each.is_file()) / 1e6)
    if step.startswith("start"):
        found = pst.state.read_checkpoint(spark, str(folder / step.replace(" ", "_"))).summary()
        told["windows"], told["rows"] = found.windows, found.rows
        if found.rows != size * case.files + 4:
            raise AssertionError(f"{found.rows:,} rows, there should be {size * case.files + 4:,}")
    spark.stop()
    return told


def _in_a_process(options: argparse.Namespace, share: float, case: str, step: str) -> dict[str, Any]:
    sizes = [f"--{name}={round(getattr(options, name) * share)}" for name in ("keys", "megabytes")]
    arguments = [*sizes, *(f"--{name}={getattr(options, name)}" for name in ("groups", "cores", "data"))]
    command = [sys.executable, "-m", "benchmarks.state.run", *arguments, f"--step={case}:{step}"]
    # Executors import their modules from there.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the table, and write it as Markdown."""
    options = parse(arguments)
    if options.step:
        print(json.dumps(_step(options)))
        return
    about = machine()
    settings = ", ".join(f"`{name}={value}`" for name, value in SETTINGS.items())
    lines = [
        "# Large states: looked into, saved, started from",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- One executor with {options.cores} cores beside the driver, {settings}.",
        f"- windows: {options.keys:,} keys with ten open windows each (tumbling, sum and count); elements:",
        f"  {options.megabytes:,} MB of kept rows of 1 kB (`apply_arrow`). {options.groups} key groups. Starting: until the",
        "  first micro-batch is done, with four rows more.",
        "- Peaks: largest resident sets in MB, while the step ran; `workers`: all Python workers together.",
        "",
        "| case | state on disk | step | seconds | driver Python | driver JVM | executor JVM | workers | windows | rows |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    for case, share in product(options.cases, options.shares):
        shutil.rmtree(Path(options.data) / case, ignore_errors=True)
        state = _in_a_process(options, share, case, "build")["state_mb"]
        for step in STEPS:
            told = _in_a_process(options, share, case, step)
            peaks = " | ".join(f"{told[name]:,.0f}" for name in ("driver_python", "driver_jvm", "executor_jvm", "workers"))
            seen = f"{told['windows']:,} | {told['rows']:,}" if "windows" in told else f" | {told['mb']:,} MB"
            lines.append(f"| {case} | {state:,} MB | {step} | {told['seconds']:,.1f} | {peaks} | {seen} |")
            print(lines[-1], flush=True)
        shutil.rmtree(Path(options.data) / case, ignore_errors=True)
    lines += ["", f"Load at the end: {os.getloadavg()[1]:.1f} (five minutes)."]
    Path(options.results).mkdir(parents=True, exist_ok=True)
    (Path(options.results) / "state.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
