"""Run the contestants in turn, A B C A B C …, and compare them: ``python -m benchmarks.run --help``.

Machines drift and neighbours disturb; figures of different runs do not compare, ratios within one round do. So each round runs
every contestant once, ratios are taken within rounds, and their median and range over the rounds are what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import panestream
from benchmarks.cases import Case, Checks
from benchmarks.catalog import CASES, SUM_COUNT_CASES
from benchmarks.events import EventSpec, write
from benchmarks.harness import SETTINGS, Measured, Run, warm_up_batches
from benchmarks.processes import ask

HERE = Path(__file__).resolve().parent
SUBJECT = "panestream"
REQUIRED = {("sliding", "native"): 12.0, ("sliding", "per_key"): 10.0, ("tumbling", "native"): 0.7, ("tumbling", "per_key"): 8.0}
"""The ratio of rows per second by which panestream must beat the others at a million rows a batch (case, peer)."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(SUM_COUNT_CASES))
    contestants = list(dict.fromkeys(name for case in CASES.values() for name in (*case.contestants, *case.limits)))
    parser.add_argument("--contestants", nargs="+", choices=contestants, default=contestants, help="(default: all the case has)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of one micro-batch (default: %(default)s)")
    parser.add_argument("--steady", type=int, default=3, help="micro-batches that count, after warm-up (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=10_000, help="(default: %(default)s)")
    parser.add_argument("--rate", type=int, help="events per second of event time (default: the case's)")
    parser.add_argument("--disorder", type=int, default=1_000, metavar="MS", help="of event times (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contestant runs (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2, help="of local[N]; also shuffle partitions")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting for all")
    parser.add_argument("--data", default=str(HERE / ".data"), help="where event files are kept")
    parser.add_argument("--results", default=str(HERE / "results"), help="where the tables go")
    parser.add_argument("--name", default=None, help="of the result files (default: rows and date)")
    parser.add_argument("--quick", action="store_true", help="a short look: 100,000 rows a batch, one round")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.rounds, options.steady = min(options.rows, 100_000), 1, 2
    return options


def run_once(run: Run) -> Measured:
    """Run ``run`` in a separate process.

    Raises:
        RuntimeError: the run failed. The message contains the end of its output.
    """
    return Measured(**ask("benchmarks.harness", run.to_json()))


def check(measured: Sequence[Measured], truth: Checks) -> None:
    """Check that every run gave the right answer, and the same rows.

    Raises:
        AssertionError: a run did not.
    """
    for run in measured:
        got = Checks(run.checks["rows"], run.checks["total"], run.checks["events"])
        if got != truth:
            raise AssertionError(f"{run.contestant} / {run.case}: got {got}, right is {truth}")
    digests = {each.contestant: each.checks["digest"] for each in measured}
    if len({each.checks["digest"] for each in measured}) > 1:
        raise AssertionError(f"same sums, but other rows: digests {digests}")


def run_case(case: Case, options: argparse.Namespace) -> list[Measured]:
    """Run all rounds of one case, and print a line per run."""
    bare = EventSpec(options.rows, 1, options.keys, options.rate or case.rate, options.disorder, options.cores)
    spec = EventSpec(**{**asdict(bare), "batches": warm_up_batches(bare, case) + options.steady})
    write(spec, Path(options.data))
    truth = case.expected(spec, case.bound_ms(spec))
    if not truth.rows:
        raise ValueError(f"{case.name}: with these options no window closes")
    print(f"\n{case.name}: {spec.batches} batches of {spec.rows_per_batch:,} rows, {truth.rows:,} closed windows", flush=True)
    settings = dict(pair.split("=", 1) for pair in options.set)
    measured: list[Measured] = []
    for number in range(options.rounds):
        for contestant in (name for name in (*case.contestants, *case.limits) if name in options.contestants):
            started = time.perf_counter()
            one = run_once(Run(contestant, case.name, spec, options.data, options.cores, settings))
            measured.append(one)
            check([each for each in measured if each.contestant not in case.limits], truth)
            print(
                f"  round {number + 1}  {contestant:10s} {one.median:>12,.0f} rows/s"
                f"  ({min(one.rows_per_second):,.0f} to {max(one.rows_per_second):,.0f}; {time.perf_counter() - started:.0f} s)",
                flush=True,
            )
    return measured


def ratios(measured: Sequence[Measured], peer: str) -> list[float]:
    """Return the ratio of the subject's speed to that of ``peer``, round by round."""
    medians = {name: [each.median for each in measured if each.contestant == name] for name in (SUBJECT, peer)}
    return [mine / theirs for mine, theirs in zip(medians[SUBJECT], medians[peer], strict=True)]


def machine() -> dict[str, Any]:
    """Return a description of the machine and versions."""
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line), cpu)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyspark", "pyarrow", "numpy")},
        "panestream": panestream.__version__,
    }


def table(case: str, measured: Sequence[Measured], rounds: int) -> list[str]:
    """Return the result of one case in Markdown."""
    lines = [
        f"### {case}",
        "",
        "| contestant | rows/s | rounds | batches | CPU | state calls | reported | written | JVM peak | workers peak |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(each.contestant for each in measured):
        runs = [each for each in measured if each.contestant == name]
        medians = [run.median for run in runs]
        batches = [rate for run in runs for rate in run.rows_per_second]
        lines.append(
            f"| {name} | {statistics.median(medians):,.0f} | {min(medians):,.0f} to {max(medians):,.0f}"
            f" | {min(batches):,.0f} to {max(batches):,.0f} | {statistics.median(run.cpu_seconds for run in runs):.2f} s"
            f" | {max(run.state_calls for run in runs):,}"
            f" | {max(run.state_bytes for run in runs) / 1e6:,.1f} MB"
            f" | {max(run.checkpoint_bytes for run in runs) / 1e6:,.1f} MB"
            f" | {max(run.jvm_peak_mb for run in runs):,.0f} MB | {max(run.workers_peak_mb for run in runs):,.0f} MB |"
        )
    lines.append("")
    for peer in dict.fromkeys(each.contestant for each in measured):
        if peer != SUBJECT and any(each.contestant == SUBJECT for each in measured):
            by_round = ratios(measured, peer)
            cpu = {name: statistics.median(o.cpu_seconds for o in measured if o.contestant == name) for name in (SUBJECT, peer)}
            wanted = f"; wanted at 1 M rows a batch: {REQUIRED[case, peer]}" if (case, peer) in REQUIRED else ""
            lines.append(
                f"- {SUBJECT} ÷ {peer}: **{statistics.median(by_round):.2f}** ({min(by_round):.2f} to {max(by_round):.2f}"
                f" over {rounds} rounds{wanted});"
                f" by CPU time {cpu[peer] / cpu[SUBJECT]:.2f}"
            )
    return [*lines, ""]


def report(results: dict[str, list[Measured]], options: argparse.Namespace, about: dict[str, Any]) -> str:
    """Return the whole result in Markdown."""
    java = next((run.java for runs in results.values() for run in runs), "?")
    settings = {**SETTINGS, **dict(pair.split("=", 1) for pair in options.set)}
    lines = [
        f"# {options.rows:,} rows a batch, {options.keys:,} keys: {', '.join(results)}",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load before the start {about['load_at_start']}.",
        f"- Versions: Python {about['python']}, Spark {about['pyspark']}, Java {java}, pyarrow {about['pyarrow']},",
        f"  numpy {about['numpy']}.",
        f"- Events: {', '.join(f'{options.rate or CASES[name].rate:,} ({name})' for name in results)} per second of event time,",
        f"  out of order by up to {options.disorder} ms;",
        "  Parquet in, noop sink out.",
        f"- Runs: {options.rounds} rounds, contestants in turn, each in a process of its own;",
        f"  {options.steady} batches count, after warm-up. Rows/s: median, and from the lowest to the highest.",
        "- Answers: all contestants gave the same rows, and the right ones (number of rows, sum, count; a hash among them).",
        *(
            ["- `floor` is no contestant: see `benchmarks/functions/floor.py`. The function alone, on rows in Python."]
            if any(CASES[name].limits for name in results)
            else []
        ),
        f"- Spark: `local[{options.cores}]`, {options.cores} shuffle partitions, "
        + ", ".join(f"`{name}={value}`" for name, value in settings.items()),
        "- State calls: RocksDB gets and puts of the last batch that counts.",
        "- State reported: largest `memoryUsedBytes` of a batch; written: the checkpoint's `state` folder at the end.",
        "- Memory: resident set of the JVM (driver and executor in one); Python workers together, shared pages counted once.",
        "- CPU: seconds of processor time per million rows, JVM and workers, over the batches that count.",
        "",
    ]
    for case, measured in results.items():
        lines += table(case, measured, options.rounds)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the tables, and write them as JSON and Markdown."""
    options = parse(arguments)
    about = machine()
    now = datetime.now(timezone.utc)
    results = {name: run_case(CASES[name], options) for name in options.cases}
    text = report(results, options, about)
    print("\n" + text)
    folder = Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    stem = options.name or f"{now:%Y-%m-%d-%H%M}-{options.rows}"
    (folder / f"{stem}.md").write_text(text)
    settings = {key: value for key, value in vars(options).items() if key not in ("data", "results", "name")}
    document = {
        "started": now.isoformat(timespec="seconds"),
        "machine": about,
        "options": settings,
        "settings": SETTINGS,
        "runs": [asdict(run) for runs in results.values() for run in runs],
    }
    (folder / f"{stem}.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"written: {folder / stem}.md and .json")


if __name__ == "__main__":
    main()
