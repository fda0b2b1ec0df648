"""What is under test: a query, what runs it, and what must come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from panestream.engine.plan import MAIN
from panestream.testing.simulation.disk import Told
from panestream.testing.simulation.engines import Engine, PlanEngine
from panestream.testing.simulation.kinds import Kind, kind_of, row_told
from panestream.testing.simulation.meaning.base import Expected
from panestream.testing.simulation.process import Job
from panestream.testing.simulation.queries import INVALID, LATE
from panestream.testing.simulation.schedule import END, SIDES, MicroBatch, Schedule, Settings
from panestream.testing.simulation.tiles import TileReader

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

    def check_whole(self, rows: Sequence[Told]) -> None:
        """Looks at all main rows that a run without disturbance has given; raises ``AssertionError`` where they are wrong."""


@dataclass
class Known:
    """A query of which a definition says what it means."""

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
        merges = query.operator in ("panes", "accumulating", "tiles")
        return Job(self.schedule.batches, merges, query.exchanges, query.idle is not None)

    @property
    def settings(self) -> Settings:
        return self.schedule.query.settings

    @cached_property
    def kind(self) -> Kind:
        """What kind of query it is."""
        return kind_of(self.schedule.query)

    def engine(self, settings: Settings, groups: int | None = None) -> PlanEngine:
        known = settings, groups or self.schedule.query.groups
        if known not in self._engines:
            self._engines[known] = self.kind.engine(self.schedule.query, *known)
        return self._engines[known]

    def must_be(self, settings: Sequence[Settings], restarts: Iterable[int]) -> list[tuple[Answer, Mapping[str, int]]]:
        starts = frozenset(restarts) if self.schedule.query.idle is not None else frozenset()
        known = tuple(settings), starts
        if known not in self._answers:
            meant = self.kind.meaning(self.schedule, settings, starts).all()
            self._answers[known] = [(self._answer_of(one), one.counts) for one in meant]
        found: list[tuple[Answer, Mapping[str, int]]] = self._answers[known]
        return found

    def _answer_of(self, expected: Expected) -> Answer:
        query = self.schedule.query
        late = self._by_side(LATE, expected.late) if query.late else {}
        return {MAIN: expected.main, **late, **(self._by_side(INVALID, expected.invalid) if query.invalid else {})}

    def _by_side(self, tag: str, numbers: Sequence[int]) -> Answer:
        """The rows of an output; of two streams there is one for each."""
        if not self.schedule.query.of_two:
            return {tag: numbers}
        return {f"{tag}_{side}": [number for number in numbers if self._sides[number] == side] for side in SIDES}

    @cached_property
    def _sides(self) -> Mapping[int, str]:
        return {row.number: row.side for batch in self.schedule.batches for row in batch.rows}

    @cached_property
    def _tiles(self) -> TileReader | None:
        if self.schedule.query.operator != "tiles":
            return None
        return TileReader(self.schedule.query, self.engine(self.settings).plan.main_schema)

    def answer(self, tag: str, rows: Sequence[Told]) -> Any:
        if tag != MAIN:
            return sorted(row[3] for row in rows)
        query, by_key, tiles = self.schedule.query, dict[Any, list[Told]](), self._tiles
        for row in rows:
            key, *told = row_told(row if tiles is None else tiles.tile(row))
            by_key.setdefault(key, []).append(tuple(told))
        if query.tells_every_firing and query.function != "pairs":
            return by_key
        # What is there twice must be seen.
        return {key: sorted(told, key=repr) for key, told in by_key.items()}

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
        if self.schedule.query.closes:
            return {END}
        meaning = self.kind.meaning(self.schedule, settings)
        meaning.all()
        return meaning.open_keys()

    def check_whole(self, rows: Sequence[Told]) -> None:
        if self._tiles is None:
            return
        late = {
            number
            for one in self.kind.meaning(self.schedule, [self.settings] * len(self.job.batches)).all()
            for number in one.late
        }
        every = [row for batch in self.schedule.batches for row in batch.rows]
        self._tiles.check_whole(
            rows, [row for row in every if row.time is not None and row.key != END and row.number not in late]
        )
