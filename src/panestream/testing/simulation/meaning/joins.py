"""Two streams in the same windows: what a join, or a function over the rows of both, makes of the rows of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panestream.testing.simulation.meaning.base import Told
from panestream.testing.simulation.meaning.windows import OfWindows
from panestream.testing.simulation.schedule import LEFT, RIGHT, Row, Settings, join_of

NOBODY = (None, None)
"""Stands for the partner of a row that has none."""


class OfJoins(OfWindows):
    """Pairs of the rows of a key and window. A row whose key is null has no partner, not even of its own key and window."""

    def told(self, key: Any, rows: Sequence[Row], settings: Settings) -> Told:
        how = join_of(self.query, settings)
        if key is None:
            return tuple(pair for row in rows for pair in paired(how, [row]))
        return tuple(paired(how, rows))

    def emitted(self, firings: list[Told]) -> list[Told]:
        return sorted(((start, end, *pair) for start, end, *pairs in firings for pair in pairs), key=repr)


class OfCoGroups(OfWindows):
    """Functions over the rows of both: the numbers of the rows of each side, and the version of the code."""

    def told(self, key: Any, rows: Sequence[Row], settings: Settings) -> Told:
        left, right = (tuple(sorted(row.number for row in rows if row.side == side)) for side in (LEFT, RIGHT))
        return left, right, settings.code


def paired(how: str, rows: Sequence[Row]) -> list[Told]:
    """The rows of a join of some rows that all meet."""
    left, right = ([(row.value, row.number) for row in rows if row.side == side] for side in (LEFT, RIGHT))
    if how == "left_semi":
        return left if right else []
    if how == "left_anti":
        return [] if right else left
    pairs: list[Told] = [(*one, *other) for one in left for other in right]
    if how in ("left", "full") and not right:
        pairs += [(*one, *NOBODY) for one in left]
    if how in ("right", "full") and not left:
        pairs += [(*NOBODY, *other) for other in right]
    return pairs


__all__ = ["NOBODY", "OfCoGroups", "OfJoins", "paired"]
