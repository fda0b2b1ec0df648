"""What the history settles and when, into which panes, and what of it some rows need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.look_back import history
from panestream.engine.operators.look_back.history import RowsByTime, Span, pane_length
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from tests.comparison import look_backs

WINDOWS = LookBackWindows(640)
"""Panes are ten long."""
PLAN = look_backs.plan_of(WINDOWS, (agg.count().alias("n"), agg.sum("v").alias("s")), ())
KEYED = PLAN.operator.keyed
INEXACT = look_backs.plan_of(WINDOWS, (agg.sum("x").alias("s"),), ()).operator.keyed


def partials(*times, key="a"):
    """A row of one key at each of these times; its value is the time."""
    given = np.asarray(times, np.int64)
    return KEYED.partials([pa.array([key] * len(times), pa.string())], given, [pa.array(given)], None)


def new(keyed=KEYED, longest=640):
    return RowsByTime(SealedState(MemoryState(), 0, PLAN.operator.name), keyed, longest)


def rests(found):
    """The times of the first and the last partial of each block, and how many there are: of the recent, the settled, the panes."""
    return [[(block.low, block.high, block.rows) for block in store.index] for store in found.stores]


def spans(found):
    """Of each span of time what it is of, where it begins and ends."""
    return [(span.blocks.space, span.low.tolist(), span.end.tolist()) for span in found]


def settled(until, *times, needed=-(10**6)):
    """A history with rows at these times, settled up to one."""
    found = new()
    found.add(partials(*times), until - 1, until - 1, needed)
    return found


@pytest.mark.parametrize(
    ("keyed", "longest", "length"),
    [(KEYED, 7, 0), (KEYED, 8, 2), (KEYED, 128, 2), (KEYED, 129, 3), (KEYED, 640, 10), (KEYED, 641, 11), (INEXACT, 640, 0)],
)
def test_slices_are_so_long_that_at_most_64_make_a_look_back(keyed, longest, length):
    assert pane_length(keyed, longest) == length
    assert new(keyed, longest).kept() == {"slice": length, "settled": -BEYOND_ALL, "plain": []}


@pytest.mark.parametrize(
    ("before", "passed", "until"),
    [
        (0, 28, 20),
        (0, 29, 30),
        (0, 39, 40),
        (-100, 58, 50),  # just small beside the look-back: a quarter of it is 160
        (-100, 59, 60),
        (-100, 60, None),
        (MIN_TIMESTAMP, 29, None),
        (MIN_TIMESTAMP, MIN_TIMESTAMP, None),
        (MAX_TIMESTAMP, MAX_TIMESTAMP, BEYOND_ALL),
    ],
)
def test_whole_slices_that_time_has_passed_settle_where_it_moved_little(before, passed, until):
    found = new()
    found.add(partials(), before, passed, -1000)
    assert found.kept()["settled"] == (-BEYOND_ALL if until is None else until)


def test_what_settles_rests_in_its_slices_and_as_one_partial_of_each_where_these_are_far_fewer():
    """In the first pane are two rows, twice as many as it has partials; in the second one; the third is not over."""
    found = new()
    found.add(partials(1, 3, 14, 21, 22, 25), 0, 24, -100)
    assert rests(found) == [[(21, 25, 3)], [(1, 14, 3)], [(0, 0, 1)]]
    assert found.kept() == {"slice": 10, "settled": 20, "plain": [1]}
    # The rest of the third settles with what comes later; of the fourth nothing is there.
    found.add(partials(28, 41), 24, 41, -100)
    assert rests(found) == [[(41, 41, 1)], [(1, 14, 3), (21, 28, 4)], [(0, 0, 1), (20, 20, 1)]]
    assert found.kept() == {"slice": 10, "settled": 40, "plain": [1]}
    (merged,) = found.stores[2].read(20, 21)
    assert merged.select(["pane", "rows", "#0.sum"]).to_pylist() == [{"pane": 20, "rows": 4, "#0.sum": 21 + 22 + 25 + 28}]


def test_time_that_stands_still_settles_nothing_again():
    found = settled(20, 1, 3)
    found.add(partials(), 19, 19, -100)
    found.add(partials(20), 19, 25, -100)
    assert rests(found) == [[(20, 20, 1)], [(1, 3, 2)], [(0, 0, 1)]]


def test_what_nobody_looks_back_to_goes_and_slices_that_have_lost_rows_have_no_partials():
    found = settled(40, 1, 3, 11, 13, 21, 23, 31, 33, 45)
    assert rests(found)[2] == [(0, 30, 4)]
    # Of a pane that begins before what is needed never all is read.
    cut = settled(40, 1, 3, 11, 13, 21, 23, 31, 33, 45, needed=12)
    assert rests(cut) == [[(45, 45, 1)], [(13, 33, 5)], [(20, 30, 2)]]
    at_its_begin = settled(40, 1, 3, 11, 13, 21, 23, 31, 33, needed=10)
    assert rests(at_its_begin) == [[], [(11, 33, 6)], [(10, 30, 3)]]
    found.add(partials(), 39, 39, 34)
    assert rests(found) == [[(45, 45, 1)], [], []]
    found.add(partials(), 39, 39, 46)
    assert rests(found)[0] == []


def test_which_slices_have_no_partials_is_forgotten_when_they_are_over():
    found = settled(40, 1, 11, 21, 31)
    assert found.kept()["plain"] == [0, 1, 2, 3]
    for needed, plain in ((9, [0, 1, 2, 3]), (10, [1, 2, 3]), (29, [2, 3]), (30, [3]), (40, [])):
        found.add(partials(), 39, 39, needed)
        assert found.kept()["plain"] == plain


def test_it_goes_on_from_what_it_kept():
    found = settled(40, 1, 3, 11)
    again = new()
    again.resume(found.kept())
    assert again.kept() == found.kept() == {"slice": 10, "settled": 40, "plain": [1]}
    again.add(partials(41, 45), 39, 59, 0)
    # What had settled is not looked at again.
    assert rests(again) == [[], [(41, 45, 2)], [(40, 40, 1)]]


@pytest.mark.parametrize(("rows", "blocks"), [(1, [8, 8, 8, 8]), (8, [8, 8, 8, 8]), (9, [16, 8, 8]), (17, [24, 8]), (100, [32])])
def test_slices_lie_in_blocks_of_so_many_rows_at_least(monkeypatch, rows, blocks):
    monkeypatch.setattr(history, "_BLOCK_ROWS", rows)
    monkeypatch.setattr(history, "_MOST_BLOCKS", 4)
    found = settled(40, *[10 * slice_ + place for slice_ in range(4) for place in range(8)])
    assert [count for _, _, count in rests(found)[1]] == blocks


def test_what_settles_at_once_lies_in_few_blocks(monkeypatch):
    monkeypatch.setattr(history, "_BLOCK_ROWS", 1)
    found = settled(120, *[10 * slice_ + place for slice_ in range(12) for place in range(8)])
    assert [count for _, _, count in rests(found)[1]] == [24, 24, 24, 24]


def test_all_from_a_time_is_one_partial_for_each_key_and_instant():
    found = settled(20, 1, 3, 14, 25)
    found.add(partials(14, 25), 19, 19, 0)
    taken = {first: found.all_from(first).select(["pane", "rows"]).to_pylist() for first in (1, 2, 25, 26)}
    assert taken == {
        # A row that came at 14 when this had settled is late, and none: nobody adds it.
        1: [{"pane": time, "rows": count} for time, count in ((1, 1), (3, 1), (14, 1), (25, 2))],
        2: [{"pane": time, "rows": count} for time, count in ((3, 1), (14, 1), (25, 2))],
        25: [{"pane": 25, "rows": 2}],
        26: [],
    }


def times(*given):
    return np.asarray(given, np.int64)


def test_of_a_history_that_has_not_settled_the_look_backs_are_read_as_they_are():
    found = new()
    found.put(partials(1, 14, 700))
    assert spans(found.near(times(700, 660), [LookBackWindows(600, 5), LookBackWindows(640, 2)])) == [("history", [20], [706])]
    assert [table["pane"].to_pylist() for span in found.near(times(650), [WINDOWS]) for table in span.scan()] == [[14]]


def test_what_needs_nothing_that_has_settled_reads_what_is_recent():
    found = settled(20, 1, 3, 14, 25)
    assert spans(found.near(times(30), [LookBackWindows(10)])) == [("history", [20], [31])]
    assert spans(found.near(times(30), [LookBackWindows(9)])) == [("history", [21], [31])]
    # Nothing has settled up to there.
    empty = settled(20, 25)
    assert spans(empty.near(times(30), [LookBackWindows(20)])) == [("history", [20], [31])]


def test_where_no_slice_has_partials_rows_are_read():
    found = settled(20, 1, 14, 25)
    assert rests(found)[2] == []
    assert spans(found.near(times(30), [LookBackWindows(25)])) == [("settled", [5], [20]), ("history", [20], [31])]


FULL = [10 * slice_ + place for slice_ in range(10) for place in (2, 4, 6)]
"""Ten panes with three rows each."""


@pytest.mark.parametrize(
    ("at", "windows", "rows", "merged", "recent"),
    [
        # A window that begins in the third pane and ends in the eleventh, which is none yet.
        ([105], LookBackWindows(80), [(25, 30)], [(30, 100)], [(100, 106)]),
        # One that begins where a pane does.
        ([105], LookBackWindows(85), [(20, 30)], [(30, 100)], [(100, 106)]),
        # Two rows whose windows begin in the third pane and in the fourth.
        ([105, 111], LookBackWindows(80), [(25, 40)], [(40, 100)], [(100, 112)]),
        # And further apart: those between are needed by the first alone.
        ([105, 155], LookBackWindows(80), [(25, 30), (70, 80)], [(30, 70), (80, 100)], [(100, 156)]),
        # A window that ends in what has settled.
        ([55], LookBackWindows(30, 20), [(25, 30), (50, 60), (70, 76)], [(30, 50), (60, 70)], []),
        ([59], LookBackWindows(59, 0), [(0, 10), (50, 60)], [(10, 50)], []),
        # It begins before there is anything.
        ([105], LookBackWindows(120), [(-15, -10)], [(-10, 100)], [(100, 106)]),
    ],
)
def test_slices_in_which_windows_begin_and_end_are_read_row_by_row_and_others_as_one(at, windows, rows, merged, recent):
    found = settled(100, *FULL)
    read = [list(zip(span.low.tolist(), span.end.tolist(), strict=True)) for span in found.near(times(*at), [windows])]
    assert read == [rows, merged, recent]


def test_slices_without_partials_are_read_row_by_row_wherever_they_are():
    found = settled(100, *[time for time in FULL if time // 10 not in (5, 6) or time % 10 == 2])
    assert found.kept()["plain"] == [5, 6]
    assert spans(found.near(times(105), [LookBackWindows(80)])) == [
        ("settled", [25, 50], [30, 70]),
        ("slices", [30, 70], [50, 100]),
        ("history", [100], [106]),
    ]


def test_of_a_span_the_rows_of_its_blocks_are_counted_and_those_in_it_read():
    found = settled(100, *FULL)
    (blocks,) = (store for store in found.stores if store.space == history.SETTLED)
    assert Span(blocks, times(14), times(23)).rows == 30
    assert [table["pane"].to_pylist() for table in Span(blocks, times(14, 94), times(23, 95)).scan()] == [[14, 16, 22, 94]]
    nothing = Span(blocks, times(), times())
    assert (nothing.rows, list(nothing.scan())) == (0, [])
