"""Interval joins: all pairs of rows are looked at one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from panestream.testing.simulation.meaning.base import ByOwnTime, Told
from panestream.testing.simulation.meaning.joins import NOBODY
from panestream.testing.simulation.schedule import LEFT, RIGHT, Row


class OfIntervals(ByOwnTime):
    """A pair comes with the later of its rows, a row without a partner when nobody can come any more that it could meet."""

    late_at_watermark = False

    def come(self, fresh: Sequence[Row], watermark: int) -> Iterable[tuple[Any, Told]]:
        yield from self._pairs({row.number for row in fresh})
        how = self.query.how
        for row in self.taken:
            if how in (row.side, "full") and self._is_over(row, watermark) and self.first_time(row.number):
                other = self._partners(row)
                own = row.value, row.number
                if not other:
                    yield row.key, (*own, *NOBODY) if row.side == LEFT else (*NOBODY, *own)

    def _pairs(self, fresh: set[int]) -> Iterator[tuple[Any, Told]]:
        for left in self.taken:
            for right in self.taken:
                if (left.number in fresh or right.number in fresh) and self._meet(left, right):
                    yield left.key, (left.value, left.number, right.value, right.number)

    def _partners(self, row: Row) -> list[Row]:
        return [other for other in self.taken if self._meet(row, other) or self._meet(other, row)]

    def _meet(self, left: Row, right: Row) -> bool:
        if (left.side, right.side) != (LEFT, RIGHT) or left.key is None or left.key != right.key:
            return False
        lower, upper = self.query.assigner["lower"], self.query.assigner["upper"]
        return bool(lower <= right.at - left.at <= upper)

    def _is_over(self, row: Row, watermark: int) -> bool:
        """Whether no row can come any more that it could meet."""
        last = row.at + (self.query.assigner["upper"] if row.side == LEFT else -self.query.assigner["lower"])
        return bool(last < watermark)

    def open_keys(self) -> set[Any]:
        return {row.key for row in self.taken if not self._is_over(row, self.times.watermark)}


__all__ = ["OfIntervals"]
