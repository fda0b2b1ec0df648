"""Random windows of calendars, streams around the days on which clocks were changed, and a naive definition of the windows.

The definition knows nothing of tables of changes: it asks ``zoneinfo`` for what the clock shows at one instant after the other,
and goes through dates one by one.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

from panestream.windowing.assigners import (
    BusinessDays,
    BusinessHours,
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarWindows,
    CalendarYears,
)
from tests.comparison import harness

MICROSECOND, EPOCH = timedelta(microseconds=1), datetime(1970, 1, 1)
UTC_EPOCH = EPOCH.replace(tzinfo=timezone.utc)
DAY = 86_400_000_000
HOUR = DAY // 24
CHANGES = {
    "America/New_York": ["2025-03-09T07:00", "2025-11-02T06:00", "1967-10-29T06:00"],
    "America/Sao_Paulo": ["2018-11-04T03:00", "2018-02-18T02:00", "1966-11-01T03:00"],
    "Asia/Beirut": ["2023-03-29T22:00", "2022-03-26T22:00", "2022-10-29T21:00"],
    "Australia/Lord_Howe": ["2024-10-05T15:30", "2025-04-05T15:00"],
    "Pacific/Apia": ["2011-12-30T10:00", "2011-09-24T14:00"],
    "America/St_Johns": ["2010-11-07T02:31", "1988-10-30T01:31", "2011-03-13T03:31"],
    "America/Havana": ["2024-11-03T05:00", "2025-03-09T05:00"],
    "Asia/Kolkata": ["2000-01-01T00:00", "1969-12-31T18:30"],
    "Africa/Casablanca": ["2024-03-10T02:00", "2024-04-14T02:00"],
    "Pacific/Kwajalein": ["1993-08-21T12:00"],
    "Europe/London": ["1971-10-31T02:00", "2024-02-29T00:00"],
    "UTC": ["1969-12-31T23:00", "2000-02-29T00:00"],
}
"""Zones, and instants in UTC at which something happens: the clock is changed, the epoch, the 29th of February."""


def micros(moment: datetime) -> int:
    """Since 1970-01-01 00:00, of whatever clock it is."""
    return (moment - EPOCH) // MICROSECOND


def random_zone(rng: random.Random) -> str:
    return rng.choice(list(CHANGES))


def random_instant(rng: random.Random, zone: str, near: int) -> int:
    """An instant within ``near`` of one at which something happens, often exactly on the hour or just before it."""
    change = micros(datetime.fromisoformat(rng.choice(CHANGES[zone])))
    found = change + rng.randint(-near, near)
    return found if rng.random() < 0.3 else found // (HOUR // 4) * (HOUR // 4) - rng.choice([0, 0, 1])


def random_calendar(rng: random.Random, *, zone: str | None = None, clock: bool = False) -> tuple[CalendarWindows, int]:
    """Windows of a calendar, and about their size."""
    more = {"zone": zone or random_zone(rng), "by_processing_time": clock}
    count, every = rng.choice([1, 1, 2, 3, 7]), rng.choice([None, None, 1, 2, 3, 5])
    later = {**more, "offset": rng.choice(["0 seconds", "0 seconds", "6 hours", "-90 minutes", "30 minutes"])}
    kind = rng.randrange(12)
    if kind == 0:
        minutes = {**more, "offset": rng.choice(["0 seconds", "30 minutes"])}
        return CalendarHours.of(count, every=every, **minutes), count * HOUR
    if kind in (1, 2):
        return CalendarDays.of(count, every=every, **later), count * DAY
    if kind == 3:
        return CalendarDays.of(1, step="hour", **later), DAY
    if kind == 4:
        return CalendarDays.of(count + 1, step="day", **later), (count + 1) * DAY
    if kind == 5:
        first = rng.choice(["sunday", "monday", "saturday"])
        return CalendarWeeks.of(count, every=every, first_day=first, **later), 7 * count * DAY
    if kind == 6:
        return CalendarWeeks.of(1, step="day", first_day=rng.choice(["sunday", "monday"]), **later), 7 * DAY
    if kind == 7:
        return CalendarMonths.of(count, every=every, first_month=rng.choice([1, 2]), **later), count * 30 * DAY
    if kind == 8:
        offset = rng.choice(["0 seconds", "14 days", "-6 hours"])
        return CalendarMonths.of(1, step="day", **{**more, "offset": offset}), 30 * DAY
    if kind == 9:
        yearly, first = rng.choice([CalendarQuarters, CalendarYears]), rng.choice([1, 4])
        step = rng.choice([None, "month"])
        return yearly.of(1, step=step, first_month=first, **later), 90 * DAY
    holidays = [date(2011, 12, 26) + timedelta(days=rng.randrange(-400, 400)) for _ in range(rng.randrange(6))]
    holidays += [date(1969, 12, 31), date(2025, 3, 10), date(2018, 11, 5)][: rng.randrange(4)]
    days = {"holidays": holidays, "weekend": rng.choice([("saturday", "sunday"), ("friday",), ()])}
    if kind == 10:
        return BusinessDays.of(count, every=every, **days, **later), (count + 2) * DAY
    hours = rng.choice([("09:00", "17:00"), ("22:00", "06:00"), ("00:00", "24:00"), ("02:15", "02:45")])
    return BusinessHours.of(*hours, **days, **more), DAY


def random_stream(rng: random.Random, zone: str, span: int, *, clock: bool = False) -> list[harness.MicroBatch]:
    """Micro-batches whose times go over a change of the clock of a zone."""
    begin = random_instant(rng, zone, 2 * span)

    def moved(batch: harness.MicroBatch) -> harness.MicroBatch:
        chunks = [[(key, ts + begin, *rest) for key, ts, *rest in rows] for rows in batch.chunks]
        return replace(batch, chunks=chunks, clock=batch.clock + begin if clock else 0)

    return [moved(batch) for batch in harness.random_stream(rng, span, clock=clock)]


# ------------------------------------------------------------------------------------------------ the naive definition


def shown(zone: str, instant: int) -> int:
    """What the clock of a zone shows."""
    local = (UTC_EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(zone))
    return micros(local.replace(tzinfo=None))


@lru_cache(maxsize=100_000)
def first_instant(zone: str, wall: int) -> int:
    """The first instant at which the clock shows a time or a later one: looked for minute by minute where it is changed."""
    minute, instant = 60_000_000, wall - 27 * HOUR
    while (far := wall - shown(zone, instant)) > 0:
        steady = (step for step in (9 * HOUR, HOUR) if shown(zone, instant + step) == wall - far + step)
        instant += min(far, next(steady, minute))
    return instant


def naive_windows(one: CalendarWindows, instant: int) -> set[tuple[int, int]]:
    """The windows that contain an instant."""
    local = EPOCH + timedelta(microseconds=shown(one.zone, instant))
    spans = ((first_instant(one.zone, micros(start)), first_instant(one.zone, micros(end))) for start, end in _near(one, local))
    return {(start, end) for start, end in spans if start <= instant < end}


def _near(one: CalendarWindows, local: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Windows of the wall clock around a time of it: all that may contain it, and others."""
    offset, days = timedelta(microseconds=one.offset), one.count + 3
    if isinstance(one, (BusinessDays, BusinessHours)):
        yield from _of_business(one, local)
        return
    if isinstance(one, CalendarHours):
        hour = local.replace(minute=0, second=0, microsecond=0)
        for begin in (hour + timedelta(hours=step) for step in range(-one.count - 30, 31)):
            if (begin - EPOCH) // timedelta(hours=1) % one.every == 0:
                yield begin + offset, begin + offset + timedelta(hours=one.count)
        return
    if isinstance(one, (CalendarDays, CalendarWeeks)):
        unit = 7 if isinstance(one, CalendarWeeks) else 1
        dates = (local.date() + timedelta(days=day) for day in range(-days * unit - 2, days * unit + 2))
        begins = [day for day in dates if _begins_unit(one, day)]
        for day in begins:
            frame = (day - _first_unit(one)).days // unit
            if frame % (one.count if one.step else one.every) == 0:
                start = datetime.combine(day, time()) + offset
                yield from _cut(one, start, start + timedelta(days=unit * one.count))
        return
    months = {CalendarMonths: 1, CalendarQuarters: 3, CalendarYears: 12}[type(one)]
    for month in range(-months * (one.count + 1) - 2, months * (one.count + 1) + 2):
        year, place = divmod(local.year * 12 + local.month - 1 + month, 12)
        since = (year - 1970) * 12 + place - (one.first_month - 1)
        if since % (months * (one.count if one.step else one.every)) == 0:
            later_year, later = divmod(year * 12 + place + months * one.count, 12)
            yield from _cut(one, datetime(year, place + 1, 1) + offset, datetime(later_year, later + 1, 1) + offset)


def _first_unit(one: CalendarWindows) -> date:
    """The first day of the unit with 1 January 1970."""
    day = date(1970, 1, 1)
    while not _begins_unit(one, day):
        day -= timedelta(days=1)
    return day


def _begins_unit(one: CalendarWindows, day: date) -> bool:
    return not isinstance(one, CalendarWeeks) or f"{day:%A}".lower() == one.first_day


def _cut(one: CalendarWindows, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """A window, or those that begin with it and end one step after the other."""
    if one.step is None:
        yield start, end
        return
    last = start
    while last < end:
        if one.step == "month":
            first = last - timedelta(microseconds=one.offset)
            last = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
            last += timedelta(microseconds=one.offset)
        else:
            last += timedelta(hours=1) if one.step == "hour" else timedelta(days=1)
        yield start, last


@lru_cache
def _days_but(weekend: tuple[str, ...]) -> list[date]:
    """All days of a century that are not of a weekend."""
    every = (date(1930, 1, 1) + timedelta(days=day) for day in range(36_525))
    return [day for day in every if f"{day:%A}".lower() not in weekend]


@lru_cache(maxsize=8)
def _business_days(weekend: tuple[str, ...], holidays: tuple[str, ...]) -> tuple[list[date], int]:
    """All business days of a century, and the place of the first one from 1970 on."""
    off = set(map(date.fromisoformat, holidays))
    found = [day for day in _days_but(weekend) if day not in off]
    return found, bisect_left(found, date(1970, 1, 1))


def _of_business(one: BusinessDays | BusinessHours, local: datetime) -> Iterator[tuple[datetime, datetime]]:
    days, first = _business_days(one.weekend, one.holidays)
    far = timedelta(days=14 + 2 * one.count)
    for place in range(bisect_right(days, local.date() - far), bisect_left(days, local.date() + far)):
        begin, end = (datetime.combine(days[at], time()) for at in (place, place + one.count - 1))
        if isinstance(one, BusinessHours):
            yield begin + timedelta(microseconds=one.opens), begin + timedelta(microseconds=one.closes)
        elif (place - first) % one.every == 0:
            offset = timedelta(microseconds=one.offset)
            yield begin + offset, end + timedelta(days=1) + offset
