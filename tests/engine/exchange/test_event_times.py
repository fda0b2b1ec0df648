"""Which event times can be used, what an error says of others, and what is known of those that were seen."""

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
def test_times_that_are_there_and_within_bounds_can_be_used(times, usable):
    found = usable_times(pa.array(times, pa.int64()))
    assert (found if found is None else found.to_pylist()) == usable


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("ts", ""),
        (None, ""),
        ("to_utc_timestamp(ts, 'Europe/Berlin')", ""),
        ("to_utc_timestamp(ts, 'Europe/Berlim')", f" There is no time zone 'Europe/Berlim'; {NEAR}"),
        ("if(a, f(t, 'Europe/Berlin'), f(t, 'Europe/Berlim', 'Asia/None'))", f" There is no time zone 'Europe/Berlim'; {NEAR}"),
    ],
)
def test_a_complaint_says_what_is_there_and_which_time_zone_is_none(written, hint):
    recipe = replace(plan(), event_time=written, way_out="Do this.")
    assert complaint(recipe, "2 of 3 rows have", "the first has null") == (
        f"2 of 3 rows have no usable event time in {written!r} (null, not readable as a time, or beyond the year 140,000): "
        f"the first has null.{hint} Do this."
    )


@pytest.mark.parametrize(
    ("micros", "told"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_500_000, "1970-01-01T00:00:01.500000Z"),
    ],
)
def test_an_instant_in_words(micros, told):
    assert instant(micros) == told


def chunked(values, kind):
    return pa.chunked_array([pa.array(values[:1], kind), pa.array(values[1:], kind)])


def seen(found, times, partitions=None, names=None):
    """Takes note of rows of such times; of them a generator sees the names."""
    column = None if partitions is None else chunked(partitions, pa.string())
    given = names or ["row"] * len(times)
    found.add(chunked(times, pa.int64()), column, lambda: pa.table({"name": given, "n": list(range(len(times)))}))
    return found


def test_the_largest_time_of_all_rows_is_known():
    found = seen(TimesSeen(None), [5, 9, 7])
    assert found.largest == {"": 9}
    assert seen(found, [8, 3]).largest == {"": 9}
    assert seen(found, [-3, 10]).largest == {"": 10}
    assert found.watermarks() == {}


def test_the_largest_time_of_each_partition_is_known():
    """A partition that has no name is one, too."""
    found = seen(TimesSeen(None), [5, 9, 7, 1, 2], ["p", "q", "p", None, None])
    assert found.largest == {"p": 7, "q": 9, "": 2}
    assert seen(found, [6, 12, 3], ["p", "q", "r"]).largest == {"p": 7, "q": 12, "r": 3, "": 2}


def test_rows_are_only_made_whole_for_a_generator():
    def none():
        raise AssertionError("nobody needs them")

    found = TimesSeen(None)
    found.add(chunked([1, 2], pa.int64()), None, none)
    assert found.largest == {"": 2}


class Marked(WatermarkGenerator):
    """A watermark at every row that is a marker; at the end what it was shown, as one number."""

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


def test_a_generator_sees_every_row_with_its_time():
    found = seen(TimesSeen(Marked), [5, 9, 7], names=["row", "row", "marker"])
    assert found.watermarks() == {"": 7}
    found = seen(TimesSeen(Marked), [5, 9, 7], names=["row", "row", "row"])
    assert found.watermarks() == {}
    seen(found, [8, 90], names=["row", "last"])
    assert found.watermarks() == {"": 1005}


def test_each_partition_has_a_generator_of_its_own_for_as_long_as_the_micro_batch_is():
    Marked.made = 0
    names = ["marker", "marker", "row", "last", "marker"]
    found = seen(TimesSeen(Marked), [5, 9, 30, 90, 4], ["p", "q", "r", "r", None], names)
    seen(found, [6, 3], ["p", "r"], ["marker", "row"])
    assert found.watermarks() == {"p": 6, "q": 9, "r": 1003, "": 4}
    assert Marked.made == 4
