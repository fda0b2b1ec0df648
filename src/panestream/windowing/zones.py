"""Time zones as tables of clock changes and offsets from UTC.

The tables are read when a query is built, from the zone rules of this Python, and travel with the query, so that all machines use
the same rules. A clock that is put back repeats times. Windows need times that never go back, so here a **wall clock** stops
instead, until the zone's clock has caught up with it::

    UTC            04:30  05:00  05:30  06:00  06:30  07:00      New York, 2 November 2025, at 2 o'clock summer time
    the clock       0:30   1:00   1:30   1:00   1:30   2:00
    the wall clock  0:30   1:00   1:30   1:59…  1:59…  2:00

So each wall-clock time has a first instant, and between two such instants are exactly the rows that the wall clock puts there. If
a clock is put forward, the skipped times all begin at the instant of the change.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from panestream.errors import InvalidWindowError

DAY = 86_400_000_000
"""In microseconds."""
_SECOND, _EPOCH = 1_000_000, datetime(1970, 1, 1)  # noqa: DTZ001 - wall time
_FIRST, _REPEATING, _END = datetime(1830, 1, 1), datetime(2100, 1, 1), datetime(2500, 1, 1)  # noqa: DTZ001 - wall time
"""No zone changed its clock before the first; changes between the other two repeat every 400 years."""
_AHEAD = re.compile(r"(?:GMT|UTC|Z)?\s*([+-])(\d{1,2})(?::?00)?", re.IGNORECASE)
TABLE_END = (_END - _EPOCH) // timedelta(microseconds=1)
"""The end of the tables, as an instant or a wall time. Everything repeats afterwards."""
PERIOD = (_END - _REPEATING) // timedelta(microseconds=1)
"""400 years."""


@dataclass(frozen=True, slots=True)
class ZoneRules:
    """The rules of one zone, from 1830 to 2500. From 2100 on they repeat every 400 years, as the calendar does.

    ``version`` is the version of the IANA database. ``changes`` are the instants of clock changes in microseconds, ascending, and
    ``offsets`` the distances from UTC, one before the first change and one from each change on. ``shown`` has, for each change,
    the exclusive end of the clock times until then.
    """

    zone: str
    version: str
    changes: tuple[int, ...] = field(repr=False)
    offsets: tuple[int, ...] = field(repr=False)
    shown: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ends = (change + offset for change, offset in zip(self.changes, self.offsets, strict=False))
        object.__setattr__(self, "shown", tuple(accumulate(ends, max)))

    def wall(self, instant: int) -> int:
        """Return the wall-clock time: microseconds since 1970-01-01 00:00 of the zone.

        >>> rules = rules_of("America/New_York")
        >>> [str(timedelta(microseconds=rules.wall(hour * 3_600_000_000) % DAY)) for hour in range(489_460, 489_464)]
        ['0:00:00', '1:00:00', '1:59:59.999999', '2:00:00']
        """
        turns = max((instant - TABLE_END) // PERIOD + 1, 0)
        instant -= turns * PERIOD
        span = bisect_right(self.changes, instant)
        now = instant + self.offsets[span]
        return (max(now, self.shown[span - 1] - 1) if span else now) + turns * PERIOD

    def instant(self, wall: int) -> int:
        """Return the first instant at which the wall clock shows a time or a later one."""
        turns = max((wall - TABLE_END) // PERIOD + 1, 0)
        wall -= turns * PERIOD
        span = bisect_right(self.shown, wall)
        then = wall - self.offsets[span]
        return (max(then, self.changes[span - 1]) if span else then) + turns * PERIOD


@lru_cache(maxsize=64)
def rules_of(zone: str) -> ZoneRules:
    """Return the rules of a zone by its IANA name, e.g. ``"Europe/Berlin"``, or raise InvalidWindowError with a hint."""
    if not isinstance(zone, str) or not zone:
        raise InvalidWindowError(f"a time zone is a name such as 'America/New_York' or 'UTC', not {zone!r}")
    try:
        found = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = zoneinfo.available_timezones()
        if not known:
            hint = "this machine lacks time zone rules. Install them (pip install tzdata, or apt-get install tzdata)"
        else:
            near = _nearest(zone, known)
            hint = (f"did you mean {near!r}? " if near else "") + "a fixed distance from UTC is an offset of fixed windows"
        raise InvalidWindowError(f"there is no time zone {zone!r}: {hint}") from error
    changes = tuple(_changes(found))
    offsets = (_offset(found, _FIRST), *(_offset_at(found, change // _SECOND) for change in changes))
    return ZoneRules(zone, _version(zone), changes, offsets)


def _nearest(zone: str, known: set[str]) -> str | None:
    """Return the zone that was probably meant, or None.

    >>> known = {"Etc/GMT-8", "GMT+0", "UTC", "Etc/UTC", "Europe/Berlin"}
    >>> _nearest("GMT+8", known), _nearest("utc", known), _nearest("Europe/Berln", known)
    ('Etc/GMT-8', 'UTC', 'Europe/Berlin')
    """
    ahead = _AHEAD.fullmatch(zone)
    if ahead is not None:  # The database counts such zones with the opposite sign.
        name = f"Etc/GMT{'-' if ahead[1] == '+' else '+'}{int(ahead[2])}"
        return name if name in known else None
    same = [name for name in sorted(known) if name.lower() == zone.strip().lower().replace(" ", "_")]
    return next(iter(same or difflib.get_close_matches(zone, sorted(known))), None)


def _changes(zone: zoneinfo.ZoneInfo) -> Iterator[int]:
    """Yield the instants of clock changes, found by sampling every other day, since changes were always further apart."""
    step, skipped, wall, before = timedelta(days=2), 25 * 3600, _FIRST, zone.utcoffset(_FIRST) or timedelta()
    while wall < _END:
        then, wall = wall, wall + step
        now = zone.utcoffset(wall)
        if now != before and now is not None:
            low = (then - before - _EPOCH) // timedelta(seconds=1) - skipped
            high, was = (wall - now - _EPOCH) // timedelta(seconds=1), _offset_at(zone, low)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset_at(zone, middle) == was else (low, middle)
            yield high * _SECOND
            before = now


def _offset(zone: zoneinfo.ZoneInfo, wall: datetime) -> int:
    return (zone.utcoffset(wall) or timedelta()) // timedelta(microseconds=1)


def _offset_at(zone: zoneinfo.ZoneInfo, second: int) -> int:
    moment = _EPOCH.replace(tzinfo=timezone.utc) + timedelta(seconds=second)
    return (moment.astimezone(zone).utcoffset() or timedelta()) // timedelta(microseconds=1)


def _version(zone: str) -> str:
    """Return the version of the IANA database that ``zoneinfo`` uses: it searches these folders, then the package tzdata."""
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / zone).is_file():
            for name in ("tzdata.zi", "+VERSION"):
                if (folder / name).is_file():
                    with (folder / name).open(encoding="utf-8") as file:
                        return file.readline().removeprefix("# version").strip() or "unknown"
            return "unknown"
    try:
        import tzdata
    except ImportError:
        return "unknown"
    return str(tzdata.IANA_VERSION)


__all__ = ["DAY", "PERIOD", "TABLE_END", "ZoneRules", "rules_of"]
