"""The harness itself: planted faults are killed in every room, one that changes nothing survives, and one that hangs is stopped."""

from __future__ import annotations

import json

import pytest

from tests.mutants.faults import faults_of
from tests.mutants.planting import HUNG, IMPOSSIBLE, KILLED, SURVIVED, Job, TimedTest
from tests.mutants.reach import PACKAGE
from tests.mutants.run import run_jobs, run_pytest

pytestmark = pytest.mark.full

PLANTED = [
    ("windowing/assigners/sliding.py", "time + (time - self.offset) % self.slide", "windowing/assigners/test_sliding.py::test_the_windows_of_an_instant_newest_first[10-5-0-12-starts0]", KILLED),
    ("engine/kernels/pairs.py", "constant: 'right' -> 'left'", "engine/kernels/test_pairs.py::test_what_is_among_others_and_where_it_stands_last[20]", KILLED),
    ("engine/exchange/packing.py", "left out: yield from self._pack_group(group, part) -> pass", "engine/exchange/test_exchange.py::test_each_key_group_gets_its_own_rows", KILLED),
    ("engine/runtime/watermarks.py", "known.max_timestamp - strategy.delay + 1", "engine/runtime/test_watermarks.py::test_it_never_goes_back", KILLED),
    ("engine/operators/counts/shape.py", "rows - slides * self.slide > self._beginning", "engine/operators/counts/test_operator.py::test_the_last_n_rows_at_every_few", KILLED),
    ("engine/operators/sessions/spans.py", "returns None: return len(self.codes) -> return", "engine/operators/sessions/test_operator.py::test_the_longest_session", KILLED),
    ("spark/checkpoint/lineage.py", "comparison: batch_id > run['after'] -> batch_id >= run['after']", "spark/checkpoint/test_lineage.py::test_of_a_query_that_began_by_itself", KILLED),
    # The test takes other ways than the one of the fault: whoever says that it was noticed does not look.
    ("engine/kernels/slicing.py", "np.arange(int(ends[-1]), dtype=np.int64) -> np.arange(int(ends[-1]))", "engine/operators/sessions/test_operator.py::test_the_longest_session", SURVIVED),
    ("engine/storage/blocks.py", "left out: level += 1 -> pass", "engine/operators/panes/test_operator.py::test_lowering_the_lateness_closes_windows", HUNG),
    # Without the call it holds no `__class__`: such code cannot take the place of the other.
    ("engine/operators/counts/operator.py", "left out: super().__init__(plan, state, self._pages) -> pass", "engine/operators/counts/test_operator.py::test_the_last_n_rows_at_every_few", IMPOSSIBLE),
]  # fmt: skip


def fault(module, text):
    """The first fault of a module whose name ends so."""
    return next(each for each in faults_of((PACKAGE / module).read_text("utf-8"), module) if each.name.endswith(text))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """One pytest for all of them."""
    folder = tmp_path_factory.mktemp("planted")
    jobs = [Job(fault(module, text), [TimedTest(f"tests/{test}", 0, 1, slack=2)]) for module, text, test, _ in PLANTED]
    jobs.append(Job(None, sorted({test for job in jobs for test in job.tests}, key=lambda test: test.name)))
    return run_jobs(jobs, folder), folder


def test_each_becomes_what_it_must(judged):
    verdicts, folder = judged
    assert [verdict.became for verdict in verdicts[:-1]] == [became for *_, became in PLANTED]
    assert [verdict.by for verdict in verdicts if verdict.became == KILLED] == [
        f"tests/{test}" for *_, test, became in PLANTED if became == KILLED
    ]
    kept = [json.loads(line)["became"] for line in (folder / "verdicts").read_text().splitlines()]
    assert kept == [verdict.became for verdict in verdicts]


def test_without_a_fault_the_same_tests_pass(judged):
    verdicts, _ = judged
    assert (verdicts[-1].fault, verdicts[-1].became) == (None, SURVIVED)


def test_a_test_that_is_not_there_is_an_error(tmp_path):
    job = Job(None, [TimedTest("tests/engine/kernels/test_pairs.py::test_of_nothing")])
    with pytest.raises(RuntimeError, match=r"not collected: .*::test_of_nothing"):
        run_jobs([job], tmp_path)


def test_the_test_that_starts_spark_is_asked_like_the_others(tmp_path):
    """The fixture of that name is all that matters: a quick one stands in for it."""
    (tmp_path / "conftest.py").write_text("import pytest\n@pytest.fixture(scope='session')\ndef spark():\n    return 7\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntmp_path_retention_policy = failed\n")
    tests = "def test_first(spark, tmp_path):\n    (tmp_path / 'a').touch()\ndef test_second(tmp_path):\n    (tmp_path / 'a').touch()\n"
    (tmp_path / "test_it.py").write_text(tests)
    asked = [TimedTest("test_it.py::test_first", spark=True), TimedTest("test_it.py::test_second")]
    verdicts = run_jobs([Job(None, asked), Job(None, asked[:1])], tmp_path, tmp_path)
    assert [(verdict.became, verdict.by) for verdict in verdicts] == [(SURVIVED, "2 tests"), (SURVIVED, "1 tests")]


def test_a_fault_that_no_test_reaches_survives(tmp_path):
    (verdict,) = run_jobs([Job(fault("engine/kernels/pairs.py", "constant: 'right' -> 'left'"))], tmp_path)
    assert (verdict.became, verdict.by) == (SURVIVED, "no test reaches it")


def test_what_a_test_reaches_is_written_down(tmp_path):
    name = "tests/engine/kernels/test_pairs.py"
    test = f"{name}::test_what_is_among_others_and_where_it_stands_last[20]"
    ended = run_pytest(["-p", "tests.mutants.reach", "--reach", str(tmp_path / "reach"), test])
    assert ended.returncode == 0, ended.stdout
    found = json.loads((tmp_path / "reach").read_text())
    assert list(found) == [test]
    assert found[test]["passed"]
    assert found[test]["reached"] == ["engine/kernels/pairs.py:is_among", "engine/kernels/pairs.py:places_of"]
