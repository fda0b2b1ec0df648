"""What is under test: a query, what runs it, and what must come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from panestream.engine.plan import MAIN
from panestream.testing.simulation.disk import Told
from panestream.testing.simulation.engines import Engine, PlanEngine
from panestream.testing.simulation.expected import Expected, as_emitted, expected_of, open_keys
from panestream.testing.simulation.process import Job
from panestream.testing.simulation.queries import INVALID, plan_of
from panestream.testing.simulation.schedule import END, MicroBatch, Schedule, Settings

Answer = Mapping[str, Any]
"""What a micro-batch brought, or must bring, by output; in a form that is the same where it means the same."""


class Subject(Protocol):
    """A query as the explorer sees it."""

    @property
    def schedule(self) -> Schedule:
        """What comes."""

    @property
    def job(self) -> Job:
        """What is run."""

    @property
    def settings(self) -> Settings:
        """Of the first run."""

    def engine(self, settings: Settings, groups: int | None = None) -> Engine:
        """What runs it; with another number of key groups, where one is given."""

    def must_be(self, settings: Sequence[Settings], restarts: Iterable[int]) -> list[tuple[Answer, Mapping[str, int]]] | None:
        """What each micro-batch must bring and count; None: nobody knows but a run without disturbance."""

    def answer(self, tag: str, rows: Sequence[Told]) -> Any:
        """Rows of an output in a form that is the same where they mean the same."""

    def recut(self, number: int, *, at_once: bool) -> Subject | None:
        """The same rows, those after a micro-batch cut otherwise; None: what that brings nobody knows."""

    def may_stay(self, settings: Sequence[Settings]) -> set[Any] | None:
        """The keys of which something may be left at the end; None: of any."""


@dataclass
class Known:
    """A query that the definition of windows understands."""

    schedule: Schedule
    """With what closes all windows at its end."""
    _engines: dict[tuple[Settings, int], PlanEngine] = field(default_factory=dict, repr=False)
    _answers: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, schedule: Schedule) -> Known:
        """Of a schedule to which what closes all windows is yet to be added."""
        return cls(schedule.closed())

    @property
    def job(self) -> Job:
        query = self.schedule.query
        merges = query.operator in ("panes", "accumulating")
        return Job(self.schedule.batches, merges, query.exchanges, query.idle is not None)

    @property
    def settings(self) -> Settings:
        return self.schedule.query.settings

    def engine(self, settings: Settings, groups: int | None = None) -> PlanEngine:
        query = self.schedule.query
        known = settings, groups or query.groups
        if known not in self._engines:
            self._engines[known] = PlanEngine(plan_of(query, settings, known[1]))
        return self._engines[known]

    def must_be(self, settings: Sequence[Settings], restarts: Iterable[int]) -> list[tuple[Answer, Mapping[str, int]]]:
        starts = frozenset(restarts) if self.schedule.query.idle is not None else frozenset()
        known = tuple(settings), starts
        if known not in self._answers:
            told = expected_of(self.schedule, settings, starts)
            self._answers[known] = [(self._answer_of(one), one.counts) for one in told]
        found: list[tuple[Answer, Mapping[str, int]]] = self._answers[known]
        return found

    def _answer_of(self, expected: Expected) -> Answer:
        query = self.schedule.query
        late = {"late": expected.late} if query.late else {}
        return {MAIN: expected.main, **late, **({INVALID: expected.invalid} if query.invalid else {})}

    def answer(self, tag: str, rows: Sequence[Told]) -> Any:
        if tag != MAIN:
            return sorted(row[3] for row in rows)
        query, by_key = self.schedule.query, dict[Any, list[Told]]()
        for row in rows:
            by_key.setdefault(row[0], []).append((*row[1:5], tuple(sorted(row[5])), *row[6:]))
        if query.operator in ("counts", "row"):
            return {key: as_emitted(query, told) for key, told in by_key.items()}
        # Not as_emitted: what is there twice must be seen.
        return {key: sorted(told) for key, told in by_key.items()}

    def recut(self, number: int, *, at_once: bool) -> Known | None:
        batches = self.schedule.batches
        ends = next(place for place, batch in enumerate(batches) if any(row.key == END for row in batch.rows))
        begun, later, last = batches[: number + 1], batches[number + 1 : ends], batches[max(number + 1, ends) :]
        if not later:
            return None
        if at_once:
            later = (MicroBatch(tuple(task for batch in later for task in batch.tasks), later[-1].clock),)
        else:
            later = tuple(MicroBatch((task,), batch.clock) for batch in later for task in batch.tasks)
        return Known(replace(self.schedule, batches=(*begun, *later, *last)))

    def may_stay(self, settings: Sequence[Settings]) -> set[Any] | None:
        if self.schedule.query.function == "context":
            return None
        return {END} if self.schedule.query.closes else open_keys(self.schedule, settings)
