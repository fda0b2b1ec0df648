"""A query that starts from a savepoint gives the same results as a query that never stopped."""

from __future__ import annotations

import datetime as dt
import shutil

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import CheckpointError, PlanMismatchError
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.testing import MicroBatches
from tests.spark.savepoint.runs import fired

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
ROWS = [
    [(f"u{number % 7}", number, START + dt.timedelta(minutes=number * 2 - number % 5)) for number in range(first, first + 25)]
    for first in range(0, 100, 25)
]


def clicks_in(spark, folder, batches=ROWS):
    clicks = MicroBatches(spark, folder, "user string, n bigint, ts timestamp")
    for batch in batches:
        clicks.add(batch)
    return clicks


AGGREGATES = (agg.count().alias("n"), agg.sum("n").alias("total"))


def counted(clicks, groups=None, *, key="user", windows=("30 minutes", "10 minutes"), aggregates=AGGREGATES):
    windowed = (
        pst.stream(clicks.stream())
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by(key)
        .window(pst.SlidingEventTimeWindows.of(*windows))
    )
    if groups is not None:
        windowed = windowed.options(key_groups=groups)
    return windowed.aggregate(*aggregates)


@pytest.fixture(scope="module")
def old(spark, tmp_path_factory):
    """A query that stopped half way: its rows, the expected rest, its savepoint, and the unread rows."""
    folder = tmp_path_factory.mktemp("old")
    whole = fired(counted(clicks_in(spark, folder / "all"), 2), folder / "whole")
    first = fired(counted(clicks_in(spark, folder / "first", ROWS[:2]), 2), folder / "checkpoint")
    saved = pst.savepoint(spark, str(folder / "checkpoint"), str(folder / "saved"))
    assert (saved.batch_id, saved.manifest.groups, saved.plan.key_names) == (1, 2, ("user",))
    return folder, whole, first, clicks_in(spark, folder / "rest", ROWS[2:])


@pytest.mark.parametrize("groups", [1, 5])
def test_query_from_savepoint_with_other_key_groups_agrees(old, groups, tmp_path):
    folder, whole, first, rest = old
    assert sorted(first + fired(counted(rest, groups), tmp_path / "new", savepoint=f"{folder}/saved")) == whole


def test_restarts_around_the_first_micro_batch_from_savepoint_agree(spark, old, tmp_path):
    folder, whole, first, rest = old
    saved, new = tmp_path / "saved", tmp_path / "new"
    shutil.copytree(folder / "saved", saved)
    other = pst.savepoint(spark, f"{folder}/checkpoint", str(tmp_path / "other"), batch_id=0).path
    sink = pst.MemorySink()

    def start(**how):
        counted(rest).start(main=sink, checkpoint=str(new), **how).await_termination()
        return sorted(first + list(map(str, sink.rows)))

    # Without a given number, it uses the savepoint's number of key groups.
    assert start(savepoint=str(saved)) == whole
    assert newest_entry(spark, str(new))["identity"]["key groups"] == "2"
    # A crash before the first micro-batch is committed.
    for name in ("0", ".0.crc", "1", ".1.crc"):
        (new / "commits" / name).unlink()
    for name in ("1", ".1.crc"):
        (new / "offsets" / name).unlink()
    with pytest.raises(CheckpointError, match=f"[Ss]tart once more with savepoint='{saved}'"):
        start()
    with pytest.raises(CheckpointError, match="began with another savepoint"):
        start(savepoint=other)
    sink.rows.clear()
    assert start(savepoint=str(saved)) == whole
    # Now the query does not need the savepoint, but a different savepoint is still refused.
    shutil.rmtree(saved)
    assert start(savepoint=str(saved)) == start() == whole
    with pytest.raises(CheckpointError, match="began with another savepoint"):
        start(savepoint=other)
    with pytest.raises(CheckpointError, match="did not begin with a savepoint"):
        counted(rest).start(main=sink, checkpoint=f"{folder}/whole", savepoint=other)


def test_incompatible_query_from_savepoint_is_refused_before_it_starts(old, tmp_path):
    folder, _, _, rest = old
    how = {"main": pst.ParquetSink(str(tmp_path / "out")), "checkpoint": str(tmp_path / "new"), "savepoint": f"{folder}/saved"}
    for wrong, said in (
        ({"key": "ts"}, r"key: user \(string\)  ->  ts \(timestamp"),
        ({"windows": ("20 minutes", "5 minutes")}, "panes of 10 minutes, but the new windows begin or end within them"),
        ({"windows": ("2 hours", "10 minutes")}, "before the first row in the saved state"),
    ):
        with pytest.raises(PlanMismatchError, match=said):
            counted(rest, **wrong).start(**how)
    assert not list(tmp_path.iterdir())


def test_query_from_savepoint_may_rename_aggregates_and_shorten_windows(old, tmp_path):
    """Aggregates are renamed and reordered, and windows have two of the three panes."""
    folder, _, _, rest = old
    aggregates = (agg.sum("n").alias("sum_n"), agg.count().alias("clicks"))
    changed = counted(rest, 3, windows=("20 minutes", "10 minutes"), aggregates=aggregates)
    rows = []

    def collect(df, batch_id):
        rows.extend(df.collect())

    sink = pst.ForeachBatchSink(collect, idempotent=True)
    changed.start(main=sink, checkpoint=f"{tmp_path}/new", savepoint=f"{folder}/saved").await_termination()
    totals = {(row.user, row.window_start): (row.sum_n, row.clicks) for row in rows}
    every = [row for batch in ROWS for row in batch]
    assert totals
    for (user, start), total in totals.items():
        begin = start.replace(tzinfo=dt.timezone.utc)
        inside = [n for who, n, ts in every if who == user and begin <= ts < begin + dt.timedelta(minutes=20)]
        assert total == (sum(inside), len(inside)), (user, start)


def test_folder_without_a_savepoint_is_refused_at_start(spark, old, tmp_path):
    folder, _, _, rest = old
    checkpoint = f"{folder}/checkpoint"
    with pytest.raises(CheckpointError, match="holds a savepoint already"):
        pst.savepoint(spark, checkpoint, f"{folder}/saved")
    with pytest.raises(CheckpointError, match="holds something else"):
        pst.savepoint(spark, checkpoint, f"{folder}/first")
    with pytest.raises(CheckpointError, match=r"is a checkpoint, and no savepoint: pst\.savepoint"):
        pst.state.read_savepoint(spark, checkpoint)
    with pytest.raises(CheckpointError, match=r"is a savepoint, not a checkpoint. Read it with pst\.state\.read_savepoint"):
        pst.state.read_checkpoint(spark, f"{folder}/saved")
    with pytest.raises(CheckpointError, match=r"is not a savepoint .*: it does not exist"):
        pst.state.read_savepoint(spark, f"{folder}/nowhere")
    with pytest.raises(CheckpointError, match="is not a checkpoint of a streaming query: it does not exist"):
        pst.state.read_checkpoint(spark, f"{folder}/nowhere")
    # The first attempt was killed before the manifest was written, so the next savepoint may replace it.
    broken = tmp_path / "broken"
    shutil.copytree(folder / "saved", broken)
    shutil.rmtree(broken / "manifest")
    with pytest.raises(CheckpointError, match="was interrupted"):
        counted(rest).start(main=pst.MemorySink(), checkpoint=f"{tmp_path}/new", savepoint=str(broken))
    again = pst.savepoint(spark, checkpoint, str(broken))
    rows = again.table("panes")
    assert rows.count() == pst.state.read_savepoint(spark, f"{folder}/saved").table("panes").count() > 0
    assert rows.columns[:5] == ["key_group", "key 0", "start", "end", "arrival"]
