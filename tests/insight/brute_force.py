"""The advisor's answers by definition: a list of rows, one after the other, in plain Python."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A row, as it arrives; ``at``: rows with the same number arrive at once."""

    time: int
    partition: str = ""
    at: int | None = None
    key: int = 0


def frontiers(rows: list[Row]) -> list[int | None]:
    """The smallest of the largest event times of all partitions before each row; None: one of them had no row yet."""
    names, found = {row.partition for row in rows}, []
    for place, row in enumerate(rows):
        before = [other for other in rows[:place] if row.at is None or other.at != row.at]
        largest = [max((other.time for other in before if other.partition == name), default=None) for name in names]
        found.append(None if None in largest else min(largest))
    return found


def last_instant(time: int, windows: list[tuple[int, int]], lateness: int) -> int:
    """The last instant at which one of the windows of a row is open; of a row in none, its own. Windows: size and slide."""
    last = time
    for size, slide in windows:
        starts = range(-(-(time - size + 1) // slide) * slide, time + 1, slide)
        ends = [start + size for start in starts if start <= time < start + size]
        last = max([last, *(end - 1 for end in ends)])
    return last + lateness


def is_late(row: Row, frontier: int | None, delay: int, windows: list[tuple[int, int]], lateness: int) -> bool:
    """Whether the watermark has passed all its windows."""
    return frontier is not None and last_instant(row.time, windows, lateness) <= frontier - delay - 1


def late(rows: list[Row], delay: int, windows: list[tuple[int, int]], lateness: int) -> int:
    """How many are."""
    return sum(is_late(row, before, delay, windows, lateness) for row, before in zip(rows, frontiers(rows), strict=True))


def most_open(rows: list[Row], delay: int, windows: list[tuple[int, int]], lateness: int, *, panes: bool = False) -> int:
    """How many rows, or pairs of a key and a last window, are there at once at most, at each frontier that there was."""
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
