"""The input of a simulated query: rows in micro-batches, with the settings of the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

END = "~"
"""The key of the last rows, which close all other windows."""


class Row(NamedTuple):
    """One row of the input, which is invalid without a time.

    Its unique number identifies it in results. Its partition is that of the source, or with two streams the side or a
    partition of a side (``left/p0``).
    """

    key: str | None
    time: int | None
    value: Any
    number: int
    partition: str

    @property
    def at(self) -> int:
        """Return the event time of a row that has one."""
        if self.time is None:
            raise ValueError(f"{self} has no event time")
        return self.time

    @property
    def side(self) -> str:
        """The stream of the row, if there are two."""
        return self.partition.partition("/")[0]


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch by source task, and its time on the clock."""

    tasks: tuple[tuple[Row, ...], ...]
    clock: int = 0

    @property
    def rows(self) -> list[Row]:
        return [row for task in self.tasks for row in task]


@dataclass(frozen=True)
class Settings:
    """Settings that may change at a restart; another ``code`` is another code version, which functions write into results."""

    delay: int = 0
    lateness: int = 0
    code: int = 0


@dataclass(frozen=True)
class Schedule:
    """The micro-batches of a query, with the settings of its first run."""

    batches: tuple[MicroBatch, ...]
    settings: Settings = Settings()
    groups: int = 1


def with_closing_rows(
    batches: Sequence[MicroBatch], sources: Sequence[str], far: int, value: Any = None, *, by_clock: bool
) -> tuple[MicroBatch, ...]:
    """Add micro-batches that close all windows, with rows ``far`` ahead in each source partition and a clock ``far`` ahead.

    Without ``by_clock``, micro-batches without rows are omitted, as on Spark.
    """
    clock = batches[-1].clock if batches else 0
    rows = tuple((Row(END, far, value, -1 - place, name),) for place, name in enumerate(sources))
    closing = [MicroBatch(rows, clock + far)]
    if by_clock:
        closing += [MicroBatch((), clock + 2 * far), MicroBatch((), clock + 3 * far)]
    return tuple(batch for batch in (*batches, *closing) if batch.rows or by_clock)
