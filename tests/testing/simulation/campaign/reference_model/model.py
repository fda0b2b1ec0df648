"""What must come of a schedule, micro-batch by micro-batch: what all definitions have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from panestream.testing.simulation.schedule import Row, Settings
from tests.testing.simulation.campaign.queries import QuerySchedule
from tests.testing.simulation.campaign.reference_model.times import Times

OutputRow: TypeAlias = tuple[Any, ...]


@dataclass
class Expected:
    """What a micro-batch must bring.

    Attributes:
        main: by key what comes of it: of windows their bounds first.
        late, invalid: the numbers of these rows, where there is an output for them.
        counts: how many rows are what.
    """

    main: dict[Any, list[OutputRow]] = field(default_factory=dict)
    late: list[int] = field(default_factory=list)
    invalid: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class ReferenceModel(ABC):
    """One run of a definition.

    Args:
        schedule: the query and what comes.
        settings: with which each micro-batch is run.
        restarts: before these the query is started again.
    """

    def __init__(self, schedule: QuerySchedule, settings: Sequence[Settings], restarts: Iterable[int] = ()) -> None:
        self.schedule, self.query = schedule, schedule.query
        self.settings, self.restarts = settings, frozenset(restarts)
        self.times = Times(schedule.query)
        self.rows = {row.number: row for batch in schedule.batches for row in batch.rows}

    def all(self) -> list[Expected]:
        """What each micro-batch must bring."""
        return [self.micro_batch(number) for number in range(len(self.schedule.batches))]

    @abstractmethod
    def micro_batch(self, number: int) -> Expected:
        """What the next one must bring."""

    @abstractmethod
    def open_keys(self) -> set[Any]:
        """The keys of which something is still to come, where all micro-batches have been told."""

    def counted(self, late: Sequence[int], invalid: Sequence[int], outside: int, rows: int) -> dict[str, int]:
        """How many rows are what: each is one of these."""
        counts = {"late_rows": len(late), "outside_rows": outside, "invalid_rows": len(invalid)}
        return {**counts, "windowed_rows": rows - sum(counts.values())}


class NearRowModel(ReferenceModel):
    """Of queries whose results follow from the rows near a row: a row is late by its own time, and nothing ever comes again."""

    late_at_watermark = True
    """Whether a row is late whose time the watermark has just reached."""

    def __init__(self, schedule: QuerySchedule, settings: Sequence[Settings], restarts: Iterable[int] = ()) -> None:
        super().__init__(schedule, settings, restarts)
        self.taken: list[Row] = []
        self.emitted: set[Any] = set()

    def micro_batch(self, number: int) -> Expected:
        batch, before = self.schedule.batches[number], self.times.watermark
        if number in self.restarts:
            self.times.start_again()
        invalid = [row.number for row in batch.rows if row.time is None]
        late, fresh = list[int](), list[Row]()
        for row in batch.rows:
            if row.time is not None:
                is_late = row.time <= before if self.late_at_watermark else row.time < before
                late.append(row.number) if is_late else fresh.append(row)
        self.taken += fresh
        if batch.rows:
            self.times.advance(batch.rows, self.settings[number], batch.clock)
        main: dict[Any, list[OutputRow]] = {}
        for key, told in self.come(fresh, self.times.watermark):
            main.setdefault(key, []).append(told)
        main = {key: sorted(some, key=repr) for key, some in main.items()}
        return Expected(main, sorted(late), sorted(invalid), self.counted(late, invalid, 0, len(batch.rows)))

    @abstractmethod
    def come(self, fresh: Sequence[Row], watermark: int) -> Iterable[tuple[Any, OutputRow]]:
        """What comes out, with its key.

        Args:
            fresh: the rows of the micro-batch that are not late; they are among those taken already.
            watermark: after it.
        """

    def first_time(self, what: Any) -> bool:
        """Whether this has not come before; from now on it has."""
        new = what not in self.emitted
        self.emitted.add(what)
        return new


def summed(rows: Iterable[Row]) -> tuple[int, int | None, tuple[int, ...]]:
    """What the declared aggregates of a simulation are of some rows: how many, the sum of their values, their numbers."""
    every = list(rows)
    known = [row.value for row in every if row.value is not None]
    return len(every), sum(known) if known else None, tuple(sorted(row.number for row in every))


__all__ = ["Expected", "NearRowModel", "OutputRow", "ReferenceModel", "summed"]
