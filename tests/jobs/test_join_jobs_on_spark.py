"""Job files with two streams or with tiles run on Spark and write the expected rows, as a stream and as a batch."""

from __future__ import annotations

import json

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import JobError
from panestream.jobs.loading import load_job
from panestream.jobs.runner import build
from tests.jobs.batches import write_batches

pytestmark = pytest.mark.spark

VIEWS = [[("ann", 1, "shoes"), ("ann", 20, "hats"), ("bob", 30, "bags")], [("ann", 70, "gloves"), ("eve", 300, "end")]]
CLICKS = [[("ann", 25, "2"), ("eve", 40, "9")], [("ann", 59, "3"), ("eve", 300, "1")]]
SIDE = """\
[{side}]
key = "{key}"
[{side}.source]
format = "csv"
path = "{path}"
schema = "{schema}"
files_per_batch = 1
[{side}.event_time]
column = "second"
unit = "seconds"
[{side}.watermark]
delay = "{delay}"
"""
LEFT = SIDE.format(side="left", key="user", path="views", schema="user STRING, second BIGINT, ad STRING", delay="1 minute")
RIGHT = SIDE.format(
    side="right", key="who AS user", path="clicks", schema="who STRING, second BIGINT, price DOUBLE", delay="1 minute"
)
WINDOW = '[window]\ntype = "tumbling"\nsize = "1 minute"\n'
OUT = '[sinks.main]\nformat = "json"\npath = "main"\n'
END = "[trigger]\nfire_at_end = true\n"


@pytest.fixture
def run_job(panestream, tmp_path):
    """Return a function that runs a job in a mode and returns the rows of an output."""

    def run(text, mode, tag="main", end=END):
        write_batches(tmp_path / "views", VIEWS)
        write_batches(tmp_path / "clicks", CLICKS)
        (tmp_path / "job.toml").write_text(text + (end if mode == "stream" else ""))
        result = panestream("run", tmp_path / "job.toml", "--mode", mode, "--output", tmp_path / mode)
        assert result.exit_code == 0, result.output
        files = (tmp_path / mode / tag).rglob("*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    return run


def columns_of(rows, *names):
    return sorted([tuple(row.get(name) for name in names) for row in rows], key=str)


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_window_join_job_writes_joined_rows(run_job, mode):
    rows = run_job(LEFT + RIGHT + WINDOW + '[join]\nhow = "left"\nright_suffix = "_click"\n' + OUT, mode)
    assert columns_of(rows, "user", "second", "ad", "second_click", "price") == [
        ("ann", 1, "shoes", 25, 2.0),
        ("ann", 1, "shoes", 59, 3.0),
        ("ann", 20, "hats", 25, 2.0),
        ("ann", 20, "hats", 59, 3.0),
        ("ann", 70, "gloves", None, None),
        ("bob", 30, "bags", None, None),
        ("eve", 300, "end", 300, 1.0),
    ]


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_interval_join_job_writes_joined_rows(run_job, mode):
    left = LEFT.replace("files_per_batch", 'select = ["user", "second", "lower(ad) AS seen"]\nfiles_per_batch')
    near = '[interval_join]\nhow = "full"\nlower = "5 seconds"\nupper = "39 seconds"\nupper_exclusive = true\nright_suffix = "_click"\n'
    rows = run_job(left + RIGHT + near + OUT, mode, end="")
    # A stream keeps a row while a partner may still arrive.
    ends = [("eve", 300, "end", None), ("eve", None, None, 300)] if mode == "batch" else []
    assert columns_of(rows, "user", "second", "seen", "second_click") == [
        ("ann", 1, "shoes", 25),
        ("ann", 20, "hats", 25),
        ("ann", 70, "gloves", None),
        ("ann", None, None, 59),
        ("bob", 30, "bags", None),
        *ends,
        ("eve", None, None, 40),
    ]


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_co_group_job_applies_a_function_to_both_sides(run_job, tmp_path, mode):
    (tmp_path / f"both_as_{mode}.py").write_text(
        "def unpaid(key, window, left, right):\n    yield [row.ad for row in left], sum(row.price for row in right)\n"
    )
    then = f'[apply]\nfunction = "both_as_{mode}:unpaid"\nschema = "ads ARRAY<STRING>, paid DOUBLE"\n'
    rows = run_job(LEFT + RIGHT + WINDOW + then + OUT, mode)
    found = {(row["user"], *sorted(row["ads"]), row["paid"]) for row in rows}
    assert found == {
        ("ann", "hats", "shoes", 5.0),
        ("ann", "gloves", 0.0),
        ("bob", "bags", 0.0),
        ("eve", 9.0),
        ("eve", "end", 1.0),
    }


def test_process_function_of_a_join_gets_rows_of_one_side_each(run_job, tmp_path):
    (tmp_path / "sides_on_spark.py").write_text(
        "def sides(key, context, rows):\n"
        "    views = [row.left['ad'] for row in rows if row.left is not None]\n"
        "    yield len(views), sum(row.right['price'] for row in rows if row.left is None)\n"
    )
    then = '[process]\nfunction = "sides_on_spark:sides"\nschema = "views INT, paid DOUBLE"\n'
    rows = run_job(LEFT + RIGHT + WINDOW + then + OUT, "batch")
    assert ("ann", 2, 5.0) in columns_of(rows, "user", "views", "paid")


def test_selected_columns_keep_the_position_of_kafka_records(spark):
    from panestream.jobs.building import _selected
    from panestream.spark.kafka.source import ARRIVAL, MALFORMED, SOURCE

    own = [*ARRIVAL, SOURCE, MALFORMED]
    df = spark.range(1).selectExpr("id", "id AS `a b`", "id AS more", *(f"'x' AS {name}" for name in own))
    assert _selected(df, ["a b", "id + 1 AS next", "kafka_offset"]).columns == [
        *("a b", "next", "kafka_offset"),
        *(name for name in own if name != "kafka_offset"),
    ]
    assert _selected(spark.range(1), ["id"]).columns == ["id"]


def test_late_and_invalid_rows_go_to_the_outputs_of_their_side(run_job, tmp_path, panestream):
    sinks = "".join(
        f'[sinks.{tag}]\nformat = "json"\npath = "{tag}"\n'
        for tag in ("late_left", "late_right", "invalid_left", "invalid_right")
    )
    sides = [each.replace('delay = "1 minute"', 'delay = "0 seconds"') for each in (LEFT, RIGHT)]
    sides = [side.replace('unit = "seconds"', 'unit = "seconds"\ninvalid = "side_output"') for side in sides]
    VIEWS.append([("late", 2, "late one"), ("bad", "", "no time")])
    CLICKS.append([("bad", "", "7")])
    try:
        text = "".join(sides) + WINDOW + '[aggregate]\nviews = "count(left.ad)"\npaid = "sum(right.price)"\n' + OUT + sinks
        rows = run_job(text, "stream")
        read = [
            [json.loads(line) for file in (tmp_path / "stream" / tag).rglob("*.json") for line in file.read_text().splitlines()]
            for tag in ("late_left", "late_right", "invalid_left", "invalid_right")
        ]
    finally:
        VIEWS.pop()
        CLICKS.pop()
    assert columns_of(rows, "user", "views", "paid") == [
        ("ann", 1, None),
        ("ann", 2, 5.0),
        ("bob", 1, None),
        ("eve", 0, 9.0),
        ("eve", 1, 1.0),
    ]
    assert [columns_of(found, "user", "who", "ad", "price") for found in read] == [
        [("late", None, "late one", None)],
        [],
        [("bad", None, "no time", None)],
        [(None, "bad", None, 7.0)],
    ]


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_tiles_of_a_job_can_be_combined_to_windows(run_job, spark, tmp_path, mode):
    source = LEFT.replace("[left.", "[").replace("[left]\n", "")
    rows = run_job(source + WINDOW + '[panes]\nn = "count"\nads = "count_distinct(ad)"\n' + OUT.replace("json", "parquet"), mode)
    assert rows == []  # they are in Parquet
    tiles = pst.from_panes(spark.read.parquet(str(tmp_path / mode / "main")), agg.count().alias("n"), agg.count_distinct("ad"))
    windows = tiles.window(pst.TumblingEventTimeWindows.of("2 minutes"))
    assert sorted((row.user, row.n) for row in windows.collect()) == [("ann", 3), ("bob", 1), ("eve", 1)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            LEFT + RIGHT + WINDOW + "[join]\n" + OUT,
            "join: a column of each stream would be called 'second' in the results. Distinguish them with right_suffix = '_right', or rename one by source.select",
        ),
        (
            LEFT + RIGHT.replace("who AS user", "length(who) AS user") + WINDOW + '[join]\nright_suffix = "_r"\n' + OUT,
            "of the right one is int: cast both to a common type, on the right key = 'cast(user AS string) AS user'",
        ),
        (
            LEFT + RIGHT.replace("who AS user", "user") + WINDOW + '[join]\nright_suffix = "_r"\n' + OUT,
            "right.key[0]: right.source has no column 'user'",
        ),
        (LEFT + RIGHT + WINDOW + '[aggregate]\nn = "sum(left.prise)"\n' + OUT, "aggregate: "),
        (
            LEFT + RIGHT.replace("files_per_batch", 'select = ["who", "prise"]\nfiles_per_batch') + WINDOW + "[join]\n" + OUT,
            "right.source.select: ",
        ),
        (
            LEFT + RIGHT.replace("files_per_batch", 'select = "second AS user"\nfiles_per_batch') + WINDOW + "[join]\n" + OUT,
            "right.event_time.column: right.source has no column 'second'",
        ),
    ],
)
def test_library_error_in_a_join_is_reported_with_its_line(spark, tmp_path, text, answer):
    for folder in ("views", "clicks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(JobError) as error:
        build(load_job(tmp_path / "job.toml"), spark)
    assert answer in str(error.value)
    assert f"{tmp_path}/job.toml:" in str(error.value)
