"""The payloads of a source partition: key groups, refused rows, reports and errors."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.exchange import packing
from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.accumulating.operator import KEPT
from panestream.engine.storage import payload
from panestream.engine.storage.payload import INVALID, REPORT, UNORDERED
from panestream.errors import InvalidEventTimeError
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkStrategy
from tests.engine.exchange.test_exchange import ROWS, plan

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness("0 seconds")
HOUR = 3_600_000_000


def table(times, **more):
    """Return rows whose key is their time and whose value is their number. More columns come after the whole row."""
    numbers = pa.array(range(len(times)), pa.int64())
    times = pa.array(times, pa.int64())
    rows = pa.table([times, numbers], schema=ROWS)
    return pa.table({"time": times, "key": times, "row": rows.to_struct_array(), **more})


def send(recipe, rows_given, origin=0, run="", chunks=None, **positions):
    """Return (kind, header, rows) of each payload, by key group."""
    columns = PackColumns((pa.int64(),), (), **{"row": 2, **positions})
    payloads: dict = {}
    parts = list(pack(recipe, columns, rows_given.to_batches(max_chunksize=chunks), origin, run))
    assert [part.sequence for _, part in parts] == list(range(1, len(parts) + 1))
    assert {part.origin for _, part in parts} <= {origin}
    for group, part in parts:
        rows, header = payload.decode(part.body, dictionaries=True)
        payloads.setdefault(group, []).append((header["kind"], header, rows))
    return payloads


def kinds_by_group(payloads_by_group):
    return {group: [kind for kind, *_ in payloads] for group, payloads in payloads_by_group.items()}


def report(payloads, group=0):
    ((_, header, rows),) = (payload_ for payload_ in payloads[group] if payload_[0] == REPORT)
    assert rows.num_rows == 0
    return {name: value for name, value in header.items() if name not in ("kind", "format")}


def test_every_key_group_gets_a_report_and_its_rows_if_any():
    payloads = send(plan(4), table([5, 6, 9], group=pa.array([2, 0, 2])), 7, "run 3", group=3)
    assert kinds_by_group(payloads) == {0: [KEPT, REPORT], 1: [REPORT], 2: [KEPT, REPORT], 3: [REPORT]}
    expected = {"rows": 3, "history": 0, "invalid": 0, "seen": {"": 9}, "processing_time": 0, "run": "run 3", "watermarks": {}}
    assert [report(payloads, group) for group in range(4)] == [expected] * 4


def test_single_key_group_gets_all_rows_whatever_their_group_numbers():
    payloads = send(plan(1), table([5, 6], group=pa.array([3, 4])), group=3)
    assert kinds_by_group(payloads) == {0: [KEPT, REPORT]}
    assert kinds_by_group(send(plan(3), table([5, 6]))) == {0: [KEPT, REPORT], 1: [REPORT], 2: [REPORT]}


def test_nothing_is_sent_without_rows():
    assert send(plan(2), table([]), group=None) == {}


def test_history_rows_are_reported_but_not_sent():
    payloads = send(replace(plan(2), since=7), table([5, 6], group=pa.array([0, 1])), group=3)
    assert kinds_by_group(payloads) == {0: [REPORT], 1: [REPORT]}
    assert (report(payloads)["rows"], report(payloads)["history"], report(payloads)["seen"]) == (0, 2, {"": 6})


@pytest.mark.parametrize(("origin", "group"), [(0, 0), (2, 2), (3, 0), (7, 1)])
def test_source_partition_decides_which_key_group_gets_invalid_rows(origin, group):
    by_group = send(replace(plan(3), invalid_tag="invalid"), table([None, 2**62, 5], group=pa.array([1, 1, 1])), origin, group=3)
    assert [number for number, payloads in by_group.items() if payloads[0][0] == INVALID] == [group]
    assert by_group[group][0][2].to_pylist() == [{"key": None, "value": 0}, {"key": 2**62, "value": 1}]
    assert (report(by_group)["rows"], report(by_group)["invalid"], report(by_group)["seen"]) == (3, 2, {"": 5})
    # Without whole rows in the input, invalid rows cannot be emitted.
    assert kinds_by_group(send(replace(plan(), invalid_tag="invalid"), table([None]), row=None)) == {0: [REPORT]}


@pytest.mark.parametrize("chunk_rows", [1, packing.CHUNK_ROWS])
def test_event_time_error_counts_all_invalid_rows_and_shows_the_first(monkeypatch, chunk_rows):
    monkeypatch.setattr(packing, "CHUNK_ROWS", chunk_rows)
    with pytest.raises(InvalidEventTimeError) as raised:
        send(replace(plan(), way_out="Do this."), table([1, None, 3, 2**62 + 1]), chunks=1)
    assert str(raised.value) == (
        "2 of 4 rows of a source partition have an unusable event time in 'ts' (null, unreadable, or after the year "
        "140,000): the first has null. Do this."
    )


@pytest.mark.parametrize("chunk_rows", [1, packing.CHUNK_ROWS])
def test_max_ahead_error_shows_the_first_row_and_the_clock(monkeypatch, chunk_rows):
    monkeypatch.setattr(packing, "CHUNK_ROWS", chunk_rows)
    recipe = replace(plan(), watermark=BOUNDED.max_ahead("1 hour"), way_out="Do this.")
    times, clocks = [1, HOUR + 3, HOUR + 6, HOUR + 9], [None, 2, 5, 9]
    with pytest.raises(InvalidEventTimeError) as raised:
        send(recipe, table(times, clock=pa.array(clocks, pa.int64())), chunks=1, processing_time=3)
    assert str(raised.value) == (
        "2 of 4 rows of a source partition have an event time in 'ts' that is more than 1 hour ahead of the clock, the first "
        "1970-01-01T01:00:00.000003Z at 1970-01-01T00:00:00.000002Z: .max_ahead of the watermark strategy refuses it. Do this."
    )


def test_max_ahead_error_without_clock_if_compared_with_other_rows():
    recipe = replace(plan(), watermark=BOUNDED.max_ahead("1 hour", of="rows"), way_out="Do this.")
    with pytest.raises(InvalidEventTimeError) as raised:
        send(recipe, table([1, HOUR + 3, 2]))
    assert str(raised.value) == (
        "1 of 3 rows of a source partition have an event time in 'ts' that is more than 1 hour ahead of the other rows, the first "
        "1970-01-01T01:00:00.000003Z: .max_ahead of the watermark strategy refuses it. Do this."
    )


def test_max_ahead_is_ignored_without_a_user_event_time():
    recipe = replace(plan(), watermark=BOUNDED.max_ahead("1 hour"), event_time=None)
    assert report(send(recipe, table([2 * HOUR])))["seen"] == {"": 2 * HOUR}


def test_max_ahead_of_the_clock_needs_the_clock_in_the_input():
    with pytest.raises(RuntimeError, match="the clock, which was not sent"):
        send(replace(plan(), watermark=BOUNDED.max_ahead("1 hour")), table([1]))


def test_missing_whole_rows_are_an_error_if_the_plan_needs_them():
    with pytest.raises(RuntimeError, match="whole rows are wanted that were not sent"):
        send(plan(), table([1]), row=None)


SIDES = {"left": BOUNDED.max_ahead("1 hour"), "right": BOUNDED, "other": BOUNDED.max_ahead("2 hours")}


@pytest.mark.parametrize(
    ("rows", "invalid"),
    [
        # Each side follows its own strategy. The strategy of one side accepts everything.
        ([("left", HOUR), ("left", HOUR + 1), ("right", 9 * HOUR), ("other", 2 * HOUR), ("other", 2 * HOUR + 1)], [1, 4]),
        ([("left/p", HOUR + 1), ("right/left", HOUR + 1), ("left/q", 3)], [0]),
        ([("right", HOUR + 1), ("left", 1)], []),
        ([("left", HOUR + 1), ("left", HOUR + 2)], [0, 1]),
    ],
)
def test_max_ahead_of_each_stream_follows_its_own_strategy(rows, invalid):
    sides, times = zip(*rows, strict=True)
    recipe = replace(plan(), watermark=WatermarkStrategy.of_sides(SIDES, "side"), invalid_tag="invalid")
    rows_with_sides = table(list(times), side=pa.array(sides), clock=pa.array([0] * len(rows), pa.int64()))
    payloads = send(recipe, rows_with_sides, partition=3, processing_time=4)
    assert [row["value"] for kind, _, part in payloads[0] if kind == INVALID for row in part.to_pylist()] == invalid
    assert [row["row 1"] for kind, _, part in payloads[0] if kind == KEPT for row in part.to_pylist()] == [
        place for place in range(len(rows)) if place not in invalid
    ]


def test_unordered_rows_cross_with_their_arrival_columns():
    recipe = replace(plan(2), arrival=pa.schema([("place", pa.int32()), ("file", pa.string())]))
    rows_with_places = table(
        [5, 6, 7], group=pa.array([1, 0, 1]), file=pa.array(["x", "y", "x"]), place=pa.array([3, 1, 2], pa.int64())
    )
    payloads = send(recipe, rows_with_places, group=3, order=(5, 4))
    assert kinds_by_group(payloads) == {0: [UNORDERED, REPORT], 1: [UNORDERED, REPORT]}
    part = payloads[1][0][2]
    assert part.column(0).type == pa.int32()
    assert [part.column(at).to_pylist() for at in range(part.num_columns)] == [
        [3, 2],
        ["x", "x"],
        [5, 7],
        [5, 7],
        [5, 7],
        [0, 2],
    ]


class Ends(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        output.emit_watermark(timestamp - element.value)


def test_watermarks_of_generators_are_reported():
    recipe = replace(plan(), watermark=WatermarkStrategy.for_generator(Ends))
    payloads = send(recipe, table([10, 10, 11, 3], partition=pa.array(["p", "q", "q", "p"])), partition=3)
    assert report(payloads)["watermarks"] == {"p": 10, "q": 9}
    assert report(payloads)["seen"] == {"p": 10, "q": 11}


def test_processing_time_of_rows_is_reported():
    rows_with_clock = table([1, 2], clock=pa.array([70, 60], pa.int64()))
    assert report(send(plan(), rows_with_clock, processing_time=3))["processing_time"] == 70
    assert report(send(plan(), rows_with_clock))["processing_time"] == 0


def test_chunks_become_separate_tables_at_the_key_group(monkeypatch):
    monkeypatch.setattr(packing, "CHUNK_ROWS", 2)
    parts = [part for _, part in pack(plan(), PackColumns((pa.int64(),), (), row=2), table([1, 2, 3]).to_batches(1))]
    assert [part.sequence for part in parts] == [1, 2, 3]
    assert [kept_rows["row 1"].to_pylist() for kept_rows in gather(plan(), parts).of(KEPT)] == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("sizes", "most", "chunks"),
    [
        ([1, 1, 1, 1, 1], 2, [2, 2, 1]),
        ([1, 1, 1, 1], 2, [2, 2]),
        ([2, 2, 2, 2], 3, [4, 4]),
        ([1, 5, 1], 3, [6, 1]),
        ([0, 1, 0, 2, 0], 9, [3]),
        ([0, 0], 1, []),
        ([], 1, []),
    ],
)
def test_small_batches_are_combined_up_to_the_row_limit(monkeypatch, sizes, most, chunks):
    monkeypatch.setattr(packing, "CHUNK_ROWS", most)
    batches = [pa.record_batch({"n": pa.array([0] * size, pa.int64())}) for size in sizes]
    payloads = list(packing._chunks(batches))
    assert [chunk.num_rows for chunk in payloads] == chunks
    assert all(chunk.column("n").num_chunks == 1 for chunk in payloads)


@pytest.mark.parametrize(("most", "chunks"), [(16, [2, 2, 2, 2, 1]), (17, [3, 3, 3]), (8, [1] * 9), (10_000, [9])])
def test_small_batches_are_combined_up_to_the_byte_limit(monkeypatch, most, chunks):
    monkeypatch.setattr(packing, "CHUNK_BYTES", most)
    batches = [pa.record_batch({"n": pa.array([0], pa.int64())}) for _ in range(9)]
    assert [chunk.num_rows for chunk in packing._chunks(batches)] == chunks


def test_time_zones_are_looked_up_for_an_error_only(monkeypatch):
    """Python finds their names by walking through folders, which takes as long as packing a thousand rows."""
    lookups = []
    monkeypatch.setattr(packing.zoneinfo, "available_timezones", lambda: lookups.append(1) or {"UTC"})
    send(replace(plan(2), invalid_tag="invalid"), table([None, 5], group=pa.array([0, 1])), group=3)
    assert not lookups
    with pytest.raises(InvalidEventTimeError):
        send(plan(2), table([None, 5], group=pa.array([0, 1])), group=3)
    assert lookups
