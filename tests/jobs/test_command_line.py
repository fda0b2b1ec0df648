"""The command line with a fake Spark: its output, its exit status, and how it stops."""

from __future__ import annotations

import os
import re
import signal
import threading
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from hot_items import __main__ as demo
from panestream.errors import InvalidEventTimeError, PanestreamWarning, PlanMismatchError, SinkError
from panestream.jobs import cli
from panestream.jobs.building import WORDS
from panestream.jobs.schema import CONTROL
from panestream.jobs.terminal import Display, PipeConsole, PlainConsole, Totals, status_line

PACKAGE = Path(cli.__file__).parents[1]
JOB = (Path(__file__).parents[2] / "examples" / "hot_items.toml").read_text()


@dataclass(frozen=True)
class Batch:
    batch_id: int = 0
    rows: int = 1000
    duration_ms: int = 500
    rows_per_second: float = 2000.0
    watermark: int | None = 1_511_658_000_000_000
    max_event_time: int | None = 1_511_658_005_000_000
    late_rows: int = 0
    invalid_rows: int = 0
    fired_rows: int = 0
    fired_windows: int = 0
    early_firings: int = 0
    on_time_firings: int = 0
    late_firings: int = 0
    open_windows: int = 12

    @property
    def firings(self):
        return self.early_firings + self.on_time_firings + self.late_firings


@dataclass
class StandIn:
    """A runner whose query has some micro-batches and then ends, continues forever (and sends a signal), or fails."""

    batches: list = field(default_factory=list)
    error: Exception | None = None
    endless: bool = False
    sent: int | None = None
    warning: str | None = None
    stopped: bool = False
    batch_ran: bool = False
    loaded: object = None
    metrics_url: str | None = None

    def __call__(self, loaded):
        self.loaded = loaded
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def explain(self):
        if self.error:
            raise self.error
        return "operator   aligned panes\n[not markup]"

    def guarantees(self):
        return {"main": "at least once: told so"}

    def start(self, on_progress):
        if self.warning:
            warnings.warn(self.warning, PanestreamWarning, stacklevel=1)
        for batch in self.batches:
            on_progress(batch)
        return self

    def run_batch(self):
        self.batch_ran = True

    def await_termination(self, timeout=None):
        if self.error:
            raise self.error
        if self.endless and not self.stopped:
            if self.sent is not None:
                os.kill(os.getpid(), self.sent)
                self.sent = None
            threading.Event().wait(0.01)
            return False
        return True

    def stop(self):
        self.stopped = True


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


@pytest.fixture
def spark(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setattr(cli, "make_runner", stand_in)
    monkeypatch.setenv("COLUMNS", "400")
    return stand_in


def invoke(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def test_explain_prints_sources_sinks_and_operator(job, spark, tmp_path):
    result = invoke("explain", job, "--output", tmp_path / "o")
    assert result.exit_code == 0, result.output
    assert "job         hot items (stream)" in result.output
    assert f"-> main     {tmp_path / 'o' / 'main'} (parquet), at least once: told so\n" in result.output
    assert f"-> late     {tmp_path / 'o' / 'late'} (parquet)\n" in result.output
    assert "operator   aligned panes\n[not markup]" in result.output


def test_run_prints_totals_of_all_micro_batches(job, spark, tmp_path):
    spark.batches = [
        Batch(0, late_rows=2, early_firings=5),
        Batch(1, late_rows=1, invalid_rows=4, fired_windows=3, on_time_firings=2, late_firings=1, open_windows=7),
    ]
    result = invoke("run", job, "--output", tmp_path / "o")
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "hot items: done" in words
    assert "rows 2,000 in 2 micro-batches, 2,000 rows/s while they ran" in words
    assert "late rows 3 rows without a time 4 firings 8 open windows 7" in words
    assert "watermark 2017-11-26 01:00:00 UTC, 5 s behind the newest event" in words
    assert f"-> main {tmp_path / 'o' / 'main'} (parquet)" in words


def test_run_with_mode_batch_uses_no_checkpoint(job, spark):
    result = invoke("run", job, "--mode", "batch")
    assert result.exit_code == 0, result.output
    assert spark.batch_ran
    assert spark.loaded.job.mode == "batch"
    assert "checkpoint" not in result.output


def test_faulty_job_file_prints_one_message_and_exits_with_2(job, spark):
    job.write_text(JOB.replace("slide =", "slid ="))
    result = invoke("run", job)
    assert result.exit_code == 2
    assert "job.toml:31: window.slid: unknown key; did you mean 'slide'?" in result.stderr
    assert "Traceback" not in result.output
    assert spark.loaded is None, "Spark was started for a job that cannot run"


def test_panestream_error_during_a_run_is_printed_without_traceback(job, spark):
    spark.error = PlanMismatchError("the checkpoint belongs to another plan [slide]")
    result = invoke("run", job)
    assert result.exit_code == 2
    assert "error: the checkpoint belongs to another plan [slide]" in result.stderr
    assert "Traceback" not in result.output
    assert "Traceback" in invoke("run", job, "--traceback").stderr


def test_errors_and_warnings_use_the_terms_of_job_files(job, spark):
    plain = "2 of 9 rows have an unusable event time. Filter such rows out, or route them to a side output "
    spark.error = InvalidEventTimeError(plain + "with .side_output_invalid(tag)")
    spark.warning = (
        "micro-batch 3 dropped 2 late rows: keep them with .side_output_late_data('late') and "
        "start(late=...), or wait longer for them: more delay of the watermark, .allowed_lateness(...). (Shown once for each "
        "start; the counts of every micro-batch are in query.recent_progress.)"
    )
    result = invoke("run", job)
    assert result.exit_code == 2
    told = f"{job}:20: event_time: {plain}with event_time.invalid = 'side_output' and a [sinks.invalid]"
    assert told in result.stderr
    assert (
        "warning: micro-batch 3 dropped 2 late rows: keep them in a [sinks.late], or wait longer for them: "
        "more watermark.delay, or allowed_lateness.\n" in result.stderr
    )


def test_each_reworded_phrase_occurs_in_the_library():
    library = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "jobs")
    # Join strings that continue on the next line of code.
    library = re.sub(r'"\n\s*f?"', "", library)
    assert [words for words in WORDS if words not in library] == []


def test_spark_error_prints_its_first_sentence_and_exits_with_1(job, spark):
    from pyspark.errors import AnalysisException

    spark.error = AnalysisException(
        "[TABLE_OR_VIEW_NOT_FOUND] no such table. SQLSTATE: 42P01; line 1\n'Project [*]\n+- 'Relation"
    )
    result = invoke("explain", job)
    assert result.exit_code == 1
    assert "error: Spark failed: [TABLE_OR_VIEW_NOT_FOUND] no such table." in result.stderr
    assert "Relation" not in result.stderr
    assert "(--traceback shows where)" in result.stderr


def test_unexpected_exception_is_not_caught(job, spark):
    spark.error = KeyError("ours")
    assert isinstance(invoke("explain", job).exception, KeyError)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_stops_the_query_and_prints_how_to_resume(job, spark, monkeypatch, number):
    spark.endless = True
    monkeypatch.setattr("sys.argv", ["panestream", "run", "job.toml"])
    spark.sent = number
    before = signal.getsignal(number)
    result = invoke("run", job)
    assert result.exit_code == 130, result.output
    assert spark.stopped
    assert "hot items: stopped" in result.output
    assert "Go on from here with the same command:\n  panestream run job.toml" in result.output
    assert signal.getsignal(number) == before


def test_interrupted_demo_prints_the_make_command_that_resumes_it(spark, monkeypatch, tmp_path):
    spark.endless, spark.sent = True, signal.SIGINT
    arguments = ["--rows", "1000", "--output", str(tmp_path / "o")]
    monkeypatch.setattr("sys.argv", ["hot_items", *arguments])
    result = CliRunner().invoke(demo.app, arguments)
    assert result.exit_code == 130, result.output
    assert f"same command:\n  make run ARGS='--rows 1000 --output {tmp_path / 'o'} --keep'" in result.output


def test_missing_input_is_reported_before_spark_starts(job):
    result = invoke("run", job)  # the real runner
    assert result.exit_code == 2
    assert "job.toml:15: source.path: " in result.stderr
    assert " does not exist" in result.stderr


def test_wrong_command_line_options_are_refused(job, spark):
    assert invoke("run", job, "--mode", "steam").exit_code == 2
    assert invoke("run").exit_code == 2
    assert invoke("run", job, "--metrics-port", "70000").exit_code == 2
    assert CliRunner().invoke(demo.app, ["--rows", "5"]).exit_code == 2


# --- the display during a run


def display_on(terminal, kind="xterm"):
    out = StringIO()
    # Fix the settings that Console would otherwise read from the environment of the test run.
    return Display(Console(file=out, force_terminal=terminal, width=200, color_system=None, _environ={"TERM": kind})), out


def test_live_line_shows_rate_watermark_late_rows_and_firings():
    totals = Totals(0.0)
    totals.add(Batch(7, late_rows=1234, on_time_firings=9))
    line = "batch 7  2,000 rows/s  watermark 2017-11-26 01:00:00  lag 5 s  late 1,234  open 12  firings 9"
    assert status_line(totals).plain == line
    narrow = "batch 7  2,000 rows/s  wm 01:00:00  lag 5 s  late 1,234  open 12  firings 9"
    assert status_line(totals, 80).plain == narrow


def test_live_line_has_dashes_if_there_is_no_watermark():
    totals = Totals(0.0)
    totals.add(Batch(watermark=None, max_event_time=None))
    assert "watermark -  lag -" in status_line(totals).plain
    totals.watermark = 2**63 - 1
    assert "watermark -  lag -" in status_line(totals).plain


def test_live_line_shows_the_watermark_with_microseconds():
    totals = Totals(0.0)
    totals.add(Batch(watermark=1_511_657_999_999_999))
    assert "watermark 2017-11-26 00:59:59.999999  lag" in status_line(totals).plain
    assert "wm 00:59:59.999999  lag" in status_line(totals, 80).plain


def test_live_line_of_an_interval_join_has_no_windows():
    totals = Totals(0.0, has_windows=False)
    totals.add(Batch(0, rows=5, on_time_firings=3))
    assert "open" not in status_line(totals).plain
    assert "firings" not in status_line(totals).plain


@pytest.mark.parametrize("terminal", [{"terminal": False}, {"terminal": True, "kind": "dumb"}])
def test_plain_output_prints_a_line_every_few_seconds(monkeypatch, terminal):
    display, out = display_on(**terminal)
    with display:
        display(Batch(0))
        display(Batch(1))
        assert out.getvalue() == ""
        monkeypatch.setattr("panestream.jobs.terminal.PLAIN_EVERY", 0.0)
        display(Batch(2))
        assert out.getvalue().startswith("batch 2 ")


def test_terminal_redraws_one_line_and_clears_it_at_the_end():
    display, out = display_on(terminal=True)
    with display:
        display(Batch(3))
    assert "batch 3" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")


def test_lines_above_the_live_line_appear_after_each_micro_batch():
    out = StringIO()
    display = Display(Console(file=out, _environ={}), after_batch=lambda progress: [f"ranking of {progress.batch_id}"])
    with display:
        display(Batch(0))
        display(Batch(1))
    assert out.getvalue() == "ranking of 0\nranking of 1\n"


# --- a closed output


def exit_status(arguments, app=cli.app):
    """Return the exit status of a command whose standard output is a closed pipe, as after `head`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, redirect_stdout(pipe), pytest.raises(SystemExit) as end:
        app([str(argument) for argument in arguments])
    return end.value.code


def test_a_closed_output_stops_the_query_that_prints_from_another_thread(job, spark, monkeypatch, capfd):
    monkeypatch.setattr("panestream.jobs.terminal.PLAIN_EVERY", 0.0)
    spark.endless = True
    raised = []

    def start(on_progress):
        def micro_batch():
            try:
                on_progress(Batch())
            except BaseException as error:  # noqa: BLE001 - what Spark would wait for an answer to, for ever
                raised.append(error)

        thread = threading.Thread(target=micro_batch)
        thread.start()
        thread.join()
        return spark

    monkeypatch.setattr(spark, "start", start, raising=False)
    assert exit_status(["run", job]) == 141
    assert raised == []
    assert spark.stopped
    assert capfd.readouterr().err == ""


def test_a_closed_output_ends_the_command_before_spark_is_started(job, spark, tmp_path):
    assert exit_status(["--rows", 1000, "--output", tmp_path / "o"], demo.app) == 141
    assert spark.loaded is None


def test_a_sink_that_finds_the_output_closed_ends_the_command_quietly(job, spark, capfd):
    spark.error = SinkError("the sink of the output 'main' (console) failed")
    spark.error.__context__ = BrokenPipeError(32, "Broken pipe")
    assert exit_status(["run", job]) == 141
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("console", [PlainConsole, PipeConsole])
def test_consoles_escape_control_characters(console):
    said, table = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eturned\x7f", Table()
    table.add_row(Text(said))
    written = StringIO()
    for each in (said, Text(said), table):
        console(file=written, width=200).print(each, markup=False)
    assert not CONTROL.search(written.getvalue().replace("\n", ""))
    assert written.getvalue().count("\\x1b[31mred\\x1b]0;title") == 3


def test_consoles_keep_their_own_colours():
    written = StringIO()
    PlainConsole(file=written, force_terminal=True, color_system="standard").print(Text("error: ", style="bold red"))
    assert "\x1b[1;31merror: " in written.getvalue()


@pytest.mark.parametrize("command", ["run", "explain"])
def test_control_characters_of_a_job_file_do_not_reach_the_terminal(tmp_path, command):
    (tmp_path / "job\x1b[31m.toml").write_text('"\\u001b]0;title\\u0007" = 1\n[source]\nformat = "\\u009b2J"')
    result = CliRunner().invoke(cli.app, [command, str(tmp_path / "job\x1b[31m.toml")])
    assert result.exit_code == cli.EXIT_ERROR
    assert not CONTROL.search(result.output.replace("\n", ""))
    assert "\\x1b]0;title" in result.output
