"""The benchmark has the right events and the right answers, and its contestants agree."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.cases import Checks, SumCount
from benchmarks.catalog import SUM_COUNT_CASES
from benchmarks.events import EventSpec, events, reference_event, write
from benchmarks.rolling import Rolling

pytestmark = pytest.mark.full

SMALL = EventSpec(rows_per_batch=2_000, batches=6, keys=50, rate=500, disorder_ms=700)


LATE = replace(SMALL, late_percent=30, late_ms=5_000)


@pytest.mark.parametrize("spec", [SMALL, LATE], ids=["in time", "late"])
def test_events_equal_the_reference(spec):
    columns = events(0, 2_000, spec)
    for i in (*range(200), 1_999):
        assert (columns["key"][i], columns["value"][i], columns["ts"][i]) == reference_event(i, spec)


def test_about_thirty_percent_of_events_are_late():
    back = events(0, 12_000, SMALL)["ts"] - events(0, 12_000, LATE)["ts"]
    assert 0.28 < (back > 0).mean() < 0.32
    assert back.max() < 5_000


def test_far_events_wrap_like_unsigned_64_bit():
    first = 2**40
    columns = events(first, first + 3, SMALL)
    assert [columns["ts"][0], columns["value"][2]] == [reference_event(first, SMALL).ts, reference_event(first + 2, SMALL).value]


def test_expected_sums_equal_those_of_flinks_program():
    """Compare with the sums that Flink's program prints for a million events in tumbling windows of 10 s, flushed to the end."""
    spec = EventSpec(1_000_000, 1)
    assert SUM_COUNT_CASES["tumbling"].expected(spec, None) == Checks(rows=103_962, total=499_596_093, events=1_000_000)


def test_rolling_sums_add_up_the_sums_of_each_size():
    three, bound = Rolling("three", 4_000, 1_000, (2_000,)), 1_700_000_010_000
    one, other = (SumCount("", size, 1_000).expected(SMALL, bound) for size in (4_000, 2_000))
    assert three.expected(SMALL, bound) == Checks(one.rows + other.rows, one.total + other.total, one.events + other.events)


@pytest.mark.parametrize("spec", [SMALL, LATE], ids=["in time", "late"])
@pytest.mark.parametrize("case", [SumCount("sliding", 4_000, 1_000), SumCount("tumbling", 3_000, 3_000)])
def test_expected_equals_windows_counted_one_by_one(case, spec):
    bound = case.bound_ms(spec)
    sums, counts = Counter(), Counter()
    for i in range(spec.rows):
        event = reference_event(i, spec)
        start = event.ts - event.ts % case.slide_ms
        while start > event.ts - case.size_ms:
            if start + case.size_ms <= bound:
                sums[event.key, start] += event.value
                counts[event.key, start] += 1
            start -= case.slide_ms
    assert case.expected(spec, bound) == Checks(len(counts), sum(sums.values()), sum(counts.values()))


def test_files_hold_the_events_of_each_batch_in_order(tmp_path):
    folder = write(SMALL, tmp_path)
    files = sorted(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    assert len(files) == SMALL.batches * SMALL.files_per_batch
    for batch in range(SMALL.batches):
        parts = files[batch * SMALL.files_per_batch : (batch + 1) * SMALL.files_per_batch]
        found = np.sort(np.concatenate([pq.read_table(part)["ts"].cast("int64").to_numpy() for part in parts]))
        first = batch * SMALL.rows_per_batch
        assert (found == np.sort(events(first, first + SMALL.rows_per_batch, SMALL)["ts"]) * 1000).all()


def test_benchmark_fails_on_a_wrong_answer():
    from benchmarks.harness import Measured
    from benchmarks.run import check

    truth = Checks(2, 3, 4)

    def one(**checks):
        return Measured(
            "x", "y", [1.0], [1.0], {"rows": 2, "total": 3, "events": 4, "digest": 5, **checks}, 0, 0, 0, 0, 0, "", "", {}, []
        )

    check([one(), one()], truth)
    with pytest.raises(AssertionError, match="right is"):
        check([one(), one(rows=1)], truth)
    with pytest.raises(AssertionError, match="other rows"):
        check([one(), one(digest=6)], truth)


@pytest.mark.spark
def test_all_contestants_give_the_right_answer(tmp_path):
    from benchmarks.run import main

    # 20 s of event time a batch; six batches for each of three processes.
    main(
        "--cases sliding --rows 20000 --rate 1000 --keys 100 --steady 1 --rounds 1 --cores 2 --name x"
        f" --data {tmp_path} --results {tmp_path / 'results'}".split()
    )
    document = json.loads((tmp_path / "results" / "x.json").read_text())
    assert [run["contestant"] for run in document["runs"]] == ["panestream", "native", "per_key"]
    assert all(run["state_bytes"] and run["jvm_peak_mb"] and run["cpu_seconds"] for run in document["runs"])


@pytest.mark.spark
def test_updates_for_late_rows_add_up_to_the_answer(tmp_path):
    from benchmarks.limits.run import main

    main(f"--keys 20 500 --late 0 30 --rows 400000 --steady 1 --cores 2 --name x --data {tmp_path} --results {tmp_path}".split())
    runs = json.loads((tmp_path / "x.json").read_text())["runs"]
    assert [(run["keys"], run["late_percent"]) for run in runs] == [(20, 0), (20, 30), (500, 0), (500, 30)]
    assert runs[1]["checks"]["rows"] > runs[0]["checks"]["rows"]
