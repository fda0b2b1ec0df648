"""Keys from few to very many, late rows from none to a third: ``python -m benchmarks.limits.run --help``.

Sliding windows of 60 s every 10 s. Late rows are up to a minute late and make their windows fire again, as a changelog. Each case
runs once in a separate process. Its added-up output must be the answer for all rows.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.cases import Checks
from benchmarks.events import EventSpec
from benchmarks.harness import SETTINGS, Measured, Run, warm_up_batches
from benchmarks.limits.cases import REFIRED
from benchmarks.run import HERE as BENCHMARKS
from benchmarks.run import machine, run_once

LATE_MS = 60_000


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.limits.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", nargs="+", type=int, default=[100, 10_000, 100_000, 1_000_000])
    parser.add_argument("--late", nargs="+", type=int, default=[0, 5, 30], metavar="PERCENT", help="of the rows")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a micro-batch (default: %(default)s)")
    parser.add_argument("--steady", type=int, default=3, help="micro-batches that count (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--data", default=str(BENCHMARKS / ".data"))
    parser.add_argument("--results", default=str(BENCHMARKS / "results"))
    parser.add_argument("--name", default="limits", help="of the result files (default: %(default)s)")
    return parser.parse_args(arguments)


def run_one(keys: int, late: int, options: argparse.Namespace) -> Measured:
    """Run one case, and check its output.

    Raises:
        AssertionError: the changes do not add up to the answer.
    """
    shape = {"keys": keys, "late_percent": late, "late_ms": LATE_MS if late else 0, "files_per_batch": options.cores}
    warm = warm_up_batches(EventSpec(options.rows, 1, **shape), REFIRED)
    spec = EventSpec(options.rows, warm + options.steady, **shape)
    one = run_once(Run("panestream", REFIRED.name, spec, options.data, options.cores))
    truth = REFIRED.expected(spec, REFIRED.bound_ms(spec))
    got = Checks(truth.rows, one.checks["total"], one.checks["events"])
    if got != truth or one.checks["rows"] < truth.rows:
        raise AssertionError(f"{keys:,} keys, {late} % late: changes add up to {got}, right is {truth}")
    return one


def line(keys: int, late: int, one: Measured) -> str:
    """Return a line of the table."""
    rates = one.rows_per_second
    return (
        f"| {keys:,} | {late} % | {one.median:,.0f} | {min(rates):,.0f} to {max(rates):,.0f} | {one.cpu_seconds:.2f} s"
        f" | {one.checks['rows']:,} | {one.state_calls:,} | {one.state_bytes / 1e6:,.1f} MB"
        f" | {one.checkpoint_bytes / 1e6:,.1f} MB | {one.workers_peak_mb:,.0f} MB | {one.jvm_peak_mb:,.0f} MB |"
    )


def heading(options: argparse.Namespace) -> list[str]:
    """Return a description of the input, the machine and the method, and the head of the table."""
    about = machine()
    return [
        "# Keys and late rows",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- Sliding windows of 60 s every 10 s, 10,000 events per second of event time, {options.rows:,} rows a micro-batch.",
        f"  Late rows are up to {LATE_MS // 1000} s late; their windows fire again, told as a changelog whose sum was checked.",
        f"- Spark: `local[{options.cores}]`, {options.cores} shuffle partitions, "
        + ", ".join(f"`{name}={value}`" for name, value in SETTINGS.items()),
        f"- One run each, in a process of its own; {options.steady} micro-batches count, after warm-up. State calls: RocksDB",
        "  gets and puts of the last one. Reported: largest `memoryUsedBytes`; written: the checkpoint's `state` at the end.",
        "",
        "| keys | late | rows/s | batches | CPU | changes out | state calls | reported | written | workers peak | JVM peak |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the table, and write it as JSON and Markdown."""
    options = parse(arguments)
    lines = heading(options)
    print("\n".join(lines), flush=True)
    runs = []
    for keys in options.keys:
        for late in options.late:
            measured = run_one(keys, late, options)
            runs.append({"keys": keys, "late_percent": late, **asdict(measured)})
            lines.append(line(keys, late, measured))
            print(lines[-1], flush=True)
    folder = Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{options.name}.md").write_text("\n".join(lines) + "\n")
    ended = datetime.now(timezone.utc).isoformat(timespec="seconds")
    (folder / f"{options.name}.json").write_text(json.dumps({"ended": ended, "runs": runs}, indent=1) + "\n")
    print(f"written: {folder / options.name}.md and .json")


if __name__ == "__main__":
    main()
