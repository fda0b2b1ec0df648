"""Look-backs: for each row all rows near it are looked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from panestream.testing.simulation.meaning.base import ByOwnTime, Told, summed
from panestream.testing.simulation.schedule import Row


class OfLookBacks(ByOwnTime):
    """A row comes when time has passed it, and what follows it; its results are of its key's rows near it, both ends included."""

    def come(self, fresh: Sequence[Row], watermark: int) -> Iterable[tuple[Any, Told]]:
        for row in self.taken:
            if self._is_over(row, watermark) and self.first_time(row.number):
                results: Told = ()
                for size, following in self.query.assigner["of"]:
                    near = [one for one in self.taken if one.key == row.key and -size <= one.at - row.at <= following]
                    results += summed(near)
                yield row.key, (row.at, row.value, row.number, *results)

    def _is_over(self, row: Row, watermark: int) -> bool:
        return bool(row.at + max(following for _, following in self.query.assigner["of"]) <= watermark)

    def open_keys(self) -> set[Any]:
        return {row.key for row in self.taken if not self._is_over(row, self.times.watermark)}


__all__ = ["OfLookBacks"]
