"""Usable event times, the error about other ones, and the record of times that were seen."""

from __future__ import annotations

import zoneinfo
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.exchange.packing import LARGEST_TIME, TimesSeen, complaint, instant, usable_times
from panestream.errors import did_you_mean
from panestream.windowing.watermarks import WatermarkGenerator
from tests.engine.exchange.test_exchange import plan

NEAR = did_you_mean("Europe/Berlim", zoneinfo.available_timezones())


@pytest.mark.parametrize(
    ("times", "usable"),
    [
        ([], None),
        ([0, -5, 5], None),
        ([LARGEST_TIME - 1, 1 - LARGEST_TIME], None),
        ([LARGEST_TIME - 1, LARGEST_TIME], [True, False]),
        ([1 - LARGEST_TIME, -LARGEST_TIME, 3], [True, False, True]),
        ([2**63 - 1, -(2**63), 0], [False, False, True]),
        ([1, None, 2], [True, False, True]),
        ([None, None], [False, False]),
        ([None, LARGEST_TIME, 7], [False, False, True]),
    ],
)
def test_null_times_and_times_out_of_bounds_are_unusable(times, usable):
    actual = usable_times(pa.array(times, pa.int64()))
    assert (actual if actual is None else actual.to_pylist()) == usable


@pytest.mark.parametrize(
    ("event_time", "hint"),
    [
        ("ts", ""),
        (None, ""),
        ("to_utc_timestamp(ts, 'Europe/Berlin')", ""),
        ("to_utc_timestamp(ts, 'Europe/Berlim')", f" There is no time zone 'Europe/Berlim'; {NEAR}"),
        ("if(a, f(t, 'Europe/Berlin'), f(t, 'Europe/Berlim', 'Asia/None'))", f" There is no time zone 'Europe/Berlim'; {NEAR}"),
    ],
)
def test_error_shows_the_event_time_and_suggests_a_time_zone(event_time, hint):
    recipe = replace(plan(), event_time=event_time, way_out="Do this.")
    assert complaint(recipe, "2 of 3 rows have", "the first has null") == (
        f"2 of 3 rows have an unusable event time in {event_time!r} (null, unreadable, or after the year 140,000): "
        f"the first has null.{hint} Do this."
    )


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_500_000, "1970-01-01T00:00:01.500000Z"),
    ],
)
def test_instant_is_written_in_iso_format(micros, text):
    assert instant(micros) == text


def in_two_chunks(values, kind):
    return pa.chunked_array([pa.array(values[:1], kind), pa.array(values[1:], kind)])


def add_rows(times_seen, times, partitions=None, names=None):
    """Record rows with these times. A generator sees the names."""
    column = None if partitions is None else in_two_chunks(partitions, pa.string())
    names_ = names or ["row"] * len(times)
    times_seen.add(in_two_chunks(times, pa.int64()), column, lambda: pa.table({"name": names_, "n": list(range(len(times)))}))
    return times_seen


def test_largest_time_of_all_rows():
    times_seen = add_rows(TimesSeen(None), [5, 9, 7])
    assert times_seen.largest == {"": 9}
    assert add_rows(times_seen, [8, 3]).largest == {"": 9}
    assert add_rows(times_seen, [-3, 10]).largest == {"": 10}
    assert times_seen.watermarks() == {}


def test_largest_time_of_each_partition():
    """Rows without a partition name form a partition too."""
    times_seen = add_rows(TimesSeen(None), [5, 9, 7, 1, 2], ["p", "q", "p", None, None])
    assert times_seen.largest == {"p": 7, "q": 9, "": 2}
    assert add_rows(times_seen, [6, 12, 3], ["p", "q", "r"]).largest == {"p": 7, "q": 12, "r": 3, "": 2}


def test_whole_rows_are_built_only_for_a_generator():
    def none():
        raise AssertionError("nobody needs them")

    times_seen = TimesSeen(None)
    times_seen.add(in_two_chunks([1, 2], pa.int64()), None, none)
    assert times_seen.largest == {"": 2}


class Marked(WatermarkGenerator):
    """Emits a watermark for each marker row. At the end it emits the rows it has seen, as one number."""

    made = 0

    def __init__(self):
        Marked.made += 1
        self.shown = []

    def on_event(self, element, timestamp, output):
        self.shown.append((element.name, timestamp))
        if element.name == "marker":
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output):
        if ("last", 90) in self.shown:
            output.emit_watermark(1000 + len(self.shown))


def test_generator_sees_every_row_with_its_time():
    times_seen = add_rows(TimesSeen(Marked), [5, 9, 7], names=["row", "row", "marker"])
    assert times_seen.watermarks() == {"": 7}
    times_seen = add_rows(TimesSeen(Marked), [5, 9, 7], names=["row", "row", "row"])
    assert times_seen.watermarks() == {}
    add_rows(times_seen, [8, 90], names=["row", "last"])
    assert times_seen.watermarks() == {"": 1005}


def test_each_partition_has_one_generator_per_micro_batch():
    Marked.made = 0
    names = ["marker", "marker", "row", "last", "marker"]
    times_seen = add_rows(TimesSeen(Marked), [5, 9, 30, 90, 4], ["p", "q", "r", "r", None], names)
    add_rows(times_seen, [6, 3], ["p", "r"], ["marker", "row"])
    assert times_seen.watermarks() == {"p": 6, "q": 9, "r": 1003, "": 4}
    assert Marked.made == 4
