"""Random calendar windows, streams around clock changes, and a naive definition of the windows.

The definition does not use tables of clock changes. It asks ``zoneinfo`` for the clock at one instant after another, and visits
dates one by one.
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
"""Zones, each with UTC instants of interest: clock changes, the epoch, the 29th of February."""


def micros(moment: datetime) -> int:
    """Return microseconds since 1970-01-01 00:00 of the same clock."""
    return (moment - EPOCH) // MICROSECOND


def random_zone(rng: random.Random) -> str:
    return rng.choice(list(CHANGES))


def random_instant(rng: random.Random, zone: str, near: int) -> int:
    """Return an instant within ``near`` of one of interest, often exactly on the hour or just before it."""
    change = micros(datetime.fromisoformat(rng.choice(CHANGES[zone])))
    found = change + rng.randint(-near, near)
    return found if rng.random() < 0.3 else found // (HOUR // 4) * (HOUR // 4) - rng.choice([0, 0, 1])


def random_calendar(rng: random.Random, *, zone: str | None = None, clock: bool = False) -> tuple[CalendarWindows, int]:
    """Return calendar windows, and about their size."""
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
    """Return micro-batches whose times cross a clock change of a zone."""
    begin = random_instant(rng, zone, 2 * span)

    def moved(batch: harness.MicroBatch) -> harness.MicroBatch:
        chunks = [[(key, ts + begin, *rest) for key, ts, *rest in rows] for rows in batch.chunks]
        return replace(batch, chunks=chunks, clock=batch.clock + begin if clock else 0)

    return [moved(batch) for batch in harness.random_stream(rng, span, clock=clock)]


# ------------------------------------------------------------------------------------------------ the naive definition


def clock_time(zone: str, instant: int) -> int:
    """Return the clock time of a zone."""
    local = (UTC_EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(zone))
    return micros(local.replace(tzinfo=None))


@lru_cache(maxsize=100_000)
def first_instant(zone: str, wall: int) -> int:
    """Return the first instant at which the clock shows this time or a later one. Around clock changes, check every minute."""
    minute, instant = 60_000_000, wall - 27 * HOUR
    while (far := wall - clock_time(zone, instant)) > 0:
        steady = (step for step in (9 * HOUR, HOUR) if clock_time(zone, instant + step) == wall - far + step)
        instant += min(far, next(steady, minute))
    return instant


def naive_windows(windows: CalendarWindows, instant: int) -> set[tuple[int, int]]:
    """Return the windows that contain an instant."""
    local = EPOCH + timedelta(microseconds=clock_time(windows.zone, instant))
    spans = (
        (first_instant(windows.zone, micros(start)), first_instant(windows.zone, micros(end)))
        for start, end in _near(windows, local)
    )
    return {(start, end) for start, end in spans if start <= instant < end}


def _near(windows: CalendarWindows, local: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield wall-clock windows around a time: all that may contain it, and others."""
    offset, days = timedelta(microseconds=windows.offset), windows.count + 3
    if isinstance(windows, (BusinessDays, BusinessHours)):
        yield from _of_business(windows, local)
        return
    if isinstance(windows, CalendarHours):
        hour = local.replace(minute=0, second=0, microsecond=0)
        for begin in (hour + timedelta(hours=step) for step in range(-windows.count - 30, 31)):
            if (begin - EPOCH) // timedelta(hours=1) % windows.every == 0:
                yield begin + offset, begin + offset + timedelta(hours=windows.count)
        return
    if isinstance(windows, (CalendarDays, CalendarWeeks)):
        unit = 7 if isinstance(windows, CalendarWeeks) else 1
        dates = (local.date() + timedelta(days=day) for day in range(-days * unit - 2, days * unit + 2))
        begins = [day for day in dates if _begins_unit(windows, day)]
        for day in begins:
            frame = (day - _first_unit(windows)).days // unit
            if frame % (windows.count if windows.step else windows.every) == 0:
                start = datetime.combine(day, time()) + offset
                yield from _cut(windows, start, start + timedelta(days=unit * windows.count))
        return
    months = {CalendarMonths: 1, CalendarQuarters: 3, CalendarYears: 12}[type(windows)]
    for month in range(-months * (windows.count + 1) - 2, months * (windows.count + 1) + 2):
        year, place = divmod(local.year * 12 + local.month - 1 + month, 12)
        since = (year - 1970) * 12 + place - (windows.first_month - 1)
        if since % (months * (windows.count if windows.step else windows.every)) == 0:
            later_year, later = divmod(year * 12 + place + months * windows.count, 12)
            yield from _cut(windows, datetime(year, place + 1, 1) + offset, datetime(later_year, later + 1, 1) + offset)


def _first_unit(windows: CalendarWindows) -> date:
    """Return the first day of the unit that contains 1 January 1970."""
    day = date(1970, 1, 1)
    while not _begins_unit(windows, day):
        day -= timedelta(days=1)
    return day


def _begins_unit(windows: CalendarWindows, day: date) -> bool:
    return not isinstance(windows, CalendarWeeks) or f"{day:%A}".lower() == windows.first_day


def _cut(windows: CalendarWindows, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the window, or the cumulative windows that start with it and end one step apart."""
    if windows.step is None:
        yield start, end
        return
    last = start
    while last < end:
        if windows.step == "month":
            first = last - timedelta(microseconds=windows.offset)
            last = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
            last += timedelta(microseconds=windows.offset)
        else:
            last += timedelta(hours=1) if windows.step == "hour" else timedelta(days=1)
        yield start, last


@lru_cache
def _days_but(weekend: tuple[str, ...]) -> list[date]:
    """Return all days of a century except weekends."""
    every = (date(1930, 1, 1) + timedelta(days=day) for day in range(36_525))
    return [day for day in every if f"{day:%A}".lower() not in weekend]


@lru_cache(maxsize=8)
def _business_days(weekend: tuple[str, ...], holidays: tuple[str, ...]) -> tuple[list[date], int]:
    """Return all business days of a century, and the index of the first since 1970."""
    off = set(map(date.fromisoformat, holidays))
    found = [day for day in _days_but(weekend) if day not in off]
    return found, bisect_left(found, date(1970, 1, 1))


def _of_business(windows: BusinessDays | BusinessHours, local: datetime) -> Iterator[tuple[datetime, datetime]]:
    days, first = _business_days(windows.weekend, windows.holidays)
    far = timedelta(days=14 + 2 * windows.count)
    for place in range(bisect_right(days, local.date() - far), bisect_left(days, local.date() + far)):
        begin, end = (datetime.combine(days[at], time()) for at in (place, place + windows.count - 1))
        if isinstance(windows, BusinessHours):
            yield begin + timedelta(microseconds=windows.opens), begin + timedelta(microseconds=windows.closes)
        elif (place - first) % windows.every == 0:
            offset = timedelta(microseconds=windows.offset)
            yield begin + offset, end + timedelta(days=1) + offset
