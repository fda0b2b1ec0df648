"""A job that is killed with ``kill -9`` at random moments has the same output as an undisturbed job."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from hot_items.clicks import Shape, make_clicks, split_file, write_clicks
from tests.recovery.kill_loop import run_job, run_with_kills

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("PANESTREAM_KILLS", "1"))
SEED = int(os.environ.get("PANESTREAM_SEED", "20261121"))

JOB = """
name = "hot items"
mode = "stream"
key = ["item_id"]
checkpoint = "out/checkpoint"
[source]
format = "csv"
path = "clicks"
schema = "user_id BIGINT, item_id BIGINT, category_id BIGINT, behavior STRING, timestamp BIGINT"
files_per_batch = 1
[event_time]
column = "timestamp"
unit = "seconds"
invalid = "side_output"
[watermark]
strategy = "bounded"
delay = "5 seconds"
[window]
type = "sliding"
size = "1 hour"
slide = "5 minutes"
[aggregate]
views = "count"
users = "count_distinct(user_id)"
first_user = "first(user_id)"
[sinks.main]
format = "parquet"
path = "out/main"
[sinks.late]
format = "parquet"
path = "out/late"
[sinks.invalid]
format = "parquet"
path = "out/invalid"
[spark]
"spark.master" = "local[2]"
"spark.ui.enabled" = "false"
"""


def rows_of(folder: Path) -> list[tuple[object, ...]]:
    """Return all rows of an output, sorted and with repetitions."""
    table = ds.dataset(folder, partitioning="hive").to_table()
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def both_ways(folder: Path, write_input) -> None:
    outputs = {}
    for way in ("undisturbed", "killed"):
        work = folder / way
        work.mkdir()
        write_input(work / "clicks")
        job = work / "job.toml"
        job.write_text(JOB)
        if way == "killed":
            for number, kill in enumerate(run_with_kills(job, work / "out" / "checkpoint", KILLS, SEED)):
                print(f"seed {SEED}, kill {number + 1}: {kill}")
        else:
            assert run_job(job).wait(timeout=400) == 0, (work / "job.log").read_text()[-3000:]
        outputs[way] = {tag: rows_of(work / "out" / tag) for tag in ("main", "late", "invalid")}
    assert outputs["killed"] == outputs["undisturbed"]
    main = outputs["undisturbed"]["main"]
    assert len(main) > 1000
    # Key, start and end of a window identify a row, so none is doubled. (batch_id is the last column.)
    assert len({row[:3] for row in main}) == len(main)


def test_killed_job_over_generated_clicks_has_undisturbed_output(tmp_path):
    clicks = make_clicks(Shape(rows=20_000, seed=SEED, hours=4))
    both_ways(tmp_path, lambda folder: write_clicks(clicks, folder, max(6, 3 * KILLS)))


def test_killed_job_over_real_clicks_has_undisturbed_output(tmp_path, event_data):
    source = event_data / "taobao_userbehavior_2h_sorted.csv.gz"

    def write_input(folder):
        split_file(source, folder, max(22, 3 * KILLS))

    if KILLS < 10:
        pytest.skip("takes minutes: PANESTREAM_KILLS=10 runs it")
    both_ways(tmp_path, write_input)


def teardown_module():
    shutil.rmtree("spark-warehouse", ignore_errors=True)
