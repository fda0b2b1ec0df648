"""The harness for faults works: planted faults of every package are killed, one without effect survives, and one that hangs is
stopped.
"""

from __future__ import annotations

import json

import pytest

from tests.mutants.faults import faults_of
from tests.mutants.planting import HUNG, IMPOSSIBLE, KILLED, SURVIVED, Job, TimedTest
from tests.mutants.reach import PACKAGE
from tests.mutants.run import run_jobs, run_pytest

pytestmark = pytest.mark.full

PLANTED = [
    ("windowing/assigners/aligned.py", "time + (time - self.offset) % self.slide", "windowing/assigners/test_sliding.py::test_sliding_windows_are_listed_newest_first[10-5-0-12-starts0]", KILLED),
    ("engine/kernels/grouping.py", "constant: 'right' -> 'left'", "engine/kernels/test_pairs.py::test_is_among_and_last_place_equal_plain_lists[20]", KILLED),
    ("engine/exchange/packing.py", "left out: yield from self._pack(later) -> pass", "engine/exchange/test_exchange.py::test_each_key_group_gets_its_own_rows", KILLED),
    ("engine/runtime/watermarks.py", "known.max_timestamp - strategy.delay + 1", "engine/runtime/test_watermarks.py::test_watermark_never_goes_back", KILLED),
    ("engine/operators/counts.py", "rows - slides * self.slide > self._beginning", "engine/operators/test_counts.py::test_sliding_count_window_fires_the_last_n_rows_at_every_slide", KILLED),
    ("engine/operators/sessions/exchange.py", "returns None: return len(self.codes) -> return", "engine/operators/sessions/test_operator.py::test_max_duration_cuts_a_long_session", KILLED),
    ("spark/checkpoint/lineage.py", "comparison: batch_id > run['after'] -> batch_id >= run['after']", "spark/checkpoint/test_lineage.py::test_lineage_of_a_query_without_predecessors", KILLED),
    # The test does not execute the faulty branch, so a verdict "killed" would be wrong.
    ("engine/kernels/panes.py", "np.arange(int(ends[-1]), dtype=np.int64) -> np.arange(int(ends[-1]))", "engine/operators/sessions/test_operator.py::test_max_duration_cuts_a_long_session", SURVIVED),
    ("engine/storage/blocks.py", "left out: level += 1 -> pass", "engine/operators/panes/test_operator.py::test_lowering_the_lateness_closes_open_windows", HUNG),
    # Without the call, the code has no `__class__` cell, so it cannot replace the original.
    ("engine/operators/counts.py", "left out: super().__init__(plan, state, settings.layout(plan.key_schema)) -> pass", "engine/operators/test_counts.py::test_sliding_count_window_fires_the_last_n_rows_at_every_slide", IMPOSSIBLE),
]  # fmt: skip


def fault(module, text):
    """Return the first fault of a module whose name ends with this text."""
    return next(each for each in faults_of((PACKAGE / module).read_text("utf-8"), module) if each.name.endswith(text))


@pytest.fixture(scope="module")
def judged_faults(tmp_path_factory):
    """Judge all faults in one pytest."""
    folder = tmp_path_factory.mktemp("planted")
    jobs = [Job(fault(module, text), [TimedTest(f"tests/{test}", 0, 1, slack=2)]) for module, text, test, _ in PLANTED]
    jobs.append(Job(None, sorted({test for job in jobs for test in job.tests}, key=lambda test: test.name)))
    return run_jobs(jobs, folder), folder


def test_each_planted_fault_has_the_expected_verdict(judged_faults):
    verdicts, folder = judged_faults
    assert [verdict.became for verdict in verdicts[:-1]] == [became for *_, became in PLANTED]
    assert [verdict.by for verdict in verdicts if verdict.became == KILLED] == [
        f"tests/{test}" for *_, test, became in PLANTED if became == KILLED
    ]
    kept = [json.loads(line)["became"] for line in (folder / "verdicts").read_text().splitlines()]
    assert kept == [verdict.became for verdict in verdicts]


def test_unchanged_code_passes_the_same_tests(judged_faults):
    verdicts, _ = judged_faults
    assert (verdicts[-1].fault, verdicts[-1].became) == (None, SURVIVED)


def test_missing_test_is_an_error(tmp_path):
    job = Job(None, [TimedTest("tests/engine/kernels/test_pairs.py::test_of_nothing")])
    with pytest.raises(RuntimeError, match=r"not collected: .*::test_of_nothing"):
        run_jobs([job], tmp_path)


def test_test_that_starts_spark_can_be_used_like_others(tmp_path):
    """A quick fixture replaces Spark. Only its name matters."""
    (tmp_path / "conftest.py").write_text("import pytest\n@pytest.fixture(scope='session')\ndef spark():\n    return 7\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntmp_path_retention_policy = failed\n")
    tests = "def test_first(spark, tmp_path):\n    (tmp_path / 'a').touch()\ndef test_second(tmp_path):\n    (tmp_path / 'a').touch()\n"
    (tmp_path / "test_it.py").write_text(tests)
    asked = [TimedTest("test_it.py::test_first", spark=True), TimedTest("test_it.py::test_second")]
    verdicts = run_jobs([Job(None, asked), Job(None, asked[:1])], tmp_path, tmp_path)
    assert [(verdict.became, verdict.by) for verdict in verdicts] == [(SURVIVED, "2 tests"), (SURVIVED, "1 tests")]


def test_fault_that_no_test_reaches_survives(tmp_path):
    (verdict,) = run_jobs([Job(fault("engine/kernels/grouping.py", "constant: 'right' -> 'left'"))], tmp_path)
    assert (verdict.became, verdict.by) == (SURVIVED, "no test reaches it")


def test_functions_that_a_test_reaches_are_recorded(tmp_path):
    name = "tests/engine/kernels/test_pairs.py"
    test = f"{name}::test_is_among_and_last_place_equal_plain_lists[20]"
    ended = run_pytest(["-p", "tests.mutants.reach", "--reach", str(tmp_path / "reach"), test])
    assert ended.returncode == 0, ended.stdout
    found = json.loads((tmp_path / "reach").read_text())
    assert list(found) == [test]
    assert found[test]["passed"]
    assert found[test]["reached"] == ["engine/kernels/grouping.py:is_among", "engine/kernels/grouping.py:places_of"]
