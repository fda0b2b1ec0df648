"""Bad input ends in a panestream error or in an output, without lost rows or hanging streams, as the page describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.make_bad_input import NOT_RUN, PAGE, page_says
from tests.bad_input.cases import CASES
from tests.bad_input.job_files import JOB, JOB_FILES, JobFile
from tests.bad_input.room import Case, Outcome, Room

ROOT = Path(__file__).resolve().parents[2]
EVERY = [pytest.param(group, case, id=f"{group}: {case.name}"[:80]) for group, cases in CASES.items() for case in cases]
BATCHES = [param for param in EVERY if param.values[1].batch]
QUICK = [param for param in EVERY if param.values[1].quick]
SLOW = [param for param in EVERY if not param.values[1].quick]


def documented_outcome(group: str, case: Case, place: int) -> str:
    """Return the page's text about a case, as a batch or as a stream."""
    text = page_says(PAGE.read_text("utf-8"), group, case.name)[place]
    if text == NOT_RUN:
        pytest.skip("the page does not say yet what comes of it: make bad-input")
    return text


def check(case: Case, outcome: Outcome, expected: str) -> None:
    assert outcome.kind, f"an error that is not panestream's own: {outcome.error!r}"
    assert outcome.text() == expected
    if outcome.error is None and case.counted is not None:
        assert outcome.balance == case.counted, f"rows were lost, or are there twice: {outcome}"


@pytest.mark.spark
@pytest.mark.parametrize(("group", "case"), BATCHES)
def test_bad_input_as_a_batch_has_the_documented_outcome(spark, tmp_path, group, case):
    check(case, Room(spark, tmp_path).batch(case), documented_outcome(group, case, 0))


@pytest.mark.spark
@pytest.mark.parametrize(("group", "case"), QUICK)
def test_bad_input_as_a_stream_has_the_documented_outcome(spark, tmp_path, group, case):
    check(case, Room(spark, tmp_path).stream(case), documented_outcome(group, case, 1))


@pytest.mark.spark
@pytest.mark.parametrize(("group", "case"), SLOW)
def test_further_bad_input_as_a_stream_has_the_documented_outcome(spark, tmp_path, group, case):
    check(case, Room(spark, tmp_path).stream(case), documented_outcome(group, case, 1))


def test_page_lists_exactly_the_cases():
    text = PAGE.read_text("utf-8")
    for group, cases in CASES.items():
        for case in cases:
            batch, stream = page_says(text, group, case.name)
            assert stream
            assert bool(batch) == case.batch
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| input |", "| job file |"))]
    assert len(lines) == sum(map(len, CASES.values())) + len(JOB_FILES)


@pytest.mark.parametrize("job", JOB_FILES, ids=lambda job: job.name)
def test_faulty_job_file_is_refused_before_spark_starts(job, tmp_path):
    said = job.errors_in(tmp_path)
    assert said != "nothing"
    assert f"| {job.name} | {said} |" in PAGE.read_text("utf-8")


def test_original_job_file_is_valid(tmp_path):
    assert JobFile("", JOB).errors_in(tmp_path) == "nothing"


def test_case_names_are_unique_and_each_group_has_a_quick_stream():
    for group, cases in CASES.items():
        names = [case.name for case in cases]
        assert len(names) == len(set(names)), group
        assert group == "Columns" or any(case.quick for case in cases), group


def test_page_contains_no_local_paths():
    text = PAGE.read_text("utf-8")
    assert str(ROOT) not in text
    assert f"{Path.home()}/" not in text
    assert "/tmp/" not in text
