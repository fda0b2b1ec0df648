"""A query from a savepoint continues with the old query's unread files, and writes to the same folders."""

import datetime as dt
import os
import shutil

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import CheckpointError, FencedError
from panestream.spark.checkpoint.epoch import Epoch
from panestream.spark.checkpoint.lease import lineage_of
from panestream.spark.checkpoint.records import write_marker
from panestream.spark.places import file_place
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
BATCHES = [
    [(f"u{number % 7}", number, START + dt.timedelta(minutes=number * 2 - number % 5)) for number in range(first, first + 25)]
    for first in range(0, 100, 25)
]
COLUMNS = "user string, n bigint, ts timestamp"


def counted(clicks, groups):
    windowed = (
        pst.stream(clicks.stream())
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by("user")
        .window(pst.SlidingEventTimeWindows.of("30 minutes", "10 minutes"))
        .options(key_groups=groups)
    )
    return windowed.aggregate(agg.count().alias("n"), agg.sum("n").alias("total"))


def ran(result, out, checkpoint, **how):
    result.start(main=pst.ParquetSink(str(out)), checkpoint=str(checkpoint), **how).await_termination()


def rows(spark, out):
    # Leave out the number of the micro-batch. Skipped files become separate micro-batches without rows.
    return sorted(map(tuple, spark.read.parquet(str(out)).drop("batch_id").collect()))


def test_query_from_savepoint_continues_in_the_folders_of_the_old_query(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", COLUMNS)
    for batch in BATCHES[:2]:
        clicks.add(batch)
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"
    ran(counted(clicks, 2), out, old)
    saved = pst.savepoint(spark, str(old), str(tmp_path / "saved"))
    assert [(each.kind, each.files) for each in saved.positions] == [("files", 2)]
    assert saved.source_options() == {}
    # The folders of a killed run, for a micro-batch that was never committed.
    (out / "batch_id=2").mkdir()
    shutil.copy(next((out / "batch_id=1").glob("*.parquet")), out / "batch_id=2" / "part-0.parquet")
    shutil.copytree(out / "batch_id=2", out / "batch_id=9")
    for batch in BATCHES[2:]:
        clicks.add(batch)
    ran(counted(clicks, 5), out, new, savepoint=saved.path)
    whole = tmp_path / "whole"
    ran(counted(clicks, 2), whole, tmp_path / "undisturbed")
    assert rows(spark, out) == rows(spark, whole)
    assert len(rows(spark, out)) > 30
    # Spark lists all four files, two of which were read. Sinks continue the savepoint's numbers of micro-batches. The new run
    # replaces the first folder of the killed run, and withdraws the last.
    assert sorted(folder.name for folder in out.glob("batch_id=*")) == [f"batch_id={number}" for number in (0, 1, 2, 4, 5)]

    # The old query is refused, and would publish nothing if it still ran.
    with pytest.raises(
        CheckpointError, match=r"has a successor that started from a savepoint, with the checkpoint .*new.*same outputs"
    ):
        ran(counted(clicks, 2), out, old)
    with pytest.raises(FencedError, match=r"continues from a savepoint, with the checkpoint .*new"):
        Epoch(str(old), 1, "0").check(spark)

    # A second query from the same savepoint with the same folders is refused.
    with pytest.raises(
        CheckpointError, match=r"another query continued from .*old already, with the checkpoint .*new, and wrote to"
    ):
        ran(counted(clicks, 3), out, tmp_path / "another", savepoint=saved.path)
    assert rows(spark, out) == rows(spark, whole)

    # The query does not need the savepoint, and still skips read files.
    shutil.rmtree(saved.path)
    clicks.add([("u1", 1, START + dt.timedelta(days=1))])
    ran(counted(clicks, 5), out, new)
    ran(counted(clicks, 2), whole, tmp_path / "undisturbed")
    assert rows(spark, out) == rows(spark, whole)


def test_relative_checkpoint_of_the_old_query_is_stored_as_absolute(spark, tmp_path):
    """A relative path points elsewhere if the next query starts in another folder."""
    checkpoint = os.path.relpath(tmp_path / "an old one")
    entry = {"query": "q", "after": -1, "places": ["file:/out"]}
    write_marker(spark, f"{checkpoint}/panestream/runs/0000000001-abc", entry)
    found = lineage_of(spark, checkpoint, 3).checkpoint
    assert file_place(found) == f"file:{tmp_path.resolve()}/an old one"
    assert found.startswith("file:/")
    assert lineage_of(spark, found, 3).checkpoint == found


def test_savepoint_is_refused_if_the_old_query_continued_in_the_same_folders(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", COLUMNS)
    clicks.add(BATCHES[0])
    clicks.add(BATCHES[1])
    out, old = tmp_path / "out", tmp_path / "old"
    ran(counted(clicks, 2), out, old)
    saved = pst.savepoint(spark, str(old), str(tmp_path / "saved"), batch_id=0)
    with pytest.raises(
        CheckpointError, match=r"of micro-batch 0, but the query went on .* up to micro-batch 1 and wrote to file:/"
    ):
        ran(counted(clicks, 2), out, tmp_path / "new", savepoint=saved.path)
    # With other folders it starts, since nothing is doubled, and the old query may continue.
    ran(counted(clicks, 2), tmp_path / "elsewhere", tmp_path / "newer", savepoint=saved.path)
    first = spark.read.parquet(str(out / "batch_id=0")).count()
    assert len(rows(spark, tmp_path / "elsewhere")) == len(rows(spark, out)) - first > 0
    clicks.add(BATCHES[2])
    ran(counted(clicks, 2), out, old)
    # A new query that was abandoned does not affect the old query.
    last = pst.savepoint(spark, str(old), str(tmp_path / "last"))
    clicks.add(BATCHES[3])
    ran(counted(clicks, 2), out, tmp_path / "given-up", savepoint=last.path)
    shutil.rmtree(tmp_path / "given-up")
    ran(counted(clicks, 2), out, old)
    ran(counted(clicks, 2), tmp_path / "whole", tmp_path / "undisturbed")
    assert rows(spark, out) == rows(spark, tmp_path / "whole")
