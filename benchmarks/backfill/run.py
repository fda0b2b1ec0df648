"""A day of history in one batch, compared with native Spark, DuckDB and Polars: ``python -m benchmarks.backfill.run --write``.

Each contestant runs in a separate process and adds up its output, which must equal an answer found by sorting. Times are for the
whole process, since a backfill starts once. Memory is sampled several times a second: of the process itself (DuckDB, Polars), of
the JVM, and of the largest Python worker.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

import psutil

from benchmarks.backfill import elsewhere, on_spark
from benchmarks.backfill.cases import CASES, Answer, Day, Run
from benchmarks.run import machine

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
SUBJECT = "panestream"
CONTESTANTS: dict[str, Callable[[Run], Answer]] = {
    SUBJECT: on_spark.panestream,
    "native": on_spark.native,
    "duckdb": elsewhere.duckdb,
    "polars": elsewhere.polars,
}
_MARK = "BACKFILL-ANSWER "
_LOOK = 0.25
_MB = 2**20


@dataclass
class Memory:
    """Largest resident sets in MB.

    Attributes:
        own: the memory of the started process.
        jvm: the memory of its JVM.
        worker: the memory of one Python worker, with a share of its shared pages.
        workers: the memory of all workers at one moment.
    """

    own: float = 0
    jvm: float = 0
    worker: float = 0
    workers: float = 0

    def look(self, process: psutil.Process) -> None:
        """Take one sample. Processes may end meanwhile."""
        try:
            self.own = max(self.own, process.memory_info().rss / _MB)
            for child in process.children():
                if "java" not in child.name():
                    continue
                self.jvm = max(self.jvm, child.memory_info().rss / _MB)
                of_workers = [_share(worker) for worker in child.children(recursive=True) if "python" in worker.name()]
                self.worker = max([self.worker, *of_workers])
                self.workers = max(self.workers, sum(of_workers))
        except psutil.Error:
            return


def _share(process: psutil.Process) -> float:
    info = process.memory_full_info()
    return float(getattr(info, "pss", info.rss)) / _MB


@dataclass(frozen=True)
class Measured:
    """The cost of one run.

    Attributes:
        contestant: the name of the contestant.
        case: the name of the case.
        rows: the number of input rows.
        keys: the number of keys.
        seconds: the time of the whole process, or None if it failed.
        memory: the peak memory.
        failure: the reason of a failure.
    """

    contestant: str
    case: str
    rows: int
    keys: int
    groups: int
    seconds: float | None
    memory: Memory
    failure: str = ""


@cache
def _answer(case: str, day: Day) -> Answer:
    return CASES[case].answer(day)


def measure(run: Run, day: Day, limit: float) -> Measured:
    """Run a contestant in a separate process.

    Raises:
        AssertionError: its answer is not the right one.
    """
    truth = _answer(run.case, day)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [sys.executable, "-m", "benchmarks.backfill.run", "--one", json.dumps(asdict(run))]
    memory, started = Memory(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None and time.perf_counter() - started < limit:
            memory.look(watched)
            time.sleep(_LOOK)
        seconds = time.perf_counter() - started
        late = process.poll() is None
        if late:
            for each in [*watched.children(recursive=True), watched]:
                each.kill()
        out, errors = process.communicate()
    told = [line.removeprefix(_MARK) for line in out.splitlines() if line.startswith(_MARK)]
    if late or process.returncode or not told:
        why = (
            f"not done in {limit:.0f} s"
            if late
            else errors.strip().splitlines()[-1][:200]
            if errors.strip()
            else "ended without a word"
        )
        return Measured(run.contestant, run.case, day.rows, day.keys, run.groups, None, memory, why)
    got = Answer(**json.loads(told[-1]))
    if got != truth:
        raise AssertionError(f"{run.contestant} / {run.case}: got {got}, right is {truth}")
    return Measured(run.contestant, run.case, day.rows, day.keys, run.groups, seconds, memory)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.backfill.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--contestants", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--rows", type=int, default=100_000_000, help="(default: %(default)s)")
    parser.add_argument(
        "--fewer", nargs="*", default=["native=sliding=200000"], metavar="NAME=CASE=ROWS", help="for who would take hours"
    )
    parser.add_argument("--keys", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--groups", type=int, default=0, help="key groups of panestream (default: its own choice)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for each run (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--data", default=str(HERE.parent / ".data"))
    parser.add_argument("--results", default=str(RESULTS))
    parser.add_argument("--write", action="store_true", help="keep the table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def table(measured: Sequence[Measured]) -> list[str]:
    """Return a line for each contestant and case."""
    lines = [
        "| query | contestant | rows in | seconds | rows/s | panestream ÷ it | its process | JVM | largest worker | workers |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rates = {(each.case, each.contestant): _rates(measured, each) for each in measured}
    for (case, contestant), rate in rates.items():
        runs = [each for each in measured if (each.case, each.contestant) == (case, contestant)]
        mine = rates.get((case, SUBJECT), [])
        seconds = [run.seconds for run in runs if run.seconds is not None]
        took = f"{statistics.median(seconds):,.0f}" if seconds else runs[0].failure
        shown = f"{statistics.median(rate):,.0f}" if rate else ""
        times = f"**{statistics.median(mine) / statistics.median(rate):.2f}**" if rate and mine and contestant != SUBJECT else ""
        most = [max(getattr(run.memory, name) for run in runs) for name in ("own", "jvm", "worker", "workers")]
        held = " | ".join(f"{figure:,.0f} MB" if figure else "" for figure in most)
        lines.append(f"| {CASES[case].title} | {contestant} | {runs[0].rows:,} | {took} | {shown} | {times} | {held} |")
    return lines


def _rates(measured: Sequence[Measured], like: Measured) -> list[float]:
    runs = [each for each in measured if (each.case, each.contestant) == (like.case, like.contestant)]
    return [run.rows / run.seconds for run in runs if run.seconds is not None]


def heading(options: argparse.Namespace) -> list[str]:
    """Return a description of the input, the machine and the method."""
    about = machine()
    groups = options.groups or "as many as panestream takes by itself"
    return [
        "# A day of history at once",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- {options.rows:,} rows of a day, {options.keys:,} keys, out of order by up to a second, Parquet files; sum and count.",
        f"  Key groups: {groups}. Spark: `local[{options.cores}]`, {on_spark.MEMORY} of heap. DuckDB: {options.cores} threads,",
        f"  {elsewhere.MEMORY}, spills to disk. Polars: its streaming engine.",
        "- Each in a process of its own, whose whole time counts. What comes out is added up (rows, sums, counts, window ends)",
        "  and was the right answer. Who would take hours was given fewer rows: see the column.",
        "",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and print the table."""
    options = parse(arguments)
    if options.one:
        run = Run(**json.loads(options.one))
        print(_MARK + json.dumps(asdict(CONTESTANTS[run.contestant](run))), flush=True)
        return
    lines = heading(options)
    fewer = {(name, case): int(rows) for name, case, rows in (each.split("=") for each in options.fewer)}
    measured = []
    for case in options.cases:
        for _ in range(options.rounds):
            for contestant in options.contestants:
                day = Day(min(options.rows, fewer.get((contestant, case), options.rows)), options.keys)
                folder = str(day.write(Path(options.data)))
                groups = options.groups if contestant == SUBJECT else 0
                measured.append(measure(Run(contestant, case, folder, options.cores, groups), day, options.limit))
                print(table(measured[-1:])[-1], flush=True)
    text = "\n".join([*lines, *table(measured)]) + "\n"
    print("\n" + text)
    if options.write:
        target = Path(options.results) / "backfill"
        target.with_suffix(".md").write_text(text)
        document = {
            "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "runs": [asdict(each) for each in measured],
        }
        target.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        print(f"written: {target}.md and .json")


if __name__ == "__main__":
    main()
