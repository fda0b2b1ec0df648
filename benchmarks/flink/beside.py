"""Run any contestant of Spark or Flink on any workload, and check its output."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.cases import Case, Checks
from benchmarks.events import EventSpec, chunks
from benchmarks.flink import cluster
from benchmarks.flink.spark_side import Run, workload_of, write_with_end
from benchmarks.flink.workloads import FLINK_BACKENDS, FLINK_ON_FILES, LIMITS, CountWindows
from benchmarks.processes import ask

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "benchmarks" / ".data"
SUBJECT = "panestream"


@dataclass(frozen=True)
class Result:
    """One contestant in one round.

    Attributes:
        rows: events that went in.
        total: seconds of each repeat until everything is out.
        ingest: seconds of each repeat until the last event is in its windows (Flink), or until its micro-batch is done (Spark).
        rows_out: rows that came out.
    """

    workload: str
    contestant: str
    round: int
    rows: int
    total: list[float]
    ingest: list[float]
    rows_out: int

    @property
    def rates(self) -> list[float]:
        """The events per second of each repeat, until all results are out."""
        return [self.rows / seconds for seconds in self.total]

    @property
    def median(self) -> float:
        """Median events per second."""
        return statistics.median(self.rates)

    @property
    def ingest_median(self) -> float:
        """The median events per second until the last event is in."""
        return statistics.median(self.rows / seconds for seconds in self.ingest)


def run_contestant(run: Run, number: int) -> Result:
    """Run a contestant in a separate process and check every repeat.

    Raises:
        RuntimeError: it failed.
        AssertionError: it gave a wrong answer.
    """
    workload = workload_of(run.workload)
    spec = workload.spec(run.rows, run.rows_per_batch, run.cores)
    backend = {**FLINK_BACKENDS, **FLINK_ON_FILES}.get(run.contestant)
    if backend is not None:
        arguments = {
            **workload.flink,
            "backend": backend,
            "n": spec.rows,
            "keys": spec.keys,
            "rate": spec.rate,
            "disorder": spec.disorder_ms,
            "parallelism": run.cores,
            "repeats": run.repeats,
        }
        folder = Path(run.data)
        folder.mkdir(parents=True, exist_ok=True)
        if run.contestant in FLINK_ON_FILES:
            arguments["files"] = write_with_end(spec, folder)
        repeats = cluster.run(folder, arguments)
    else:
        repeats = _spark(run)
    truth = _every_row(spec, repeats[0]["rows"]) if run.contestant in LIMITS else _truth(workload.case, spec)
    for repeat in repeats:
        # The order of arrival decides the hundred events of a count window, and so their sum.
        by_arrival = isinstance(workload.case, CountWindows) and run.contestant not in LIMITS
        got = Checks(repeat["rows"], 0 if by_arrival else repeat["sum"], repeat["count"])
        if got != truth:
            raise AssertionError(f"{run.contestant} / {run.workload}: got {got}, right is {truth}")
    seconds = {name: [repeat[name] for repeat in repeats] for name in ("total", "ingest")}
    return Result(run.workload, run.contestant, number, spec.rows, seconds["total"], seconds["ingest"], truth.rows)


@cache
def _truth(case: Case, spec: EventSpec) -> Checks:
    return case.expected(spec, None)


@cache
def _every_row(spec: EventSpec, rows: int) -> Checks:
    """Return the checks of all rows once, including the row at the end, in the number of rows that arrived."""
    return Checks(rows, sum(int(chunk["value"].sum()) for chunk in chunks(spec)), spec.rows + 1)


def _spark(run: Run) -> list[dict[str, Any]]:
    repeats: list[dict[str, Any]] = ask("benchmarks.flink.spark_side", json.dumps(asdict(run)))
    return repeats


def ratios(results: Sequence[Result], peer: str) -> list[float]:
    """Return the ratio of the subject's events per second to those of ``peer``, round by round."""
    medians = {name: [result.median for result in results if result.contestant == name] for name in (SUBJECT, peer)}
    return [mine / theirs for mine, theirs in zip(medians[SUBJECT], medians[peer], strict=False)]


def spread(figures: Sequence[float], form: str = ",.0f") -> str:
    """Return the range from lowest to highest."""
    return f"{min(figures):{form}} to {max(figures):{form}}"
