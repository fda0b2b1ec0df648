"""The examples run, as batches too if that applies, and give numbers that were worked out by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import late_rows
import page_views
import panestream as pst
import processing_time
import session_trigger
import shopper_sessions
import time_evictor
import top_pages
import word_count
from panestream.testing import MicroBatches

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture
def run_example(spark, tmp_path):
    """Run an example's query as a stream. Return the rows of each output as sets of tuples by micro-batch."""

    def play(query, schema, batches, tags=("main",)):
        rows = MicroBatches(spark, tmp_path / "in", schema)
        for batch in batches:
            rows.add(batch)
        sinks = {tag: pst.MemorySink() for tag in tags}
        query(rows.stream()).start(checkpoint=str(tmp_path / "checkpoint"), **sinks).await_termination()
        found = [{number: set(map(values, rows)) for number, rows in sinks[tag].batches.items() if rows} for tag in tags]
        return (found[0] if len(tags) == 1 else found), rows.batch()

    return play


def values(row):
    """Return a row as a tuple. Spark returns times without a zone, in the machine's zone."""
    return tuple(value.astimezone(timezone.utc) if isinstance(value, datetime) else value for value in row)


def all_rows(by_batch):
    return set().union(*by_batch.values())


@pytest.mark.spark
def test_shopper_sessions_example_gives_the_expected_visits(run_example):
    at = shopper_sessions.at
    found, batch = run_example(shopper_sessions.visits, shopper_sessions.CLICKS_SCHEMA, shopper_sessions.CLICKS)
    assert found == {
        2: {
            ("ann", at("09:00"), at("10:01"), at("09:00"), at("09:31"), 4, "shoes > socks > boots > laces"),
            ("bob", at("09:02"), at("09:45"), at("09:02"), at("09:15"), 2, "lamp > bulb"),
        },
        4: {
            ("ann", at("10:40"), at("11:10"), at("10:40"), at("10:40"), 1, "hat"),
            ("bob", at("10:21"), at("11:14"), at("10:21"), at("10:44"), 2, "desk > chair"),
            ("cleo", at("10:20"), at("11:20"), at("10:20"), at("10:50"), 2, "tea > cup"),
        },
    }
    still_open = ("dan", at("12:00"), at("12:30"), at("12:00"), at("12:00"), 1, "pen")
    assert set(map(values, shopper_sessions.visits(batch).main.collect())) == all_rows(found) | {still_open}


@pytest.mark.spark
def test_session_trigger_finds_the_same_visits(run_example):
    at = shopper_sessions.at
    found, batch = run_example(session_trigger.visits, shopper_sessions.CLICKS_SCHEMA, shopper_sessions.CLICKS)
    assert found == {
        2: {
            ("ann", None, None, at("09:00"), at("09:31"), 4, "shoes > socks > boots > laces"),
            ("bob", None, None, at("09:02"), at("09:15"), 2, "lamp > bulb"),
        },
        4: {
            ("ann", None, None, at("10:40"), at("10:40"), 1, "hat"),
            ("bob", None, None, at("10:21"), at("10:44"), 2, "desk > chair"),
            ("cleo", None, None, at("10:20"), at("10:50"), 2, "tea > cup"),
        },
    }
    # Without a watermark in between, the trigger takes all clicks of a shopper for one visit, as the example explains.
    glued = session_trigger.visits(batch).main.collect()
    assert sorted((row.shopper, row.clicks) for row in glued) == [("ann", 5), ("bob", 4), ("cleo", 2), ("dan", 1)]


@pytest.mark.spark
def test_word_count_example_gives_the_expected_counts(run_example):
    found, batch = run_example(word_count.counts, word_count.LINES_SCHEMA, word_count.LINES)
    counts = Counter(
        (word, start)
        for line, time in (row for rows in word_count.LINES for row in rows)
        for word in line.split()
        for start in range(-10, 30, 5)
        if word_count.at(start) <= time < word_count.at(start + 10)
    )
    everything = {(word, word_count.at(start), word_count.at(start + 10), n) for (word, start), n in counts.items()}
    assert set(map(values, word_count.counts(batch).main.collect())) == everything
    # The last line has the time 27 s, and the watermark is 2 s behind.
    assert all_rows(found) == {row for row in everything if row[2] <= word_count.at(25)}
    assert ("to", word_count.at(0), word_count.at(10), 3) in found[2]
    assert ("to", word_count.at(5), word_count.at(15), 3) in found[3]


@pytest.mark.spark
def test_page_views_example_gives_the_expected_views(run_example):
    found, batch = run_example(page_views.views_today, page_views.VIEWS_SCHEMA, page_views.VIEWS)
    at, day = page_views.at, 24 * 60
    assert found == {
        1: {("/sale", at(-day), at(0), 3, 2, at(-12)), ("/home", at(-day), at(0), 2, 2, at(-9.5))},
        2: {("/sale", at(-day), at(0), 5, 4, at(-4.5)), ("/home", at(-day), at(0), 3, 3, at(-4))},
        3: {("/sale", at(-day), at(0), 6, 4, at(-1)), ("/home", at(-day), at(0), 3, 3, at(-4))},
        4: {("/sale", at(0), at(day), 1, 1, at(2)), ("/home", at(0), at(day), 2, 2, at(6))},
    }
    in_batch = page_views.views_today(batch).main.distinct().collect()
    assert set(map(values, in_batch)) == found[3] | found[4]


@pytest.mark.spark
def test_time_evictor_example_gives_the_expected_speeds(run_example):
    found, batch = run_example(time_evictor.final_speeds, time_evictor.SPEEDS_SCHEMA, time_evictor.SPEEDS)

    def window(car, start, speed, readings):
        return car, time_evictor.at(start), time_evictor.at(start + 60), speed, readings

    assert all_rows(found) == {
        window("red", -30, 75.0, 2),
        window("blue", -30, 30.0, 1),
        window("red", 0, 90.0, 1),
        window("blue", 0, 62.0, 2),
        window("red", 30, 115.0, 2),
        window("blue", 30, 62.0, 2),
        window("red", 60, 115.0, 2),
    }
    still_open = {window("blue", 120, 20.0, 1), window("blue", 150, 20.0, 1)}
    assert set(map(values, time_evictor.final_speeds(batch).main.collect())) == all_rows(found) | still_open


@pytest.mark.spark
def test_late_rows_example_gives_the_expected_bids(run_example):
    (main, too_late), _ = run_example(late_rows.highest_bids, late_rows.BIDS_SCHEMA, late_rows.BIDS, tags=("main", "too_late"))
    at = late_rows.at
    assert main == {
        1: {("vase", at(0), at(60), 2, 12), ("clock", at(0), at(60), 2, 95)},
        2: {("vase", at(0), at(60), 3, 14)},
        3: {("vase", at(60), at(120), 1, 15), ("clock", at(60), at(120), 1, 99)},
        4: {("clock", at(60), at(120), 2, 99)},
    }
    assert too_late == {4: {("clock", 91, at(59))}}


@pytest.mark.spark
def test_top_pages_example_gives_the_expected_ranking(run_example):
    found, batch = run_example(top_pages.top_pages, top_pages.VIEWS_SCHEMA, top_pages.VIEWS)
    at = top_pages.at
    assert all_rows(found) == {
        ("/sale", at(-5), at(5), 2, 1),
        ("/help", at(-5), at(5), 1, 2),
        ("/help", at(0), at(10), 3, 1),
        ("/sale", at(0), at(10), 3, 2),
        ("/home", at(5), at(15), 3, 1),
        ("/help", at(5), at(15), 2, 2),
        ("/home", at(10), at(20), 2, 1),
        ("/cart", at(10), at(20), 1, 2),
    }
    still_open = {("/home", at(20), at(30), 1, 1), ("/home", at(25), at(35), 1, 1)}
    assert set(map(values, top_pages.top_pages(batch).main.collect())) == all_rows(found) | still_open


@pytest.mark.spark
def test_processing_time_example_counts_each_order_once(spark, capsys, monkeypatch):
    """The clock decides the window of an order. Each order must fall into exactly one."""
    monkeypatch.setattr(sys, "argv", ["processing_time.py"])
    processing_time.main()
    printed = re.findall(r"(\S+) to (\S+)  (\w+): (\d+) orders, (\d+)", capsys.readouterr().out)
    totals = Counter()
    for start, end, shop, orders, revenue in printed:
        spans = [datetime.strptime(time, "%H:%M:%S") for time in (start, end)]
        assert (spans[1] - spans[0]) % timedelta(days=1) == timedelta(seconds=2)
        totals[shop, "orders"] += int(orders)
        totals[shop, "revenue"] += int(revenue)
    assert totals == {("north", "orders"): 3, ("north", "revenue"): 13, ("south", "orders"): 3, ("south", "revenue"): 8}


@pytest.mark.spark
def test_example_runs_as_a_script():
    """The functions of a script come from ``__main__``, which workers cannot import."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "session_trigger.py"], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "shoes > socks > boots > laces" in done.stdout
    assert "tea > cup" in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("script", SCRIPTS)
def test_help_of_an_example_shows_its_command(script):
    done = subprocess.run([sys.executable, EXAMPLES / script, "--help"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"python examples/{script}" in done.stdout


def test_every_example_is_listed_and_tested():
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    tests = Path(__file__).read_text("utf-8")
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".toml"):
            assert f"({path.name})" in listed, path.name
        if path.suffix == ".py":
            assert f"import {path.stem}\n" in tests, path.name
