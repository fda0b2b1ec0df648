"""Job files with sessions, counts, several windows, lateness, changelogs and functions run on Spark and write the expected rows."""

from __future__ import annotations

import json
import os

import pytest

from panestream.errors import JobError
from panestream.jobs.loading import Overrides, load_job
from panestream.jobs.runner import build

pytestmark = pytest.mark.spark

JOB = """\
key = "user"
{before}
[source]
format = "csv"
path = "in"
schema = "user STRING, second BIGINT, item STRING"
files_per_batch = 1

[event_time]
column = "second"
unit = "seconds"

[watermark]
strategy = "monotonous"

{after}

[sinks.main]
format = "json"
path = "main"
"""

FIRST = [("ann", 1, "hat"), ("ann", 12, "cap"), ("bob", 14, "cup"), ("ann", 40, "tie")]
SECOND = [("ann", 2, "sock"), ("bob", 90, "pan")]


@pytest.fixture
def rows_of(panestream, tmp_path):
    """Run a job over two files, one a micro-batch. Return the written rows in order, with times as seconds."""

    def run(before, after, mode="stream"):
        (tmp_path / "in").mkdir(exist_ok=True)
        for number, batch in enumerate((FIRST, SECOND)):
            file = tmp_path / "in" / f"{number}.csv"
            file.write_text("".join(f"{user},{second},{item}\n" for user, second, item in batch))
            os.utime(file, (1_700_000_000 + number,) * 2)
        (tmp_path / "job.toml").write_text(JOB.format(before=before, after=after))
        result = panestream("run", tmp_path / "job.toml", "--mode", mode, "--output", tmp_path / mode)
        assert result.exit_code == 0, result.output
        files = (tmp_path / mode / "main").rglob("*.json")
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [{name: _second(name, value) for name, value in row.items()} for row in rows]

    return run


def _second(name, value):
    from datetime import datetime

    is_time = name.startswith("window_")
    return int(datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()) if is_time else value


def test_session_job_writes_one_row_for_each_session(rows_of):
    window = '[window]\ntype = "session"\ngap = "15 seconds"\n[aggregate]\nitems = "collect_list(item)"\n'
    rows = rows_of("", window)
    found = {(row["user"], row["window_start"], row["window_end"], *row["items"]) for row in rows}
    assert found == {("ann", 1, 27, "hat", "cap"), ("ann", 40, 55, "tie"), ("bob", 14, 29, "cup")}


def test_look_back_job_writes_each_row_for_both_lengths(rows_of):
    windows = "".join(
        f"[windows.{label}]\ntype = 'look_back'\nsize = '{size}'\n" for label, size in [("s", "5 s"), ("m", "1 min")]
    )
    rows = rows_of("keep = ['item']", f'{windows}[aggregate]\nitems = "count"\n', mode="batch")
    assert {tuple(row.values()) for row in rows} == {
        ("ann", "hat", 1, 1),
        ("ann", "sock", 2, 2),
        ("ann", "cap", 1, 3),
        ("ann", "tie", 1, 4),
        ("bob", "cup", 1, 1),
        ("bob", "pan", 1, 1),
    }


def test_session_job_closes_a_session_at_the_closing_row(rows_of):
    window = "[window]\ntype = 'session'\ngap = '30 seconds'\nclosed_by = \"item = 'cap'\"\n"
    rows = rows_of("", window + '[aggregate]\nitems = "count"\n')
    found = {(row["user"], row["window_start"], row["window_end"], row["items"]) for row in rows}
    # The row of second 2 is behind the watermark.
    assert found == {("ann", 1, 12, 2), ("bob", 14, 44, 1), ("ann", 40, 70, 1)}


def test_count_window_job_runs_as_a_batch(rows_of):
    rows = rows_of("", '[window]\ntype = "count"\nsize = 2\n[aggregate]\nitems = "count"\n', mode="batch")
    assert sorted((row["user"], row["items"]) for row in rows) == [("ann", 2), ("ann", 2), ("bob", 2)]


def test_late_row_updates_all_windows_of_a_changelog_job(rows_of):
    after = (
        '[windows.ten]\ntype = "tumbling"\nsize = "10 seconds"\n'
        '[windows.growing]\ntype = "cumulating"\nsize = "20 seconds"\nstep = "10 seconds"\n'
        '[aggregate]\nn = "count"\n'
    )
    rows = rows_of('allowed_lateness = "1 hour"\nchangelog = true\nwith_firing = true\n', after)
    ann = [row for row in rows if (row["user"], row["window_start"]) == ("ann", 0)]
    found = {(row["window"], row["window_end"], row["op"], row["firing"], row["n"]) for row in ann}
    assert found == {
        # The late row changes all three windows that start at 0.
        *((window, 10, "insert", "on_time", 1) for window in ("ten", "growing")),
        *((window, 10, "update_before", "on_time", 1) for window in ("ten", "growing")),
        *((window, 10, "update_after", "late", 2) for window in ("ten", "growing")),
        ("growing", 20, "insert", "on_time", 2),
        ("growing", 20, "update_before", "on_time", 2),
        ("growing", 20, "update_after", "late", 3),
    }


def test_function_of_a_local_module_reaches_the_workers(rows_of, panestream, tmp_path, spark):
    (tmp_path / "visits_on_spark.py").write_text(
        "import panestream as pst\n\n\n"
        "class Visit(pst.ProcessWindowFunction):\n"
        "    def process(self, key, context, elements):\n"
        "        yield len(elements), ' > '.join(row['item'] for row in elements)\n"
    )
    process = '[process]\nfunction = "visits_on_spark:Visit"\nschema = { clicks = "INT", items = "STRING" }\n'
    rows = rows_of("", f'[window]\ntype = "session"\ngap = "15 seconds"\n{process}')
    assert {(row["user"], row["clicks"], row["items"]) for row in rows} == {
        ("ann", 2, "hat > cap"),
        ("ann", 1, "tie"),
        ("bob", 1, "cup"),
    }
    explained = panestream("explain", tmp_path / "job.toml").output
    assert "process     visits_on_spark:Visit -> `clicks` INT, `items` STRING" in explained
    assert "EventTimeSessionWindows.with_gap('15 seconds')" in explained


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ('"mean(second)"', '"mean(item)"', "aggregate: "),
        ("[aggregate]", '[top]\nn = 1\nby = "n"\n[aggregate]', "top: top on a stream ranks each window when it fires"),
        ("gap =", "gap_column = 'item' #", "window.gap_column: the session gap 'item' is a string"),
        ("gap =", "gap_column = 'itm' #", "window.gap_column: the source has no column 'itm'; did you mean 'item'?"),
        ('type = "session"', 'type = "session"\n[top]\nn = 1\nby = "n"\n[ignored]\n', "ignored: unknown key"),
    ],
)
def test_library_error_is_reported_with_its_line(spark, tmp_path, old, new, answer):
    window = '[window]\ntype = "session"\ngap = "15 seconds"\n[aggregate]\nn = "mean(second)"\n'
    assert window.count(old) == 1
    (tmp_path / "in").mkdir()
    (tmp_path / "job.toml").write_text(JOB.format(before="", after=window.replace(old, new)))
    with pytest.raises(JobError) as error:
        build(load_job(tmp_path / "job.toml", Overrides()), spark)
    assert answer in str(error.value)
    assert f"{tmp_path}/job.toml:" in str(error.value)


def test_unknown_time_zone_is_reported_even_without_local_zone_data(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    text = JOB.format(before="", after='[window]\ntype = "tumbling"\nsize = "1 hour"\n[aggregate]\nn = "count"\n')
    text = text.replace('unit = "seconds"', 'format = "yyyy-MM-dd HH:mm:ss"\ntimezone = "Mars/Olympus"').replace(
        "second BIGINT", "second STRING"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(JobError, match="does not have the time zone 'Mars/Olympus'"):
        build(load_job(tmp_path / "job.toml"), spark)


def test_filled_job_writes_windows_without_rows_as_a_stream_and_as_a_batch(spark, rows_of):
    """The key group that has no rows of its own must get the time from Spark's exchange, and listed keys by Spark's hash."""
    spark.createDataFrame([("cal",), ("ann",)], "user string").createOrReplaceTempView("people")
    after = "[window]\ntype = 'tumbling'\nsize = '10 seconds'\n[aggregate]\nn = 'count'\n[fill]\nmethod = 'zero'\nmax_gap = '40 seconds'\nkeys = 'people'\n"
    cal = dict.fromkeys((0, 10, 20, 30), 0)
    ann, bob = {0: 1, 10: 1, 20: 0, 30: 0, 40: 1, 50: 0, 60: 0, 70: 0, 80: 0}, {10: 1, 20: 0, 30: 0, 40: 0, 50: 0}
    stream, batch = (
        {(row["user"], row["window_start"]): row["n"] for row in rows_of("", after, mode)} for mode in ("stream", "batch")
    )
    expected = {(user, start): n for user, of_user in (("ann", ann), ("bob", bob), ("cal", cal)) for start, n in of_user.items()}
    assert stream == expected
    assert batch == {**expected, ("ann", 0): 2, ("bob", 90): 1}
