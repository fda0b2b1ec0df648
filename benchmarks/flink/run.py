"""Run panestream, native Spark and Flink on the same workloads in turn: ``python -m benchmarks.flink.run --help``."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.flink.beside import DATA, ROOT, SUBJECT, Result, ratios, run_contestant, spread
from benchmarks.flink.cluster import HEAP, VERSION
from benchmarks.flink.spark_side import Run
from benchmarks.flink.workloads import WORKLOADS
from benchmarks.harness import SETTINGS
from benchmarks.run import machine


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.flink.run", description=(__doc__ or "").splitlines()[0])
    everybody = list(dict.fromkeys(name for workload in WORKLOADS.values() for name in workload.contestants))
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--contestants", nargs="+", choices=everybody, default=everybody, metavar="NAME", help=f"of {everybody}")
    parser.add_argument("--rows", type=int, help="events for everybody (default: for each so many as take it about 10 s)")
    parser.add_argument("--rows-per-batch", type=int, default=1_000_000, help="of Spark's micro-batches (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="in one process (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each contestant, in turn (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--data", default=str(DATA), help="where event files and Flink are kept")
    parser.add_argument("--results", default=str(ROOT / "benchmarks" / "results"))
    parser.add_argument("--name", default=None, help="of the result files")
    return parser.parse_args(arguments)


def run_workload(name: str, options: argparse.Namespace) -> list[Result]:
    """Run all rounds of one workload, and print a line per run."""
    workload = WORKLOADS[name]
    results = []
    for number in range(options.rounds):
        for contestant in (each for each in workload.contestants if each in options.contestants):
            rows = options.rows or workload.rows[contestant]
            run = Run(name, contestant, rows, options.rows_per_batch, options.repeats, options.data, options.cores)
            one = run_contestant(run, number)
            print(
                f"  {name}  round {number + 1}  {contestant:25s} {one.median:>12,.0f} events/s ({spread(one.rates)})", flush=True
            )
            results.append(one)
    return results


def table(results: Sequence[Result]) -> list[str]:
    """Return a line per workload and contestant."""
    lines = [
        "| workload | contestant | events | events/s | repeats | until the last is in | panestream ÷ it | rows out |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(result.workload for result in results):
        of_workload = [result for result in results if result.workload == name]
        for contestant in dict.fromkeys(each.contestant for each in of_workload):
            runs = [each for each in of_workload if each.contestant == contestant]
            by_round = ratios(of_workload, contestant) if contestant != SUBJECT else []
            shown = f"**{statistics.median(by_round):.2f}** ({spread(by_round, '.2f')})" if by_round else ""
            lines.append(
                f"| {name} {WORKLOADS[name].title} | {contestant} | {runs[0].rows:,}"
                f" | {statistics.median(run.median for run in runs):,.0f}"
                f" | {spread([rate for run in runs for rate in run.rates])}"
                f" | {statistics.median(run.ingest_median for run in runs):,.0f} | {shown} | {runs[0].rows_out:,} |"
            )
    return lines


def about_the_runs(options: argparse.Namespace) -> list[str]:
    """Return a description of the input, the machine and the method."""
    about = machine()
    return [
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- Flink {VERSION} from PyPI, DataStream API in Java, local cluster, parallelism {options.cores}, heap {HEAP}, makes",
        '  its own events or, "same files", reads the Parquet files that Spark reads, by Flink\'s columnar reader; with RocksDB',
        "  incremental checkpoints every 5 s.",
        '- "transfer": the same rows into Python (and back) in the same micro-batches, and nothing done with them: no windows,',
        "  no shuffle, no state. No operator in Python is faster than the first, and none that hands rows back than the second.",
        f"- Spark: `local[{options.cores}]`, {options.cores} shuffle partitions, events from Parquet in micro-batches of",
        f"  {options.rows_per_batch:,}, " + ", ".join(f"`{name}={value}`" for name, value in SETTINGS.items()),
        f"- {options.rounds} rounds, contestants in turn, each in a process of its own, {options.repeats} repeats in it;",
        "  median and spread over all repeats, ratios within rounds. Seconds are wall clock until everything is out.",
        "- Answers: rows, sum and count of every repeat equal those computed by counting (of count windows: rows and count).",
        "",
    ]


def save(text: str, results: Sequence[Result], options: argparse.Namespace, stem: str) -> Path:
    """Write Markdown and JSON, and return their path without the suffix."""
    folder = Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(timezone.utc)
    target = folder / (options.name or f"{now:%Y-%m-%d-%H%M}-{stem}")
    target.with_suffix(".md").write_text(text)
    settings = {key: value for key, value in vars(options).items() if key not in ("data", "results", "name")}
    document = {"ended": now.isoformat(timespec="seconds"), "options": settings, "runs": [asdict(result) for result in results]}
    target.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    return target


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the table, and write it as JSON and Markdown."""
    options = parse(arguments)
    heading = ["# Beside Flink", "", *about_the_runs(options)]
    results = [each for name in options.workloads for each in run_workload(name, options)]
    text = "\n".join([*heading, *table(results)]) + "\n"
    print("\n" + text)
    print(f"written: {save(text, results, options, 'flink')}.md and .json")


if __name__ == "__main__":
    main()
