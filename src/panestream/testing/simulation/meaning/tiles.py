"""Tiles: what longer windows and questions must find that are answered from what a query of tiles emitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panestream.testing.simulation.meaning.base import Told, summed
from panestream.testing.simulation.schedule import Row


def windows_of(rows: Sequence[Row], size: int, slide: int, offset: int) -> dict[tuple[Any, int, int], Told]:
    """The windows ``[n * slide + offset, n * slide + offset + size)`` that rows lie in, by key and bounds."""
    found: dict[tuple[Any, int, int], list[Row]] = {}
    for row in rows:
        start = (row.at - offset) // slide * slide + offset
        while start > row.at - size:
            found.setdefault((row.key, start, start + size), []).append(row)
            start -= slide
    return {place: summed(some) for place, some in found.items()}


def as_of(rows: Sequence[Row], key: Any, until: int, length: int, slice_: int, offset: int) -> Told:
    """The rows of a key in the ``length`` before the slice that an instant lies in."""
    end = (until - offset) // slice_ * slice_ + offset
    return summed(row for row in rows if row.key == key and end - length <= row.at < end)


__all__ = ["as_of", "windows_of"]
