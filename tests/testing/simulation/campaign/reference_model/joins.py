"""Joins, and functions over the rows of two streams, in windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from panestream.testing.simulation.schedule import Row, Settings
from tests.testing.simulation.campaign.queries import LEFT, RIGHT, join_of
from tests.testing.simulation.campaign.reference_model.model import NearRowModel, OutputRow
from tests.testing.simulation.campaign.reference_model.windows import WindowModel

NOBODY = (None, None)
"""The placeholder for a missing partner."""


class JoinModel(WindowModel):
    """Pairs of the rows of a key and window. A row with a null key has no partner, not even with the same key and window."""

    def told(self, key: Any, rows: Sequence[Row], settings: Settings) -> OutputRow:
        how = join_of(self.query, settings)
        if key is None:
            return tuple(pair for row in rows for pair in paired(how, [row]))
        return tuple(paired(how, rows))

    def emitted(self, firings: list[OutputRow]) -> list[OutputRow]:
        return sorted(((start, end, *pair) for start, end, *pairs in firings for pair in pairs), key=repr)


class CoGroupModel(WindowModel):
    """Functions over the rows of both sides: the numbers of the rows of each side, and the version of the code."""

    def told(self, key: Any, rows: Sequence[Row], settings: Settings) -> OutputRow:
        left, right = (tuple(sorted(row.number for row in rows if row.side == side)) for side in (LEFT, RIGHT))
        return left, right, settings.code


def paired(how: str, rows: Sequence[Row]) -> list[OutputRow]:
    """Return the join of some rows that all meet."""
    left, right = ([(row.value, row.number) for row in rows if row.side == side] for side in (LEFT, RIGHT))
    if how == "left_semi":
        return left if right else []
    if how == "left_anti":
        return [] if right else left
    pairs: list[OutputRow] = [(*each, *other) for each in left for other in right]
    if how in ("left", "full") and not right:
        pairs += [(*each, *NOBODY) for each in left]
    if how in ("right", "full") and not left:
        pairs += [(*NOBODY, *other) for other in right]
    return pairs


class IntervalModel(NearRowModel):
    """Emit a pair with the later of its rows, and a row without a partner once no partner can arrive."""

    late_at_watermark = False

    def come(self, fresh: Sequence[Row], watermark: int) -> Iterable[tuple[Any, OutputRow]]:
        yield from self._pairs({row.number for row in fresh})
        how = self.query.how
        for row in self.taken:
            if how in (row.side, "full") and self._is_over(row, watermark) and self.first_time(row.number):
                other = self._partners(row)
                own = row.value, row.number
                if not other:
                    yield row.key, (*own, *NOBODY) if row.side == LEFT else (*NOBODY, *own)

    def _pairs(self, fresh: set[int]) -> Iterator[tuple[Any, OutputRow]]:
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
        """Return whether no row can arrive that it could meet."""
        last = row.at + (self.query.assigner["upper"] if row.side == LEFT else -self.query.assigner["lower"])
        return bool(last < watermark)

    def open_keys(self) -> set[Any]:
        return {row.key for row in self.taken if not self._is_over(row, self.times.watermark)}
