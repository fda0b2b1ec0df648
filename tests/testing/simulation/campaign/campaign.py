"""Run many schedules one after another, with counts and times. Stop at the first that breaks a promise."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from panestream.testing.simulation.explore import BrokenError, Explorer
from panestream.testing.simulation.shrink import Case
from tests.testing.simulation.campaign.random_schedules import OPERATORS, schedule_of
from tests.testing.simulation.campaign.script import failure_of, shrunk_case
from tests.testing.simulation.campaign.subjects import ReferenceSubject


@dataclass
class Figures:
    """The figures of a campaign.

    Attributes:
        seed: the seed of the schedules.
        first: the number of the first schedule.
        schedules: the number of completed schedules.
        runs: the number of runs by disturbance.
        by_operator: the number of runs by operator.
        micro_batches, rows: the totals over all schedules.
        seconds: the time, and the processor time.
        failure: the report of the first broken schedule, or empty.
    """

    seed: int
    first: int = 0
    schedules: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    by_operator: dict[str, Counter[str]] = field(default_factory=dict)
    micro_batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    failure: str = ""

    @property
    def all_runs(self) -> int:
        """Return the number of runs with any disturbance."""
        return self.runs.total()

    def as_json(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        return {
            "seed": self.seed,
            "first": self.first,
            "schedules": self.schedules,
            "runs": self.all_runs,
            "by_disturbance": dict(self.runs),
            "by_operator": {name: dict(runs) for name, runs in self.by_operator.items()},
            "micro_batches": self.micro_batches,
            "rows": self.rows,
            "seconds": round(self.seconds, 1),
            "processor_seconds": round(self.processor_seconds, 1),
            "python": platform.python_version(),
            "failure": self.failure,
        }


def campaign(
    seed: int,
    schedules: int,
    operators: Sequence[str] = OPERATORS,
    *,
    first: int = 0,
    runs: int | None = None,
    seconds: float | None = None,
    told: Callable[[Figures], None] = lambda _: None,
) -> Figures:
    """Run schedules until there are enough, or until one is broken, which is then shrunk.

    Args:
        seed: the seed, which decides the schedules.
        schedules: the maximum number of schedules.
        operators: the operators, used in turn.
        first: the number of the first schedule.
        runs: stop after the schedule that reaches this number of runs.
        seconds: stop after the schedule that reaches this time.
        told: called after each schedule.

    >>> figures = campaign(3, 1, ["counts"])
    >>> figures.schedules, figures.failure, figures.runs["crash"] > 10
    (1, '', True)
    """
    figures = Figures(seed, first)
    begun, processor = time.perf_counter(), time.process_time()
    for number in range(first, first + schedules):
        schedule, change = schedule_of(seed, number, tuple(operators))
        explorer = Explorer(ReferenceSubject.of(schedule), change)
        try:
            explorer.explore()
        except BrokenError as error:
            found = f"seed {seed}, schedule {number}, operators {','.join(operators)}"
            case = shrunk_case(Case(schedule, change, error))
            figures.failure = failure_of(case, found)
        figures.schedules += not figures.failure
        figures.runs += explorer.runs
        figures.by_operator.setdefault(schedule.query.operator, Counter()).update(explorer.runs)
        figures.micro_batches += len(schedule.batches)
        figures.rows += sum(len(batch.rows) for batch in schedule.batches)
        figures.seconds, figures.processor_seconds = time.perf_counter() - begun, time.process_time() - processor
        told(figures)
        enough = (runs is not None and figures.all_runs >= runs) or (seconds is not None and figures.seconds >= seconds)
        if figures.failure or enough:
            break
    return figures
