"""The look-back operator: what rests and for how long, what it reads for a few rows, and its limit of memory."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from panestream.engine.explain import explain_plan
from panestream.engine.operators.look_back import history
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import MemoryLimitError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import LookBackWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import format_duration
from tests.comparison import harness, look_backs

COUNT = (agg.count().alias("n"), agg.sum("v").alias("s"))


def process(plan, state, rows, **more):
    given = harness.group_input(plan, harness.MicroBatch([rows], **more))
    return plan.operator.for_group(plan, state, 0).process(given)


def micros(instant):
    return (instant - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)


def minute(number, keys="abcdefgh"):
    """Rows of one minute, a hundred for each key; time is in seconds."""
    return [(key, 60 * number + second, 1, None, second) for key in keys for second in range(60)]


def test_what_no_row_can_look_back_to_goes():
    plan, state, sizes = look_backs.plan_of(LookBackWindows(120), COUNT, ("ts",), 5), MemoryState(), []
    for number in range(40):
        output = process(plan, state, minute(number))
        sizes.append(sum(map(len, state.values.values())))
        assert output.metrics.kept_windows == 8 * 6  # rows of the last seconds wait: those behind the watermark are out
    assert max(sizes[20:]) <= 1.01 * max(sizes[:20])  # numbers of blocks have more digits
    tables = plan.operator.for_group(plan, state, 0).tables().tables
    assert min(tables["history"]["time"].to_pylist()) == 40 * 60 - 1 - 6 + 1 - 120
    assert tables["waiting"].num_rows == 8 * 6


def test_the_history_of_other_keys_is_left_out_where_few_rows_ask():
    plan, state = look_backs.plan_of(LookBackWindows(10_000), COUNT, ("ts",)), MemoryState()
    for number in range(5):
        process(plan, state, minute(number))
    limited = replace(plan, most_bytes=20_000)
    with pytest.raises(MemoryLimitError, match="what its rows look back to"):
        process(limited, MemoryState(dict(state.values)), minute(5))
    # Of one key the history is small enough.
    process(plan, state, [("a", 400, 1, None, 1)])
    found = process(limited, state, [("a", 402, 1, None, 2)])
    assert [row for _, table in found.tables for row in harness.rows_of(plan, table)] == [(("a",), (400, 301, 301))]


def test_what_a_row_right_behind_the_watermark_looks_back_to_is_there():
    """The watermark is 9: the next row may be at 10, and looks back to 0."""
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("ts",)), MemoryState()
    process(plan, state, [("a", 0, 1, None, 1), ("b", 10, 1, None, 1)])
    found = process(plan, state, [("a", 10, 1, None, 2), ("b", 30, 1, None, 2)])
    assert (("a",), (10, 2, 2)) in [row for _, table in found.tables for row in harness.rows_of(plan, table)]


def test_a_row_right_behind_the_watermark_waits_however_often_blocks_are_merged():
    """The watermark is 9, and so it stays while rows at 10 come in many micro-batches."""
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("ts",)), MemoryState()
    process(plan, state, [("b", 10, 1, None, 1)])
    for number in range(20):
        assert not process(plan, state, [("a", 10, 1, None, number)]).tables
    found = process(plan, state, [("b", 30, 1, None, 2)])
    rows = [row for _, table in found.tables for row in harness.rows_of(plan, table)]
    assert rows.count((("a",), (10, 20, 20))) == 20


@pytest.mark.parametrize(("watermark", "emitted"), [(18, []), (19, []), (20, [20]), (21, [20, 21])])
def test_rows_that_wait_come_out_when_the_watermark_is_at_them_and_once(watermark, emitted):
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("ts",), delay=100), MemoryState()
    process(plan, state, [("a", 20, 1, None, 1), ("a", 21, 1, None, 2)])

    def times(newest):
        found = process(plan, state, [("b", newest, 1, None, 3)])
        return [row[1][0] for _, table in found.tables for row in harness.rows_of(plan, table)]

    # A watermark is one less than the newest row less the delay.
    assert times(watermark + 101) == emitted
    assert times(1_000) == [time for time in (20, 21, watermark + 101) if time not in emitted and time <= 899]


def test_rows_that_wait_are_shown_as_they_came():
    plan, state = look_backs.plan_of(LookBackWindows(10, 5), COUNT, ("u", "v"), 100), MemoryState()
    process(plan, state, [("a", 5, 1, None, 7), ("b", 3, 2, None, 8)])
    process(plan, state, [("a", 4, None, None, 9)])
    saved = plan.operator.for_group(plan, state, 0).tables()
    found = plan.operator.views(plan, saved, 0).elements.to_pylist()
    shown = {
        row["place"]: (
            row["key"]["key"],
            micros(row["time"]),
            [(micros(held["start"]), micros(held["end"])) for held in row["windows"]],
            row["element"],
        )
        for row in found
    }
    assert shown == {
        0: ("a", 5, [(-5, 11)], {"u": 7, "v": 1}),
        1: ("b", 3, [(-7, 9)], {"u": 8, "v": 2}),
        2: ("a", 4, [(-6, 10)], {"u": 9, "v": None}),
    }
    assert saved.header["counters"] == {"largest": {"arrived": 3}}


@pytest.mark.parametrize("seed", range(20))
def test_slices_at_the_edges_of_windows_are_read_row_by_row(seed):
    """Of rows in several panes: where each row lies, and where its window begins and ends."""
    rng = np.random.default_rng(seed)
    windows = [LookBackWindows(*(int(each) for each in rng.integers(0, 300, 2))) for _ in range(rng.integers(1, 3))]
    plan = look_backs.plan_of(windows[0], NARROW, ())
    read = history.RowsByTime(SealedState(MemoryState(), 0, plan.operator.name), plan.operator.keyed, HOUR)
    read._length = length = int(rng.integers(2, 90))
    times = rng.integers(-500, 500, rng.integers(1, 6))
    edges = set(read._edges(times, windows).tolist())
    for time in times.tolist():
        wanted = {time // length, *((time + shift) // length for one in windows for shift in (-one.size, one.following))}
        assert wanted <= edges, (seed, time, windows, length)


SECOND = 20
HOUR = 3600 * SECOND
NARROW = (agg.count().alias("n"), agg.sum("v").alias("s"), agg.max("v").alias("m"), agg.last("v").alias("l"))


def seconds(number, count=1, keys="abcd"):
    """Rows of some seconds, one of each key in each twentieth of a second."""
    times = range(number * SECOND, (number + count) * SECOND)
    return [(key, time, time % 97, None, time) for time in times for key in keys]


def after_an_hour(aggregates):
    """A query with an hour of rows that come a minute at a time, and its state."""
    plan, state = look_backs.plan_of(LookBackWindows(HOUR), aggregates, ("ts",), SECOND), MemoryState()
    for number in range(0, 3660, 60):
        process(plan, state, seconds(number, 60))
    return plan, state


def test_a_micro_batch_of_a_second_reads_slices_and_not_the_hour():
    plan, state = after_an_hour(NARROW)
    read, kept = [], 0
    for number in range(3660, 3660 + 130):  # more than two panes pass
        metrics = process(plan, state, seconds(number)).metrics
        read.append(metrics.bytes_read)
        kept = max(kept, metrics.state_bytes)
    a_pane = kept / history._IN_A_LOOK_BACK
    assert max(read) < 6 * a_pane, (max(read), kept)  # where a pane is settled, and runs are merged
    assert sum(read) / len(read) < 4 * a_pane
    assert metrics.state_calls < 60


@pytest.mark.full
def test_what_does_not_merge_exactly_is_read_row_by_row():
    plan, state = after_an_hour((agg.sum("x").alias("s"), *NARROW[:1]))
    metrics = process(plan, state, seconds(3660)).metrics
    assert metrics.bytes_read > 0.9 * metrics.state_bytes
    assert not [key for space, key in state.values if space != history.RECENT and space in (history.SETTLED, history.MERGED)]


@pytest.mark.full
def test_rows_that_lie_apart_read_the_slices_of_each():
    plan, state = look_backs.plan_of(LookBackWindows(HOUR, HOUR), NARROW, ("ts",), SECOND), MemoryState()
    for number in range(0, 2 * 3600, 60):
        process(plan, state, seconds(number, 60))
    # Nothing comes for half an hour but two rows; they wait for what follows an hour later.
    process(plan, state, [("a", 7200 * SECOND, 1, None, 1), ("a", 9000 * SECOND, 1, None, 2)])
    process(plan, state, [("b", 10_801 * SECOND + SECOND, 1, None, 3)])
    metrics = process(plan, state, [("b", 12_602 * SECOND + SECOND, 1, None, 3)]).metrics
    assert metrics.fired_rows == 1
    assert metrics.bytes_read < metrics.state_bytes / 4


def test_a_pane_in_which_keys_have_few_rows_has_no_partials():
    plan, state = look_backs.plan_of(LookBackWindows(HOUR), NARROW, ("ts",)), MemoryState()
    for minute_ in range(100):
        rows = [(f"{key}", minute_ * 60 * SECOND + key, 1, None, key) for key in range(200)]
        output = process(plan, state, rows)
    assert not [key for space, key in state.values if space == history.MERGED]
    assert [key for space, key in state.values if space == history.SETTLED]
    assert output.metrics.fired_rows


def test_rows_of_panes_without_partials_are_found_between_panes_that_have_some():
    """Every operator is new: which panes are without, too, is what the state says. A pane is ten long."""
    plan, state, taken = look_backs.plan_of(LookBackWindows(640), NARROW, ("ts",)), MemoryState(), []
    assert history.pane_length(plan.operator.keyed, 640) == 10
    # Of the one key a row in a pane, of the other ten; then the other way round, and so on.
    for number in range(12):
        begin = number * 30
        full, single = ("a", "b") if number % 2 else ("b", "a")
        came = [(full, begin + second, 1 + number, None, second) for second in range(10)]
        came += [(single, begin + 15, 100 + number, None, 15)]
        taken += came
        process(plan, state, came)
    at_rest = plan.operator.for_group(plan, state, 0)._history
    assert at_rest._merged.index
    assert at_rest.kept() == {"slice": 10, "settled": 340, "plain": [1 + 3 * number for number in range(11)]}
    last = [("a", 400, 7, None, 0), ("b", 600, 8, None, 0), ("c", 700, 9, None, 0), ("d", 900, 0, None, 0)]
    found = dict(row for _, table in process(plan, state, last).tables for row in harness.rows_of(plan, table))
    values = {key: [row[2] for row in taken if row[0] == key] for key in "ab"}
    assert (len(values["a"]), len(values["b"])) == (66, 66)
    assert found[("a",)] == (400, 67, sum(values["a"]) + 7, 110, 7)
    assert found[("b",)] == (600, 67, sum(values["b"]) + 8, 111, 8)
    assert found[("c",)] == (700, 1, 9, 9, 9)


def test_what_is_read_of_slices_is_told():
    told = explain_plan(look_backs.plan_of(LookBackWindows(HOUR), NARROW), streaming=True, chosen=None)
    assert f"the panes of {format_duration(HOUR // 64)} in which windows begin and end" in " ".join(told.split())
    mixed = (*NARROW, agg.sum("x").alias("sx"), agg.collect_list("v").alias("all"))
    told = explain_plan(look_backs.plan_of(LookBackWindows(HOUR), mixed), streaming=True, chosen=None)
    assert "panes merged before would change agg.sum('x').alias('sx'), agg.collect_list('v').alias('all')" in " ".join(
        told.split()
    )


def test_of_several_look_backs_the_longest_is_kept():
    several = SeveralWindows.of({"short": LookBackWindows(1), "long": LookBackWindows(500, 50)})
    plan = look_backs.plan_of(several, COUNT, ())
    assert (plan.operator.longest, plan.operator.ahead) == (500, 50)
    assert plan.main_schema.names == ["key", "n_short", "s_short", "n_long", "s_long"]
    explained = explain_plan(plan, streaming=True, chosen=None)
    assert "short: the 1 microsecond before each row, and the row itself" in explained
    assert "long: the 500 microseconds before each row and 50 microseconds after it, and the row itself" in explained


def test_rows_that_wait_are_shown_with_their_windows():
    """Of two look-backs the window that is shown covers both; rows of a key and instant are one window."""
    several = SeveralWindows.of({"short": LookBackWindows(3), "long": LookBackWindows(10, 4)})
    plan, state = look_backs.plan_of(several, COUNT, ("v", "u"), 2), MemoryState()
    process(plan, state, [("a", 20, 1, None, 7)])
    process(plan, state, [("b", 30, 2, None, 8), ("a", 25, 3, None, 9), ("a", 25, None, None, 10)])
    # The watermark is 27: rows up to 23 have all that follows them.
    saved = plan.operator.for_group(plan, state, 0).tables()
    views = plan.operator.views(plan, saved, 3)

    def at(number):
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=number)

    nothing = dict.fromkeys(("window", "results", "contents", "firings", "last_firing"))
    windows = sorted(views.windows.to_pylist(), key=lambda row: row["window_start"])
    whole = saved.tables["waiting"].nbytes
    assert windows == [
        {
            **nothing,
            "key": {"key": key},
            "window_start": at(time - 10),
            "window_end": at(time + 4 + 1),
            "operator": "look-backs",
            "key_group": 3,
            "rows": rows,
            "due": at(time + 4),
            "closes": at(time + 4),
            "bytes": rows * (whole // 3),
        }
        for key, time, rows in (("a", 25, 2), ("b", 30, 1))
    ]
    assert sorted(views.elements.to_pylist(), key=lambda row: row["place"]) == [
        {
            "key": {"key": key},
            "windows": [{"start": at(time - 10), "end": at(time + 4 + 1)}],
            "place": place,
            "time": at(time),
            "element": {"v": v, "u": u},
            "value": None,
            "key_group": 3,
        }
        for place, (key, time, v, u) in enumerate([("b", 30, 2, 8), ("a", 25, 3, 9), ("a", 25, None, 10)], start=1)
    ]
    assert [(row["key"]["key"], row["kind"], row["time"]) for row in views.timers.to_pylist()] == [
        ("a", "event", at(29)),
        ("b", "event", at(34)),
    ]
    assert views.user_state.num_rows == 0


def test_nothing_that_waits_is_shown_as_nothing():
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("v",)), MemoryState()
    views = plan.operator.views(plan, plan.operator.for_group(plan, state, 0).tables(), 0)
    assert [table.num_rows for table in (views.windows, views.elements, views.timers)] == [0, 0, 0]
