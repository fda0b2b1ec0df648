"""Tables of time zones: the changes of every zone, the wall clock on both sides of each kind of change, refusals."""

import struct
import sys
import time
import zoneinfo
from datetime import datetime, timedelta, timezone
from importlib import resources
from pathlib import Path

import pytest
import tzdata

from panestream.errors import InvalidWindowError
from panestream.windowing.zones import DAY, PERIOD, TABLE_END, ZoneRules, _version, rules_of

HOUR = DAY // 24
SECOND = 1_000_000
UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def in_the_file(zone: str) -> list[tuple[int, int]]:
    """Return the changes that the compiled file of a zone lists: second and new offset. (RFC 8536, version 2 and later.)"""
    paths = [Path(folder) / zone for folder in zoneinfo.TZPATH]
    known = next((path.read_bytes() for path in paths if path.is_file()), None)
    data = known or resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()
    utc, standard, leaps, times, types, letters = struct.unpack(">6l", data[20:44])
    place = 44 + times * 5 + types * 6 + letters + leaps * 8 + standard + utc
    *_, times, types, _ = struct.unpack(">6l", data[place + 20 : place + 44])
    place += 44
    seconds = struct.unpack(f">{times}q", data[place : place + 8 * times])
    kinds = data[place + 8 * times : place + 9 * times]
    offsets = [struct.unpack(">l", data[place + 9 * times + 6 * kind :][:4])[0] for kind in range(types)]
    return [(second, offsets[kind]) for second, kind in zip(seconds, kinds, strict=True)]


ZONES = [
    "America/New_York",
    "Pacific/Apia",
    "Asia/Manila",
    "Africa/Casablanca",
    "Asia/Gaza",
    "America/Juneau",
    "Africa/Freetown",
    "Asia/Anadyr",
]


@pytest.mark.parametrize("zone", ZONES)
def test_table_has_every_change_in_the_file_of_the_zone(zone):
    rules = rules_of.__wrapped__(zone)  # bypass the cache
    expected, before = [], rules.offsets[0] // SECOND
    for second, offset in in_the_file(zone):
        if offset != before:
            expected.append((second, offset))
        before = offset
    found = [(change // SECOND, offset // SECOND) for change, offset in zip(rules.changes, rules.offsets[1:], strict=True)]
    assert found[: len(expected)] == expected
    assert len(expected) > 3


def test_table_does_not_depend_on_the_zone_of_the_machine(monkeypatch):
    expected = rules_of.__wrapped__("America/New_York")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        found = rules_of.__wrapped__("America/New_York")
    time.tzset()
    assert (found.changes, found.offsets) == (expected.changes, expected.offsets)


def test_shown_time_never_goes_back():
    """The clock moves forward by three, back by two, and soon back by five, when it has already shown a later time."""
    rules = ZoneRules("Mars/Base", "1", (100, 200, 201), (10, 13, 11, 6))
    assert rules.shown == (110, 213, 213)
    shows = {99: 109, 100: 113, 199: 212, 200: 212, 201: 212, 206: 212, 207: 213}
    assert {instant: rules.wall(instant) for instant in shows} == shows


@pytest.mark.parametrize(
    ("zone", "instant", "wall"),
    [
        ("America/New_York", "2025-03-09T06:59:59.999999", "2025-03-09T01:59:59.999999"),
        ("America/New_York", "2025-03-09T07:00", "2025-03-09T03:00"),  # moves forward
        ("America/New_York", "2025-11-02T05:59:59.999999", "2025-11-02T01:59:59.999999"),
        ("America/New_York", "2025-11-02T06:00", "2025-11-02T01:59:59.999999"),  # moves back, so the shown time stops
        ("America/New_York", "2025-11-02T06:59:59", "2025-11-02T01:59:59.999999"),
        ("America/New_York", "2025-11-02T07:00", "2025-11-02T02:00"),
        ("America/Sao_Paulo", "2018-11-04T02:59:59", "2018-11-03T23:59:59"),
        ("America/Sao_Paulo", "2018-11-04T03:00", "2018-11-04T01:00"),  # midnight is skipped
        ("America/Sao_Paulo", "2018-02-18T02:30", "2018-02-17T23:59:59.999999"),  # the last hour of the day comes twice
        ("America/St_Johns", "2010-11-07T02:30:30", "2010-11-07T00:00:30"),
        ("America/St_Johns", "2010-11-07T02:31", "2010-11-07T00:00:59.999999"),  # moves back from 00:01 to the day before
        ("Australia/Lord_Howe", "2024-10-05T15:30", "2024-10-06T02:30"),  # by half an hour
        ("Pacific/Apia", "2011-12-30T09:59:59", "2011-12-29T23:59:59"),
        ("Pacific/Apia", "2011-12-30T10:00", "2011-12-31T00:00"),  # a whole day is skipped
        ("America/New_York", "1883-11-18T16:59:59", "1883-11-18T12:03:57"),  # local solar time
        ("America/New_York", "1750-01-01T12:00", "1750-01-01T07:03:58"),
        ("America/New_York", "2425-07-01T12:00", "2425-07-01T08:00"),
        ("America/New_York", "9000-07-01T12:00", "9000-07-01T08:00"),
    ],
)
def test_wall_clock_at_an_instant(zone, instant, wall):
    assert rules_of(zone).wall(at(instant)) == at(wall)


@pytest.mark.parametrize(
    ("zone", "wall", "instant"),
    [
        ("America/New_York", "2025-03-09T02:00", "2025-03-09T07:00"),
        ("America/New_York", "2025-03-09T02:30", "2025-03-09T07:00"),
        ("America/New_York", "2025-03-09T03:00", "2025-03-09T07:00"),
        ("America/New_York", "2025-11-02T01:30", "2025-11-02T05:30"),
        ("America/New_York", "2025-11-02T02:00", "2025-11-02T07:00"),
        ("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00"),
        ("America/Sao_Paulo", "2018-02-18T00:00", "2018-02-18T03:00"),
        ("America/St_Johns", "2010-11-07T00:00", "2010-11-07T02:30"),
        ("Pacific/Apia", "2011-12-30T00:00", "2011-12-30T10:00"),
        ("Pacific/Apia", "2011-12-31T00:00", "2011-12-30T10:00"),
        ("Europe/Berlin", "3000-07-01T00:00", "3000-06-30T22:00"),
    ],
)
def test_instant_at_which_the_wall_clock_first_shows_a_time(zone, wall, instant):
    assert rules_of(zone).instant(at(wall)) == at(instant)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "begin", ["1844-12-30", "1883-11-18", "1939-09-01", "2011-12-29", "2040-10-19", "2499-12-30", "2899-03-01"]
)
def test_wall_clock_is_monotonic_and_agrees_with_instants(zone, begin):
    rules = rules_of(zone)
    instants = [at(begin) + step * HOUR // 2 - minus for step in range(200) for minus in (1, 0)]
    walls = [rules.wall(instant) for instant in instants]
    assert walls == sorted(walls)
    for instant, wall in zip(instants, walls, strict=True):
        first = rules.instant(wall)
        assert first <= instant
        assert rules.wall(first) >= wall > rules.wall(first - 1)


def test_rules_repeat_after_the_end_of_the_table():
    rules = rules_of("Europe/Berlin")
    for instant in range(TABLE_END - 400 * DAY, TABLE_END + 400 * DAY, 11 * DAY + HOUR):
        assert rules.wall(instant + PERIOD) == rules.wall(instant) + PERIOD
        assert rules.instant(instant + 3 * PERIOD) == rules.instant(instant) + 3 * PERIOD


def test_rules_have_a_version():
    assert rules_of("Europe/Berlin").version != "unknown"
    assert rules_of("Europe/Berlin").version[:2] == "20"


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"Europe/Berlin": "", "tzdata.zi": "# version 2031x\n# of rules"}, "2031x"),
        ({"Europe/Berlin": "", "+VERSION": "2031y\n"}, "2031y"),
        ({"Europe/Berlin": "", "+VERSION": ""}, "unknown"),
        ({"Europe/Berlin": ""}, "unknown"),
        ({"Europe/Bern": "", "+VERSION": "2031y\n"}, tzdata.IANA_VERSION),
    ],
)
def test_version_comes_from_the_folder_of_the_zone(tmp_path, files, version):
    (tmp_path / "Europe").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath([tmp_path])
        assert _version("Europe/Berlin") == version
    finally:
        zoneinfo.reset_tzpath(before)


def test_version_is_unknown_without_zone_data(monkeypatch, tmp_path):
    before = zoneinfo.TZPATH
    monkeypatch.setitem(sys.modules, "tzdata", None)
    try:
        zoneinfo.reset_tzpath([tmp_path])
        assert _version("Europe/Berlin") == "unknown"
    finally:
        zoneinfo.reset_tzpath(before)


@pytest.mark.parametrize("zone", ["Europe/Berln", "", "+08:00", "../../etc/passwd", 8])
def test_unknown_zone_is_refused(zone):
    with pytest.raises(InvalidWindowError):
        rules_of(zone)
    with pytest.raises(InvalidWindowError, match="did you mean 'Europe/Berlin'"):
        rules_of("Europe/Berln")


@pytest.mark.parametrize(
    ("zone", "meant"),
    [
        ("GMT+8", "Etc/GMT-8"),
        ("UTC-03:00", "Etc/GMT+3"),
        ("+0530", None),
        ("utc", "UTC"),
        ("europe/berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
    ],
)
def test_error_for_an_unknown_zone_suggests_a_similar_one(zone, meant):
    with pytest.raises(InvalidWindowError) as error:
        rules_of(zone)
    assert (f"did you mean {meant!r}?" in str(error.value)) if meant else ("did you mean" not in str(error.value))
