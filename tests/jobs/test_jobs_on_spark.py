"""Job files on Spark: the demo compared with a count by hand, in batch and stream mode, a file with late rows, and errors with
lines.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from hot_items.__main__ import app as demo_app
from hot_items.clicks import BROKEN, EMPTY_TIME, GOOD, LATE, Shape, make_clicks, set_order
from hot_items.demo import read_output
from panestream.errors import JobError
from panestream.jobs import cli
from panestream.jobs.building import spark_path
from panestream.jobs.loading import Overrides, load_job
from panestream.jobs.runner import build

pytestmark = pytest.mark.spark

ROWS, FILES, HOUR, SLIDE = 4_000, 10, 3600, 300


def seconds(instant):
    return int(instant.timestamp())


def rankings(clicks, kinds, number=10):
    """Count the most viewed items of each window by hand: (end, item) -> (views, rank)."""
    which = np.isin(clicks.kinds, kinds) & (clicks.behaviors == 0)
    times, items = clicks.timestamps[which], clicks.items[which]
    found = {}
    for end in range(int(times.min()) // SLIDE * SLIDE + SLIDE, int(times.max()) + HOUR + SLIDE, SLIDE):
        counts = Counter(items[(times >= end - HOUR) & (times < end)].tolist())
        best = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:number]
        found.update({(end, item): (views, rank) for rank, (item, views) in enumerate(best, start=1)})
    return found


def written(folder):
    rows = read_output(folder)
    found = {(seconds(row["window_end"]), row["item_id"]): (row["views"], row["rank"]) for row in rows}
    assert len(found) == len(rows), "a window was written twice"
    return found


def test_demo_gives_the_counts_of_a_count_by_hand(panestream, tmp_path):
    out = tmp_path / "out"
    result = panestream("--rows", ROWS, "--files", FILES, "--output", out, app=demo_app)
    assert result.exit_code == 0, result.output
    clicks = make_clicks(Shape(rows=ROWS))

    # Main: the windows up to the watermark, which is five seconds behind the newest row. They do not contain late rows.
    by_hand = rankings(clicks, [GOOD])
    watermark = int(clicks.timestamps[clicks.kinds != BROKEN].max()) - 5
    assert written(out / "main") == {key: value for key, value in by_hand.items() if key[0] <= watermark}
    # Late: every late view with all columns. Invalid: rows without a time, with their original line.
    late = read_output(out / "late")
    made_late = (clicks.kinds == LATE) & (clicks.behaviors == 0)
    assert sorted(row["timestamp"] for row in late) == sorted(clicks.timestamps[made_late].tolist())
    invalid = read_output(out / "invalid")
    assert len(invalid) == clicks.count(BROKEN) + clicks.count(EMPTY_TIME, behavior="pv")
    broken = {line for line, kind in zip(clicks.lines(), clicks.kinds.tolist(), strict=True) if kind == BROKEN}
    assert {row["_corrupt_record"] for row in invalid} - {None} == broken

    # The printed output.
    first = min(by_hand)[0]
    assert f"to {datetime.fromtimestamp(first, timezone(timedelta(hours=8))):%H:%M}   1. " in result.output
    assert result.output.count("as many as were made") == 2
    assert (out / "hot_items.png").stat().st_size > 20_000

    # The written job file resumes from there. There is no new input, and nothing is written twice.
    again = panestream("run", out / "hot_items.toml")
    assert again.exit_code == 0, again.output
    assert written(out / "main") == {key: value for key, value in by_hand.items() if key[0] <= watermark}

    # In batch mode no row is late, and all windows fire.
    batch = panestream("run", out / "hot_items.toml", "--mode", "batch", "--output", tmp_path / "batch")
    assert batch.exit_code == 0, batch.output
    assert written(tmp_path / "batch" / "main") == rankings(clicks, [GOOD, LATE])
    assert read_output(tmp_path / "batch" / "late") == []


TRIPS = """\
key = ["cab"]

[source]
format = "csv"
path = "nothing"
schema = "cab INT, started STRING, miles DOUBLE"
files_per_batch = 1
columns = { metres = "miles * 1609.344", km = "metres / 1000" }
where = "km > 0"

[event_time]
column = "started"
format = "yyyy-MM-dd HH:mm:ss"
timezone = "Asia/Shanghai"
invalid = "side_output"

[watermark]
strategy = "monotonous"

[window]
type = "tumbling"
size = "1 hour"

[aggregate]
trips = "count"
km = "sum(round(km, 3))"
longest = { function = "max_by", column = "started", by = "miles" }

[sinks.main]
format = "json"
path = "main"

[sinks.late]
format = "parquet"
path = "late"

[sinks.invalid]
format = "parquet"
path = "invalid"
"""


@pytest.fixture
def trips(tmp_path):
    """Write a job file and two files of rows. The second has a late row and a row with an invalid time."""
    (tmp_path / "trips.toml").write_text(TRIPS)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text(
        "1,2025-01-01 08:10:00,1\n1,2025-01-01 08:20:00,2\n2,2025-01-01 10:00:00,1\n2,2025-01-01 10:00:01,0\n"
    )
    (tmp_path / "in" / "2.csv").write_text("1,2025-01-01 08:30:00,5\n1,at noon,1\n2,2025-01-01 12:00:00,1\n")
    set_order([tmp_path / "in" / "1.csv", tmp_path / "in" / "2.csv"])
    return tmp_path / "trips.toml"


def test_late_rows_and_invalid_time_strings_go_to_their_outputs(panestream, trips, tmp_path):
    trips.write_text(trips.read_text() + '[metrics]\njson_lines = "metrics.jsonl"\n')
    result = panestream("run", trips, "--input", tmp_path / "in", "--output", tmp_path / "out", "--metrics-port", 0)
    assert result.exit_code == 0, result.output
    assert re.search(r"^metrics +http://127.0.0.1:\d+/metrics$", result.output, re.MULTILINE)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {line["query"] for line in lines} == {"trips"}
    counted = [[line[kind] for kind in ("rows", "windowed_rows", "late_rows", "invalid_rows")] for line in lines]
    assert counted[:2] == [[3, 3, 0, 0], [3, 1, 1, 1]]
    rows = [
        json.loads(line) for file in sorted((tmp_path / "out" / "main").rglob("*.json")) for line in file.read_text().splitlines()
    ]
    assert [(row["cab"], row["window_start"], row["trips"], row["km"], row["longest"]) for row in rows] == [
        (1, "2025-01-01T00:00:00.000Z", 2, pytest.approx(4.828), "2025-01-01 08:20:00"),
        (2, "2025-01-01T02:00:00.000Z", 1, pytest.approx(1.609), "2025-01-01 10:00:00"),
    ]
    late = read_output(tmp_path / "out" / "late")
    assert [(row["started"], round(row["metres"])) for row in late] == [("2025-01-01 08:30:00", 8047)]
    assert [row["started"] for row in read_output(tmp_path / "out" / "invalid")] == ["at noon"]
    words = " ".join(result.output.split())
    assert "late rows 1 rows without a time 1 firings 2 open windows 1" in words


def test_stream_can_read_a_single_file(spark, trips, tmp_path):
    loaded = load_job(trips, Overrides(input=tmp_path / "in" / "2.csv"))
    assert spark_path(loaded.job.source, streaming=True) == str(tmp_path / "in" / "[2].csv")
    query = build(loaded, spark)
    assert query.is_streaming
    (tmp_path / "in" / "22.csv").write_text("9,2025-01-01 08:30:00,5\n")
    read = spark.read.csv(spark_path(loaded.job.source, streaming=True)).collect()
    assert len(read) == 3


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ('["cab"]', '["cap"]', ":1: key[0]: the source has no column 'cap'; did you mean 'cab'?"),
        (
            '"started"\nformat',
            '"starte"\nformat',
            ":12: event_time.column: the source has no column 'starte'; did you mean 'started'?",
        ),
        (
            'strategy = "monotonous"',
            'strategy = "monotonous"\nper_partition = "parts"',
            ":19: watermark.per_partition: the source has no column 'parts'; ",
        ),
        ('"km > 0"', '"kilo > 0"', ":9: source.where: Spark refuses it: [UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        ('"miles * 1609.344"', '"miles *"', ":8: source.columns.metres: Spark refuses it: [PARSE_SYNTAX_ERROR]"),
        ("cab INT,", "cab INTT,", ":6: source.schema: Spark refuses it: [UNSUPPORTED_DATATYPE]"),
        ('"csv"', '"csvv"', ":3: source: Spark refuses it: [DATA_SOURCE_NOT_FOUND]"),
    ],
)
def test_spark_error_is_reported_with_the_line_of_the_job_file(spark, trips, tmp_path, old, new, answer):
    assert TRIPS.count(old) == 1
    trips.write_text(
        TRIPS.replace(old, new).replace("files_per_batch = 1\n", "files_per_batch = 1\n" if "csvv" not in new else "")
    )
    with pytest.raises(JobError) as error:
        build(load_job(trips, Overrides(input=tmp_path / "in")), spark)
    assert f"{trips}{answer}" in str(error.value)


def test_rate_source_needs_no_schema(spark, tmp_path):
    (tmp_path / "rate.toml").write_text("""\
[source]
format = "rate"
options = { rowsPerSecond = 10 }
[event_time]
column = "timestamp"
[watermark]
strategy = "monotonous"
[window]
type = "tumbling"
size = "1 second"
[aggregate]
rows_seen = "count"
[sinks.main]
format = "console"
[trigger]
every = "1 second"
""")
    result = build(load_job(tmp_path / "rate.toml"), spark)
    assert result.is_streaming
    assert "1 key group" in result.explain()


def test_parquet_batch_needs_no_schema(panestream, spark, tmp_path):
    spark.range(100).selectExpr("id % 3 AS k", "timestamp_seconds(id) AS ts").write.parquet(str(tmp_path / "in"))
    (tmp_path / "job.yaml").write_text("""\
mode: batch
key: k
source: {format: parquet, path: in}
event_time: {column: ts}
watermark: {delay: 1 second}
window: {type: sliding, size: 1 minute, slide: 30 seconds}
aggregate: {n: count}
sinks: {main: {format: parquet, path: out}}
""")
    result = panestream("run", tmp_path / "job.yaml")
    assert result.exit_code == 0, result.output
    assert sum(row["n"] for row in read_output(tmp_path / "out")) == 200  # each row is in two windows


def test_job_with_a_new_aggregate_starts_from_a_savepoint(panestream, trips, spark, tmp_path):
    from panestream.spark.savepoint.saved import savepoint

    assert panestream("run", trips, "--input", tmp_path / "in", "--output", tmp_path / "old").exit_code == 0
    saved = savepoint(spark, str(tmp_path / "old" / "checkpoint"), str(tmp_path / "saved")).path
    trips.write_text(TRIPS.replace('trips = "count"', 'trips = "count"\nmiles = "sum(miles)"').replace('"json"', '"parquet"'))
    (tmp_path / "in" / "3.csv").write_text("2,2025-01-01 12:30:00,7\n2,2025-01-01 14:00:00,1\n")
    upgraded = ("run", trips, "--input", tmp_path / "in", "--output", tmp_path / "new", "--savepoint", saved)
    refused = panestream(*upgraded)
    assert refused.exit_code == cli.EXIT_ERROR
    assert "'miles' is new" in refused.output
    assert 'miles_complete = "complete(miles)"' in refused.output
    assert panestream(*upgraded, "--allow-incomplete").exit_code == 0
    rows = read_output(tmp_path / "new" / "main")
    assert [(row["cab"], row["trips"], row["miles"]) for row in rows] == [(2, 2, 7.0)]
    in_vain = panestream("run", trips, "--allow-incomplete", "--output", tmp_path / "third")
    assert in_vain.exit_code == cli.EXIT_ERROR
    assert "--allow-incomplete needs --savepoint" in in_vain.output
