"""The input of a simulated query: rows cut into micro-batches, and how the query is first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

END = "~"
"""The key of the rows that come last, by which all windows of others are closed."""


class Row(NamedTuple):
    """One row of the input.

    Attributes:
        key: may be null.
        time: its event time; None: it has none, and is invalid.
        value: a number, or null; of a query of a user's own what it takes.
        number: no two rows share it: by it rows are found again in results.
        partition: of the source; where there are two streams, the side, and of a side with partitions ``left/p0``.
    """

    key: str | None
    time: int | None
    value: Any
    number: int
    partition: str

    @property
    def at(self) -> int:
        """The event time of a row that has one."""
        if self.time is None:
            raise ValueError(f"{self} has no event time")
        return self.time

    @property
    def side(self) -> str:
        """Of which of two streams it is."""
        return self.partition.partition("/")[0]


@dataclass(frozen=True)
class MicroBatch:
    """The rows of a micro-batch, as each task of the source has them; and what time it is."""

    tasks: tuple[tuple[Row, ...], ...]
    clock: int = 0

    @property
    def rows(self) -> list[Row]:
        return [row for task in self.tasks for row in task]


@dataclass(frozen=True)
class Settings:
    """What may change when a query is started again.

    Attributes:
        delay: of the watermark.
        lateness: that is allowed.
        code: a number that functions write into their results: another one is another version of their code.
    """

    delay: int = 0
    lateness: int = 0
    code: int = 0


@dataclass(frozen=True)
class Schedule:
    """The micro-batches of a query, and how it is first run."""

    batches: tuple[MicroBatch, ...]
    settings: Settings = Settings()
    groups: int = 1


def with_closing_rows(
    batches: Sequence[MicroBatch], sources: Sequence[str], far: int, value: Any = None, *, by_clock: bool
) -> tuple[MicroBatch, ...]:
    """Add micro-batches that close all windows: rows far ahead in every partition, and a clock far ahead.

    Args:
        batches: the micro-batches of a schedule.
        sources: the partitions that rows come from.
        far: how far ahead.
        value: the value of the added rows.
        by_clock: whether the clock makes windows fire. If it does not, micro-batches without rows are left out, as on Spark.
    """
    clock = batches[-1].clock if batches else 0
    rows = tuple((Row(END, far, value, -1 - place, name),) for place, name in enumerate(sources))
    closing = [MicroBatch(rows, clock + far)]
    if by_clock:
        closing += [MicroBatch((), clock + 2 * far), MicroBatch((), clock + 3 * far)]
    return tuple(batch for batch in (*batches, *closing) if batch.rows or by_clock)
