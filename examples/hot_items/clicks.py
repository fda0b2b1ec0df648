"""Made-up clicks of a shop, with the shape of real ones: popular and forgotten items, busy users, an evening peak, and faults.

The rows are in the UserBehavior format of the Flink tutorials: ``user_id,item_id,category_id,behavior,timestamp`` (Unix seconds).
They are in the order in which they *arrive*. All are a little out of order, a few are hours late, and a few are broken. The same
seed makes the same rows, whatever the number of files.
"""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from panestream.errors import JobError

BEHAVIORS = ("pv", "cart", "fav", "buy")
"""Page view, add to cart, favourite, buy."""
SHARES = (0.89, 0.06, 0.03, 0.02)
"""The share of each behavior."""

GOOD, LATE, EMPTY_TIME, BROKEN = range(4)
"""The kinds of rows: fine, later than any bound, without a timestamp, or unreadable."""

MAX_DISORDER_SECONDS = 5
"""A good row arrives at most this much later than a row with a larger timestamp."""
LATE_SECONDS = (9_000, 12_600)
"""Late rows arrive this much after their event, when the windows of the hour are long closed."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The parameters of the clicks.

    Attributes:
        rows: the number of lines, including broken ones.
        seed: of the random numbers.
        start: the first event time in Unix seconds. It is 2025-11-11 08:00 UTC, 16:00 on the shop's clock, on a day of sales.
        hours: the duration.
        utc_offset: the shop's clock, in hours from UTC. The peak is in its evening.
        users, items, categories: their numbers.
        flash_sales: the number of items that are hot for less than an hour.
        late, empty_time, broken: the shares of faulty rows.
    """

    rows: int = 200_000
    seed: int = 1
    start: int = 1_762_848_000
    hours: int = 8
    utc_offset: float = 8
    users: int = 30_000
    items: int = 10_000
    categories: int = 400
    flash_sales: int = 5
    late: float = 0.0015
    empty_time: float = 0.0004
    broken: float = 0.0006

    def __post_init__(self) -> None:
        if self.hours * 3600 <= LATE_SECONDS[1]:
            raise JobError(
                f"the clicks must span more than {LATE_SECONDS[1] / 3600} hours, so that late rows can arrive: {self.hours}"
            )


@dataclass(frozen=True, slots=True)
class Clicks:
    """Clicks in the order of their arrival, as columns.

    Attributes:
        users, items, categories: ids.
        behaviors: positions in :data:`BEHAVIORS`.
        timestamps: event times in Unix seconds.
        kinds: :data:`GOOD`, :data:`LATE`, :data:`EMPTY_TIME` or :data:`BROKEN`.
    """

    users: Ints
    items: Ints
    categories: Ints
    behaviors: Ints
    timestamps: Ints
    kinds: Ints

    def __len__(self) -> int:
        return len(self.kinds)

    def count(self, kind: int, *, behavior: str | None = None) -> int:
        """Return the number of rows of ``kind`` (and of ``behavior``)."""
        which = self.kinds == kind
        if behavior is not None:
            which &= self.behaviors == BEHAVIORS.index(behavior)
        return int(which.sum())

    def lines(self, first: int = 0, last: int | None = None) -> Iterator[str]:
        """Yield the rows from ``first`` to ``last - 1`` as CSV lines, with their faults."""
        part = slice(first, last)
        columns = (self.users, self.items, self.categories, self.behaviors, self.timestamps, self.kinds)
        for user, item, category, behavior, timestamp, kind in zip(*(each[part].tolist() for each in columns), strict=True):
            line = f"{user},{item},{category},{BEHAVIORS[behavior]},"
            if kind == BROKEN:
                yield _broken(line, user, timestamp)
            else:
                yield line if kind == EMPTY_TIME else f"{line}{timestamp}"


def make_clicks(shape: Shape | None = None) -> Clicks:
    """Make clicks. The same shape makes the same rows.

    >>> len(make_clicks(Shape(rows=1000)))
    1000
    """
    shape = shape or Shape()
    rng = np.random.default_rng(shape.seed)
    sessions, happened = _sessions(shape, rng)
    items, categories = _items(shape, rng, sessions, happened)
    behaviors = rng.choice(len(BEHAVIORS), size=shape.rows, p=SHARES)
    users = _ids(rng, shape.users, 1_000_000)[_zipf(rng, shape.users, 0.4, 20.0, int(sessions[-1]) + 1)][sessions]
    # Most rows arrive at once, some after seconds. The limit is 4.9 because timestamps lose their fraction.
    delays = np.minimum(rng.exponential(0.8, shape.rows), MAX_DISORDER_SECONDS - 0.1)
    kinds = _faults(shape, rng, happened)
    late = kinds == LATE
    delays[late] = rng.uniform(*LATE_SECONDS, size=int(late.sum()))
    order = np.argsort(happened + delays, kind="stable")
    timestamps = np.floor(happened).astype(np.int64)
    columns = (users, items, categories, behaviors.astype(np.int64), timestamps, kinds)
    return Clicks(*(column[order] for column in columns))


def write_clicks(clicks: Clicks, folder: Path, files: int) -> list[Path]:
    """Write the rows into ``files`` CSV files of equal size, in the order of arrival.

    A stream reads files in the order of their modification times, so these are set a second apart.
    """
    folder.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, len(clicks), files + 1).astype(int).tolist()
    paths = []
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        path = folder / f"clicks-{number:03}.csv"
        path.write_text("".join(f"{line}\n" for line in clicks.lines(first, last)), encoding="utf-8")
        paths.append(path)
    set_order(paths)
    return paths


def split_file(source: Path, folder: Path, files: int) -> tuple[list[Path], int]:
    """Split a UserBehavior file (also ``.gz``) into ``files`` files with about the same number of lines, in order.

    Returns:
        The files, and the number of lines.

    Raises:
        JobError: the file is not there, or is not a UserBehavior file.
    """
    try:
        with _opened(source) as file:
            first = next(file, b"").decode("utf-8", "replace").strip()
            total = sum(1 for _ in file) + bool(first)
    except (OSError, EOFError) as error:
        raise JobError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    fields = first.split(",")
    if len(fields) != 5 or fields[3] not in BEHAVIORS or not fields[4].isdigit():
        raise JobError(
            f"{source}: not a UserBehavior file: lines are user_id,item_id,category_id,behavior,timestamp with behavior one of "
            f"{', '.join(BEHAVIORS)}; the first line is {first[:80]!r}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-total // files)
    paths: list[Path] = []
    with _opened(source) as file:
        while lines := list(itertools.islice(file, size)):
            path = folder / f"clicks-{len(paths):03}.csv"
            path.write_bytes(b"".join(lines))
            paths.append(path)
    set_order(paths)
    return paths, total


def set_order(paths: list[Path]) -> None:
    """Set the modification times of files a second apart, in this order, all in the past."""
    newest = 1_762_900_000
    for number, path in enumerate(paths):
        when = newest - len(paths) + number
        os.utime(path, (when, when))


@contextmanager
def _opened(path: Path) -> Generator[Iterator[bytes]]:
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as packed:
            yield iter(packed)
    else:
        with path.open("rb") as plain:
            yield iter(plain)


def _ids(rng: np.random.Generator, number: int, below: int) -> Ints:
    """Return ``number`` different ids in random order."""
    return rng.permutation(below)[:number].astype(np.int64) + 1


def _zipf(rng: np.random.Generator, number: int, exponent: float, flat: float, size: int) -> Ints:
    """Draw ranks from 0 to ``number`` - 1, the n-th with a weight of (n + ``flat``) ** -``exponent`` (Zipf-Mandelbrot)."""
    weights = (np.arange(1, number + 1) + flat) ** -exponent
    return _draw(rng, weights, size)


def _draw(rng: np.random.Generator, weights: Floats, size: int) -> Ints:
    """Draw positions with the given weights."""
    cumulated = np.cumsum(weights)
    drawn = np.searchsorted(cumulated, rng.random(size) * cumulated[-1], side="right")
    positions: Ints = np.minimum(drawn, len(weights) - 1).astype(np.int64)
    return positions


def _sessions(shape: Shape, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Split the rows into sessions of some clicks each. Return the session and the event time of each row."""
    lengths = rng.geometric(0.2, size=shape.rows)  # as many sessions as rows are always enough
    enough = int(np.searchsorted(np.cumsum(lengths), shape.rows)) + 1
    lengths = lengths[:enough]
    sessions = np.repeat(np.arange(enough), lengths)[: shape.rows]
    minutes = shape.hours * 60
    clock = (shape.start / 3600 + shape.utc_offset + np.arange(minutes) / 60) % 24
    begins = (_draw(rng, _day_curve(clock), enough) + rng.random(enough)) * 60
    steps = rng.exponential(45.0, shape.rows)
    walked = np.cumsum(steps)
    firsts = np.concatenate([[0], np.flatnonzero(np.diff(sessions)) + 1])
    seconds = begins[sessions] + (walked - walked[firsts][sessions])
    # A session at the very end is mirrored into the span instead of being cut off.
    span = minutes * 60
    seconds = np.where(seconds < span, seconds, np.maximum(2 * span - seconds - 1e-3, 0.0))
    return sessions, shape.start + seconds


def _day_curve(hours: Floats) -> Floats:
    """Return how busy the shop is at an hour of its day: little at night, more at noon, most at nine in the evening."""

    def bump(centre: float, width: float) -> Floats:
        away = (hours - centre + 12) % 24 - 12
        return np.asarray(np.exp(-0.5 * (away / width) ** 2))

    return 0.25 + 0.5 * bump(12.5, 2.5) + 0.35 * bump(16.5, 2.5) + 1.0 * bump(21.0, 1.8)


def _items(shape: Shape, rng: np.random.Generator, sessions: Ints, happened: Floats) -> tuple[Ints, Ints]:
    """Return the item of each click: mostly a popular item, or one on sale for an hour, or the last item again."""
    ranks = _zipf(rng, shape.items, 0.8, 10.0, shape.rows)
    centres = shape.start + 3600 * shape.hours * (np.arange(shape.flash_sales) + 1) / (shape.flash_sales + 1)
    for sale, centre in enumerate(centres):
        width = rng.uniform(10, 25) * 60
        wanted = rng.uniform(0.008, 0.016) * np.exp(-0.5 * ((happened - centre) / width) ** 2)
        ranks[rng.random(shape.rows) < wanted] = (
            shape.items - 1 - sale
        )  # from the end, because these items are otherwise unpopular
    again = rng.random(shape.rows) < 0.15
    again[0] = False
    again[1:] &= sessions[1:] == sessions[:-1]
    # Each row takes the item of the last row that did not repeat.
    ranks = ranks[np.maximum.accumulate(np.where(again, 0, np.arange(shape.rows)))]
    ids = _ids(rng, shape.items, 5_000_000)
    categories = _ids(rng, shape.categories, 5_000_000)[_zipf(rng, shape.categories, 0.7, 5.0, shape.items)]
    return ids[ranks], categories[ranks]


def _faults(shape: Shape, rng: np.random.Generator, happened: Floats) -> Ints:
    """Choose the rows that are late, without timestamp or broken, at least one of each."""
    kinds = np.full(shape.rows, GOOD, dtype=np.int64)
    order = rng.permutation(shape.rows)
    # Late rows must arrive before the end of the others, which show that they are late.
    end = shape.start + shape.hours * 3600
    early = order[happened[order] < end - LATE_SECONDS[1]]
    late = early[: max(1, round(shape.rows * shape.late))]
    kinds[late] = LATE
    rest = order[kinds[order] == GOOD]
    empty, broken = (max(1, round(shape.rows * share)) for share in (shape.empty_time, shape.broken))
    kinds[rest[:empty]] = EMPTY_TIME
    kinds[rest[empty : empty + broken]] = BROKEN
    return kinds


def _broken(line: str, user: int, timestamp: int) -> str:
    """Return a broken line: cut off, not a row, or with a letter among the digits."""
    way = (user + timestamp) % 3
    if way == 0:
        return line[: len(line) // 2].rstrip(",")
    if way == 1:
        return "<html><head><title>502 Bad Gateway</title></head></html>"
    return f"{line}{str(timestamp).replace('1', 'l', 1)}"
