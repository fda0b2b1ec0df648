"""The picture of hot items shows the hottest items, and any data make a readable picture."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from hot_items.picture import LINES, Ranked, hot_items_picture, hottest

START = datetime(2025, 11, 11, 8, tzinfo=timezone.utc)


def ranking(windows, items=4, every=timedelta(minutes=5)):
    return [Ranked(START + every * window, item, 10 * item + window) for window in range(windows) for item in range(1, items)]


def test_items_with_the_highest_peaks_are_hottest():
    rows = [Ranked(START, 1, 5), Ranked(START, 2, 9), Ranked(START, 3, 9), Ranked(START + timedelta(hours=1), 1, 20)]
    assert hottest(rows) == [1, 2, 3]
    assert hottest(rows, 2) == [1, 2]
    assert len(hottest(ranking(3, items=50))) == LINES


@pytest.mark.parametrize(
    ("rows", "late"),
    [
        ([], []),
        (ranking(1), []),
        (ranking(100, items=30), [START + timedelta(minutes=minute) for minute in range(0, 400, 7)]),
        (ranking(30, every=timedelta(days=1)), [START + timedelta(hours=hour) for hour in range(500)]),
    ],
    ids=["nothing", "one window", "a day", "a month with many bins of late rows"],
)
def test_picture_can_be_drawn_from_any_data(rows, late, tmp_path):
    path = hot_items_picture(rows, late, tmp_path / "hot.png", utc_offset=8)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_the_same_data_make_the_same_picture(tmp_path):
    first, second = (hot_items_picture(ranking(20), [START], tmp_path / name).read_bytes() for name in ("1.png", "2.png"))
    assert first == second
