"""Job files with every kind of window, with triggers, lateness, merging sinks and functions, and the errors for mistakes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from panestream import agg
from panestream.errors import JobError
from panestream.jobs.functions import find
from panestream.jobs.loading import load_job
from panestream.windowing.assigners import (
    BusinessDays,
    BusinessHours,
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarYears,
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    ProcessingTimeSessionWindows,
    RollingWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)

SOURCE = """\
[source]
format = "csv"
path = "clicks"
schema = "user STRING, item STRING, pause BIGINT, ts TIMESTAMP"
"""
TIME = """\
[event_time]
column = "ts"
[watermark]
delay = "5 seconds"
"""
OUT = """\
[sinks.main]
format = "parquet"
path = "out"
"""
COUNT = "[aggregate]\nn = 'count'\n"


def text_of(window, *, before="", time=TIME, compute=COUNT, out=OUT, after=""):
    return f'key = "user"\n{before}{SOURCE}{time}{window}{compute}{out}{after}'


EVERY = "[trigger]\nevery = '1 second'\n"


@pytest.mark.parametrize(
    ("window", "assigner"),
    [
        ("type = 'tumbling'\nsize = '1 day'\noffset = '-8 hours'", TumblingEventTimeWindows.of("1 day", "-8 hours")),
        ("type = 'sliding'\nsize = '1 hour'\nslide = '5 minutes'", SlidingEventTimeWindows.of("1 hour", "5 minutes")),
        (
            "type = 'cumulating'\nsize = '1 day'\nstep = '1 hour'\noffset = '1 hour'",
            CumulatingEventTimeWindows.of("1 day", "1 hour", "1 hour"),
        ),
        ("type = 'session'\ngap = '30 minutes'", EventTimeSessionWindows.with_gap("30 minutes")),
        (
            "type = 'session'\ngap_column = 'pause * 2'\ngap_unit = 'seconds'\nmax_duration = '4 hours'",
            EventTimeSessionWindows.with_gap_column("pause * 2", unit="seconds").max_duration("4 hours"),
        ),
        (
            "type = 'session'\ngap = '30 minutes'\nclosed_by = \"item = 'out'\"",
            EventTimeSessionWindows.with_gap("30 minutes").closed_by("item = 'out'"),
        ),
        (
            "type = 'predicates'\nstart = \"item = 'in'\"\nend = \"item = 'out'\"\ngap = '1 h'",
            PredicateWindows.of(start="item = 'in'", end="item = 'out'", gap="1 h"),
        ),
        ("type = 'look_back'\nsize = '1 hour'\nfollowing = '1 minute'", LookBackWindows.of("1 hour", "1 minute")),
        (
            "type = 'rolling'\nstep = '1 minute'\nlengths = { 1h = '1 hour', ever = 'all time' }",
            RollingWindows.of({"1h": "1 hour", "ever": None}, every="1 minute"),
        ),
        ("type = 'tumbling'\nsize = '1 s'\ntime = 'processing'", TumblingProcessingTimeWindows.of("1 s")),
        ("type = 'sliding'\nsize = '2 s'\nslide = '1 s'\ntime = 'processing'", SlidingProcessingTimeWindows.of("2 s", "1 s")),
        (
            "type = 'cumulating'\nsize = '1 h'\nstep = '1 min'\ntime = 'processing'",
            CumulatingProcessingTimeWindows.of("1 h", "1 min"),
        ),
        ("type = 'session'\ngap = '1 min'\ntime = 'processing'", ProcessingTimeSessionWindows.with_gap("1 min")),
        ("type = 'calendar_days'\nzone = 'America/New_York'", CalendarDays.of(1, zone="America/New_York")),
        (
            "type = 'calendar_days'\nsize = 7\nslide = 1\noffset = '6 hours'\nzone = 'America/New_York'",
            CalendarDays.of(7, zone="America/New_York", every=1, offset="6 hours"),
        ),
        (
            "type = 'calendar_hours'\nsize = 6\nzone = 'UTC'\ntime = 'processing'",
            CalendarHours.of(6, zone="UTC", by_processing_time=True),
        ),
        ("type = 'calendar_weeks'\nfirst_day = 'sunday'\nzone = 'UTC'", CalendarWeeks.of(1, zone="UTC", first_day="sunday")),
        ("type = 'calendar_months'\nstep = 'day'\nzone = 'UTC'", CalendarMonths.of(1, zone="UTC", step="day")),
        ("type = 'calendar_quarters'\nfirst_month = 4\nzone = 'UTC'", CalendarQuarters.of(1, zone="UTC", first_month=4)),
        ("type = 'calendar_years'\nzone = 'UTC'", CalendarYears.of(1, zone="UTC")),
        (
            "type = 'business_days'\nweekend = ['friday']\nholidays = ['2026-12-25']\nzone = 'UTC'",
            BusinessDays.of(1, zone="UTC", weekend=["friday"], holidays=["2026-12-25"]),
        ),
        (
            "type = 'business_hours'\nopens = '09:00'\ncloses = '17:30'\nzone = 'UTC'",
            BusinessHours.of("09:00", "17:30", zone="UTC"),
        ),
        ("type = 'global'\n[firing]\ntrigger = 'count'\ncount = 3", GlobalWindows.create()),
    ],
)
def test_job_file_can_have_every_kind_of_window(job_of, window, assigner):
    job = job_of(text_of(f"[window]\n{window}\n", after=EVERY))
    assert job.window.assigner == assigner


@pytest.mark.parametrize(("text", "counts"), [("size = 100", (100, None)), ("size = 100\nslide = 10", (100, 10))])
def test_count_windows_need_no_event_time(job_of, text, counts):
    job = job_of(text_of(f"[window]\ntype = 'count'\n{text}\n", time=""))
    assert job.window.counts == counts
    assert job.event_time is None


def test_several_look_backs_have_labels_and_chosen_columns(job_of):
    text = "[windows.h]\ntype = 'look_back'\nsize = '1 hour'\n[windows.d]\ntype = 'look_back'\nsize = '1 day'\n"
    job = job_of(text_of(text, before="keep = ['item']\n"))
    assert job.keep == ("item",)
    assert {label: spec.assigner for label, spec in job.windows.items()} == {
        "h": LookBackWindows.of("1 hour"),
        "d": LookBackWindows.of("1 day"),
    }


def test_several_windows_have_labels(job_of):
    text = text_of(
        "[windows.'1h']\ntype = 'sliding'\nsize = '1 hour'\nslide = '1 minute'\n[windows.day]\ntype = 'cumulating'\nsize = '1 day'\n"
        "step = '1 minute'\n"
    )
    assert {label: spec.assigner for label, spec in job_of(text).windows.items()} == {
        "1h": SlidingEventTimeWindows.of("1 hour", "1 minute"),
        "day": CumulatingEventTimeWindows.of("1 day", "1 minute"),
    }


@pytest.mark.parametrize(
    ("firing", "trigger"),
    [
        ("trigger = 'event_time'", EventTimeTrigger.create()),
        ("trigger = 'processing_time'", ProcessingTimeTrigger.create()),
        ("trigger = 'continuous'\nevery = '5 minutes'", ContinuousEventTimeTrigger.of("5 minutes")),
        (
            "trigger = 'continuous'\nevery = '5 minutes'\ntime = 'processing'",
            ContinuousProcessingTimeTrigger.of("5 minutes"),
        ),
        (
            "trigger = 'continuous'\nevery = '5 minutes'\nonly_changed = true",
            ContinuousEventTimeTrigger.of("5 minutes", only_changed=True),
        ),
        (
            "trigger = 'continuous'\nevery = '5 minutes'\ntime = 'processing'\nonly_changed = true",
            ContinuousProcessingTimeTrigger.of("5 minutes", only_changed=True),
        ),
        ("trigger = 'count'\ncount = 100\npurge = true", PurgingTrigger.of(CountTrigger.of(100))),
        ("trigger = 'count'\ncount = 9\ntimeout = '1 s'", ProcessingTimeoutTrigger.of(CountTrigger.of(9), "1 s")),
        ("trigger = 'after_watermark'\npurge = true", PurgingTrigger.of(AfterWatermark())),
        (
            "trigger = 'after_watermark'\nearly = { any = [{ count = 9 }, { delay = '5 s' }] }\nlate = { count = 1 }",
            AfterWatermark(AfterAny.of(AfterCount.of(9), AfterProcessingTime.of("5 s")), AfterCount.of(1)),
        ),
        (
            "trigger = 'after_watermark'\nearly = { each = [{ all = [{ count = 2 }] }, { every = '1 m' }] }",
            AfterWatermark().early(AfterEach.of(AfterAll.of(AfterCount.of(2)), ContinuousEventTimeTrigger.of("1 m"))),
        ),
        ("trigger = 'end_of_stream'", EndOfStreamTrigger()),
        ("trigger = 'never'", NeverTrigger()),
    ],
)
def test_job_file_can_have_every_trigger(job_of, firing, trigger):
    job = job_of(text_of(f"{TUMBLING}[firing]\n{firing}\n", after=EVERY))
    assert job.firing.recipe == trigger
    assert job.firing.uses_processing_time == trigger.uses_processing_time


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("early = 3", "firing.early: must be a table such as { count = 100 }, not an integer: 3"),
        ("early = {}", "firing.early: must have one key, of count, delay, every, any, all, each: has none"),
        ("late = { count = 1, delay = '5 s' }", "firing.late: must have one key, of count, delay, every, any, all, each"),
        ("late = { cuont = 1 }", "firing.late.cuont: unknown key; did you mean 'count'?"),
        ("late = { count = 0 }", "firing.late.count: must be at least 1, not 0"),
        ("early = { any = { count = 1 } }", "firing.early.any: must be an array of tables"),
        ("early = { any = [{ count = 1 }, { delay = 3 }] }", "firing.early.any[1].delay: must be a string such as '90 seconds'"),
        ("early = { each = [{ every = '1 m' }, { count = 1 }] }", "never finishes"),
    ],
)
def test_mistake_in_a_trigger_is_reported(complaint, given, told):
    assert told in complaint(text_of(f"{TUMBLING}[firing]\ntrigger = 'after_watermark'\n{given}\n"))
    other = complaint(text_of(f"{TUMBLING}[firing]\ntrigger = 'event_time'\nlate = {{ count = 1 }}\n"))
    assert "firing.late: is for trigger 'after_watermark', not for 'event_time'" in other


TUMBLING = "[window]\ntype = 'tumbling'\nsize = '1 hour'\n"


def test_job_file_can_set_options_of_the_whole_job(job_of):
    before = "allowed_lateness = '1 day'\nkey_groups = 8\ntasks = 2\nwith_firing = true\nchangelog = true\nevery_firing = true\n"
    job = job_of(text_of(TUMBLING, before=before))
    assert (job.allowed_lateness, job.key_groups, job.tasks) == ("1 day", 8, 2)
    assert job.with_firing
    assert job.changelog
    assert job.every_firing


def test_job_file_can_fill_windows_without_rows(job_of):
    job = job_of(
        text_of(TUMBLING, after="[fill]\nmethod = 'last'\nmax_gap = '1 day'\nresults = { n = 'zero' }\nkeys = 'db.users'\n")
    )
    own = job.fill
    assert (own.method, own.max_gap, own.results, own.keys) == ("last", "1 day", {"n": "zero"}, "db.users")


@pytest.mark.parametrize(
    ("given", "compute", "told"),
    [
        ("method = 'lst'", COUNT, "fill.method: 'lst' is not known; did you mean 'last'?"),
        ("max_gap = '1 day'", COUNT, "fill: 'method' is missing"),
        ("method = 'last'\nmax_gap = '0 s'", COUNT, "fill.max_gap"),
        ("method = 'last'\nkeys = 'SELECT 1'", COUNT, "fill.keys"),
        ("method = 'zero'", "[panes]\nn = 'count'\n", "fill: is for the aggregates of one stream, [aggregate]: leave it out"),
    ],
)
def test_mistake_in_filling_is_reported(complaint, given, compute, told):
    assert told in complaint(text_of(TUMBLING, compute=compute, after=f"[fill]\n{given}\n"))


def test_stream_ends_if_its_processing_time_is_a_column(job_of):
    text = text_of(
        "[window]\ntype = 'tumbling'\nsize = '1 s'\ntime = 'processing'\n",
        time="[processing_time]\ncolumn = 'pause'\nunit = 'seconds'\n",
    )
    job = job_of(text)
    assert (job.processing_time.column, job.processing_time.unit) == ("pause", "seconds")
    assert job.trigger.spark == {"availableNow": True}


def test_job_file_can_have_merging_sinks_and_sinks_with_options(job_of):
    import panestream as pst

    merge = "[sinks.main]\nformat = 'merge'\ntable = 'shop.clicks'\ntable_format = 'delta'\n"
    job = job_of(text_of(TUMBLING, out=merge))
    assert job.sinks.main.recipe(job.key) == pst.MergeSink("shop.clicks", ["user"], format="delta")
    named = merge + "keys = ['town']\n"
    job = job_of(text_of(TUMBLING, out=named).replace('key = "user"', 'key = "lower(user) AS town"'))
    assert job.sinks.main.recipe(job.key) == pst.MergeSink("shop.clicks", ["town"], format="delta")
    job = job_of(text_of(TUMBLING, out=OUT + "options = { compression = 'zstd' }\n"))
    assert job.sinks.main.recipe(job.key).options == {"compression": "zstd"}


def test_table_sink_without_a_table_has_one_error(complaint):
    told = complaint(text_of(TUMBLING, out="[sinks.main]\nformat = 'table'\ntable_format = 'delta'\n"))
    assert [line.split(": ", 1)[1] for line in told.splitlines()] == ["sinks.main: 'table' is missing: format 'table' needs it"]


def test_trigger_once_runs_one_micro_batch(job_of):
    assert job_of(text_of(TUMBLING, after="[trigger]\nonce = true\n")).trigger.spark == {"once": True}


def test_names_of_result_columns_are_reserved(job_of, complaint):
    from panestream.engine.plan import RESERVED

    for name in RESERVED:
        assert f"the output has a column '{name}' already" in complaint(
            text_of(TUMBLING, compute=f"[aggregate]\n{name} = 'count'\n")
        )
        assert "Write '" in complaint(text_of(TUMBLING).replace('"user"', f'"{name}"', 1))
    # A column name that no result of this job has is free.
    free = "[aggregate]\npane = 'count'\nrows = 'count'\nop = 'count'\nwindow = 'count'\nfiring = 'count'\n"
    assert len(job_of(text_of(TUMBLING, compute=free)).aggregate) == 5
    told = complaint(text_of(TUMBLING, compute=free, before="with_firing = true\nchangelog = true\n"))
    assert "column 'op' already" in told
    assert "column 'firing' already" in told
    assert "column 'window' already" in complaint(text_of("[windows.a]\ntype = 'tumbling'\nsize = '1 h'\n", compute=free))


SESSION = "[window]\ntype = 'session'\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (text_of("[window]\ntype = 'calendar_days'\n"), "window: 'zone' is missing: type 'calendar_days' needs it"),
        (
            text_of("[window]\ntype = 'calendar_days'\nzone = 'Europe/Berln'\n"),
            "window: there is no time zone 'Europe/Berln': did you mean 'Europe/Berlin'?",
        ),
        (
            text_of("[window]\ntype = 'calendar_days'\nzone = 'UTC'\nsize = '7 days'\n"),
            "window.size: calendar_days are counted: size = 7, not '7 days'",
        ),
        (
            text_of("[window]\ntype = 'tumbling'\nsize = '1 h'\nzone = 'UTC'\n"),
            "window.zone: is for types 'calendar_hours', 'calendar_days', 'calendar_weeks', 'calendar_months', 'calendar_quarters', 'calendar_years', 'business_days' and 'business_hours', not for 'tumbling'",
        ),
        (text_of("[window]\ntype = 'predicates'\n"), "window: windows by predicates need one, start='…' or end='…'"),
        (
            text_of("[window]\ntype = 'tumbling'\nsize = '1 h'\nstart = 'a'\n"),
            "window.start: is for type 'predicates', not for 'tumbling'",
        ),
        (
            text_of(SESSION + "gap = '1 s'\ntime = 'processing'\nclosed_by = 'a'\n", after=EVERY),
            "window.closed_by: is for sessions of event time",
        ),
        (text_of(TUMBLING, before="keep = ['item']\n"), "keep: is for look-backs, whose results belong to rows"),
        (
            text_of("[windows.a]\ntype = 'look_back'\nsize = '1 h'\n[windows.b]\ntype = 'tumbling'\nsize = '1 h'\n"),
            "windows.a.type: several windows share their panes",
        ),
        (text_of(SESSION), "job.toml:10: window: 'gap' is missing: after how long without a row does a session end?"),
        (text_of(SESSION + "gap = '0 s'\n"), "job.toml:12: window.gap: must be positive, not '0 s'"),
        (text_of(SESSION + "gapp = '1 s'\n"), "job.toml:12: window.gapp: unknown key; did you mean 'gap'"),
        (
            text_of(SESSION + "gap = '1 s'\ngap_column = 'pause'\n"),
            "job.toml:13: window.gap_column: 'gap' and 'gap_column' exclude each other: keep one of them",
        ),
        (text_of(SESSION + "gap = '1 s'\ngap_unit = 'seconds'\n"), "job.toml:13: window.gap_unit: is for a gap in a column"),
        (
            text_of(SESSION + "gap = '1 s'\nmax_duration = '1 h'\ntime = 'processing'\n", after=EVERY),
            "job.toml:13: window.max_duration: is for sessions of event time",
        ),
        (
            text_of(SESSION + "gap = '1 s'\nslide = '1 s'\n"),
            "job.toml:13: window.slide: is for types 'sliding', 'count', 'calendar_hours', 'calendar_days', 'calendar_weeks', 'calendar_months', 'calendar_quarters', 'calendar_years' and 'business_days', not for 'session'",
        ),
        (
            text_of("[window]\ntype = 'cumulating'\nsize = '1 day'\n"),
            "job.toml:10: window: 'step' is missing: by how much does a cumulating window grow?",
        ),
        (
            text_of("[window]\ntype = 'cumulating'\nsize = '1 day'\nstep = '7 hours'\n"),
            "job.toml:10: window: the largest size of a cumulating window must be a multiple of its step",
        ),
        (text_of("[window]\ntype = 'tumbling'\n"), "job.toml:10: window: 'size' is missing: type 'tumbling' needs it"),
        (text_of("[window]\ntype = 'tumbling'\nsize = 5\n"), "window.size: must be a string such as '90 seconds', not 5"),
        (text_of("[window]\ntype = 'count'\nsize = '5 s'\n"), "window.size: a count window counts rows: size = 100, not '5 s'"),
        (text_of("[window]\ntype = 'count'\nsize = 0\n"), "window.size: must be at least 1, not 0"),
        (
            text_of("[window]\ntype = 'count'\nsize = 5\ntime = 'processing'\n"),
            "job.toml:13: window.time: is for types 'tumbling', 'sliding', 'cumulating', 'session', 'calendar_hours', ",
        ),
        (
            text_of("[window]\ntype = 'count'\nsize = 5\n[firing]\ntrigger = 'never'\n"),
            "job.toml:13: firing: a count window fires by its count; did you mean window.type = 'global'?",
        ),
        (
            text_of("[window]\ntype = 'global'\n", time=""),
            "window.type: a global window never fires by itself. Set a trigger in [firing]",
        ),
        (
            text_of(TUMBLING + "[windows.a]\ntype = 'tumbling'\nsize = '1 h'\n"),
            "job.toml:13: windows.a: [window] and [windows.LABEL] exclude each other: keep one of them",
        ),
        (
            text_of("[windows.a]\ntype = 'session'\ngap = '1 h'\n"),
            "job.toml:11: windows.a.type: several windows share their panes: tumbling, sliding, cumulating, windows of a calendar, not session",
        ),
        (
            text_of(
                "[windows.a]\ntype = 'tumbling'\nsize = '1 h'\n[windows.b]\ntype = 'tumbling'\nsize = '1 h'\ntime = 'processing'\n"
            ),
            "job.toml:16: windows.b.time: several windows are all of event time, or all of processing time",
        ),
        (
            text_of("[windows.a]\ntype = 'tumbling'\nsiz = '1 h'\n"),
            "job.toml:12: windows.a.siz: unknown key; did you mean 'size'",
        ),
        (text_of("[windows]\n"), "job.toml:10: windows: is empty: give at least one [windows.LABEL]"),
        (text_of(""), "job.toml: 'window' is missing"),
        (text_of(TUMBLING, time=""), "job.toml: 'event_time' is missing\njob.toml: 'watermark' is missing"),
        (text_of(TUMBLING, compute=""), "job.toml: 'aggregate' is missing"),
        (
            text_of("[window]\ntype = 'count'\nsize = 5\n", time="", before="allowed_lateness = '1 s'\n"),
            "job.toml:2: allowed_lateness: is about event time: it needs [event_time]",
        ),
        (text_of(TUMBLING, before="allowed_lateness = '-1 s'\n"), "allowed_lateness: must not be negative, not '-1 s'"),
        (text_of(TUMBLING, before="alowed_lateness = '1 s'\n"), "alowed_lateness: unknown key; did you mean 'allowed_lateness'?"),
        (text_of(TUMBLING, before="key_groups = 0\n"), "job.toml:2: key_groups: must be at least 1, not 0"),
        (text_of(TUMBLING, before="tasks = 0\n"), "job.toml:2: tasks: must be at least 1, not 0"),
        (text_of(TUMBLING, before="changelog = 'yes'\n"), "job.toml:2: changelog: must be true or false"),
        (
            text_of(TUMBLING, before="changelog = true\n", after="[top]\nn = 1\nby = 'n'\n"),
            "job.toml:2: changelog: cannot be combined with [top]: a top replaces the other results of its window",
        ),
        (
            text_of(TUMBLING + "changelog = true\n"),
            "window.changelog: is a key of the whole job: write changelog before the first",
        ),
        (text_of(TUMBLING + "trigger = 'count'\n"), "window.trigger: belongs in the section [firing]"),
        (text_of(TUMBLING + "[firing]\ntrigger = 'counts'\n"), "firing.trigger: 'counts' is not known; did you mean 'count'"),
        (
            text_of(TUMBLING + "[firing]\ntrigger = 'count'\n"),
            "job.toml:13: firing: 'count' is missing: trigger 'count' needs it",
        ),
        (
            text_of(TUMBLING + "[firing]\ntrigger = 'never'\nevery = '1 s'\n"),
            "job.toml:15: firing.every: is for trigger 'continuous', not for 'never'",
        ),
        (
            text_of(
                "[window]\ntype = 'tumbling'\nsize = '1 s'\ntime = 'processing'\n",
                time="",
                after="[trigger]\navailable_now = true\n",
            ),
            "job.toml:15: trigger: windows that wait for the clock keep a query running. Set every = '1 second'",
        ),
        (
            text_of(TUMBLING, time=TIME + "[processing_time]\ncolumn = 'ts'\n"),
            "processing_time: nothing here is of processing time",
        ),
        (
            text_of(TUMBLING, after="[trigger]\nonce = true\nevery = '1 s'\n"),
            "trigger.once: excludes 'available_now' and 'every'",
        ),
        (text_of(TUMBLING, out="[sinks.main]\nformat = 'merge'\n"), "sinks.main: 'table' is missing: format 'merge' needs it"),
        (
            text_of(TUMBLING, out=OUT + "[sinks.late]\nformat = 'merge'\ntable = 't'\n"),
            "sinks.late.format: 'merge' is by key and window, which only the rows of sinks.main have",
        ),
        (
            text_of(TUMBLING, out="[sinks.main]\nformat = 'merge'\ntable = 't'\n").replace('"user"', "'lower(user) AS u'"),
            "sinks.main: 'keys' is missing: what is the column of the key 'lower(user) AS u' called?",
        ),
        (
            text_of(TUMBLING, out=OUT + "keys = ['user']\n"),
            "sinks.main.keys: is for formats 'merge', 'kafka', 'postgres' and 'redis', not for 'parquet'",
        ),
        (
            text_of(TUMBLING, out=OUT + "table_format = 'delta'\n"),
            "sinks.main.table_format: is for formats 'table' and 'merge', not for 'parquet'",
        ),
        (
            text_of(TUMBLING, out="[sinks.main]\nformat = 'console'\noptions = { a = 1 }\n"),
            "sinks.main.options: is for formats 'parquet', 'json', 'csv', 'orc', 'table', 'delta', 'iceberg' and 'kafka', not for 'console'",
        ),
        (
            text_of(TUMBLING, compute=COUNT + "[process]\nfunction = 'a:b'\nschema = 'n INT'\n"),
            "process: 'aggregate' processes the rows already",
        ),
        (text_of(TUMBLING, compute="[process]\nfunction = 'a:b'\n"), "job.toml:13: process: 'schema' is missing"),
        *(
            (
                text_of(TUMBLING, compute=f"[process]\nfunction = '''{wrong}'''\nschema = 'n INT'\n"),
                "job.toml:14: process.function: must be a module and a name in it, 'package.module:name', not ",
            )
            for wrong in ("a", "a.b", "a:b.c", "a:b()", "../a:b", "__import__('os'):system", ".a:b", "a:", "a b:c", "é:b")
        ),
    ],
)
def test_mistake_in_windows_is_reported_with_line_path_and_hint(complaint, text, answer):
    assert answer in complaint(text)


# --- user functions

VISITS = """
from collections.abc import Iterator

import panestream as pst


def items(key, context, rows):
    yield (len(rows), rows[0].item)


class Items(pst.ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (len(elements), elements[0].item)


class Needy:
    def __init__(self, number):
        self.number = number


number = 5
"""


@pytest.fixture
def load_function(tmp_path, monkeypatch):
    """Load a function from a job file. Modules that it imports are forgotten after the test."""
    for name in ("visits_of_a_test", "shop_of_a_test", "shop_of_a_test.visits"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)

    def look(function, module="visits_of_a_test", text=VISITS):
        path = tmp_path / Path(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        compute = f"[process]\nfunction = '{function}'\nschema = 'n INT, item STRING'\n"
        (tmp_path / "job.toml").write_text(text_of(TUMBLING, compute=compute))
        loaded = load_job(tmp_path / "job.toml")
        name, spec = loaded.job.function
        return find(spec, tmp_path, loaded.place(name, "function"))

    return look


def test_function_is_loaded_from_the_folder_of_the_job_file(load_function, tmp_path):
    before = list(sys.path)
    one = load_function("visits_of_a_test:items")
    assert one.value.__name__ == "items"
    assert one.home == tmp_path / "visits_of_a_test.py"
    made = load_function("visits_of_a_test:Items")
    assert type(made.value).__name__ == "Items"
    assert sys.path == before


def test_function_is_loaded_from_a_package_or_the_python_path(load_function, tmp_path):
    (tmp_path / "shop_of_a_test").mkdir()
    (tmp_path / "shop_of_a_test" / "__init__.py").touch()
    one = load_function("shop_of_a_test.visits:items", module="shop_of_a_test.visits")
    assert one.home == tmp_path / "shop_of_a_test"
    elsewhere = load_function("panestream.windowing.aggregates:count")
    assert elsewhere.value is agg.count
    assert elsewhere.home is None


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (
            "visits_of_a_tset:items",
            "there is no module 'visits_of_a_tset' in {folder}, nor on PYTHONPATH; did you mean 'visits_of_a_test'?",
        ),
        ("visits_of_a_test:item", "visits_of_a_test has no 'item'; did you mean 'items'"),
        ("visits_of_a_test:number", "visits_of_a_test:number is not a function, but 5"),
        ("visits_of_a_test:Needy", "visits_of_a_test:Needy() fails, and a class must be made without arguments: TypeError: "),
    ],
)
def test_missing_function_is_reported(load_function, tmp_path, function, answer):
    with pytest.raises(JobError) as error:
        load_function(function)
    assert f"{tmp_path}/job.toml:14: process.function: {answer.format(folder=tmp_path)}" in str(error.value)


@pytest.mark.parametrize(
    ("module", "text", "answer"),
    [
        ("broken_of_a_test", "1 / 0\n", "importing broken_of_a_test fails: ZeroDivisionError: division by zero"),
        ("exits_of_a_test", "raise SystemExit(3)\n", "importing exits_of_a_test fails: SystemExit: 3"),
        ("wants_of_a_test", "import nothing_like_that\n", "importing wants_of_a_test fails: No module named 'nothing_like_that'"),
        ("json", "", "json.py next to the job file has the name of a loaded module, "),
    ],
)
def test_module_that_cannot_be_imported_is_reported(load_function, module, text, answer):
    with pytest.raises(JobError) as error:
        load_function(f"{module}:f", module=module, text=text)
    assert answer in str(error.value)
