"""``panestream run --report`` writes the page for every outcome of a run and never affects it, with a fake Spark."""

from __future__ import annotations

import random
import signal

import pytest

from panestream.errors import SinkError
from panestream.insight.report_recording import RunReport
from panestream.jobs import cli
from tests.insight.runs import progress
from tests.insight.test_inspect import Page
from tests.jobs.test_command_line import JOB, StandIn, invoke


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


@pytest.fixture
def spark(monkeypatch):
    stand_in = StandIn()
    stand_in.batches = [progress(number, random.Random(number)) for number in range(3)]
    monkeypatch.setattr(cli, "make_runner", stand_in)
    monkeypatch.setenv("COLUMNS", "400")
    return stand_in


def text_of(page):
    return " ".join(Page(page.read_text("utf-8")).text)


def test_report_of_a_completed_run_is_written(job, spark, tmp_path):
    result = invoke("run", job, "--output", tmp_path / "o", "--report", tmp_path / "run.html")
    assert result.exit_code == 0, result.output
    assert f"report  {tmp_path / 'run.html'}\n" in result.output
    text = text_of(tmp_path / "run.html")
    for each in (
        "hot items",
        "done: all there was has been read",
        str(job),
        "in 3 micro-batches",
        "PySpark",
        str(tmp_path / "o" / "main"),
    ):
        assert each in text, each


def test_report_of_a_failed_run_is_written_and_the_run_still_fails(job, spark, tmp_path):
    spark.error = SinkError("the disk is full")
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 2
    assert "error: the disk is full" in result.stderr
    text = text_of(tmp_path / "run.html")
    assert "SinkError: the disk is full" in text
    assert "in 3 micro-batches" in text


def test_report_of_a_stopped_run_is_written(job, spark, tmp_path):
    spark.endless, spark.sent = True, signal.SIGINT
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 130
    assert "stopped, before its end" in text_of(tmp_path / "run.html")


def test_report_is_written_if_spark_does_not_start(job, monkeypatch, tmp_path):
    def no_spark(loaded):
        raise SinkError("no Spark today")

    monkeypatch.setattr(cli, "make_runner", no_spark)
    assert invoke("run", job, "--report", tmp_path / "run.html").exit_code == 2
    assert "no Spark today" in text_of(tmp_path / "run.html")


def test_missing_folder_of_the_report_fails_before_the_run(job, spark, tmp_path):
    result = invoke("run", job, "--report", tmp_path / "nowhere" / "run.html")
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
    assert spark.loaded is None, "Spark was started in vain"


def test_unwritable_report_fails_before_the_run(job, tmp_path):
    # Root ignores permissions, so use a name that is too long for the file system once the temporary file's suffix is added.
    result = invoke("run", job, "--report", tmp_path / f"{'x' * 250}.html")
    assert result.exit_code == 2
    assert "cannot be written: File name too long" in " ".join(result.stderr.split())
    assert "batch 0" not in result.stdout


def test_report_that_cannot_be_written_after_the_run_is_a_warning(job, spark, monkeypatch, tmp_path):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunReport, "write", full)
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 0
    assert "warning: the report" in result.stderr
    assert "No space left on device" in result.stderr


def test_error_in_the_report_does_not_fail_the_run(job, spark, monkeypatch, tmp_path):
    monkeypatch.setattr("panestream.insight.report_recording.page_of", lambda run: 1 / 0)
    monkeypatch.setattr("panestream.insight.report_points.Points.add", lambda self, *given: 1 / 0)
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 0
    assert "could not be written: division by zero" in result.stderr


def test_run_without_the_option_records_no_report(job, spark):
    assert invoke("run", job).exit_code == 0
    assert spark.loaded.report is None
