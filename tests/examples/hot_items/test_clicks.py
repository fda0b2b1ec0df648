"""Made-up clicks are the same for the same seed, look like real ones, and have exactly the promised faults."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from hot_items.clicks import (
    BEHAVIORS,
    BROKEN,
    EMPTY_TIME,
    GOOD,
    LATE,
    LATE_SECONDS,
    MAX_DISORDER_SECONDS,
    SHARES,
    Shape,
    make_clicks,
    split_file,
    write_clicks,
)
from panestream.errors import JobError


@pytest.fixture(scope="module")
def clicks():
    return make_clicks(Shape(rows=100_000, seed=3))


@pytest.mark.full
def test_clicks_depend_on_the_seed_only():
    clicks, same, other = (make_clicks(Shape(rows=5_000, seed=seed)) for seed in (3, 3, 4))
    assert list(same.lines()) == list(clicks.lines())
    assert list(other.lines()) != list(clicks.lines())


@pytest.mark.parametrize("files", [1, 7, 24])
def test_rows_do_not_depend_on_the_number_of_files(clicks, tmp_path, files):
    paths = write_clicks(clicks, tmp_path, files)
    assert len(paths) == files
    assert "".join(path.read_text() for path in paths).splitlines() == list(clicks.lines())


def test_modification_times_of_files_have_the_order_of_arrival(clicks, tmp_path):
    paths = write_clicks(clicks, tmp_path, 5)
    times = [path.stat().st_mtime for path in paths]
    assert times == sorted(set(times))


def test_behaviors_have_the_promised_shares(clicks):
    shares = np.bincount(clicks.behaviors, minlength=len(BEHAVIORS)) / len(clicks)
    assert shares == pytest.approx(SHARES, abs=0.004)


def test_some_items_and_users_are_much_busier_than_others(clicks):
    for ids, at_least in ((clicks.items, 20), (clicks.users, 3)):
        counts = np.sort(np.unique(ids, return_counts=True)[1])[::-1]
        assert counts[:10].mean() > at_least * np.median(counts)


def test_each_item_has_one_category(clicks):
    pairs = np.unique(np.stack([clicks.items, clicks.categories]), axis=1)
    assert pairs.shape[1] == len(np.unique(clicks.items))


def test_the_evening_is_busier_than_the_afternoon_and_the_end(clicks):
    hours = np.bincount((clicks.timestamps - clicks.timestamps.min()) // 3600, minlength=8)
    assert hours[4] > 1.4 * hours[0]
    assert hours[4] > 1.4 * hours[7]


def test_clicks_have_the_promised_number_of_faults(clicks):
    assert clicks.count(LATE) == 150
    assert clicks.count(EMPTY_TIME) == 40
    assert clicks.count(BROKEN) == 60
    assert sum(clicks.count(kind) for kind in (GOOD, LATE, EMPTY_TIME, BROKEN)) == 100_000


def test_good_rows_are_out_of_order_but_never_beyond_the_bound(clicks):
    behind = np.maximum.accumulate(clicks.timestamps) - clicks.timestamps
    good = behind[clicks.kinds == GOOD]
    assert 0 < good.max() <= MAX_DISORDER_SECONDS
    assert (good > 0).mean() > 0.1


def test_late_rows_arrive_hours_late(clicks):
    before = np.maximum.accumulate(clicks.timestamps)
    late = (before - clicks.timestamps)[clicks.kinds == LATE]
    assert late.min() >= LATE_SECONDS[0] - MAX_DISORDER_SECONDS
    assert late.max() <= LATE_SECONDS[1]


def test_only_broken_lines_cannot_be_parsed(clicks):
    ways = set()
    for line, kind in zip(clicks.lines(), clicks.kinds.tolist(), strict=True):
        fields = line.split(",")
        if kind == BROKEN:
            assert len(fields) != 5 or not fields[4].isdigit()
            ways.add((len(fields) == 5, line.startswith("<")))
        else:
            assert len(fields) == 5
            assert fields[3] in BEHAVIORS
            assert fields[4].isdigit() if kind != EMPTY_TIME else fields[4] == ""
    assert ways == {(True, False), (False, False), (False, True)}


def test_even_few_rows_have_every_kind_of_fault():
    clicks = make_clicks(Shape(rows=1_000))
    assert [clicks.count(kind) > 0 for kind in (LATE, EMPTY_TIME, BROKEN)] == [True] * 3


def test_too_short_a_span_is_refused():
    with pytest.raises(JobError, match=r"must span more than 3\.5 hours"):
        Shape(hours=3)


@pytest.mark.parametrize("packed", [False, True])
def test_file_is_split_in_order(clicks, tmp_path, packed):
    text = "".join(f"{line}\n" for line in clicks.lines(0, 100)).encode()
    source = tmp_path / ("in.csv.gz" if packed else "in.csv")
    source.write_bytes(gzip.compress(text) if packed else text)
    paths, total = split_file(source, tmp_path / "cut", 7)
    assert total == 100
    assert [path.read_bytes().count(b"\n") for path in paths] == [15, 15, 15, 15, 15, 15, 10]
    assert b"".join(path.read_bytes() for path in paths) == text
    times = [path.stat().st_mtime for path in paths]
    assert times == sorted(set(times))


@pytest.mark.parametrize("text", ["", "a,b,c,d,e\n", "1,2,3,pv\n", "user_id,item_id,category_id,behavior,timestamp\n"])
def test_file_with_other_columns_is_refused(tmp_path, text):
    (tmp_path / "in.csv").write_text(text)
    with pytest.raises(JobError, match="not a UserBehavior file: lines are user_id,item_id"):
        split_file(tmp_path / "in.csv", tmp_path / "cut", 3)


def test_a_missing_or_damaged_file_is_refused(tmp_path):
    with pytest.raises(JobError, match="cannot be read: No such file"):
        split_file(tmp_path / "none.csv", tmp_path / "cut", 3)
    (tmp_path / "in.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(JobError, match="cannot be read: Not a gzipped file"):
        split_file(tmp_path / "in.csv.gz", tmp_path / "cut", 3)
