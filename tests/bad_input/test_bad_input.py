"""What becomes of bad input: panestream's own errors or an output, no row lost, no stream that hangs; and as the page says."""

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


def said(group: str, case: Case, place: int) -> str:
    """What the page says of a case, as a batch or as a stream."""
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
def test_as_a_batch(spark, tmp_path, group, case):
    check(case, Room(spark, tmp_path).batch(case), said(group, case, 0))


@pytest.mark.spark
@pytest.mark.parametrize(("group", "case"), QUICK)
def test_as_a_stream(spark, tmp_path, group, case):
    check(case, Room(spark, tmp_path).stream(case), said(group, case, 1))


@pytest.mark.spark
@pytest.mark.parametrize(("group", "case"), SLOW)
def test_as_a_stream_all_others(spark, tmp_path, group, case):
    check(case, Room(spark, tmp_path).stream(case), said(group, case, 1))


def test_the_page_has_every_case_and_no_other():
    text = PAGE.read_text("utf-8")
    for group, cases in CASES.items():
        for case in cases:
            batch, stream = page_says(text, group, case.name)
            assert stream
            assert bool(batch) == case.batch
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| input |", "| job file |"))]
    assert len(lines) == sum(map(len, CASES.values())) + len(JOB_FILES)


@pytest.mark.parametrize("job", JOB_FILES, ids=lambda job: job.name)
def test_a_job_file_with_a_mistake_is_refused_before_spark_starts(job, tmp_path):
    said = job.said(tmp_path)
    assert said != "nothing"
    assert f"| {job.name} | {said} |" in PAGE.read_text("utf-8")


def test_the_job_file_that_they_are_made_from_has_no_mistake(tmp_path):
    assert JobFile("", JOB).said(tmp_path) == "nothing"


def test_no_case_is_there_twice_and_each_group_has_a_stream_in_every_run():
    for group, cases in CASES.items():
        names = [case.name for case in cases]
        assert len(names) == len(set(names)), group
        assert group == "Columns" or any(case.quick for case in cases), group


def test_the_page_tells_no_path_of_the_machine_it_was_made_on():
    text = PAGE.read_text("utf-8")
    assert str(ROOT) not in text
    assert f"{Path.home()}/" not in text
    assert "/tmp/" not in text
