"""The expected output of a schedule for each micro-batch, and the common parts of all definitions."""

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
    """The expected output of a micro-batch.

    Attributes:
        main: the results by key. Results of windows start with their bounds.
        late, invalid: the numbers of these rows, if there is an output for them.
        counts: the number of rows of each category.
    """

    main: dict[Any, list[OutputRow]] = field(default_factory=dict)
    late: list[int] = field(default_factory=list)
    invalid: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class ReferenceModel(ABC):
    """One run of a definition.

    Args:
        schedule: the query and its micro-batches.
        settings: the settings of each micro-batch.
        restarts: the numbers of micro-batches before which the query starts again.
    """

    def __init__(self, schedule: QuerySchedule, settings: Sequence[Settings], restarts: Iterable[int] = ()) -> None:
        self.schedule, self.query = schedule, schedule.query
        self.settings, self.restarts = settings, frozenset(restarts)
        self.times = Times(schedule.query)
        self.rows = {row.number: row for batch in schedule.batches for row in batch.rows}

    def all(self) -> list[Expected]:
        """Return the expected output of each micro-batch."""
        return [self.micro_batch(number) for number in range(len(self.schedule.batches))]

    @abstractmethod
    def micro_batch(self, number: int) -> Expected:
        """Return the expected output of the next micro-batch."""

    @abstractmethod
    def open_keys(self) -> set[Any]:
        """Return the keys with results after the last micro-batch."""

    def counted(self, late: Sequence[int], invalid: Sequence[int], outside: int, rows: int) -> dict[str, int]:
        """Return the number of rows in each category. A row is in exactly one."""
        counts = {"late_rows": len(late), "outside_rows": outside, "invalid_rows": len(invalid)}
        return {**counts, "windowed_rows": rows - sum(counts.values())}


class NearRowModel(ReferenceModel):
    """Queries whose results depend on the rows near a row. A row is late by its own time, and nothing is emitted twice."""

    late_at_watermark = True
    """Whether a row is late if its time equals the watermark."""

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
        """Yield the results with their keys.

        Args:
            fresh: the rows of the micro-batch that are not late. They are already stored.
            watermark: the watermark after the micro-batch.
        """

    def first_time(self, what: Any) -> bool:
        """Return whether a result is new, and remember it."""
        new = what not in self.emitted
        self.emitted.add(what)
        return new


def summed(rows: Iterable[Row]) -> tuple[int, int | None, tuple[int, ...]]:
    """Return a simulation's declared aggregates of some rows: their number, the sum of their values, their numbers."""
    every = list(rows)
    known = [row.value for row in every if row.value is not None]
    return len(every), sum(known) if known else None, tuple(sorted(row.number for row in every))


__all__ = ["Expected", "NearRowModel", "OutputRow", "ReferenceModel", "summed"]
