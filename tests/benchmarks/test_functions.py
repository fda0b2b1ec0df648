"""The expected answers of the function cases equal a definition that looks at one event after another."""

from __future__ import annotations

import statistics
from collections import defaultdict

import pytest

from benchmarks.cases import Checks
from benchmarks.catalog import FUNCTION_CASES
from benchmarks.events import EventSpec, reference_event
from benchmarks.functions.cases import Counted, Evicted, OwnMean, SessionMedian, median

pytestmark = pytest.mark.full

SPEC = EventSpec(rows_per_batch=1_500, batches=4, keys=40, rate=100, disorder_ms=900)


def by_key():
    events = defaultdict(list)
    for i in range(SPEC.rows):
        event = reference_event(i, SPEC)
        events[event.key].append((event.ts, event.value, i // SPEC.rows_per_batch))
    return events


def test_expected_answer_of_count_windows():
    case = Counted("counted", every=7)
    firings = [
        sum(batch for _, _, batch in rows[first : first + 7])
        for rows in by_key().values()
        for first in range(0, len(rows) - 6, 7)
    ]
    assert case.expected(SPEC, case.bound_ms(SPEC)) == Checks(len(firings), sum(firings), 7 * len(firings))


@pytest.mark.parametrize("bounded", [True, False])
def test_expected_answer_of_session_medians(bounded):
    case = SessionMedian("sessions", gap_ms=700)
    bound = case.bound_ms(SPEC) if bounded else None
    sessions = []
    for rows in by_key().values():
        for ts, value, _ in sorted(rows):
            if not sessions or sessions[-1][0] is not rows or ts - sessions[-1][1] > case.gap_ms:
                sessions.append([rows, ts, []])
            sessions[-1][1] = ts
            sessions[-1][2].append(value)
    closed = [values for _, last, values in sessions if bound is None or last + case.gap_ms <= bound]
    assert 1.5 < sum(map(len, closed)) / len(closed) < 10
    total = sum(2 * statistics.median(values) for values in closed)
    assert case.expected(SPEC, bound) == Checks(len(closed), total, sum(map(len, closed)))


def windows(case, bound):
    for rows in by_key().values():
        inside = defaultdict(list)
        for ts, value, _ in rows:
            start = ts - ts % case.slide_ms
            while start > ts - case.size_ms:
                if bound is None or start + case.size_ms <= bound:
                    inside[start].append((ts, value))
                start -= case.slide_ms
        yield from inside.values()


@pytest.mark.parametrize("bounded", [True, False])
def test_expected_answer_of_evicted_windows(bounded):
    case = Evicted("evicted", size_ms=6_000, slide_ms=2_000, keep_ms=1_700)
    bound = case.bound_ms(SPEC) if bounded else None
    left = []
    for elements in windows(case, bound):
        newest = max(ts for ts, _ in elements)
        left.append([value for ts, value in elements if ts > newest - case.keep_ms])
    assert case.expected(SPEC, bound) == Checks(len(left), sum(map(sum, left)), sum(map(len, left)))


@pytest.mark.parametrize("bounded", [True, False])
def test_expected_answer_of_user_defined_mean(bounded):
    case = OwnMean("own_mean", size_ms=3_000)
    bound = case.bound_ms(SPEC) if bounded else None
    inside = defaultdict(list)
    for key, rows in by_key().items():
        for ts, value, _ in rows:
            inside[key, ts // case.size_ms].append(value)
    closed = [values for (_, window), values in inside.items() if bound is None or (window + 1) * case.size_ms <= bound]
    total = sum(int(sum(values) / len(values) * 1_000_000) for values in closed)
    assert case.expected(SPEC, bound) == Checks(len(closed), total, len(closed))


@pytest.mark.parametrize("values", [[3], [2, 1], [5, 1, 3], [4, 4, 1, 9]])
def test_median_equals_that_of_the_statistics_module(values):
    assert median(values) == statistics.median(values)


@pytest.mark.spark
@pytest.mark.parametrize("case", [*FUNCTION_CASES, "frames"])
def test_function_contestants_give_the_right_answer(case, tmp_path):
    from benchmarks.run import main

    if case == "frames":
        pytest.importorskip("pandas")
    # The limit needs another process, so it runs once.
    contestants = "panestream by_hand per_key" + (" floor" if case == "counted" else "")
    # A session ends only if its key has no row for a while: every ten seconds here.
    main(
        f"--cases {case} --rows 10000 --keys 100 --steady 1 --rounds 1 --cores 2 --name x"
        f" --contestants {contestants} --rate {10 if case == 'sessions' else 1000} --data {tmp_path} --results {tmp_path / 'results'}".split()
    )
    found = (tmp_path / "results" / "x.md").read_text()
    assert ("panestream ÷ floor" in found) == (case == "counted")
