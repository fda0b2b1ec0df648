"""The cost of a key group, and of a micro-batch itself: ``python -m benchmarks.groups --write``.

Sum and count of windows, panestream and native ``window()`` in turns, each run in a separate process (``run.py``). The native
query has as many shuffle partitions as panestream has key groups. Milliseconds are for whole micro-batches
(``triggerExecution``). The table shows the median, minimum and maximum of the rounds. Distrust all of them if the machine is busy
with other work.

``--write`` saves every point in ``results/groups.json`` as soon as it is measured, and replaces a point with the same
configuration. It then makes ``results/groups.md`` from all saved points. ``model.py`` fits a model to them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import datetime, timezone
from itertools import groupby, product
from pathlib import Path
from typing import Any

from benchmarks.catalog import CASES, SUM_COUNT_CASES
from benchmarks.events import EventSpec
from benchmarks.harness import SETTINGS, Measured, Run, warm_up_batches
from benchmarks.run import SUBJECT, check, machine, run_once

PEER = "native"
RESULTS = Path(__file__).parent / "results"
EMPTY_TASKS = (1, 100, 500, 1_000, 2_000)


@dataclass(frozen=True, order=True)
class Configuration:
    """What is measured.

    Attributes:
        query: the name of a case.
        rows: the rows of a micro-batch.
        keys: the number of keys.
        cores: the cores of Spark.
        files: the number of files of a micro-batch, and so the number of tasks that read it.
        rate: rows in a second of event time.
        groups: key groups, or shuffle partitions.
    """

    query: str
    rows: int
    keys: int
    cores: int
    files: int
    rate: int
    groups: int

    def spec(self, steady: int) -> EventSpec:
        """The events."""
        spec = EventSpec(self.rows, 1, self.keys, self.rate, files_per_batch=self.files)
        return replace(spec, batches=warm_up_batches(spec, CASES[self.query]) + steady)


@dataclass(frozen=True)
class Contestant:
    """The measurements of one contestant.

    Attributes:
        rounds: the median micro-batch of each, in milliseconds.
        cpu: milliseconds of processor time of a micro-batch.
        state_bytes: the largest that Spark reported.
        checkpoint_bytes: the final size of the checkpoint's state.
        jvm_mb, workers_mb: the largest memory.
    """

    rounds: list[float]
    cpu: float
    state_bytes: int
    checkpoint_bytes: int
    jvm_mb: float
    workers_mb: float

    @classmethod
    def of(cls, rows: int, runs: Sequence[Measured]) -> Contestant:
        """Collect the measurements of all rounds."""
        return cls(
            [round(1000 * rows / run.median, 1) for run in runs],
            round(statistics.median(run.cpu_seconds * rows / 1000 for run in runs), 1),
            max(run.state_bytes for run in runs),
            max(run.checkpoint_bytes for run in runs),
            max(run.jvm_peak_mb for run in runs),
            max(run.workers_peak_mb for run in runs),
        )

    @property
    def median(self) -> float:
        """The milliseconds of a micro-batch."""
        return statistics.median(self.rounds)

    def cells(self) -> list[str]:
        """Of the table."""
        return [f"{self.median:,.0f} ({min(self.rounds):,.0f} to {max(self.rounds):,.0f})", f"{self.cpu:,.0f}"]


@dataclass(frozen=True)
class Point:
    """One configuration, measured.

    Attributes:
        of: the configuration.
        panestream, native: the measurements, or None if a contestant did not run.
        steady: the number of micro-batches of a round that count.
        settings: Spark's settings for both.
        machine: the machine and versions.
        measured: the time of the measurement.
    """

    of: Configuration
    panestream: Contestant
    native: Contestant | None
    steady: int
    settings: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    measured: str = ""

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Point:
        """What :func:`asdict` made."""
        native = None if raw["native"] is None else Contestant(**raw["native"])
        return cls(**{**raw, "of": Configuration(**raw["of"]), "panestream": Contestant(**raw["panestream"]), "native": native})

    def line(self) -> str:
        """Of the table."""
        cells = [*self.panestream.cells(), "", "", ""]
        if self.native is not None:
            ratios = [mine / theirs for mine, theirs in zip(self.panestream.rounds, self.native.rounds, strict=True)]
            cells[2:] = [
                *self.native.cells(),
                f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})",
            ]
        return f"| {self.of.groups} | {' | '.join(cells)} |"


@dataclass
class Kept:
    """All measurements.

    Attributes:
        points: the points by configuration.
        driver: the milliseconds of a job with a number of empty tasks, which is the time of Spark's driver to start them.
        driver_machine: the machine of that measurement.
    """

    points: dict[Configuration, Point] = field(default_factory=dict)
    driver: dict[int, float] = field(default_factory=dict)
    driver_machine: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Kept:
        """Read the file, or return no points if there is no file."""
        if not file.exists():
            return cls()
        raw = json.loads(file.read_text())
        points = [Point.from_json(each) for each in raw["points"]]
        driver = {int(tasks): ms for tasks, ms in raw["driver"].items()}
        return cls({point.of: point for point in points}, driver, raw["driver_machine"])

    def write(self, folder: Path) -> None:
        """Both files."""
        points = [asdict(self.points[of]) for of in sorted(self.points)]
        document = {"points": points, "driver": self.driver, "driver_machine": self.driver_machine}
        (folder / "groups.json").write_text(json.dumps(document, indent=1) + "\n")
        (folder / "groups.md").write_text("\n".join(page(self)))


def configurations(options: argparse.Namespace) -> Iterator[Configuration]:
    """Yield the configurations of the command line."""
    of_all = (options.query, options.rows, options.keys, options.cores, options.groups)
    for query, rows, keys, cores, groups in product(*of_all):
        rate = round(rows / options.batch_seconds) if options.batch_seconds else CASES[query].rate
        for files in options.files or [cores]:
            yield Configuration(query, rows, keys, cores, files, max(1, rate), groups)


def measured(of: Configuration, options: argparse.Namespace, about: dict[str, Any]) -> Point:
    """Measure one point, and check every answer."""
    case, spec = CASES[of.query], of.spec(options.steady)
    truth = case.expected(spec, case.bound_ms(spec))
    settings = dict(pair.split("=", 1) for pair in options.set)
    given = {"spark.sql.shuffle.partitions": str(of.groups), **settings}
    names = (SUBJECT,) if options.alone else (SUBJECT, PEER)
    runs: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name, found in runs.items():
            one = run_once(Run(name, of.query, spec, options.data, of.cores, given))
            check([one], truth)
            found.append(one)
    shown = {name: Contestant.of(of.rows, found) for name, found in runs.items()}
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Point(of, shown[SUBJECT], shown.get(PEER), options.steady, {**SETTINGS, **settings}, about, now)


def driver_ms(cores: int) -> dict[int, float]:
    """Return the median milliseconds of jobs of empty tasks, by the number of tasks, in a session of this process."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        found: dict[int, list[float]] = {}
        for number, tasks in product(range(8), EMPTY_TASKS):
            started = time.perf_counter()
            spark.range(0, tasks, 1, tasks).write.format("noop").mode("overwrite").save()
            if number >= 3:
                found.setdefault(tasks, []).append(1000 * (time.perf_counter() - started))
        return {tasks: round(statistics.median(each), 1) for tasks, each in found.items()}
    finally:
        spark.stop()


def table(points: Sequence[Point]) -> list[str]:
    """Return the curve over key groups in Markdown, for points that differ in nothing else."""
    of = points[0].of
    lines = [
        f"## {of.query}: {of.rows:,} rows a micro-batch, {of.keys:,} keys, {of.cores} cores",
        "",
        f"{of.files} files a micro-batch, {of.rate:,} rows in a second of event time.",
        "",
        f"| key groups | {SUBJECT} ms | CPU ms | {PEER} ms | CPU ms | ms ÷ ms |",
        "|---:|---:|---:|---:|---:|---:|",
        *(point.line() for point in points),
        "",
    ]
    first, last = points[0], points[-1]
    if len(points) > 1:
        more = last.of.groups - first.of.groups
        said = f"Each further key group: {(last.panestream.median - first.panestream.median) / more:.1f} ms"
        if first.native is not None and last.native is not None:
            said += f", native {(last.native.median - first.native.median) / more:.1f} ms"
        lines += [said + ".", ""]
    return lines


def page(kept: Kept) -> list[str]:
    """Return all saved points in Markdown."""
    lines = ["# What a key group costs", ""]
    runs = sorted(kept.points.values(), key=lambda point: (point.measured, astuple(point.of)))
    for about, same in groupby(runs, lambda point: (_machine(point.machine), point.steady, len(point.panestream.rounds))):
        points = list(same)
        where, steady, rounds = about
        lines += [
            f"- {len(points)} points of {points[0].measured[:10]}: {where}; {rounds} rounds in turns, {steady} micro-batches"
        ]
        lines += ["  each after warm-up."]
    every = [set(point.settings.items()) for point in runs]
    common: set[tuple[str, str]] = set.intersection(*every) if every else set()
    said = ", ".join(f"`{name}={value}`" for name, value in sorted(common))
    lines += [
        "- Milliseconds of a micro-batch: median of the rounds' medians (least to most). Parquet in, noop sink out.",
        "  CPU: processor time of JVM and workers. All answers were right.",
        f"- Settings of all: {said}.",
        "",
    ]
    ordered = [kept.points[of] for of in sorted(kept.points)]
    for _, same_but_groups in groupby(ordered, lambda point: replace(point.of, groups=0)):
        lines += table(list(same_but_groups))
    if kept.driver:
        lines += [
            "## What the driver needs for tasks",
            "",
            f"A job of tasks that do nothing, {_machine(kept.driver_machine)}.",
            "",
            "| tasks | ms |",
            "|---:|---:|",
            *(f"| {tasks:,} | {ms:,.0f} |" for tasks, ms in sorted(kept.driver.items())),
            "",
        ]
    return lines


def _machine(about: dict[str, Any]) -> str:
    names = ("cpu", "cores", "memory_gb", "load_at_start", "python", "pyspark")
    cpu, cores, memory, load, python, spark = (about.get(name, "?") for name in names)
    return f"{cpu}, {cores} cores, {memory} GB, load before the start {load}, Python {python}, Spark {spark}"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.groups", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--query", "--case", nargs="+", default=["sliding-10-2"], choices=list(SUM_COUNT_CASES), help="sliding: 60 s / 1 s"
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 1_000_000], help="of a micro-batch")
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 2, 8, 32, 128])
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000])
    parser.add_argument("--cores", type=int, nargs="+", default=[2])
    parser.add_argument("--files", type=int, nargs="+", help="tasks that read a micro-batch (default: as many as cores)")
    parser.add_argument(
        "--batch-seconds", type=float, metavar="S", help="of event time in a micro-batch (default: a second for 10,000 rows)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steady", type=int, default=20, help="micro-batches that count (default: %(default)s)")
    parser.add_argument("--alone", action="store_true", help=f"without {PEER}")
    parser.add_argument("--driver", action="store_true", help="only what Spark's driver needs to hand out tasks: a minute")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Spark, for both")
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir()) / "panestream-benchmark"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where what was measured is kept")
    parser.add_argument("--write", action="store_true", help="keep it: each point in place of one of the same configuration")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and with ``--write`` save each point."""
    options = parse(arguments)
    kept = Kept.read(options.results / "groups.json") if options.write else Kept()
    about = machine()
    if options.driver:
        kept.driver, kept.driver_machine = driver_ms(options.cores[0]), about
    for of in () if options.driver else list(configurations(options)):
        point = kept.points[of] = measured(of, options, about)
        print(f"  {of.query}, {of.rows:,} rows, {of.keys:,} keys, {of.cores} cores {point.line()}", flush=True)
        if options.write:
            kept.write(options.results)
    if options.write:
        kept.write(options.results)
    print("\n".join(page(kept)))


if __name__ == "__main__":
    main()
