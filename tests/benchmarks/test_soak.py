"""The judge of the soak test: the expected answer, faults in the output, and growth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.soak.judge import BOUNDS, exactness, judged
from benchmarks.soak.query import KEYS, SIZE_MS, SLIDE_MS, START_MS, Folders, event_time_ms, expected
from benchmarks.soak.run import Look, Soak, parse, progress, report

pytestmark = pytest.mark.full

RATE, UPTO = 50, START_MS + 70_000


def answer():
    """Return key, window end, count and sum of every window, by assigning each event to its windows."""
    numbers = np.arange(71 * RATE + 300)
    times = event_time_ms(numbers, RATE)
    rows = []
    for end in range(START_MS + SLIDE_MS, UPTO + 1, SLIDE_MS):
        inside = numbers[(times < end) & (times >= end - SIZE_MS)]
        for key in np.unique(inside % KEYS).tolist():
            ours = inside[inside % KEYS == key]
            rows.append((key, end, len(ours), int(ours.sum())))
    return rows


def written_output(folder, rows):
    columns = list(zip(*rows, strict=True))
    ends = pa.array(columns[1], pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    target = folder / "main" / "batch_id=0"
    target.mkdir(parents=True)
    table = {"key": columns[0], "window_end": ends, "n": columns[2], "total": columns[3]}
    pq.write_table(pa.table(table), target / "part-0.parquet")
    return Folders(folder)


def test_expected_answer_equals_a_loop_over_events():
    counts, sums = expected(UPTO, RATE)
    assert counts.shape == (KEYS, 7)
    found = {(key, START_MS + SLIDE_MS * (at + 1)): (counts[key, at], sums[key, at]) for key, at in np.argwhere(counts).tolist()}
    assert found == {(key, end): (n, total) for key, end, n, total in answer()}


def test_complete_output_has_no_faults(tmp_path):
    found = exactness(written_output(tmp_path, answer()), RATE)
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
def test_missing_repeated_or_wrong_row_is_counted(tmp_path, what, change):
    found = exactness(written_output(tmp_path, change(answer())), RATE)
    assert {name: found[name] for name in ("missing", "twice", "wrong")} == {"missing": 0, "twice": 0, "wrong": 0, what: 1}


def looks(grow):
    chance = np.random.default_rng(3)
    names = [name for name in BOUNDS if name not in ("calm_ms", "state")]
    # The first tenth is the warm-up, and is not judged.
    return [
        {
            "at": at * 5.0,
            "loop_ms": 40.0,
            **{name: (300 if at < 20 else 1000) + chance.normal(0, 20) + grow * at for name in names},
        }
        for at in range(300)
    ]


def micro_batches(duration, number=1500):
    """Return micro-batches one second apart, each with a duration that is a function of its number."""
    return [{"at": at * 1.0, "batch": at, "ms": duration(at), "state": 1000} for at in range(number)]


def test_noise_is_judged_flat_and_growth_is_reported():
    batches = [{**batch, "state": 1000 + batch["batch"]} for batch in micro_batches(lambda at: 500 + at % 7)]
    flat = {row.name: row.flat for row in judged(looks(0), batches, 100)}
    assert flat == {**dict.fromkeys(BOUNDS, True), "state": False}
    grows = [row for row in judged(looks(1), batches, 100) if row.name == "worker"]
    assert not grows[0].flat
    assert 0.2 < grows[0].rise < 0.3
    assert grows[0].line().endswith("| **grows** |")


def test_slower_query_is_reported_unless_the_machine_itself_is_slower():
    load = lambda at: 1 + at / 500  # noqa: E731 - four times as slow at the end
    busy = [{**look, "loop_ms": 40 * load(look["at"])} for look in looks(0)]

    def durations(seen, duration):
        return next(row for row in judged(seen, micro_batches(duration), 100) if row.name == "calm_ms")

    others = durations(busy, lambda at: 500 * load(at))
    assert others.flat
    assert 450 < others.median < 650
    assert not durations(looks(0), lambda at: 500 * load(at)).flat
    assert not durations(busy, lambda at: 500 * load(at) ** 2).flat


def test_cyclic_state_is_flat_unless_it_grows():
    """Judge every micro-batch. Every fortieth would show a moving part of a cycle of about ten, which looks like growth."""
    turns = [{**batch, "state": 36_000 + 82_000 * (batch["at"] * 0.10002 % 1)} for batch in micro_batches(lambda _: 500, 18_000)]
    found = {row.name: row for row in judged(looks(0), turns, 100)}["state"]
    assert found.rise == pytest.approx(0, abs=0.02)
    grows = [{**batch, "state": batch["state"] * (1 + batch["at"] / 90_000)} for batch in turns]
    assert not {row.name: row.flat for row in judged(looks(0), grows, 100)}["state"]


def test_checkpoint_size_is_judged_after_it_has_filled():
    full = 600.0  # seconds until a hundred micro-batches exist, at one in six seconds
    filling = [{**look, "checkpoint_mb": min(look["at"] / full, 1.0) * 3} for look in looks(0)]
    batches = [{"at": at * 6.0, "batch": at, "ms": 900, "state": 1} for at in range(250)]
    found = {row.name: row for row in judged(filling, batches, 100)}
    assert found["checkpoint_mb"].rise == pytest.approx(0, abs=0.01)
    leaking = [{**look, "checkpoint_mb": look["at"] / full} for look in filling]
    assert not {row.name: row.flat for row in judged(leaking, batches, 100)}["checkpoint_mb"]
    short = {row.name: row for row in judged(filling, batches[:90], 100)}["checkpoint_mb"]
    assert short.rise is None
    assert short.line().endswith("|  | 10% | too short to tell |")


@pytest.mark.parametrize(("batch", "over"), [(1798, False), (1799, True)])
def test_hurried_run_ends_after_the_hours_of_event_time(tmp_path, batch, over):
    soak = Soak(parse(["--hours", "0.5", "--hurry", "--folder", str(tmp_path / "soak")]))
    assert not soak.over()
    (soak.folders.checkpoint / "commits").mkdir(parents=True)
    for name in ("9", str(batch), f".{batch + 1}.crc"):  # Compare by number, not as text. Hidden files are ignored.
        (soak.folders.checkpoint / "commits" / name).touch()
    assert soak.over() == over
    soak.interrupted = True
    assert soak.over()


def look(at):
    return Look(at, *(1.0,) * 3, 2, 1.0, 2, 1.0, 2, 2, 40.0)


def test_interrupted_run_resumes_without_counting_the_pause(tmp_path, monkeypatch):
    clock, words = [1000.0], ["--hours", "8", "--folder", str(tmp_path / "soak")]
    monkeypatch.setattr("benchmarks.soak.run.time.time", lambda: clock[0])
    first = Soak(parse(words))
    clock[0] += 60
    first.looks, first.restarts, first.compactions = [look(5.0), look(10.0)], [(30.0, "killed")], [{"at": 20.0, "told": "two"}]
    assert first.now == 60
    first.keep()
    clock[0] = 5000.0
    again = Soak(parse([*words, "--go-on"]))
    assert (again.now, again.looks, again.compactions) == (60.0, first.looks, first.compactions)
    assert again.restarts == [(30.0, "killed"), (60.0, "cut")]
    clock[0] += 7
    assert (again.now, again.at(1010.0), again.at(1060.0), again.at(5000.0), again.at(5004.0)) == (67, 10, 60, 60, 64)
    again.keep()
    clock[0] = 9000.0
    third = Soak(parse([*words, "--go-on"]))
    assert (third.now, third.at(1010.0), third.at(5004.0), third.at(9001.0)) == (67, 10, 64, 68)
    assert third.restarts[1:] == [(60.0, "cut"), (67.0, "cut")]
    # The query of the later run has written these clock times.
    third.folders.progress.write_text('{"at": 1002.0, "batch": 1}\n{"at": 5002.5, "batch": 7}\n{"at": 9')
    assert progress(third.folders, third.at) == [{"at": 2.0, "batch": 1}, {"at": 62.5, "batch": 7}]


def test_only_an_interrupted_run_with_the_same_options_resumes(tmp_path):
    words = ["--folder", str(tmp_path / "soak")]
    with pytest.raises(ValueError, match=r"there is no run in .*soak that could go on: begin one, without --go-on"):
        Soak(parse([*words, "--go-on"]))
    Soak(parse(words)).keep()
    with pytest.raises(ValueError, match="is of other options: go on with --hours 8 --rate 5000 --restart-minutes 10 --compact"):
        Soak(parse([*words, "--go-on", "--rate", "7"]))
    # A run that starts again keeps no earlier results.
    Soak(parse(words))
    with pytest.raises(ValueError, match="there is no run"):
        Soak(parse([*words, "--go-on"]))


def test_soak_page_shows_options_and_restarts(tmp_path):
    soak = Soak(parse(["--hours", "0.5", "--folder", str(tmp_path / "soak"), "--name", "short"]))
    soak.restarts = [(10.0, "killed"), (20.0, "stopped")]
    soak.looks = [
        type("Look", (), {"sink_files": 7, "sink_folders": 3, "loop_ms": 40.0, "checkpoint_mb": 2.0, "state_mb": 1.5})()
    ]  # type: ignore[list-item]
    exact = {"windows": 5, "events": 9, "upto": "2026", "missing": 0, "twice": 0, "wrong": 0, "late": 0}
    text = "\n".join(report(soak, [{"batch": 41, "rows": 10, "ms": 20}], exact, []))
    assert 'ARGS="--hours 0.5 --rate 5000 --restart-minutes 10 --compact-minutes 15"' in text
    assert "2 runs, 1 of them ended by `kill -9` of driver, JVM and workers, 1 stopped. 1 micro-batches" in text
    soak.restarts += [(30.0, "cut")]
    text = "\n".join(report(soak, [{"batch": 41, "rows": 10, "ms": 20}], exact, []))
    assert "3 runs, 1 of them ended by `kill -9` of driver, JVM and workers, 1 when the soak test itself was cut," in text
    assert "7 files in 3 folders, of 42 micro-batches" in text
