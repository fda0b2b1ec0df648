"""A checkpoint is read without the job's code: what it shows is what a count of the input says must be open."""

import datetime as dt
import json
from collections import Counter

import pytest

import panestream as pst
from panestream import agg
from panestream.engine.savepoint.key_groups import header_of_all
from panestream.errors import CheckpointError
from panestream.spark.savepoint.values import table_in
from panestream.testing import MicroBatches

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.spark
def test_open_windows_are_those_of_the_input(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", "user string, n bigint, ts timestamp")
    rows = [(f"u{number % 3}", number, START + dt.timedelta(minutes=number)) for number in range(100)]
    clicks.add(rows[:50])
    clicks.add(rows[50:])
    result = (
        pst.stream(clicks.stream())
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by("user")
        .window(pst.SlidingEventTimeWindows.of("30 minutes", "10 minutes"))
        .key_groups(2)
        .aggregate(agg.count().alias("n"), agg.sum("n").alias("total"))
    )
    checkpoint = str(tmp_path / "checkpoint")
    result.start(main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=checkpoint).await_termination()
    found = pst.read_checkpoint(spark, checkpoint)
    shown = {
        (row.key.user, row.window_start.replace(tzinfo=dt.timezone.utc)): (row.rows, row.results.n, row.results.total)
        for row in found.windows.collect()
    }
    watermark = START + dt.timedelta(minutes=94)
    expected: dict = {}
    for user, n, ts in rows:
        first = ts.replace(minute=ts.minute // 10 * 10)
        for start in (first - dt.timedelta(minutes=10 * back) for back in range(3)):
            if start + dt.timedelta(minutes=30) > watermark:
                count, total = expected.get((user, start), (0, 0))
                expected[user, start] = (count + 1, total + n)
    assert shown == {place: (count, count, total) for place, (count, total) in expected.items()}
    assert Counter(row.kind for row in found.timers.collect()) == {"event": len(expected)}
    assert found.elements.count() == found.user_state.count() == 0
    headers = {row.key_group: json.loads(row.header) for row in found.stored.headers().collect()}
    assert sorted(headers) == [0, 1]
    assert header_of_all([headers[0], headers[1]])["watermarks"]["watermark"] == int(watermark.timestamp() * 1e6) - 1
    parts = found.stored.tables().collect()
    assert sorted((row.key_group, row.table, row.part) for row in parts) == [(0, "panes", 0), (1, "panes", 0)]
    panes = [(row.key_group, pane) for row in parts for pane in table_in(row.body).to_pylist()]
    table = found.stored.table("panes")
    assert sorted((row.key_group, row["key 0"], row.start, row.rows) for row in table.collect()) == sorted(
        (group, pane["key 0"], pane["start"], pane["rows"]) for group, pane in panes
    )
    assert table.columns == ["key_group", *panes[0][1]]
    with pytest.raises(CheckpointError, match="has no micro-batch 9: its last is 1"):
        pst.read_checkpoint(spark, checkpoint, 9)
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        pst.read_checkpoint(spark, str(tmp_path / "out"))
