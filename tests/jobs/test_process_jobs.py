"""Job files with [process] without windows, and with [rules]: the resulting jobs, errors for mistakes, and runs on Spark."""

from __future__ import annotations

import json

import pytest

from panestream.errors import JobError
from panestream.jobs.building import find_function
from panestream.jobs.cli import described
from panestream.jobs.loading import load_job
from tests.jobs.batches import write_batches

MODULE = """\
import panestream as pst

LIMITS = pst.state.MapStateDescriptor("limits")


class Gaps(pst.functions.KeyedProcessFunction):
    def process_element(self, value, ctx):
        last = ctx.get_state(pst.state.ValueStateDescriptor("last"))
        if last.value() is not None:
            yield abs(value.second - last.value())  # a batch has no order of arrival
        last.update(value.second)


class AboveLimit(pst.functions.KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        limit = ctx.get_broadcast_state(LIMITS).get(value.country)
        if limit is not None and value.amount > limit:
            yield value.amount, limit
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000_000)

    def on_timer(self, timestamp, ctx):
        yield 0, ctx.get_broadcast_state(LIMITS).get("fr")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(LIMITS).put(value.country, value.amount)


class Silence(Gaps):
    uses_processing_time = True


MADE = Gaps()


def rows(key, context, elements):
    yield 1
"""
SOURCE = """\
[source]
format = "csv"
path = "payments"
schema = "user STRING, country STRING, amount BIGINT, second BIGINT"
files_per_batch = 1
"""
TIMES = """\
[{at}event_time]
column = "second"
unit = "seconds"
[{at}watermark]
delay = "1 second"
"""
ROWS = 'key = "user"\n' + SOURCE + TIMES.format(at="")
RULES = """\
[rules.source]
format = "csv"
path = "limits"
schema = "country STRING, amount BIGINT, second BIGINT"
""" + TIMES.format(at="rules.")
IDLE = 'idleness = "1 minute"\n'
GAPS = '[process]\nfunction = "mine:Gaps"\nschema = "gap BIGINT"\n'
ABOVE = '[process]\nfunction = "mine:AboveLimit"\nschema = "amount BIGINT, at_most BIGINT"\n'
OUT = '[sinks.main]\nformat = "json"\npath = "main"\n'
WINDOW = '[window]\ntype = "tumbling"\nsize = "1 hour"\n'


def test_process_without_windows_needs_neither_windows_nor_times(loaded_of):
    loaded = loaded_of('key = "user"\n' + SOURCE + GAPS + OUT)
    assert loaded.job.without_windows == "process"
    assert not loaded.job.needs_event_time
    assert dict(described(loaded.job))["process"] == "mine:Gaps -> gap BIGINT"


def test_process_with_windows_keeps_them(loaded_of):
    assert loaded_of(ROWS + WINDOW + GAPS + OUT).job.without_windows is None


def test_rules_are_the_second_stream_of_the_job(loaded_of, tmp_path):
    invalid = '[sinks.invalid_rules]\nformat = "json"\npath = "invalid"\n'
    text = ROWS + RULES.replace('"seconds"\n', '"seconds"\ninvalid = "side_output"\n') + IDLE + ABOVE + OUT + invalid
    job = loaded_of(text).job
    assert [(where, one.key) for where, one in job.streams] == [((), ("user",)), (("rules",), ())]
    assert dict(described(job))["rules source"] == f"{tmp_path}/limits"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (ROWS + GAPS + OUT + "[fill]\nmethod = 'zero'\n", "fill: is about windows, but there is no [window]. Leave it out, or write [window]"),
        ("rows_per_pane = 3\n" + ROWS + GAPS + OUT, "job.toml:1: rows_per_pane: is about windows, but there is no [window]"),
        (ROWS + GAPS + "stateless = true\n" + OUT, "process.stateless: is for the rows of windows, but there is no [window]"),
        (ROWS + GAPS + OUT + OUT.replace("main", "late"), "sinks.late: would stay empty: windows have late rows, but there is no [window]"),
        (ROWS + GAPS + OUT + "[trigger]\nfire_at_end = true\n", "trigger.fire_at_end: closes windows, but there is no [window]"),
        (ROWS + RULES + ABOVE + OUT, "rules.watermark: silent rules would hold the watermark back: set strategy = 'none', or"),
        (ROWS + RULES + IDLE + WINDOW + ABOVE + OUT, "job.toml:12: rules: need [process] without [window]"),
        (ROWS.partition("\n")[2] + RULES + IDLE + ABOVE + OUT, "rules: are for the rows of keys: 'key' is missing"),
        ('key = "user"\n' + SOURCE + RULES + IDLE + ABOVE + OUT, "job.toml:11: rules.event_time: the stream of [source] has no [event_time]. Give it to both, or to neither"),
        (ROWS + RULES + IDLE + ABOVE + OUT + OUT.replace("main", "invalid_rules"), "sinks.invalid_rules: would stay empty"),
        (ROWS + GAPS + OUT + OUT.replace("main", "invalid_rules"), "sinks.invalid_rules: is for jobs with [rules]"),
        (ROWS + GAPS + OUT + OUT.replace("main", "late_left"), "sinks.late_left: is for jobs with two streams, [left] and [right]"),
        (ROWS + 'closing_after = "1 minute"\n' + GAPS + OUT, "closing_after: needs a query that keeps running, trigger.every = '10 seconds'"),
        (ROWS + RULES + IDLE + 'per_key = "1 hour"\n' + ABOVE + OUT, "rules.watermark.per_key: is for the rows of keys, and rules have no key"),
        (ROWS + GAPS + '[sinks.main]\nformat = "merge"\ntable = "t"\n', "sinks.main: keeps one row of each key, and [process] without [window] may give many"),
        (ROWS + RULES.replace("[rules.source]", '[rules]\nkey = "country"\n[rules.source]') + IDLE + ABOVE + OUT, "rules.key: unknown key here: every key receives every rule"),
    ],
)  # fmt: skip
def test_mistake_in_a_process_without_windows_is_reported(complaint, text, answer):
    assert answer in complaint(text)


def test_process_of_two_keyed_streams_needs_windows(complaint):
    left = 'key = "user"\n' + SOURCE.replace("[source]", "[left.source]") + TIMES.format(at="left.")
    text = "[left]\n" + left + "[right]\n" + left.replace("left.", "right.") + GAPS + OUT
    assert "process: two streams meet in windows: write [window]. A small stream for all keys is called [rules]" in complaint(
        text
    )


def write_job(folder, text):
    """Write a job file and its module, whose name belongs to this test, since Python loads a module once. Return the job's path."""
    module = folder.name
    (folder / f"{module}.py").write_text(MODULE)
    (folder / "job.toml").write_text(text.replace("mine:", f"{module}:"))
    return folder / "job.toml"


@pytest.mark.parametrize(
    ("text", "key", "answer"),
    [
        (ROWS + GAPS.replace("Gaps", "rows") + OUT, "process.function", "A function of the rows of a window needs a [window]"),
        (ROWS + ABOVE + OUT, "process.function", "extends KeyedBroadcastProcessFunction: its second stream is missing, [rules]"),
        (
            ROWS + RULES + IDLE + GAPS + OUT,
            "process.function",
            "KeyedBroadcastProcessFunction, which receives [rules]. Or leave out [rules]",
        ),
        (
            ROWS + RULES + IDLE + GAPS.replace("Gaps", "rows") + OUT,
            "process.function",
            "is not of a class that extends KeyedBroadcastProcessFunction",
        ),
        (ROWS + WINDOW + GAPS + OUT, "process.function", "receives rows one by one, without windows: leave out [window]"),
        (
            ROWS + GAPS.replace("Gaps", "Silence") + OUT,
            "trigger",
            "timers that wait for the clock keep a query running. Set every",
        ),
    ],
)
def test_function_that_does_not_fit_the_job_is_refused_before_spark_starts(tmp_path, text, key, answer):
    with pytest.raises(JobError) as error:
        find_function(load_job(write_job(tmp_path, text)))
    place, _, said = str(error.value).partition(f": {key}: ")
    assert place.startswith(str(tmp_path / "job.toml"))
    assert answer in said


@pytest.mark.parametrize("more", ['[trigger]\nevery = "1 second"\n', '[processing_time]\ncolumn = "second"\nunit = "seconds"\n'])
def test_function_with_timers_of_the_clock_needs_a_clock(tmp_path, more):
    job = load_job(write_job(tmp_path, ROWS + GAPS.replace("Gaps", "Silence") + OUT + more))
    assert find_function(job).value.uses_processing_time


@pytest.fixture
def run_job(panestream, tmp_path):
    """Return a function that runs a job in a mode and returns its rows."""

    def run(text, mode):
        write_job(tmp_path, text)
        result = panestream("run", tmp_path / "job.toml", "--mode", mode, "--output", tmp_path / mode)
        assert result.exit_code == 0, result.output
        files = (tmp_path / mode / "main").rglob("*.json")
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted(rows, key=lambda row: tuple(row.values()))

    write_batches(
        tmp_path / "payments", [[("ann", "fr", 70, 1), ("bob", "fr", 30, 2)], [("ann", "fr", 60, 30), ("bob", "fr", 55, 31)]]
    )
    write_batches(tmp_path / "limits", [[("fr", 50, 2), ("fr", 58, 3)]])
    return run


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_job_with_rules_reports_payments_above_the_limit(run_job, mode):
    """The timers of the last two payments wait in the stream. Those of the first run although the rules are old."""
    rules = RULES.replace('delay = "1 second"', 'strategy = "none"')
    found = [tuple(row.values()) for row in run_job(ROWS + rules + ABOVE + OUT, mode)]
    assert found == sorted([("ann", 60, 58), *[("ann", 0, 58), ("bob", 0, 58)] * (1 if mode == "stream" else 2)])


@pytest.mark.spark
def test_job_with_an_object_as_process_function_keeps_the_state_of_keys(run_job):
    rows = run_job(ROWS + GAPS.replace("Gaps", "MADE") + OUT, "batch")
    assert rows == [{"user": "ann", "gap": 29}, {"user": "bob", "gap": 29}]
