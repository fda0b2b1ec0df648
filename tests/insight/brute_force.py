"""The advisor's answers by definition: plain Python over a list of rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A row in the order of arrival. Rows with the same ``at`` arrive together."""

    time: int
    partition: str = ""
    at: int | None = None
    key: int = 0


def frontiers(rows: list[Row]) -> list[int | None]:
    """Return the smallest of all partitions' largest event times before each row, or None if a partition had no row yet."""
    names, found = {row.partition for row in rows}, []
    for place, row in enumerate(rows):
        before = [other for other in rows[:place] if row.at is None or other.at != row.at]
        largest = [max((other.time for other in before if other.partition == name), default=None) for name in names]
        found.append(None if None in largest else min(largest))
    return found


def last_instant(time: int, windows: list[tuple[int, int]], lateness: int) -> int:
    """Return the last instant at which a window of a row is open, or the row's own time if it has no window. Windows are pairs of
    size and slide.
    """
    last = time
    for size, slide in windows:
        starts = range(-(-(time - size + 1) // slide) * slide, time + 1, slide)
        ends = [start + size for start in starts if start <= time < start + size]
        last = max([last, *(end - 1 for end in ends)])
    return last + lateness


def is_late(row: Row, frontier: int | None, delay: int, windows: list[tuple[int, int]], lateness: int) -> bool:
    """Return whether the watermark has passed all windows of a row."""
    return frontier is not None and last_instant(row.time, windows, lateness) <= frontier - delay - 1


def late(rows: list[Row], delay: int, windows: list[tuple[int, int]], lateness: int) -> int:
    """Count the late rows."""
    return sum(is_late(row, before, delay, windows, lateness) for row, before in zip(rows, frontiers(rows), strict=True))


def most_open(rows: list[Row], delay: int, windows: list[tuple[int, int]], lateness: int, *, panes: bool = False) -> int:
    """Return the largest number of open rows over all frontiers. With ``panes``, count pairs of a key and a last window instead."""
    before = frontiers(rows)
    names = {row.partition for row in rows}
    end = min(max(row.time for row in rows if row.partition == name) for name in names)
    first = min([each for each in before if each is not None] + [end])
    spans = {}
    for place, (row, at) in enumerate(zip(rows, before, strict=True)):
        if not is_late(row, at, delay, windows, lateness):
            closes = last_instant(row.time, windows, lateness)
            name = (row.key, closes) if panes else place
            came = first if at is None else at
            spans[name] = min(spans.get(name, (came, 0))[0], came), max(closes + delay, came)
    return max((sum(low <= at <= high for low, high in spans.values()) for at in range(first, end + 1)), default=0)
