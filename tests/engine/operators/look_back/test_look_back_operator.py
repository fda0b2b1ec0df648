"""The look-back operator: its state and how long it is kept, the reads for a few rows, and the memory limit."""

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
    group_input = harness.group_input(plan, harness.MicroBatch([rows], **more))
    return plan.operator.for_group(plan, state, 0).process(group_input)


def micros(instant):
    return (instant - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)


def minute(number, keys="abcdefgh"):
    """Return the rows of one minute, one per second and key. The time unit is a second."""
    return [(key, 60 * number + second, 1, None, second) for key in keys for second in range(60)]


def test_rows_beyond_the_longest_look_back_are_deleted():
    plan, state, sizes = look_backs.plan_of(LookBackWindows(120), COUNT, ("ts",), 5), MemoryState(), []
    for number in range(40):
        output = process(plan, state, minute(number))
        sizes.append(sum(map(len, state.values.values())))
        assert (
            output.metrics.kept_windows == 8 * 6
        )  # Rows of the last seconds wait for the watermark. Rows before the watermark have been emitted.
    assert max(sizes[20:]) <= 1.01 * max(sizes[:20])  # block numbers get more digits
    tables = plan.operator.for_group(plan, state, 0).tables().tables
    assert min(tables["history"]["time"].to_pylist()) == 40 * 60 - 1 - 6 + 1 - 120
    assert tables["waiting"].num_rows == 8 * 6


def test_history_of_other_keys_does_not_count_for_the_memory_limit():
    plan, state = look_backs.plan_of(LookBackWindows(10_000), COUNT, ("ts",)), MemoryState()
    for number in range(5):
        process(plan, state, minute(number))
    limited = replace(plan, most_bytes=20_000)
    with pytest.raises(MemoryLimitError, match="the look-backs of a key group need"):
        process(limited, MemoryState(dict(state.values)), minute(5))
    # The history of a single key fits into the limit.
    process(plan, state, [("a", 400, 1, None, 1)])
    output = process(limited, state, [("a", 402, 1, None, 2)])
    assert [row for _, table in output.tables for row in harness.rows_of(plan, table)] == [(("a",), (400, 301, 301))]


def test_oldest_row_that_the_next_row_can_look_back_to_is_kept():
    """The watermark is 9. The next row may have the time 10, and looks back to 0."""
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("ts",)), MemoryState()
    process(plan, state, [("a", 0, 1, None, 1), ("b", 10, 1, None, 1)])
    output = process(plan, state, [("a", 10, 1, None, 2), ("b", 30, 1, None, 2)])
    assert (("a",), (10, 2, 2)) in [row for _, table in output.tables for row in harness.rows_of(plan, table)]


def test_row_just_above_the_watermark_waits_while_blocks_are_merged():
    """The watermark stays at 9 while many micro-batches bring rows at 10."""
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("ts",)), MemoryState()
    process(plan, state, [("b", 10, 1, None, 1)])
    for number in range(20):
        assert not process(plan, state, [("a", 10, 1, None, number)]).tables
    output = process(plan, state, [("b", 30, 1, None, 2)])
    rows = [row for _, table in output.tables for row in harness.rows_of(plan, table)]
    assert rows.count((("a",), (10, 20, 20))) == 20


@pytest.mark.parametrize(("watermark", "emitted"), [(18, []), (19, []), (20, [20]), (21, [20, 21])])
def test_waiting_row_is_emitted_once_when_the_watermark_reaches_it(watermark, emitted):
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("ts",), delay=100), MemoryState()
    process(plan, state, [("a", 20, 1, None, 1), ("a", 21, 1, None, 2)])

    def times(newest):
        output = process(plan, state, [("b", newest, 1, None, 3)])
        return [row[1][0] for _, table in output.tables for row in harness.rows_of(plan, table)]

    # The watermark is the newest time minus the delay minus one.
    assert times(watermark + 101) == emitted
    assert times(1_000) == [time for time in (20, 21, watermark + 101) if time not in emitted and time <= 899]


def test_views_show_waiting_rows_in_order_of_arrival():
    plan, state = look_backs.plan_of(LookBackWindows(10, 5), COUNT, ("u", "v"), 100), MemoryState()
    process(plan, state, [("a", 5, 1, None, 7), ("b", 3, 2, None, 8)])
    process(plan, state, [("a", 4, None, None, 9)])
    saved = plan.operator.for_group(plan, state, 0).tables()
    elements = plan.operator.views(plan, saved, 0).elements.to_pylist()
    by_place = {
        row["place"]: (
            row["key"]["key"],
            micros(row["time"]),
            [(micros(window["start"]), micros(window["end"])) for window in row["windows"]],
            row["element"],
        )
        for row in elements
    }
    assert by_place == {
        0: ("a", 5, [(-5, 11)], {"u": 7, "v": 1}),
        1: ("b", 3, [(-7, 9)], {"u": 8, "v": 2}),
        2: ("a", 4, [(-6, 10)], {"u": 9, "v": None}),
    }
    assert saved.header["counters"] == {"largest": {"arrived": 3}}


@pytest.mark.parametrize("seed", range(20))
def test_panes_at_window_bounds_are_found_for_random_rows(seed):
    """The rows are in several panes. The pane of each row, and those in which its window begins and ends, are read row by row."""
    rng = np.random.default_rng(seed)
    windows = [LookBackWindows(*(int(number) for number in rng.integers(0, 300, 2))) for _ in range(rng.integers(1, 3))]
    plan = look_backs.plan_of(windows[0], NARROW, ())
    read = history.RowsByTime(SealedState(MemoryState(), 0, plan.operator.name), plan.operator.keyed, HOUR)
    read._length = length = int(rng.integers(2, 90))
    times = rng.integers(-500, 500, rng.integers(1, 6))
    edges = set(read._edges(times, windows).tolist())
    for time in times.tolist():
        needed = {time // length, *((time + shift) // length for window in windows for shift in (-window.size, window.following))}
        assert needed <= edges, (seed, time, windows, length)


SECOND = 20
HOUR = 3600 * SECOND
NARROW = (agg.count().alias("n"), agg.sum("v").alias("s"), agg.max("v").alias("m"), agg.last("v").alias("l"))


def seconds(number, count=1, keys="abcd"):
    """Return the rows of some seconds: one of each key in each twentieth of a second."""
    times = range(number * SECOND, (number + count) * SECOND)
    return [(key, time, time % 97, None, time) for time in times for key in keys]


def after_an_hour(aggregates):
    """Return a query with an hour of rows, which came in micro-batches of a minute, and its state."""
    plan, state = look_backs.plan_of(LookBackWindows(HOUR), aggregates, ("ts",), SECOND), MemoryState()
    for number in range(0, 3660, 60):
        process(plan, state, seconds(number, 60))
    return plan, state


@pytest.mark.full
def test_micro_batch_of_a_second_reads_a_few_panes_of_an_hour():
    plan, state = after_an_hour(NARROW)
    read, stored = [], 0
    for number in range(3660, 3660 + 130):  # more than two panes settle
        metrics = process(plan, state, seconds(number)).metrics
        read.append(metrics.bytes_read)
        stored = max(stored, metrics.state_bytes)
    a_pane = stored / history._IN_A_LOOK_BACK
    assert max(read) < 6 * a_pane, (
        max(read),
        stored,
    )  # the maximum includes the micro-batches in which a pane settles and runs are merged
    assert sum(read) / len(read) < 4 * a_pane
    assert metrics.state_calls < 60


@pytest.mark.full
def test_inexact_aggregates_are_read_row_by_row():
    plan, state = after_an_hour((agg.sum("x").alias("s"), *NARROW[:1]))
    metrics = process(plan, state, seconds(3660)).metrics
    assert metrics.bytes_read > 0.9 * metrics.state_bytes
    assert not [key for space, key in state.values if space != history.RECENT and space in (history.SETTLED, history.MERGED)]


@pytest.mark.full
def test_rows_far_apart_read_only_their_own_panes():
    plan, state = look_backs.plan_of(LookBackWindows(HOUR, HOUR), NARROW, ("ts",), SECOND), MemoryState()
    for number in range(0, 2 * 3600, 60):
        process(plan, state, seconds(number, 60))
    # For half an hour only two rows come. They wait for the rows of the hour after them.
    process(plan, state, [("a", 7200 * SECOND, 1, None, 1), ("a", 9000 * SECOND, 1, None, 2)])
    process(plan, state, [("b", 10_801 * SECOND + SECOND, 1, None, 3)])
    metrics = process(plan, state, [("b", 12_602 * SECOND + SECOND, 1, None, 3)]).metrics
    assert metrics.fired_rows == 1
    assert metrics.bytes_read < metrics.state_bytes / 4


@pytest.mark.full
def test_pane_with_few_rows_per_key_has_no_partials():
    plan, state = look_backs.plan_of(LookBackWindows(HOUR), NARROW, ("ts",)), MemoryState()
    for minute_ in range(100):
        rows = [(f"{key}", minute_ * 60 * SECOND + key, 1, None, key) for key in range(200)]
        output = process(plan, state, rows)
    assert not [key for space, key in state.values if space == history.MERGED]
    assert [key for space, key in state.values if space == history.SETTLED]
    assert output.metrics.fired_rows


def test_panes_with_and_without_partials_may_alternate():
    """Every micro-batch has a new operator, so the list of panes without partials must come from state. A pane has a length
    of 10.
    """
    plan, state, all_rows = look_backs.plan_of(LookBackWindows(640), NARROW, ("ts",)), MemoryState(), []
    assert history.pane_length(plan.operator.keyed, 640) == 10
    # One key has a row per pane, the other has ten. Then they swap, and so on.
    for number in range(12):
        begin = number * 30
        full, single = ("a", "b") if number % 2 else ("b", "a")
        rows = [(full, begin + second, 1 + number, None, second) for second in range(10)]
        rows += [(single, begin + 15, 100 + number, None, 15)]
        all_rows += rows
        process(plan, state, rows)
    at_rest = plan.operator.for_group(plan, state, 0)._history
    assert at_rest._merged.index
    assert at_rest.kept() == {"slice": 10, "settled": 340, "plain": [1 + 3 * number for number in range(11)]}
    last = [("a", 400, 7, None, 0), ("b", 600, 8, None, 0), ("c", 700, 9, None, 0), ("d", 900, 0, None, 0)]
    results = dict(row for _, table in process(plan, state, last).tables for row in harness.rows_of(plan, table))
    values = {key: [row[2] for row in all_rows if row[0] == key] for key in "ab"}
    assert (len(values["a"]), len(values["b"])) == (66, 66)
    assert results[("a",)] == (400, 67, sum(values["a"]) + 7, 110, 7)
    assert results[("b",)] == (600, 67, sum(values["b"]) + 8, 111, 8)
    assert results[("c",)] == (700, 1, 9, 9, 9)


def test_explain_shows_which_panes_are_read_row_by_row():
    explained_text = explain_plan(look_backs.plan_of(LookBackWindows(HOUR), NARROW), streaming=True, chosen=None)
    assert f"the panes of {format_duration(HOUR // 64)} in which windows begin and end" in " ".join(explained_text.split())
    mixed = (*NARROW, agg.sum("x").alias("sx"), agg.collect_list("v").alias("all"))
    explained_text = explain_plan(look_backs.plan_of(LookBackWindows(HOUR), mixed), streaming=True, chosen=None)
    assert "panes merged before would change agg.sum('x').alias('sx'), agg.collect_list('v').alias('all')" in " ".join(
        explained_text.split()
    )


def test_history_is_kept_for_the_longest_of_several_look_backs():
    several = SeveralWindows.of({"short": LookBackWindows(1), "long": LookBackWindows(500, 50)})
    plan = look_backs.plan_of(several, COUNT, ())
    assert (plan.operator.longest, plan.operator.ahead) == (500, 50)
    assert plan.main_schema.names == ["key", "n_short", "s_short", "n_long", "s_long"]
    explained = explain_plan(plan, streaming=True, chosen=None)
    assert "short: the 1 microsecond before each row, and the row itself" in explained
    assert "long: the 500 microseconds before each row and 50 microseconds after it, and the row itself" in explained


def test_views_show_waiting_rows_with_their_windows():
    """The window in the view covers both look-backs. Rows with the same key and instant share one window."""
    several = SeveralWindows.of({"short": LookBackWindows(3), "long": LookBackWindows(10, 4)})
    plan, state = look_backs.plan_of(several, COUNT, ("v", "u"), 2), MemoryState()
    process(plan, state, [("a", 20, 1, None, 7)])
    process(plan, state, [("b", 30, 2, None, 8), ("a", 25, 3, None, 9), ("a", 25, None, None, 10)])
    # The watermark is 27. Rows up to 23 have everything that follows them.
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


def test_views_are_empty_if_no_row_waits():
    plan, state = look_backs.plan_of(LookBackWindows(10), COUNT, ("v",)), MemoryState()
    views = plan.operator.views(plan, plan.operator.for_group(plan, state, 0).tables(), 0)
    assert [table.num_rows for table in (views.windows, views.elements, views.timers)] == [0, 0, 0]
