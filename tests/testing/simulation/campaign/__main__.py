"""Run many schedules, print their figures, and print the first broken one as a script: ``python -m
tests.testing.simulation.campaign``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from panestream.testing.simulation.explore import KINDS
from tests.testing.simulation.campaign.campaign import Figures, campaign
from tests.testing.simulation.campaign.random_schedules import OPERATORS

PLAIN_EVERY = 10.0
"""Seconds between two lines of plain output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 if every promise was kept, and 1 otherwise."""
    given = _parser().parse_args(arguments)
    operators = given.operators.split(",")
    unknown = [name for name in operators if name not in OPERATORS]
    if unknown:
        print(f"--operators: there is no {unknown[0]!r}, only {', '.join(OPERATORS)}", file=sys.stderr)
        return 2
    with _progress(given.schedules) as told:
        figures = campaign(
            given.seed, given.schedules, operators, first=given.first, runs=given.runs, seconds=given.seconds, told=told
        )
    command = "python -m tests.testing.simulation.campaign " + " ".join(sys.argv[1:] if arguments is None else arguments)
    print(summary(figures))
    if given.json:
        Path(given.json).write_text(json.dumps({"command": command.strip(), **figures.as_json()}, indent=2) + "\n", "utf-8")
    if given.results:
        Path(given.results).write_text(page(figures, command.strip()), "utf-8")
    if figures.failure:
        print(figures.failure, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.testing.simulation.campaign",
        description="Runs windows under Spark's contract without Spark, with every crash, and checks what comes of them.",
    )
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same schedules (0)")
    parser.add_argument("--schedules", type=int, default=100, help="so many at most (100)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first schedule (0)")
    parser.add_argument("--operators", default=",".join(OPERATORS), help="which take turns: %(default)s")
    parser.add_argument("--runs", type=int, help="stop when there were so many runs")
    parser.add_argument("--seconds", type=float, help="stop when so much time has passed")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--results", metavar="FILE", help="write the figures there, as a page")
    return parser


@contextmanager
def _progress(schedules: int) -> Iterator[Callable[[Figures], None]]:
    """Show a progress bar in a terminal if rich is installed, and a line now and then otherwise."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield _lines(schedules)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(schedules)
        return
    columns = (TextColumn("schedules"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("schedules", total=schedules, told="")

        def told(figures: Figures) -> None:
            progress.update(task, completed=figures.schedules, told=f"{figures.all_runs:,} runs")

        yield told


def _lines(schedules: int) -> Callable[[Figures], None]:
    last = [time.monotonic()]

    def told(figures: Figures) -> None:
        if time.monotonic() - last[0] >= PLAIN_EVERY:
            last[0] = time.monotonic()
            print(
                f"{figures.schedules:,} of {schedules:,} schedules, {figures.all_runs:,} runs, {figures.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    return told


def summary(figures: Figures) -> str:
    """Return the figures in a few lines."""
    kinds = ", ".join(f"{kind}: {figures.runs[kind]:,}" for kind in KINDS)
    kept = "a promise was BROKEN" if figures.failure else "nothing lost, nothing twice, nothing left behind"
    return (
        f"seed {figures.seed}: {figures.schedules:,} schedules, {figures.all_runs:,} runs ({kinds}), "
        f"{figures.seconds:,.0f} s\n{kept}"
    )


def page(figures: Figures, command: str) -> str:
    """Return the figures as a page of results."""
    last = figures.first + figures.schedules - 1
    came = f"{figures.schedules:,} schedules of {figures.micro_batches:,} micro-batches and {figures.rows:,} rows"
    took = f"{figures.seconds:,.0f} s, {figures.processor_seconds:,.0f} s of the processor"
    wrong = "**a promise was broken**" if figures.failure else "0 lost, 0 twice, 0 left behind; all counters add up"
    lines = [
        "# Simulated crashes",
        "",
        f"- Command: `{command}`",
        f"- Seed {figures.seed}, schedules {figures.first:,} to {last:,}: {came} (and those that close all windows).",
        f"- Runs: **{figures.all_runs:,}**, each judged by the definition of its kind of query, or by a run that was.",
        f"- One process, Python {platform.python_version()}: {took}.",
        f"- Result: {wrong}.",
        "",
        "| operator | " + " | ".join(KINDS) + " | all |",
        "|---|" + "---:|" * (len(KINDS) + 1),
    ]
    for operator, runs in figures.by_operator.items():
        lines.append(f"| {operator} | " + " | ".join(f"{runs[kind]:,}" for kind in KINDS) + f" | {runs.total():,} |")
    lines.append("| all | " + " | ".join(f"{figures.runs[kind]:,}" for kind in KINDS) + f" | {figures.all_runs:,} |")
    lines += ["", "What a run is, and what stands for what: [docs/how-to/simulation.md](../../docs/how-to/simulation.md).", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
