"""Real events with known answers: hot items of a shop, and taxi rides that arrive out of order."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import panestream as pst
from hot_items.clicks import split_file
from panestream import agg
from panestream.errors import PanestreamWarning

pytestmark = pytest.mark.spark

HOT_ITEMS = """
name = "hot items by the hour"
mode = "stream"
key = ["item_id"]
checkpoint = "checkpoint"
[source]
format = "csv"
path = "clicks"
schema = "user_id BIGINT, item_id BIGINT, category_id BIGINT, behavior STRING, timestamp BIGINT"
where = "behavior = 'pv'"
files_per_batch = 1
[event_time]
column = "timestamp"
unit = "seconds"
[watermark]
strategy = "monotonous"
[window]
type = "tumbling"
size = "1 hour"
offset = "-8 hours"
[aggregate]
views = "count"
[sinks.main]
format = "parquet"
path = "main"
[spark]
"spark.master" = "local[2]"
"spark.ui.enabled" = "false"
""".replace('offset = "-8 hours"\n', "")  # an hour of UTC+8 starts with an hour of UTC

PV = {9: 41_890, 10: 48_022}
"""Page views of the hours 09 and 10 of the shop's clock (UTC+8)."""
TOP = {
    9: [(2338453, 27), (2563440, 18), (812879, 17), (138964, 14), (3244134, 12)],
    10: [(2338453, 35), (812879, 20), (3845720, 17), (3142142, 16), (291932, 15)],
}


def run_cli(job: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "panestream.jobs", "run", str(job), *options],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def hours_of(folder: Path) -> dict[int, Counter[int]]:
    """Return views by hour of the shop's clock and item."""
    found: dict[int, Counter[int]] = {}
    for row in ds.dataset(folder, partitioning="hive").to_table().to_pylist():
        items = found.setdefault((row["window_start"].hour + 8) % 24, Counter())
        assert row["item_id"] not in items, "a window came twice"
        items[row["item_id"]] = row["views"]
    return found


def test_hot_items_of_real_clicks_are_the_known_ones(event_data, tmp_path):
    paths, rows = split_file(event_data / "taobao_userbehavior_2h_sorted.csv.gz", tmp_path / "clicks", 22)
    assert (len(paths), rows) == (22, 110_300)
    (tmp_path / "job.toml").write_text(HOT_ITEMS)
    run_cli(tmp_path / "job.toml")
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) >= 20
    streamed = hours_of(tmp_path / "main")
    assert {hour: sum(items.values()) for hour, items in streamed.items()} == PV
    for hour, top in TOP.items():
        ranked = sorted(streamed[hour].items(), key=lambda item: (-item[1], item[0]))
        assert [views for _, views in ranked[:5]] == [views for _, views in top]
        assert all(streamed[hour][item] == views for item, views in top)
    run_cli(tmp_path / "job.toml", "--mode", "batch", "--output", str(tmp_path / "batch"))
    in_batch = hours_of(tmp_path / "batch" / "main")
    # The file ends within an hour. A batch closes that hour too, a stream waits for its end.
    assert set(in_batch) - set(streamed) == {11}
    assert {hour: in_batch[hour] for hour in streamed} == streamed


def rides(event_data: Path) -> list[list[str]]:
    with gzip.open(event_data / "nyc_taxi_rides_2013-01-01.csv.gz", "rt") as lines:
        return [row for row in (line.rstrip("\n").split(",") for line in lines) if row[1] == "END"]


@pytest.mark.parametrize("minutes", [5, 15, 60])
def test_each_taxi_ride_is_counted_or_late(spark, event_data, tmp_path, minutes):
    rows, files, size = rides(event_data), 12, 300
    cuts = [len(rows) * number // files for number in range(files + 1)]
    batches = [rows[start:end] for start, end in pairwise(cuts)]
    # One ride of the next day closes every window, so main and late together have all other rows. Such a jump gives a warning.
    batches.append([["0", "END", "2013-01-02 12:00:00", "2013-01-02 12:00:00", "0", "0", "0", "0", "1", "0", "0"]])
    (tmp_path / "in").mkdir()
    for number, batch in enumerate(batches):
        file = tmp_path / "in" / f"{number:03d}.csv"
        file.write_text("\n".join(",".join(row) for row in batch) + "\n")
        os.utime(file, (1_700_000_000 + number,) * 2)
    schema = "ride bigint, kind string, end timestamp, start timestamp, a double, b double, c double, d double, n int, taxi bigint, driver bigint"
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(tmp_path / "in"))
    result = (
        pst.stream(df)
        .assign_timestamps("start", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{minutes} minutes"))
        .key_by("n")
        .window(pst.TumblingEventTimeWindows.of(f"{size} seconds"))
        .side_output_late_data("late")
        .aggregate(agg.count().alias("rides"))
    )
    main, late, progress = pst.MemorySink(), pst.MemorySink(), []
    with pytest.warns(PanestreamWarning, match="micro-batch 12 moved the watermark by 1 day"):
        result.start(
            main=main, late=late, checkpoint=str(tmp_path / "checkpoint"), on_progress=progress.append
        ).await_termination()
    # An independent count: a row is late if its window had ended before its micro-batch.
    watermark, expected_late, newest = None, Counter(), None
    for batch in batches:
        starts = [int(datetime.fromisoformat(row[3]).replace(tzinfo=timezone.utc).timestamp()) for row in batch]
        for row, start in zip(batch, starts, strict=True):
            if watermark is not None and start // size * size + size <= watermark:
                expected_late[int(row[0])] += 1
        newest = max([*starts, *([] if newest is None else [newest])])
        watermark = newest - minutes * 60
    assert Counter(row.ride for row in late.rows) == expected_late
    assert sum(step.late_rows for step in progress) == sum(expected_late.values())
    on_time = [row for row in rows if int(row[0]) not in expected_late]
    expected = Counter(
        (int(row[8]), int(datetime.fromisoformat(row[3]).replace(tzinfo=timezone.utc).timestamp()) // size) for row in on_time
    )
    fired = {(row.n, int(row.window_start.astimezone(timezone.utc).timestamp()) // size): row.rides for row in main.rows}
    assert fired == expected
    print(f"bound {minutes} min: {sum(fired.values())} in main + {len(late.rows)} late = {len(rows)}")
    assert sum(fired.values()) + len(late.rows) == len(rows) == 46_450
