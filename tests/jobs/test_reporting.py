"""``panestream run --report``: the page is written whatever the run ends by, and never harms it. A stand-in for Spark."""

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


def test_a_run_is_reported(job, spark, tmp_path):
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


def test_a_run_that_fails_is_reported_and_fails_all_the_same(job, spark, tmp_path):
    spark.error = SinkError("the disk is full")
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 2
    assert "error: the disk is full" in result.stderr
    text = text_of(tmp_path / "run.html")
    assert "SinkError: the disk is full" in text
    assert "in 3 micro-batches" in text


def test_a_run_that_is_stopped_is_reported(job, spark, tmp_path):
    spark.endless, spark.sent = True, signal.SIGINT
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 130
    assert "stopped, before its end" in text_of(tmp_path / "run.html")


def test_where_spark_does_not_even_start_the_page_says_so(job, monkeypatch, tmp_path):
    def no_spark(loaded):
        raise SinkError("no Spark today")

    monkeypatch.setattr(cli, "make_runner", no_spark)
    assert invoke("run", job, "--report", tmp_path / "run.html").exit_code == 2
    assert "no Spark today" in text_of(tmp_path / "run.html")


def test_a_page_that_cannot_be_written_is_found_before_the_run(job, spark, tmp_path):
    result = invoke("run", job, "--report", tmp_path / "nowhere" / "run.html")
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
    assert spark.loaded is None, "Spark was started in vain"


def test_a_folder_that_takes_no_files_is_found_before_the_run(job, tmp_path):
    # Not by permissions: root has them all. A name may be too long for the file system only with what is written beside.
    result = invoke("run", job, "--report", tmp_path / f"{'x' * 250}.html")
    assert result.exit_code == 2
    assert "cannot be written: File name too long" in " ".join(result.stderr.split())
    assert "batch 0" not in result.stdout


def test_a_page_that_cannot_be_written_afterwards_fails_nothing(job, spark, monkeypatch, tmp_path):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunReport, "write", full)
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 0
    assert "warning: the report" in result.stderr
    assert "No space left on device" in result.stderr


def test_a_fault_of_the_report_fails_nothing(job, spark, monkeypatch, tmp_path):
    monkeypatch.setattr("panestream.insight.report_recording.page_of", lambda run: 1 / 0)
    monkeypatch.setattr("panestream.insight.report_points.Points.add", lambda self, *given: 1 / 0)
    result = invoke("run", job, "--report", tmp_path / "run.html")
    assert result.exit_code == 0
    assert "could not be written: division by zero" in result.stderr


def test_without_the_option_nothing_is_taken_note_of(job, spark):
    assert invoke("run", job).exit_code == 0
    assert spark.loaded.report is None
