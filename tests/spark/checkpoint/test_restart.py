"""The facts that the next run takes from a checkpoint: form of state, mode and lineage. Without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from panestream.errors import CheckpointError, EnvironmentNotReadyError, FencedError, SinkError
from panestream.spark.checkpoint.epoch import SUCCESSOR, Epoch, newest_entry
from panestream.spark.checkpoint.lease import CheckpointMode, ensure_identity, lineage_of, read_lease, register, succeed
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.operator.processor import RestartInfo
from tests.engine.exchange.test_exchange import plan as plan_of
from tests.spark.plain_files import PlainSpark

PLAN = plan_of()


@pytest.fixture
def spark(monkeypatch):
    return PlainSpark(monkeypatch)


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "checkpoint")


def log(checkpoint: str, **batches: int) -> None:
    """Write Spark's logs: the last planned micro-batch (``offsets``), and the last committed one (``commits``)."""
    for name, last in batches.items():
        folder = Path(checkpoint, name)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(last + 1):
            (folder / str(number)).write_text("v1\n{}")


def started(spark, checkpoint, places=(), plan=PLAN, **more):
    """Start a run."""
    claim = ensure_identity(spark, plan, checkpoint, **more)
    register(spark, claim, places)
    return claim


def entries(checkpoint: str) -> list[int]:
    return sorted(int(path.name.split("-")[0]) for path in Path(checkpoint, "panestream", "runs").iterdir())


def test_lease_has_last_planned_and_committed_micro_batch_and_written_folders(spark, checkpoint):
    first = started(spark, checkpoint, ["file:/a"])
    log(checkpoint, offsets=0)
    assert read_lease(spark, PLAN, checkpoint).written == set()
    log(checkpoint, offsets=3, commits=2)
    (Path(checkpoint) / "commits" / "7.compact").touch()
    second = started(spark, checkpoint, ["file:/b"])
    assert (second.last, second.written, second.query) == (2, {"file:/a"}, first.query)
    # Micro-batch 3 was planned by the first run, and runs again.
    assert second.restart_info == RestartInfo(second.epoch.entry, 3, first.epoch.entry)
    assert read_lease(spark, PLAN, checkpoint).written == {"file:/a"}
    log(checkpoint, offsets=5, commits=3)
    third = read_lease(spark, PLAN, checkpoint)
    assert third.written == {"file:/a", "file:/b"}
    assert third.restart_info == RestartInfo(third.epoch.entry, 5, second.epoch.entry)
    # The runs that committed the micro-batches.
    places = [newest_entry(spark, checkpoint, batch)["places"] for batch in (-1, 0, 2, 3, 9)]
    assert places == [[], ["file:/a"], ["file:/a"], ["file:/b"], ["file:/b"]]


def test_later_run_is_detected_through_spark_if_entries_are_not_visible(spark, checkpoint, monkeypatch):
    runs = [started(spark, checkpoint).epoch for _ in range(2)]
    monkeypatch.setattr(Epoch, "_seen_here", lambda self: None)
    runs[1].check(spark)
    with pytest.raises(FencedError, match=r"\(run 2, this is run 1\)"):
        runs[0].check(spark)
    with pytest.raises(SinkError, match="the entry of run 7 is missing"):
        Epoch(checkpoint, 7, "ab").check(spark)
    runs[1].forget_old()
    assert entries(checkpoint) == [0, 1, 2]


def test_checkpoint_with_data_frames_keeps_data_frames(spark, checkpoint, monkeypatch):
    claim = ensure_identity(spark, PLAN, checkpoint)
    register(spark, replace(claim, data_frames=True), [])
    monkeypatch.setattr("panestream.spark.checkpoint.lease.check_data_frames", lambda session: None)
    assert not read_lease(spark, PLAN, checkpoint).data_frames
    log(checkpoint, offsets=0)
    assert read_lease(spark, PLAN, checkpoint).data_frames


def test_checkpoint_with_rows_is_refused_on_an_older_spark(spark, checkpoint, monkeypatch):
    started(spark, checkpoint)
    log(checkpoint, offsets=0)
    monkeypatch.setattr("panestream.spark.checkpoint.lease.check_data_frames", lambda session: None)
    with pytest.raises(EnvironmentNotReadyError, match=rf"in the checkpoint {checkpoint} started with Spark 4.1 or later"):
        read_lease(PlainSpark(monkeypatch, "4.0.1"), PLAN, checkpoint)


def test_mode_of_a_query_is_fixed_once_a_micro_batch_was_planned(spark, checkpoint):
    started(spark, checkpoint, mode=CheckpointMode(clock=False, signals=True))
    assert read_lease(spark, PLAN, checkpoint).mode == CheckpointMode()
    log(checkpoint, offsets=0)
    assert read_lease(spark, PLAN, checkpoint).mode == CheckpointMode(signals=True)
    with pytest.raises(CheckpointError, match=f"the checkpoint {checkpoint} was begun by a query that no clock wakes"):
        read_lease(spark, PLAN, checkpoint, mode=CheckpointMode(clock=True))


class Old:
    """A query that ran up to micro-batch 5, whose savepoint was taken, and a query that starts from it."""

    def __init__(self, spark, tmp_path) -> None:
        self.checkpoint, self.new, self.savepoint = (str(tmp_path / name) for name in ("old", "new", "savepoint"))
        self.claim = started(spark, self.checkpoint, ["file:/out", "file:/late"])
        log(self.checkpoint, offsets=5, commits=5)
        self.restored_from = RestoredFrom("one", self.savepoint, lineage_of(spark, self.checkpoint, 5))


@pytest.fixture
def old(spark, tmp_path):
    return Old(spark, tmp_path)


def test_one_of_two_queries_from_a_savepoint_continues(spark, old):
    first, second = (ensure_identity(spark, PLAN, f"{old.new}-{number}", old.restored_from) for number in (1, 2))
    for claim in (first, second):
        assert succeed(spark, claim, ["file:/out"]).checkpoint == old.checkpoint
        register(spark, claim, ["file:/out"])
    log(f"{old.new}-1", offsets=0, commits=0)
    with pytest.raises(CheckpointError, match=f"already, with the checkpoint {old.new}-1, and wrote to file:/out"):
        succeed(spark, second, ["file:/out"])
    # The query is not its own rival.
    assert succeed(spark, first, ["file:/out"]).number == 4


def test_successor_is_written_to_the_savepoint_if_the_old_checkpoint_was_moved(spark, old, tmp_path):
    claim = ensure_identity(spark, PLAN, old.new, old.restored_from)
    (tmp_path / "old").rename(tmp_path / "moved")
    told = succeed(spark, claim, ["file:/out"])
    assert (told.checkpoint, told.number) == (old.savepoint, 1)
    assert newest_entry(spark, old.savepoint) == {
        **newest_entry(spark, old.savepoint),
        "query": old.claim.query,
        "after": -1,
        SUCCESSOR: old.new,
    }
    # The same holds if another query uses its folder by now.
    started(spark, old.checkpoint)
    assert succeed(spark, claim, ["file:/out"]).rank[0] == 2


def test_relative_checkpoint_is_recorded_as_an_absolute_address(spark, old, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lineage_of(spark, "old", 5).checkpoint == f"file://{old.checkpoint}"
    assert lineage_of(spark, "nothing", 5).checkpoint == "nothing"
    assert lineage_of(spark, "s3a://bucket/old", 5).checkpoint == "s3a://bucket/old"
