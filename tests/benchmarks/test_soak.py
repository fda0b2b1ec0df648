"""The judge of the soak test: the answer that follows from the numbers, what is found wrong, what counts as growth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.soak.judge import BOUNDS, exactness, judged
from benchmarks.soak.query import KEYS, SIZE_MS, SLIDE_MS, START_MS, Folders, event_time_ms, expected
from benchmarks.soak.run import Soak, parse, report

RATE, UPTO = 50, START_MS + 70_000


def answer():
    """Key, end of the window, count and sum of every window, by asking of each event in which it lies."""
    numbers = np.arange(71 * RATE + 300)
    times = event_time_ms(numbers, RATE)
    rows = []
    for end in range(START_MS + SLIDE_MS, UPTO + 1, SLIDE_MS):
        inside = numbers[(times < end) & (times >= end - SIZE_MS)]
        for key in np.unique(inside % KEYS).tolist():
            ours = inside[inside % KEYS == key]
            rows.append((key, end, len(ours), int(ours.sum())))
    return rows


def written(folder, rows):
    columns = list(zip(*rows, strict=True))
    ends = pa.array(columns[1], pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    target = folder / "main" / "batch_id=0"
    target.mkdir(parents=True)
    table = {"key": columns[0], "window_end": ends, "n": columns[2], "total": columns[3]}
    pq.write_table(pa.table(table), target / "part-0.parquet")
    return Folders(folder)


def test_the_answer_follows_from_the_numbers():
    counts, sums = expected(UPTO, RATE)
    assert counts.shape == (KEYS, 7)
    found = {(key, START_MS + SLIDE_MS * (at + 1)): (counts[key, at], sums[key, at]) for key, at in np.argwhere(counts).tolist()}
    assert found == {(key, end): (n, total) for key, end, n, total in answer()}


def test_a_right_output_is_right(tmp_path):
    found = exactness(written(tmp_path, answer()), RATE)
    assert {name: found[name] for name in ("missing", "twice", "wrong", "late")} == dict.fromkeys(
        ("missing", "twice", "wrong", "late"), 0
    )
    assert found["windows"] == len(answer())


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("missing", lambda rows: rows[1:]),
        ("twice", lambda rows: [rows[5], *rows]),
        ("wrong", lambda rows: [(*rows[0][:2], rows[0][2] + 1, rows[0][3]), *rows[1:]]),
        ("wrong", lambda rows: [*rows[:-1], (*rows[-1][:3], rows[-1][3] - 1)]),
    ],
)
def test_what_is_wrong_is_found(tmp_path, what, change):
    found = exactness(written(tmp_path, change(answer())), RATE)
    assert {name: found[name] for name in ("missing", "twice", "wrong")} == {"missing": 0, "twice": 0, "wrong": 0, what: 1}


def looks(grow):
    chance = np.random.default_rng(3)
    names = [name for name in BOUNDS if name not in ("ms", "state")]
    # The first tenth is warming up, and is not judged.
    return [
        {"at": at * 5.0, **{name: (300 if at < 20 else 1000) + chance.normal(0, 20) + grow * at for name in names}}
        for at in range(300)
    ]


def test_noise_is_flat_and_growth_is_not():
    batches = [{"at": at * 1.0, "ms": 500 + at % 7, "state": 1000 + at} for at in range(1000)]
    flat = {row.name: row.flat for row in judged(looks(0), batches)}
    assert flat == {**dict.fromkeys(BOUNDS, True), "state": False}
    grows = [row for row in judged(looks(1), batches) if row.name == "worker"]
    assert not grows[0].flat
    assert 0.2 < grows[0].rise < 0.3
    assert grows[0].line().endswith("| **grows** |")


def test_the_page_says_how_it_was_run(tmp_path):
    soak = Soak(parse(["--hours", "0.5", "--folder", str(tmp_path / "soak"), "--name", "short"]))
    soak.restarts = [(10.0, "killed"), (20.0, "stopped")]
    soak.looks = [type("Look", (), {"sink_files": 7, "sink_folders": 3})()]  # type: ignore[list-item]
    exact = {"windows": 5, "events": 9, "upto": "2026", "missing": 0, "twice": 0, "wrong": 0, "late": 0}
    text = "\n".join(report(soak, [{"batch": 41, "rows": 10, "ms": 20}], exact, []))
    assert 'ARGS="--hours 0.5 --rate 5000 --restart-minutes 10 --compact-minutes 15"' in text
    assert "2 runs, 1 of them ended by `kill -9`" in text
    assert "7 files in 3 folders, of 42 micro-batches" in text
