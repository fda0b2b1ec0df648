"""The demos compare their results with their input, notice a wrong result, and draw pictures that a browser reads."""

from __future__ import annotations

import os
import random
import time
from datetime import datetime, timedelta, timezone
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from demos import kill_it, killing, rolling_counts, training_serving
from demos.shared import save_picture
from hot_items.clicks import GOOD, Clicks

START = rolling_counts.START


def test_clicks_of_the_rolling_demo_are_the_same_in_each_run_and_late_by_less_than_allowed():
    first, again = rolling_counts.batches(5), rolling_counts.batches(5)
    assert first == again
    newest = max(at for _, at in first[1])
    late = first[rolling_counts.LATE_BATCH]
    assert all(timedelta(minutes=6) < newest - at < timedelta(hours=1) for _, at in late)


def test_rolling_demo_counts_the_clicks_that_had_arrived():
    arrived = [[("ann", START), ("ann", START + timedelta(hours=2))], [("ann", START + timedelta(hours=1, minutes=30))]]
    before = {"user": "ann", "as_of": START + timedelta(hours=2), "batch_id": 0, "n_1h": 0, "n_12h": 1, "n_24h": 1}
    after = {**before, "batch_id": 1, "n_1h": 1, "n_12h": 2, "n_24h": 2}
    assert rolling_counts.wrong_values([before, after], arrived) == 0
    assert rolling_counts.wrong_values([{**before, "n_1h": 1}, {**after, "n_24h": 1}], arrived) == 2


def clicks_at(seconds, kinds=None):
    count = len(seconds)
    users, same = np.arange(count) // 2, np.zeros(count, dtype=np.int64)
    kinds = np.full(count, GOOD) if kinds is None else np.array(kinds)
    return Clicks(users, same, same, same, np.array(seconds), kinds)


def test_kill_demo_expects_the_closed_windows_of_the_rows_so_far():
    clicks = clicks_at([0, 10, 20, 599, 604, 605, 1300])
    assert kill_it.expected(clicks, 4) == ({}, 4)
    assert kill_it.expected(clicks, 5) == ({}, 5)
    # The watermark is five seconds behind the newest row, so this row closes the first window.
    assert kill_it.expected(clicks, 6) == ({(0, 0): (4, 2)}, 2)
    assert kill_it.expected(clicks, 7) == ({(0, 0): (4, 2), (0, 600): (2, 1)}, 1)


def test_kill_demo_notices_a_lost_and_a_repeated_row(monkeypatch, tmp_path, capsys):
    clicks = clicks_at([0, 10, 700])
    row = {"category_id": 0, "window_start": datetime.fromtimestamp(0, timezone.utc), "clicks": 2}
    outputs = {"main": [row], "late": [], "invalid": []}
    monkeypatch.setattr(kill_it, "read_output", lambda folder: outputs[folder.name])
    assert kill_it.compare(tmp_path, clicks, 3)
    for wrong in ([], [row, row], [{**row, "clicks": 1}], [{**row, "users": 2, "users_complete": True}]):
        outputs["main"] = wrong
        assert not kill_it.compare(tmp_path, clicks, 3)
    outputs["main"], outputs["late"] = [row], [{}]
    assert not kill_it.compare(tmp_path, clicks, 3)
    assert capsys.readouterr().out.count("NOT EQUAL") == 5


@pytest.mark.full
def test_random_moment_comes_after_the_job_has_planned_more_micro_batches(tmp_path):
    (tmp_path / "offsets").mkdir()
    is_moment = killing.random_moment(tmp_path, random.Random(1))
    assert not is_moment()
    for number in range(3):
        (tmp_path / "offsets" / str(number)).touch()
    assert not is_moment()  # the pause
    time.sleep(0.9)
    assert is_moment()


def test_viewer_kills_the_job_with_enter(monkeypatch):
    reads, writes = os.pipe()
    with os.fdopen(reads) as stdin, os.fdopen(writes, "w") as keyboard:
        monkeypatch.setattr("sys.stdin", stdin)
        assert not killing.key_pressed()
        keyboard.write("\n")
        keyboard.flush()
        assert killing.key_pressed()
        assert not killing.key_pressed()


@pytest.mark.full
def test_process_is_killed_at_the_moment_or_its_failure_is_shown(tmp_path):
    assert killing.run(tmp_path, "--help", is_moment=lambda: True)
    assert not killing.run(tmp_path, "--help")
    with pytest.raises(SystemExit, match="No such command"):
        killing.run(tmp_path, "rum")


def story(files=6, kills=2):
    edges = np.linspace(0, 6_000, files + 1).astype(int).tolist()
    made = kill_it.Story(edges, began=100.0, kills=[105.0 + 7 * each for each in range(kills)], changed=130.0)
    made.commits = [(103.0 + 6 * each, edges[each + 1]) for each in range(files)]
    return made


def rolling_rows():
    late = rolling_counts.LATE_BATCH
    counts = [(0, 0, 3), (1, 1, 4), (1, late, 9), (2, 3, 8)]
    return [
        {"user": "ann", "as_of": START + timedelta(hours=at), "batch_id": batch, "n_1h": n, "n_12h": n + 5, "n_24h": n + 20}
        for at, batch, n in counts
    ]


def features():
    return [
        {"at": START + timedelta(days=at), "spent_1d": at or None, "spent_7d": 3 * at, "spent_30d": 9 * at} for at in range(5)
    ]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda axes, _: kill_it.draw(story(), axes), ["kill 1", "kill 2", "savepoint,", "6,000 rows committed exactly once"]),
        (lambda axes, _: rolling_counts.draw(rolling_rows(), axes), ["last 24 h", "5 late clicks"]),
        (lambda axes, _: training_serving.draw(features(), features(), axes), ["30 days", "SQL over the rows", "tiles"]),
    ],
    ids=["kills", "rolling counts", "training and serving"],
)
def test_picture_is_an_svg_file_with_its_words_and_colours(draw, words, tmp_path, capsys):
    text = save_picture(tmp_path / "new" / "picture.svg", draw, "a label").read_text("utf-8")
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label") == "a label"
    shown = "\n".join(root.itertext())
    assert not [word for word in words if word not in shown]
    assert "prefers-color-scheme: dark" in shown
    assert "#01010" not in text
    assert "picture.svg" in capsys.readouterr().out


@pytest.mark.spark
def test_rolling_demo_has_no_wrong_value(spark, tmp_path, capsys):
    """Only Spark shows that the late rows correct the values of a stream."""
    assert rolling_counts.show(spark, tmp_path / "work", tmp_path / "picture.svg", users=2) == 0
    said = capsys.readouterr().out
    assert "each equal to a plain count of the clicks" in said
    assert "rows went in" in said
    assert (tmp_path / "picture.svg").is_file()


@pytest.mark.spark
def test_killed_demo_counts_each_row_once(tmp_path, capsys):
    """Only Spark shows that a killed job and its changed successor lose no row."""
    assert kill_it.show(tmp_path, tmp_path / "picture.svg", kills=1, rows=6_000, files=12)
    said = capsys.readouterr().out
    assert said.count("none lost, none twice") == 2
    assert "kill 1" in said
    assert "also count users" in said


@pytest.mark.spark
def test_training_demo_finds_no_difference(spark, tmp_path, capsys):
    """Only Spark computes features from tiles and from rows."""
    assert training_serving.show(spark, tmp_path, tmp_path / "picture.svg", rows=5_000, questions=200) == 0
    said = capsys.readouterr().out
    assert "100 rows with only the data before" in said
    assert said.count("0 differ") == 2
