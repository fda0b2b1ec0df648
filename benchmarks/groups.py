"""What a key group costs in a micro-batch, and a micro-batch itself: ``python -m benchmarks.groups --write``.

Sum and count of sliding windows (10 s / 2 s), 1,000 keys, two cores, panestream beside native ``window()``, in turns, each run in
a process of its own (``run.py``). The native query has as many shuffle partitions as panestream has key groups. Milliseconds are
of whole micro-batches (``triggerExecution``); what a further key group costs is the slope between the least and the most. Beside
the median of the rounds stand the least and the most of them: on a machine that is busy with something else, distrust all of it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.catalog import CASES
from benchmarks.events import EventSpec
from benchmarks.harness import SETTINGS, Run, warm_up_batches
from benchmarks.run import SUBJECT, check, machine, run_once

PEER = "native"
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Point:
    """One number of key groups: the median micro-batch of each round in ms, by contestant, and CPU ms of a micro-batch."""

    groups: int
    rounds: dict[str, list[float]]
    cpu: dict[str, float]

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    @property
    def ratios(self) -> list[float]:
        return [mine / theirs for mine, theirs in zip(self.rounds[SUBJECT], self.rounds[PEER], strict=True)]


def measured(rows: int, options: argparse.Namespace) -> list[Point]:
    """A curve over the key groups; every answer is checked."""
    case = CASES[options.case]
    warm = warm_up_batches(EventSpec(rows, 1, options.keys), case)
    spec = EventSpec(rows, warm + options.steady, options.keys)
    truth = case.expected(spec, case.bound_ms(spec))
    settings = dict(pair.split("=", 1) for pair in options.set)
    curve = []
    for groups in options.groups:
        rounds: dict[str, list[float]] = {SUBJECT: [], PEER: []}
        cpu: dict[str, list[float]] = {SUBJECT: [], PEER: []}
        for _ in range(options.rounds):
            for name, medians in rounds.items():
                partitions = {"spark.sql.shuffle.partitions": str(groups)}
                one = run_once(Run(name, options.case, spec, options.data, options.cores, {**partitions, **settings}))
                check([one], truth)
                medians.append(1000 * rows / one.median)
                cpu[name].append(one.cpu_seconds * rows / 1000)
        curve.append(Point(groups, rounds, {name: statistics.median(each) for name, each in cpu.items()}))
        print(line(curve[-1]), flush=True)
    return curve


def line(point: Point) -> str:
    """A line of the table."""
    cells = []
    for name in (SUBJECT, PEER):
        each = point.rounds[name]
        cells += [f"{point.median(name):,.0f} ({min(each):,.0f} to {max(each):,.0f})", f"{point.cpu[name]:,.0f}"]
    ratio = f"**{statistics.median(point.ratios):.2f}** ({min(point.ratios):.2f} to {max(point.ratios):.2f})"
    return f"| {point.groups} | {' | '.join(cells)} | {ratio} |"


def table(rows: int, curve: Sequence[Point]) -> list[str]:
    """The curve in Markdown."""
    lines = [f"## {rows:,} rows a micro-batch", "", f"| key groups | {SUBJECT} ms | CPU ms | {PEER} ms | CPU ms | ms ÷ ms |"]
    lines += ["|---:|---:|---:|---:|---:|---:|", *map(line, curve), ""]
    if len(curve) > 1:
        first, last = curve[0], curve[-1]
        each = {name: (last.median(name) - first.median(name)) / (last.groups - first.groups) for name in (SUBJECT, PEER)}
        lines += [f"Each further key group: {each[SUBJECT]:.1f} ms, native {each[PEER]:.1f} ms.", ""]
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints, and with ``--write`` keeps the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.groups", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 1_000_000], help="of a micro-batch")
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 2, 8, 32, 128])
    parser.add_argument("--case", default="sliding-10-2", choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steady", type=int, default=20, help="micro-batches that count (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Spark, for both")
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir()) / "panestream-benchmark"))
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}/groups.md")
    options = parser.parse_args(arguments)
    about = machine()
    settings = {**SETTINGS, **dict(pair.split("=", 1) for pair in options.set)}
    lines = [
        "# What a key group costs",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load before the start {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']},",
        f"  pyarrow {about['pyarrow']}, numpy {about['numpy']}.",
        f"- {options.case}, {options.keys:,} keys, `local[{options.cores}]`, Parquet in, noop sink out; {options.rounds} rounds",
        f"  in turns, {options.steady} micro-batches each after warm-up: median of the rounds' medians (least to most).",
        "- CPU: processor time of JVM and workers. All answers were right. Settings of both: "
        + ", ".join(f"`{name}={value}`" for name, value in settings.items()),
        "",
    ]
    for rows in options.rows:
        lines += table(rows, measured(rows, options))
    print("\n".join(lines))
    if options.write:
        (RESULTS / "groups.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
