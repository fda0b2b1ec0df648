"""The explorer's view of the campaign's queries: the engine of each kind, and the reference model that judges it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from panestream.engine.plan import MAIN
from panestream.testing.simulation.disk import OutputRow
from panestream.testing.simulation.process import SimulatedJob
from panestream.testing.simulation.schedule import END, MicroBatch, Settings
from panestream.testing.simulation.subject import Answer
from tests.testing.simulation.campaign.plans import (
    INVALID,
    LATE,
    QueryEngine,
    engine_of_windows,
    look_back_engine,
    predicate_engine,
)
from tests.testing.simulation.campaign.queries import SIDES, Query, QuerySchedule
from tests.testing.simulation.campaign.reference_model.joins import CoGroupModel, IntervalModel, JoinModel
from tests.testing.simulation.campaign.reference_model.model import Expected, ReferenceModel
from tests.testing.simulation.campaign.reference_model.near_rows import LookBackModel, PredicateModel
from tests.testing.simulation.campaign.reference_model.windows import WindowModel
from tests.testing.simulation.campaign.tiles import TileReader, tiles_engine, with_sorted_lists
from tests.testing.simulation.campaign.two_streams import engine_of_two


@dataclass(frozen=True)
class Kind:
    """A kind of query.

    Attributes:
        model: defines the results.
        engine: makes the engine of a query.
    """

    model: type[ReferenceModel] = WindowModel
    engine: Callable[[Query, Settings, int], QueryEngine] = engine_of_windows


KIND_OF_OPERATOR = {
    "joins": Kind(JoinModel, engine_of_two),
    "co-groups": Kind(CoGroupModel, engine_of_two),
    "intervals": Kind(IntervalModel, engine_of_two),
    "look-backs": Kind(LookBackModel, look_back_engine),
    "predicates": Kind(PredicateModel, predicate_engine),
    "tiles": Kind(WindowModel, tiles_engine),
}


@dataclass
class ReferenceSubject:
    """A query that the reference model defines."""

    schedule: QuerySchedule
    """Ends with the rows that close all windows."""
    _engines: dict[tuple[Settings, int], QueryEngine] = field(default_factory=dict, repr=False)
    _answers: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, schedule: QuerySchedule) -> ReferenceSubject:
        """Add the rows that close all windows."""
        return cls(schedule.closed())

    @property
    def job(self) -> SimulatedJob:
        query = self.schedule.query
        merges = query.operator in ("panes", "accumulating", "tiles")
        return SimulatedJob(self.schedule.batches, merges, query.exchanges, query.idle is not None)

    @property
    def settings(self) -> Settings:
        return self.schedule.query.settings

    @cached_property
    def kind(self) -> Kind:
        return KIND_OF_OPERATOR.get(self.schedule.query.operator, Kind())

    def engine(self, settings: Settings, groups: int | None = None) -> QueryEngine:
        known = settings, groups or self.schedule.query.groups
        if known not in self._engines:
            self._engines[known] = self.kind.engine(self.schedule.query, *known)
        return self._engines[known]

    def must_be(self, settings: Sequence[Settings], restarts: Iterable[int]) -> list[tuple[Answer, Mapping[str, int]]]:
        starts = frozenset(restarts) if self.schedule.query.idle is not None else frozenset()
        known = tuple(settings), starts
        if known not in self._answers:
            expected = self.kind.model(self.schedule, settings, starts).all()
            self._answers[known] = [(self._answer_of(each), each.counts) for each in expected]
        found: list[tuple[Answer, Mapping[str, int]]] = self._answers[known]
        return found

    def _answer_of(self, expected: Expected) -> Answer:
        query = self.schedule.query
        late = self._by_side(LATE, expected.late) if query.late else {}
        return {MAIN: expected.main, **late, **(self._by_side(INVALID, expected.invalid) if query.invalid else {})}

    def _by_side(self, tag: str, numbers: Sequence[int]) -> Answer:
        """Return the rows of an output. With two streams, there is an output for each side."""
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

    def answer(self, tag: str, rows: Sequence[OutputRow]) -> Any:
        if tag != MAIN:
            return sorted(row[3] for row in rows)
        query, by_key, tiles = self.schedule.query, dict[Any, list[OutputRow]](), self._tiles
        for row in rows:
            key, *told = with_sorted_lists(row if tiles is None else tiles.tile(row))
            by_key.setdefault(key, []).append(tuple(told))
        if query.tells_every_firing and query.function != "pairs":
            return by_key
        # Duplicates must remain visible.
        return {key: sorted(told, key=repr) for key, told in by_key.items()}

    def recut(self, number: int, *, at_once: bool) -> ReferenceSubject | None:
        batches = self.schedule.batches
        ends = next(place for place, batch in enumerate(batches) if any(row.key == END for row in batch.rows))
        begun, later, last = batches[: number + 1], batches[number + 1 : ends], batches[max(number + 1, ends) :]
        if not later:
            return None
        if at_once:
            later = (MicroBatch(tuple(task for batch in later for task in batch.tasks), later[-1].clock),)
        else:
            later = tuple(MicroBatch((task,), batch.clock) for batch in later for task in batch.tasks)
        return ReferenceSubject(replace(self.schedule, batches=(*begun, *later, *last)))

    def may_stay(self, settings: Sequence[Settings]) -> set[Any] | None:
        if self.schedule.query.function == "context":
            return None
        if self.schedule.query.closes:
            return {END}
        model = self.kind.model(self.schedule, settings)
        model.all()
        return model.open_keys()

    def check_whole(self, rows: Sequence[OutputRow]) -> None:
        if self._tiles is None:
            return
        late = {
            number
            for each in self.kind.model(self.schedule, [self.settings] * len(self.job.batches)).all()
            for number in each.late
        }
        every = [row for batch in self.schedule.batches for row in batch.rows]
        self._tiles.check_whole(
            rows, [row for row in every if row.time is not None and row.key != END and row.number not in late]
        )
