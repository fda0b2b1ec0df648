"""A query for hours, with restarts: is its output right, and does anything grow? ``python -m benchmarks.soak.run --help``.

The query (``query.py``) is a separate process. It is killed (``kill -9``) and stopped in turns and started again, while its
outputs are compacted. Its resources are sampled every few seconds from outside. At the end, its output is compared with the
answer that follows from the numbers alone. The growth of each measure over the run is compared with a bound.

All measurements are saved in the folder. ``--go-on`` resumes an interrupted run, as the query does. The pause does not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.run import HERE, machine
from benchmarks.soak.judge import BOUNDS, Judged, exactness, judged
from benchmarks.soak.picture import plot
from benchmarks.soak.query import PER_FOLDER, SETTINGS, Folders

ROOT = HERE.parent
_WORK = bytes(1 << 20)
_KEEP_SECONDS = 30.0
"""The seconds between two saves, which an interrupted run can lose."""


@dataclass(frozen=True)
class Look:
    """A sample of the query's resources. Memory is in MB.

    Attributes:
        at: seconds since the start.
        driver: the driver's Python.
        jvm: driver and executor in one.
        worker: the largest Python worker.
        open_files: of the driver's Python and the JVM.
        checkpoint_mb, checkpoint_files: the size of the checkpoint.
        state_mb: the size of the operator's state in it, with its changes.
        sink_files, sink_folders: the files and folders that readers of the output list.
        loop_ms: the duration of a fixed piece of work, which shows other load on the machine.
    """

    at: float
    driver: float
    jvm: float
    worker: float
    open_files: int
    checkpoint_mb: float
    checkpoint_files: int
    state_mb: float
    sink_files: int
    sink_folders: int
    loop_ms: float


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=8.0, help="(default: %(default)s)")
    parser.add_argument("--rate", type=int, default=5_000, help="rows a second (default: %(default)s)")
    parser.add_argument("--restart-minutes", type=float, default=10.0, help="how long a run lasts (default: %(default)s)")
    parser.add_argument("--compact-minutes", type=float, default=15.0, help="between compactions (default: %(default)s)")
    parser.add_argument(
        "--keep", type=int, default=100, help="of so many micro-batches Spark keeps its logs (default: %(default)s)"
    )
    parser.add_argument(
        "--hurry", action="store_true", help="the micro-batch of each second follows at once: the hours are of the events' time"
    )
    parser.add_argument("--go-on", action="store_true", help="with a run in the folder that was cut, of the same options")
    parser.add_argument("--look-seconds", type=float, default=5.0)
    parser.add_argument("--folder", default=str(HERE / ".data" / "soak"), help="of the query's checkpoint and outputs: made anew")
    parser.add_argument("--results", default=str(HERE / "results"))
    parser.add_argument("--name", default="soak", help="of the result files")
    return parser.parse_args(arguments)


class Soak:
    """One soak test: the query's process, and its measurements.

    Raises:
        ValueError: the test should resume, but its folder has no interrupted run, or a run with other options.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.folders = options, Folders(Path(options.folder))
        self.log, self.seen = self.folders.root / "query.log", self.folders.root / "seen.json"
        self.looks: list[Look] = []
        self.restarts: list[tuple[float, str]] = []
        self.compactions: list[dict[str, Any]] = []
        self.parts: list[tuple[float, float]] = []
        """The start of each part of the run: by the clock, and in seconds of the run."""
        before = 0.0
        if options.go_on:
            before = self._read()
        else:
            shutil.rmtree(self.folders.root, ignore_errors=True)
            self.folders.root.mkdir(parents=True)
        self.parts.append((time.time(), before))
        self.interrupted = False

    @property
    def now(self) -> float:
        return self.at(time.time())

    def at(self, clock: float) -> float:
        """Return the seconds of the run at an instant of the clock. Pauses do not count."""
        began, before = max((part for part in self.parts if part[0] <= clock), default=self.parts[0])
        return before + clock - began

    def keep(self) -> None:
        """Save the measurements, with which the next part starts."""
        told = {"given": _given(self.options), "seconds": self.now, "parts": self.parts, "restarts": self.restarts}
        told |= {"compactions": self.compactions, "looks": [asdict(look) for look in self.looks]}
        aside = self.seen.with_suffix(".new")
        aside.write_text(json.dumps(told))
        aside.replace(self.seen)

    def _read(self) -> float:
        """Read the measurements of an interrupted run, and return its duration in seconds."""
        if not self.seen.exists():
            raise ValueError(f"there is no run in {self.folders.root} that could go on: begin one, without --go-on")
        told = json.loads(self.seen.read_text())
        if told["given"] != _given(self.options):
            raise ValueError(f"the run in {self.folders.root} is of other options: go on with {told['given']}")
        self.looks, self.compactions = [Look(**look) for look in told["looks"]], told["compactions"]
        self.parts = [(began, before) for began, before in told["parts"]]
        seconds = float(told["seconds"])
        self.restarts = [*((at, how) for at, how in told["restarts"]), (seconds, "cut")]
        return seconds

    def over(self) -> bool:
        """Return whether the hours are over (by the clock, or of the processed events), or the user has interrupted the run."""
        if self.interrupted:
            return True
        seconds = self.now
        if self.options.hurry:  # a micro-batch has one second of events
            committed = (self.folders.checkpoint / "commits").glob("[0-9]*")
            seconds = max((int(path.name) + 1 for path in committed), default=0)
        return bool(seconds >= self.options.hours * 3600)

    def run(self) -> None:
        """Run until the hours are over."""
        number, over = len(self.restarts), False
        compact_at = self.now + self.options.compact_minutes * 60
        while not over:
            self.keep()
            query = self._start()
            kept, until = self.now, self.now + self.options.restart_minutes * 60
            compaction: subprocess.Popen[str] | None = None
            while self.now < until and not over:
                time.sleep(self.options.look_seconds)
                if query.poll() is not None:
                    raise RuntimeError(f"the query ended by itself ({query.returncode}): {self.log} says why")
                self._look(query)
                if self.now > kept + _KEEP_SECONDS:
                    self.keep()
                    kept = self.now
                if compaction is None and self.now > compact_at:
                    compaction, compact_at = self._compact(), self.now + self.options.compact_minutes * 60
                elif compaction is not None and compaction.poll() is not None:
                    self._compacted(compaction)
                    compaction = None
                over = self.over()
            killed = number % 2 == 0 and not over
            self._end(query, killed)
            if compaction is not None:
                self._compacted(compaction)
            self.restarts.append((self.now, "killed" if killed else "stopped"))
            number += 1

    def _process(self, *command: str, **more: Any) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        with self.log.open("a") as log:
            out = {"stdout": log, **more}
            return subprocess.Popen(
                [sys.executable, *command], stderr=log, env=environment, text=True, start_new_session=True, **out
            )

    def _start(self) -> subprocess.Popen[str]:
        given, pace = self.options, "hurried" if self.options.hurry else "clock"
        return self._process("-m", "benchmarks.soak.query", given.folder, str(given.rate), str(given.keep), pace)

    def _end(self, query: subprocess.Popen[str], killed: bool) -> None:
        """Kill driver, JVM and workers at once, or signal the query to stop."""
        if killed:
            os.killpg(query.pid, signal.SIGKILL)
        else:
            query.terminate()
        query.wait(300)
        # Remaining processes of its group (such as the JVM of a killed driver) must not write at the same time as the next one.
        for process in psutil.process_iter(["pid"]):
            try:
                if os.getpgid(process.pid) == query.pid:
                    process.kill()
                    process.wait(30)
            except (psutil.Error, ProcessLookupError):
                continue

    def _compact(self) -> subprocess.Popen[str]:
        command = ("-m", "panestream.jobs", "compact", str(self.folders.main), "--conf", "spark.driver.memory=512m")
        return self._process(*command, stdout=subprocess.PIPE)

    def _compacted(self, compaction: subprocess.Popen[str]) -> None:
        told, _ = compaction.communicate(timeout=600)
        if compaction.returncode != 0:
            raise RuntimeError(f"the compaction failed ({compaction.returncode}): {self.log} says why")
        self.compactions.append({"at": self.now, "told": " ".join(told.split())})

    def _look(self, query: subprocess.Popen[str]) -> None:
        driver, jvm, worker, files = 0.0, 0.0, 0.0, 0
        for process in (psutil.Process(query.pid), *psutil.Process(query.pid).children(recursive=True)):
            try:
                size = process.memory_info().rss / 2**20
                if process.pid == query.pid:
                    driver, files = size, files + process.num_fds()
                elif "java" in process.name():
                    jvm, files = jvm + size, files + process.num_fds()
                else:
                    worker = max(worker, size)
            except psutil.Error:
                continue
        sizes = [status.st_size for status in _statuses(self.folders.checkpoint)]
        state = sum(status.st_size for status in _statuses(self.folders.checkpoint / "state")) / 2**20
        folders = list(self.folders.main.glob("batch_id=*")) if self.folders.main.exists() else []
        shown = sum(len(list(folder.glob("[!._]*"))) for folder in folders)
        kept = (sum(sizes) / 2**20, len(sizes), state)
        look = Look(self.now, driver, jvm, worker, files, *kept, shown, len(folders), loop_ms())
        # There is no query to sample while Spark starts.
        if jvm and worker and sizes:
            self.looks.append(look)


def loop_ms() -> float:
    """Time a fixed piece of work, which takes some tens of milliseconds on an idle machine."""
    began = time.perf_counter()
    for _ in range(40):
        hashlib.sha256(_WORK).digest()
    return 1000 * (time.perf_counter() - began)


def _statuses(folder: Path) -> list[os.stat_result]:
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                found.append((Path(root) / name).stat())
            except FileNotFoundError:
                continue
    return found


def progress(folders: Folders, at: Callable[[float], float]) -> list[dict[str, Any]]:
    """Read the query's reports of its micro-batches, with their second of the run. A kill may have cut the last line."""
    lines = []
    for line in folders.progress.read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [{**line, "at": at(line["at"])} for line in lines]


def report(soak: Soak, batches: Sequence[dict[str, Any]], exact: dict[str, Any], rows: Sequence[Judged]) -> list[str]:
    """The page."""
    options, about = soak.options, machine()
    ends = Counter(how for _, how in soak.restarts)
    last = soak.looks[-1]
    cut = f", then interrupted; until then {(batches[-1]['batch'] + 1) / 3600:.1f} hours of events" if soak.interrupted else ""
    median: Callable[[str], float] = lambda name: statistics.median(batch[name] for batch in batches)  # noqa: E731
    return [
        "# A long run, with restarts",
        "",
        f'- `make soak ARGS="{_given(options)}"`: {soak.now / 60:,.0f} minutes{cut}.',
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']} at the end. Python {about['python']}, Spark {about['pyspark']}.",
        f"- Sliding windows (30 s every 10 s), 1,000 keys, sum and count; {_pace(options)}; Parquet, "
        f"{PER_FOLDER} micro-batches a folder.",
        f"- {len(soak.restarts)} runs, {ends['killed']} of them ended by `kill -9` of driver, JVM and workers, "
        f"{_cut(ends['cut'])}{ends['stopped']} stopped. "
        f"{len(batches):,} micro-batches were seen, of {median('rows'):,.0f} rows and {median('ms'):,.0f} ms in the median.",
        f"- Settings: {', '.join(f'`{name}={value}`' for name, value in SETTINGS.items())}.",
        "",
        f"**The result**: {exact['windows']:,} windows of keys up to {exact['upto']}, of {exact['events']:,} events: "
        f"{exact['missing']} missing, {exact['twice']} twice, {exact['wrong']} wrong; {exact['late']} late rows.",
        "",
        *_explained(soak.looks, options.keep),
        "",
        "| measure | median | most | rise over the run | bound | |",
        "|---|---:|---:|---:|---:|---|",
        *(row.line() for row in rows),
        "",
        f"The checkpoint at the end: {last.checkpoint_mb:,.1f} MB, {last.state_mb:,.1f} of it state and its changes.",
        f"The output at the end: {last.sink_files:,} files in {last.sink_folders:,} folders, of {batches[-1]['batch'] + 1:,} "
        f"micro-batches. Compactions beside the query: {len(soak.compactions)}.",
        "",
        *(f"- after {compaction['at'] / 60:,.0f} minutes: {compaction['told']}" for compaction in soak.compactions),
        "",
        f"![The same over time]({options.name}.png)",
    ]


def _cut(times: int) -> str:
    return f"{times} when the soak test itself was cut, with the machine or its session (`--go-on`), " if times else ""


def _pace(options: argparse.Namespace) -> str:
    if not options.hurry:
        return "a micro-batch a second"
    return f"the micro-batch of each second at once after the one before, until those of {options.hours:g} hours were taken"


def _given(options: argparse.Namespace) -> str:
    """Return the options of the run."""
    given = {"hours": f"{options.hours:g}", "rate": options.rate, "restart-minutes": f"{options.restart_minutes:g}"}
    given |= {"compact-minutes": f"{options.compact_minutes:g}"} | ({} if options.keep == 100 else {"keep": options.keep})
    return " ".join(f"--{name} {value}" for name, value in given.items()) + (" --hurry" if options.hurry else "")


def _explained(looks: Sequence[Look], kept: int) -> list[str]:
    """Return an explanation of the table."""
    loops = sorted(look.loop_ms for look in looks)
    calm, median = loops[len(loops) // 10], statistics.median(loops)
    return [
        "**What grows**: the line through the looks (Theil-Sen: the median of the slopes between pairs), without the first tenth "
        f"of the run (of the checkpoint: without the first {kept} micro-batches, which fill it); its rise over the rest of the "
        "run, against the median.",
        f"A loop that always does the same is timed beside the query: {calm:,.0f} ms where the machine was calm, {median:,.0f} "
        f"in the median, {loops[-1]:,.0f} at the most. By as much longer a micro-batch took, and so its duration is judged.",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and judge the test, and write the page, the picture and the measurements. Return 1 if something is wrong or grows."""
    options = parse(arguments)
    soak = Soak(options)
    signal.signal(signal.SIGINT, lambda *_: setattr(soak, "interrupted", True))  # end the run, and judge it up to this point
    soak.run()
    soak.keep()
    batches = progress(soak.folders, soak.at)
    exact = exactness(soak.folders, options.rate)
    rows = judged([asdict(look) for look in soak.looks], batches, options.keep)
    results = Path(options.results)
    results.mkdir(parents=True, exist_ok=True)
    page = "\n".join(report(soak, batches, exact, rows)) + "\n"
    (results / f"{options.name}.md").write_text(page)
    told = {"exact": exact, "judged": [asdict(row) for row in rows], "restarts": soak.restarts, "bounds": BOUNDS}
    told |= {"looks": [{name: round(value, 3) for name, value in asdict(look).items()} for look in soak.looks]}
    (results / f"{options.name}.json").write_text(json.dumps(told) + "\n")
    plot([asdict(look) for look in soak.looks], batches, soak.restarts, results / f"{options.name}.png")
    print(page)
    wrong = any(exact[name] for name in ("missing", "twice", "wrong", "late"))
    return int(wrong or not all(row.flat for row in rows))


if __name__ == "__main__":
    sys.exit(main())
