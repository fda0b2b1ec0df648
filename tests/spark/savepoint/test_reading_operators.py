"""The state of every operator is read through Spark Connect by a process without the jobs' code."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import panestream as pst
from panestream import agg
from panestream.testing import MicroBatches
from tests.processes import ANY_PORT, ROOT, ran

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

SCRIPT = Path(__file__).with_name("operators_read.py")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
USERS = ("ann", "bob", "cem")
SECONDS = (1, 3, 4, 12, 21, 23, 34, 36)
ROWS = [(user, second, 10 * second + place) for second in SECONDS for place, user in enumerate(USERS)]
WATERMARK = 36 - 4 - 1e-6


class Prices(pst.ProcessWindowFunction):
    """The process that reads the state does not have this code."""

    def process(self, key, context, elements):
        context.global_state().get_state(pst.state.ValueStateDescriptor("totals")).update(
            (key, sum(row.price for row in elements))
        )
        context.window_state().get_list_state(pst.state.ListStateDescriptor("sizes")).add(len(elements))
        yield len(elements)


def queries():
    """Return a query for each operator, and for each special kind of state: several windows, split keys, processing time."""

    def keyed(df):
        watermark = pst.WatermarkStrategy.for_bounded_out_of_orderness("4 seconds")
        return pst.stream(df).assign_timestamps("at", watermark).key_by("user")

    def windowed(df, windows):
        return keyed(df).window(windows).options(key_groups=2)

    tens, sliding = pst.TumblingEventTimeWindows.of("10 seconds"), pst.SlidingEventTimeWindows.of("20 seconds", "10 seconds")
    aggregates = agg.count().alias("n"), agg.sum("price").alias("total")
    timeout = pst.triggers.ProcessingTimeoutTrigger.of(pst.CountTrigger.of(1000), "1 hour")
    return {
        "several": lambda df: keyed(df).windows({"ten": tens, "slid": sliding}).options(key_groups=2).aggregate(*aggregates),
        "parts": lambda df: (
            windowed(df, tens)
            .options(key_groups=3, split_distinct=4)
            .aggregate(agg.count_distinct("price").alias("prices"), *aggregates)
        ),
        "sessions": lambda df: windowed(df, pst.EventTimeSessionWindows.with_gap("8 seconds")).aggregate(*aggregates),
        "counts": lambda df: keyed(df).count_window(3).options(key_groups=2).aggregate(*aggregates),
        "accumulating": lambda df: windowed(df, sliding).apply_arrow(
            lambda key, window, rows: rows.select(["price"]), "price bigint"
        ),
        "row": lambda df: (
            windowed(df, tens)
            .trigger(pst.CountTrigger.of(2))
            .evictor(pst.evictors.CountEvictor.of(5))
            .process(Prices(), "n bigint")
        ),
        "clock": lambda df: (
            pst.stream(df)
            .key_by("user")
            .window(pst.GlobalWindows.create())
            .options(key_groups=2)
            .trigger(timeout)
            .aggregate(*aggregates)
        ),
    }


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("operators")
    rows = MicroBatches(spark, folder / "in", "user string, at timestamp, price bigint")
    rows.add([(user, START + timedelta(seconds=second), price) for user, second, price in ROWS])
    for name, query in queries().items():
        checkpoint = str(folder / "checkpoints" / name)
        query(rows.stream()).start(main=pst.MemorySink(), checkpoint=checkpoint, trigger="once").await_termination()
    # Remove the tests from the path, so that the job's code cannot be found by chance.
    ran(SCRIPT, folder, "remote", **ANY_PORT, PYTHONPATH=str(ROOT / "src"))
    return json.loads((folder / "found.json").read_text())


def expected(size, slide):
    """Return the open windows with their rows."""
    windows = defaultdict(list)
    for user, second, price in ROWS:
        for back in range(size // slide):
            start = second // slide * slide - back * slide
            if start + size - 1e-6 > WATERMARK:
                windows[user, start, start + size].append(price)
    return windows


def shown(rows, *columns):
    """Return key, bounds, and some results of each window."""
    found = {}
    for row in rows:
        place = row["key"]["user"], row["window_start"], row["window_end"]
        assert place not in found
        found[place] = tuple(row["results"][name] for name in columns)
    return found


def counted(windows):
    return {place: (len(prices), sum(prices)) for place, prices in windows.items()}


def test_state_of_several_windows_is_read(found):
    rows = found["several"]["windows"]
    for label, windows in {"ten": expected(10, 10), "slid": expected(20, 10)}.items():
        assert shown([row for row in rows if row["window"] == label], "n", "total") == counted(windows)
    assert len(rows) == len(expected(10, 10)) + len(expected(20, 10))
    assert all(row["due"] == row["closes"] == row["window_end"] - 1e-6 for row in rows)


def test_parts_of_split_keys_are_shown_combined(found):
    windows = {place: (len(set(prices)), len(prices), sum(prices)) for place, prices in expected(10, 10).items()}
    rows = found["parts"]["windows"]
    assert shown(rows, "prices", "n", "total") == windows
    assert {row["rows"] for row in rows} == {2}
    assert {row["key_group"] for row in rows} == {None}
    assert sorted((row["key"]["user"], row["time"]) for row in found["parts"]["timers"]) == [(user, 40 - 1e-6) for user in USERS]


def test_state_of_sessions_is_read(found):
    assert shown(found["sessions"]["windows"], "n", "total") == {
        (user, 34, 44): (2, 700 + 2 * place) for place, user in enumerate(USERS)
    }


def test_state_of_count_windows_is_read(found):
    assert shown(found["counts"]["windows"], "n", "total") == {
        (user, None, None): (2, 700 + 2 * place) for place, user in enumerate(USERS)
    }
    assert found["counts"]["timers"] == []


def test_state_of_accumulated_rows_is_read(found):
    windows = expected(20, 10)
    rows = found["accumulating"]["windows"]
    assert {(row["key"]["user"], row["window_start"], row["window_end"]): row["rows"] for row in rows} == {
        place: len(prices) for place, prices in windows.items()
    }
    assert {row["results"] for row in rows} == {None}
    elements = defaultdict(list)
    for row in found["accumulating"]["elements"]:
        assert row["time"] == row["element"]["at"]
        for window in row["windows"]:
            elements[row["key"]["user"], window["start"], window["end"]].append(row["element"]["price"])
    assert {place: sorted(prices) for place, prices in elements.items()} == windows


def test_rows_states_and_timers_of_functions_are_read(found):
    state = found["row"]
    # Windows fire at every second row. The open window has two rows, 34 and 36.
    assert {(row["key"]["user"], row["window_start"]): row["rows"] for row in state["windows"]} == {
        (user, 30): 2 for user in USERS
    }
    assert sorted(row["element"]["price"] for row in state["elements"]) == sorted(
        10 * second + place for second in (34, 36) for place in range(3)
    )
    states = {(row["key"]["user"], row["of"], row["name"], row["window_start"]): row["value"] for row in state["user_state"]}
    for place, user in enumerate(USERS):
        assert json.loads(states.pop((user, "key", "totals", None))) == {"$tuple": [user, 700 + 2 * place]}
        assert json.loads(states.pop((user, "window", "sizes", 30))) == [2]
        states.pop((user, "trigger", "count", 30), None)
    assert not states
    assert {(row["key"]["user"], row["kind"], row["time"]) for row in state["timers"]} == {
        (user, "event", 40 - 1e-6) for user in USERS
    }


def test_processing_time_timers_are_read(found):
    state = found["clock"]
    assert shown(state["windows"], "n", "total") == {
        (user, None, None): (len(SECONDS), 10 * sum(SECONDS) + len(SECONDS) * place) for place, user in enumerate(USERS)
    }
    clocks = {row["key_group"]: row["processing_time"] for row in state["watermarks"]}
    assert sorted(clocks) == [0, 1]
    assert {(row["key"]["user"], row["kind"], row["time"]) for row in state["timers"]} == {
        (row["key"]["user"], "processing", clocks[row["key_group"]] + 3600) for row in state["windows"]
    }


def test_watermarks_of_all_operators_are_read(found):
    for name in set(queries()) - {"clock"}:
        rows = found[name]["watermarks"]
        assert {(row["watermark"], row["max_event_time"], row["idle"]) for row in rows} == {(WATERMARK, 36, False)}, name
        assert sorted(row["key_group"] for row in rows) == [*range(3 if name == "parts" else 2)]
