"""The history of look-backs: what settles and when, into which slices, and which parts of it some rows need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.look_back import history
from panestream.engine.operators.look_back.history import RowsByTime, Span, slice_length
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from tests.comparison import look_backs

WINDOWS = LookBackWindows(640)
"""Slices have a length of 10."""
PLAN = look_backs.plan_of(WINDOWS, (agg.count().alias("n"), agg.sum("v").alias("s")), ())
KEYED = PLAN.operator.keyed
INEXACT = look_backs.plan_of(WINDOWS, (agg.sum("x").alias("s"),), ()).operator.keyed


def partials(*times, key="a"):
    """Return one row of a key for each of these times. Its value is its time."""
    values = np.asarray(times, np.int64)
    return KEYED.partials([pa.array([key] * len(times), pa.string())], values, [pa.array(values)], None)


def new_history(keyed=KEYED, longest=640):
    return RowsByTime(SealedState(MemoryState(), 0, PLAN.operator.name), keyed, longest)


def blocks_in(history_):
    """Return (first time, last time, rows) of each block in each store: recent rows, settled rows, slices."""
    return [[(block.low, block.high, block.rows) for block in store.index] for store in history_.stores]


def spans(spans_):
    """Return (store, starts, ends) of each span."""
    return [(span.blocks.space, span.low.tolist(), span.end.tolist()) for span in spans_]


def settled_history(until, *times, needed=-(10**6)):
    """Return a history with rows at these times that is settled up to ``until``."""
    rows_by_time = new_history()
    rows_by_time.add(partials(*times), until - 1, until - 1, needed)
    return rows_by_time


@pytest.mark.parametrize(
    ("keyed", "longest", "length"),
    [(KEYED, 7, 0), (KEYED, 8, 2), (KEYED, 128, 2), (KEYED, 129, 3), (KEYED, 640, 10), (KEYED, 641, 11), (INEXACT, 640, 0)],
)
def test_slice_length_splits_a_look_back_into_at_most_64_slices(keyed, longest, length):
    assert slice_length(keyed, longest) == length
    assert new_history(keyed, longest).kept() == {"slice": length, "settled": -BEYOND_ALL, "plain": []}


@pytest.mark.parametrize(
    ("before", "passed", "until"),
    [
        (0, 28, 20),
        (0, 29, 30),
        (0, 39, 40),
        (-100, 58, 50),  # still small compared with a quarter of the look-back, which is 160
        (-100, 59, 60),
        (-100, 60, None),
        (MIN_TIMESTAMP, 29, None),
        (MIN_TIMESTAMP, MIN_TIMESTAMP, None),
        (MAX_TIMESTAMP, MAX_TIMESTAMP, BEYOND_ALL),
    ],
)
def test_whole_slices_settle_once_the_watermark_passes_them_in_small_steps(before, passed, until):
    rows_by_time = new_history()
    rows_by_time.add(partials(), before, passed, -1000)
    assert rows_by_time.kept()["settled"] == (-BEYOND_ALL if until is None else until)


def test_settled_slice_has_merged_partials_if_they_are_far_fewer_than_its_rows():
    """The first slice has two rows, twice as many as partials. The second slice has one row. The third is not over yet."""
    rows_by_time = new_history()
    rows_by_time.add(partials(1, 3, 14, 21, 22, 25), 0, 24, -100)
    assert blocks_in(rows_by_time) == [[(21, 25, 3)], [(1, 14, 3)], [(0, 0, 1)]]
    assert rows_by_time.kept() == {"slice": 10, "settled": 20, "plain": [1]}
    # The rest of the third slice settles with the next rows. The fourth slice is empty.
    rows_by_time.add(partials(28, 41), 24, 41, -100)
    assert blocks_in(rows_by_time) == [[(41, 41, 1)], [(1, 14, 3), (21, 28, 4)], [(0, 0, 1), (20, 20, 1)]]
    assert rows_by_time.kept() == {"slice": 10, "settled": 40, "plain": [1]}
    (merged,) = rows_by_time.stores[2].read(20, 21)
    assert merged.select(["pane", "rows", "#0.sum"]).to_pylist() == [{"pane": 20, "rows": 4, "#0.sum": 21 + 22 + 25 + 28}]


def test_nothing_settles_twice_while_the_watermark_stays():
    rows_by_time = settled_history(20, 1, 3)
    rows_by_time.add(partials(), 19, 19, -100)
    rows_by_time.add(partials(20), 19, 25, -100)
    assert blocks_in(rows_by_time) == [[(20, 20, 1)], [(1, 3, 2)], [(0, 0, 1)]]


def test_rows_beyond_the_look_back_are_deleted_with_partials_of_cut_slices():
    rows_by_time = settled_history(40, 1, 3, 11, 13, 21, 23, 31, 33, 45)
    assert blocks_in(rows_by_time)[2] == [(0, 30, 4)]
    # A slice that begins before the needed time is never read as a whole.
    cut = settled_history(40, 1, 3, 11, 13, 21, 23, 31, 33, 45, needed=12)
    assert blocks_in(cut) == [[(45, 45, 1)], [(13, 33, 5)], [(20, 30, 2)]]
    at_its_begin = settled_history(40, 1, 3, 11, 13, 21, 23, 31, 33, needed=10)
    assert blocks_in(at_its_begin) == [[], [(11, 33, 6)], [(10, 30, 3)]]
    rows_by_time.add(partials(), 39, 39, 34)
    assert blocks_in(rows_by_time) == [[(45, 45, 1)], [], []]
    rows_by_time.add(partials(), 39, 39, 46)
    assert blocks_in(rows_by_time)[0] == []


def test_list_of_slices_without_partials_drops_expired_slices():
    rows_by_time = settled_history(40, 1, 11, 21, 31)
    assert rows_by_time.kept()["plain"] == [0, 1, 2, 3]
    for needed, plain in ((9, [0, 1, 2, 3]), (10, [1, 2, 3]), (29, [2, 3]), (30, [3]), (40, [])):
        rows_by_time.add(partials(), 39, 39, needed)
        assert rows_by_time.kept()["plain"] == plain


def test_history_resumes_from_saved_counters():
    rows_by_time = settled_history(40, 1, 3, 11)
    again = new_history()
    again.resume(rows_by_time.kept())
    assert again.kept() == rows_by_time.kept() == {"slice": 10, "settled": 40, "plain": [1]}
    again.add(partials(41, 45), 39, 59, 0)
    # Settled rows are not read again.
    assert blocks_in(again) == [[], [(41, 45, 2)], [(40, 40, 1)]]


@pytest.mark.parametrize(("rows", "blocks"), [(1, [8, 8, 8, 8]), (8, [8, 8, 8, 8]), (9, [16, 8, 8]), (17, [24, 8]), (100, [32])])
def test_settled_slices_are_stored_in_blocks_of_a_minimum_size(monkeypatch, rows, blocks):
    monkeypatch.setattr(history, "_BLOCK_ROWS", rows)
    monkeypatch.setattr(history, "_MOST_BLOCKS", 4)
    rows_by_time = settled_history(40, *[10 * slice_ + place for slice_ in range(4) for place in range(8)])
    assert [count for _, _, count in blocks_in(rows_by_time)[1]] == blocks


def test_slices_that_settle_together_are_stored_in_few_blocks(monkeypatch):
    monkeypatch.setattr(history, "_BLOCK_ROWS", 1)
    rows_by_time = settled_history(120, *[10 * slice_ + place for slice_ in range(12) for place in range(8)])
    assert [count for _, _, count in blocks_in(rows_by_time)[1]] == [24, 24, 24, 24]


def test_all_from_returns_one_partial_for_each_key_and_instant():
    rows_by_time = settled_history(20, 1, 3, 14, 25)
    rows_by_time.add(partials(14, 25), 19, 19, 0)
    partials_from = {first: rows_by_time.all_from(first).select(["pane", "rows"]).to_pylist() for first in (1, 2, 25, 26)}
    assert partials_from == {
        # A row at 14 that comes after 14 has settled is late, and is not added.
        1: [{"pane": time, "rows": count} for time, count in ((1, 1), (3, 1), (14, 1), (25, 2))],
        2: [{"pane": time, "rows": count} for time, count in ((3, 1), (14, 1), (25, 2))],
        25: [{"pane": 25, "rows": 2}],
        26: [],
    }


def times(*instants):
    return np.asarray(instants, np.int64)


def test_unsettled_history_is_read_row_by_row():
    rows_by_time = new_history()
    rows_by_time.put(partials(1, 14, 700))
    assert spans(rows_by_time.near(times(700, 660), [LookBackWindows(600, 5), LookBackWindows(640, 2)])) == [
        ("history", [20], [706])
    ]
    assert [table["pane"].to_pylist() for span in rows_by_time.near(times(650), [WINDOWS]) for table in span.scan()] == [[14]]


def test_look_back_within_recent_rows_reads_no_settled_rows():
    rows_by_time = settled_history(20, 1, 3, 14, 25)
    assert spans(rows_by_time.near(times(30), [LookBackWindows(10)])) == [("history", [20], [31])]
    assert spans(rows_by_time.near(times(30), [LookBackWindows(9)])) == [("history", [21], [31])]
    # Nothing before that time has settled.
    empty = settled_history(20, 25)
    assert spans(empty.near(times(30), [LookBackWindows(20)])) == [("history", [20], [31])]


def test_settled_rows_are_read_if_no_slice_has_partials():
    rows_by_time = settled_history(20, 1, 14, 25)
    assert blocks_in(rows_by_time)[2] == []
    assert spans(rows_by_time.near(times(30), [LookBackWindows(25)])) == [("settled", [5], [20]), ("history", [20], [31])]


FULL = [10 * slice_ + place for slice_ in range(10) for place in (2, 4, 6)]
"""Ten slices with three rows each."""


@pytest.mark.parametrize(
    ("at", "windows", "rows", "merged", "recent"),
    [
        # A window that begins in the third slice and ends in the eleventh, which has not settled.
        ([105], LookBackWindows(80), [(25, 30)], [(30, 100)], [(100, 106)]),
        # A window that begins at the start of a slice.
        ([105], LookBackWindows(85), [(20, 30)], [(30, 100)], [(100, 106)]),
        # Two rows whose windows begin in the third and in the fourth slice.
        ([105, 111], LookBackWindows(80), [(25, 40)], [(40, 100)], [(100, 112)]),
        # Two rows further apart: only the first one needs the slices in between.
        ([105, 155], LookBackWindows(80), [(25, 30), (70, 80)], [(30, 70), (80, 100)], [(100, 156)]),
        # A window that ends among settled rows.
        ([55], LookBackWindows(30, 20), [(25, 30), (50, 60), (70, 76)], [(30, 50), (60, 70)], []),
        ([59], LookBackWindows(59, 0), [(0, 10), (50, 60)], [(10, 50)], []),
        # A window that begins before the first row.
        ([105], LookBackWindows(120), [(-15, -10)], [(-10, 100)], [(100, 106)]),
    ],
)
def test_slices_at_window_bounds_are_read_row_by_row_and_others_merged(at, windows, rows, merged, recent):
    rows_by_time = settled_history(100, *FULL)
    read = [list(zip(span.low.tolist(), span.end.tolist(), strict=True)) for span in rows_by_time.near(times(*at), [windows])]
    assert read == [rows, merged, recent]


def test_slices_without_partials_are_read_row_by_row_within_a_window():
    rows_by_time = settled_history(100, *[time for time in FULL if time // 10 not in (5, 6) or time % 10 == 2])
    assert rows_by_time.kept()["plain"] == [5, 6]
    assert spans(rows_by_time.near(times(105), [LookBackWindows(80)])) == [
        ("settled", [25, 50], [30, 70]),
        ("slices", [30, 70], [50, 100]),
        ("history", [100], [106]),
    ]


def test_span_counts_the_rows_of_its_blocks_and_reads_those_inside():
    rows_by_time = settled_history(100, *FULL)
    (blocks,) = (store for store in rows_by_time.stores if store.space == history.SETTLED)
    assert Span(blocks, times(14), times(23)).rows == 30
    assert [table["pane"].to_pylist() for table in Span(blocks, times(14, 94), times(23, 95)).scan()] == [[14, 16, 22, 94]]
    nothing = Span(blocks, times(), times())
    assert (nothing.rows, list(nothing.scan())) == (0, [])
