"""A query from a savepoint goes on where the old one was: in its files, and in its places."""

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
    # Without the number of the micro-batch: files that were read make micro-batches of their own, in which nothing comes.
    return sorted(map(tuple, spark.read.parquet(str(out)).drop("batch_id").collect()))


def test_in_the_same_places(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", COLUMNS)
    for batch in BATCHES[:2]:
        clicks.add(batch)
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"
    ran(counted(clicks, 2), out, old)
    saved = pst.savepoint(spark, str(old), str(tmp_path / "saved"))
    assert [(each.kind, each.files) for each in saved.positions] == [("files", 2)]
    assert saved.source_options() == {}
    # What a run that was killed leaves, of a micro-batch that was never committed.
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
    # Spark lists all four files, of which two were read. What sinks call its micro-batches goes on from the savepoint's; of what
    # the killed run left, the first one is replaced, the last withdrawn.
    assert sorted(folder.name for folder in out.glob("batch_id=*")) == [f"batch_id={number}" for number in (0, 1, 2, 4, 5)]

    # The old one may go on no more, and would publish nothing if it still ran.
    with pytest.raises(CheckpointError, match=r"went on from a savepoint, with the checkpoint .*new.*same places"):
        ran(counted(clicks, 2), out, old)
    with pytest.raises(FencedError, match=r"goes on from a savepoint, with the checkpoint .*new"):
        Epoch(str(old), 1, "0").check(spark)

    # Nor may another one go on from the same savepoint in the same places.
    with pytest.raises(
        CheckpointError, match=r"another query went on from .*old already, with the checkpoint .*new, and wrote to"
    ):
        ran(counted(clicks, 3), out, tmp_path / "another", savepoint=saved.path)
    assert rows(spark, out) == rows(spark, whole)

    # The savepoint is not needed any more, and what was read is left out still.
    shutil.rmtree(saved.path)
    clicks.add([("u1", 1, START + dt.timedelta(days=1))])
    ran(counted(clicks, 5), out, new)
    ran(counted(clicks, 2), whole, tmp_path / "undisturbed")
    assert rows(spark, out) == rows(spark, whole)


def test_the_old_one_is_found_from_elsewhere(spark, tmp_path):
    """A relative path is another one where the next query is started."""
    checkpoint = os.path.relpath(tmp_path / "an old one")
    entry = {"query": "q", "after": -1, "places": ["file:/out"]}
    write_marker(spark, f"{checkpoint}/panestream/runs/0000000001-abc", entry)
    found = lineage_of(spark, checkpoint, 3).checkpoint
    assert file_place(found) == f"file:{tmp_path.resolve()}/an old one"
    assert found.startswith("file:/")
    assert lineage_of(spark, found, 3).checkpoint == found


def test_the_old_one_went_on(spark, tmp_path):
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
    # Elsewhere it may: nothing is there twice, and the old one goes on.
    ran(counted(clicks, 2), tmp_path / "elsewhere", tmp_path / "newer", savepoint=saved.path)
    first = spark.read.parquet(str(out / "batch_id=0")).count()
    assert len(rows(spark, tmp_path / "elsewhere")) == len(rows(spark, out)) - first > 0
    clicks.add(BATCHES[2])
    ran(counted(clicks, 2), out, old)
    # A new query that was given up leaves the old one as it is.
    last = pst.savepoint(spark, str(old), str(tmp_path / "last"))
    clicks.add(BATCHES[3])
    ran(counted(clicks, 2), out, tmp_path / "given-up", savepoint=last.path)
    shutil.rmtree(tmp_path / "given-up")
    ran(counted(clicks, 2), out, old)
    ran(counted(clicks, 2), tmp_path / "whole", tmp_path / "undisturbed")
    assert rows(spark, out) == rows(spark, tmp_path / "whole")
