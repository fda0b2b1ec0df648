"""The comparison with Flink: our answers equal those that Flink printed, and both sides run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.cases import Checks
from benchmarks.flink.slides import plot
from benchmarks.flink.sweep import CONTESTANTS, LEAST_ROWS, MOST_ROWS, SLIDES_MS, rows_for, slide_workload
from benchmarks.flink.workloads import WORKLOADS, CountWindows

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    ("name", "rows", "printed"),
    [
        # Rows, sum and count as printed by Flink 2.3. The sum of count windows depends on the order of its sources.
        ("a", 1_000_000, Checks(103_962, 499_596_093, 1_000_000)),
        ("b", 60_000, Checks(639_791, 1_791_440_700, 3_600_000)),
        ("c", 500_000, Checks(73_905, 249_571_234, 500_000)),
        ("d", 30_000, Checks(387_842, 5_392_618_560, 10_800_000)),
        ("e", 1_000_000, Checks(5_126, 0, 512_600)),
        ("f", 1_000_000, Checks(103_962, 499_596_093, 1_000_000)),
    ],
)
def test_answers_equal_what_flink_printed(name, rows, printed):
    workload = WORKLOADS[name]
    assert workload.case.expected(workload.spec(rows, rows, 2), None) == printed


def test_events_do_not_depend_on_how_they_are_cut_into_batches():
    workload = WORKLOADS["c"]
    answers = {workload.case.expected(workload.spec(60_000, cut, 2), None) for cut in (60_000, 20_000, 10_000)}
    assert len(answers) == 1


def test_each_contestant_gets_events_in_proportion_to_its_speed():
    assert [slide_workload(slide).case.slide_ms for slide in SLIDES_MS] == list(SLIDES_MS)
    for slide in SLIDES_MS:
        assert rows_for("panestream", slide, 20) == MOST_ROWS
        assert all(LEAST_ROWS <= rows_for(name, slide, 20) <= MOST_ROWS for name in CONTESTANTS)
    assert rows_for("flink rocksdb", 1_000, 20) == LEAST_ROWS


def test_sweep_is_plotted_as_png(tmp_path):
    from benchmarks.flink.beside import Result

    results = [
        Result(str(slide), name, 0, 1_000, [1.0 + at], [1.0], 5) for name in CONTESTANTS for at, slide in enumerate(SLIDES_MS)
    ]
    plot(results, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.spark
def test_panestream_and_native_spark_emit_all_windows(tmp_path):
    from benchmarks.flink.run import main

    main(
        "--workloads c --contestants panestream native --rows 6000 --rows-per-batch 3000 --repeats 2 --rounds 1 --cores 2"
        f" --name x --data {tmp_path} --results {tmp_path / 'results'}".split()
    )
    document = json.loads((tmp_path / "results" / "x.json").read_text())
    assert [(run["contestant"], run["rows"], len(run["total"])) for run in document["runs"]] == [
        ("panestream", 6_000, 2),
        ("native", 6_000, 2),
    ]


def test_comparison_with_flink_fails_on_a_wrong_answer(monkeypatch, tmp_path):
    from benchmarks.flink import beside
    from benchmarks.flink.spark_side import Run

    truth = WORKLOADS["e"].case.expected(WORKLOADS["e"].spec(50_000, 50_000, 2), None)
    given = {"total": 1.0, "ingest": 0.5, "rows": truth.rows, "sum": 12345, "count": truth.events}
    monkeypatch.setattr(beside, "_spark", lambda run: [given])
    run = Run("e", "panestream", 50_000, 50_000, 1, str(tmp_path))
    assert isinstance(WORKLOADS["e"].case, CountWindows)  # so the sum is not compared
    assert beside.run_contestant(run, 0).rows_out == truth.rows
    given["rows"] += 1
    with pytest.raises(AssertionError, match="right is"):
        beside.run_contestant(run, 0)
    with pytest.raises(AssertionError, match="right is"):
        beside.run_contestant(replace(run, workload="a"), 0)
