"""Run Nexmark's windowed queries on panestream and on native Spark in turn: ``python -m benchmarks.nexmark.run --help``."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.nexmark.measure import WARM_UP, Measured, Run
from benchmarks.nexmark.native import QUERIES as NATIVE
from benchmarks.nexmark.queries import QUERIES
from benchmarks.processes import ask
from benchmarks.run import machine

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONTESTANTS = ("panestream", "native", "source")
PUBLISHED = {"q5": 22_100, "q7": 12_300, "q8": 146_000, "q11": 39_700, "q12": 75_700}
"""Events per second and core that Nexmark's own page gives for Flink with RocksDB on a cluster of 24 cores: other machines, and
10 s of event time in all. For the order of magnitude only."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.nexmark.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", nargs="+", choices=list(QUERIES), default=list(QUERIES))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--events-per-batch", type=int, default=2_000_000, help="of all kinds (default: %(default)s)")
    parser.add_argument("--steady", type=int, default=3, help=f"micro-batches that count, after {WARM_UP} (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=10_000, help="events per second of event time (default: %(default)s)")
    parser.add_argument("--disorder", type=int, default=2_000, metavar="MS", help="of event times (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="how often each contestant runs (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--results", default=str(HERE.parent / "results"))
    parser.add_argument("--name", default=None, help="of the result files")
    return parser.parse_args(arguments)


def run_once(run: Run) -> Measured:
    """Run ``run`` in a separate process.

    Raises:
        RuntimeError: it failed.
        AssertionError: its answer is wrong.
    """
    one = Measured(**ask("benchmarks.nexmark.measure", json.dumps(asdict(run))))
    if one.right is not None and one.right != one.checks:
        raise AssertionError(f"{run.contestant} / {run.query}: got {one.checks}, right is {one.right}")
    return one


def run_query(name: str, options: argparse.Namespace) -> list[Measured]:
    """Run all rounds of one query, and print a line per run."""
    spec = {
        "events": options.events_per_batch * (WARM_UP + options.steady),
        "seed": options.seed,
        "rate": options.rate,
        "disorder_ms": options.disorder,
    }
    measured = []
    for number in range(options.rounds):
        for contestant in options.contestants:
            if contestant == "native" and name not in NATIVE:
                continue
            one = run_once(Run(contestant, name, spec, options.events_per_batch, options.cores))
            print(f"  {name}  round {number + 1}  {contestant:10s} {one.median:>12,.0f} events/s", flush=True)
            measured.append(one)
    return measured


def table(measured: Sequence[Measured], options: argparse.Namespace) -> list[str]:
    """Return a line per query and contestant."""
    lines = [
        "| query | contestant | events/s | rounds | batches | events/s, core | rows read/s | panestream ÷ it | rows out |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for query in dict.fromkeys(each.query for each in measured):
        ours = [each.median for each in measured if (each.query, each.contestant) == (query, "panestream")]
        for name in dict.fromkeys(each.contestant for each in measured if each.query == query):
            runs = [each for each in measured if (each.query, each.contestant) == (query, name)]
            medians = [run.median for run in runs]
            batches = [rate for run in runs for rate in run.events_per_second]
            ratios = [mine / theirs for mine, theirs in zip(ours, medians, strict=False)] if name != "panestream" else []
            shown = f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
            lines.append(
                f"| {query} {QUERIES[query].title} | {name} | {statistics.median(medians):,.0f}"
                f" | {min(medians):,.0f} to {max(medians):,.0f} | {min(batches):,.0f} to {max(batches):,.0f}"
                f" | {statistics.median(medians) / options.cores:,.0f}"
                f" | {statistics.median(rate for run in runs for rate in run.rows_per_second):,.0f} | {shown}"
                f" | {runs[0].checks.get('rows', 0):,} |"
            )
    return lines


def report(measured: Sequence[Measured], options: argparse.Namespace) -> str:
    """Return the whole result in Markdown."""
    about = machine()
    published = ", ".join(f"{name} {PUBLISHED[name]:,}" for name in options.queries)
    lines = [
        f"# Nexmark, {options.events_per_batch:,} events a batch",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- Events: seed {options.seed}, {options.rate:,} per second of event time, out of order by up to {options.disorder} ms;",
        "  made by the source while the query runs; an event counts whatever its kind, also if the query does not read it.",
        f"- Runs: {options.rounds} rounds, contestants in turn, each in a process of its own;",
        f"  {options.steady} micro-batches count, after {WARM_UP}. `source` only makes the events and throws them away.",
        "- Answers: rows, sums and crossed sums of panestream and native equal those of a computation without windows; of q12,",
        "  which depends on the clock, only the number of bids.",
        f"- Published for Flink (RocksDB, 24 cores, 100 M events in 10 s of event time), events/s and core: {published}.",
        "",
        *table(measured, options),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the table, and write it as JSON and Markdown."""
    options = parse(arguments)
    now = datetime.now(timezone.utc)
    measured = [each for name in options.queries for each in run_query(name, options)]
    text = report(measured, options)
    print("\n" + text)
    folder = Path(options.results)
    folder.mkdir(parents=True, exist_ok=True)
    stem = options.name or f"{now:%Y-%m-%d-%H%M}-nexmark-{options.events_per_batch}"
    (folder / f"{stem}.md").write_text(text)
    settings = {key: value for key, value in vars(options).items() if key not in ("results", "name")}
    document = {"started": now.isoformat(timespec="seconds"), "options": settings, "runs": [asdict(each) for each in measured]}
    (folder / f"{stem}.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"written: {folder / stem}.md and .json")


if __name__ == "__main__":
    main()
