"""Outputs under repeated micro-batches, restored checkpoints, concurrent copies of a query, and missing or broken markers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import panestream as pst
from panestream.errors import FencedError, SinkError, StateDamagedError, StateFormatError
from panestream.spark.checkpoint import records
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.spark.checkpoint.lease import read_lease, register
from panestream.spark.checkpoint.records import list_files, read_markers, write_marker
from panestream.spark.places import escaped
from tests.datastream.test_stream import at, read_batch, read_stream, windowed, write_files
from tests.engine.exchange.test_exchange import plan as plan_of

pytestmark = pytest.mark.spark

# Each file closes the windows of the file before. The last row of each file but the first is late.
FILES = [[("ann", at(0), 1)], [("ann", at(20), 2), ("bob", at(21), 3)], [("ann", at(40), 4), ("ann", at(1), 5)]]


def run(spark, folder: Path, files=FILES, delay="0 seconds", sinks=None, place=None):
    """Run until the input ends. Return the rows of main and late by micro-batch, as a reader finds them."""
    place = place or str(folder)
    for number, rows in enumerate(files):
        if not (folder / "in" / f"{number:04d}").exists():
            write_files(spark, folder / "new", [rows])
            (folder / "in").mkdir(exist_ok=True)
            (folder / "new" / "0000").rename(folder / "in" / f"{number:04d}")
    result = windowed(read_stream(spark, str(folder / "in")), delay=delay, late="late")
    sinks = sinks or {tag: pst.ParquetSink(f"{place}/{tag}") for tag in ("main", "late")}
    result.start(checkpoint=f"{place}/checkpoint", **sinks).await_termination()
    main = spark.read.parquet(f"{place}/main").select("batch_id", "user", "n")
    late = spark.read.parquet(f"{place}/late").select("batch_id", "user", "price")
    return [sorted(map(tuple, frame.collect())) for frame in (main, late)]


def uncommit(checkpoint: Path, batch: int) -> None:
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_run_from_a_restored_checkpoint_withdraws_later_output(spark, tmp_path):
    """An older copy of the checkpoint has newer output. Then a repeated micro-batch is empty."""
    assert run(spark, tmp_path, FILES[:1]) == [[], []]
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "older")
    all_rows = [[(1, "ann", 1), (2, "ann", 1), (2, "bob", 1)], [(2, "ann", 5)]]
    assert run(spark, tmp_path) == all_rows
    # A crash between the sinks and Spark's commit. With the new delay nothing fires. (Late rows stay late.)
    uncommit(tmp_path / "checkpoint", 2)
    assert run(spark, tmp_path, delay="1 hour") == [[(1, "ann", 1)], [(2, "ann", 5)]]
    # With a much older checkpoint, everything after micro-batch 0 comes again with other content.
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.move(tmp_path / "older", tmp_path / "checkpoint")
    (tmp_path / "main" / "_attempts" / "0000000001-ab-broken").mkdir(parents=True)
    assert run(spark, tmp_path, delay="1 hour") == [[], []]
    assert not (tmp_path / "main" / "_attempts" / "0000000001-ab-broken").exists()


class Overtaken(pst.sinks.Sink):
    """A sink that starts another copy of the query before its first write."""

    def __init__(self, result, checkpoint):
        self.result, self.checkpoint = result, checkpoint

    def write(self, df, batch_id):
        spark = df.sparkSession
        register(spark, read_lease(spark, self.result.plan, self.checkpoint), [])


@pytest.mark.parametrize("place", ["local", "elsewhere"])
def test_copy_that_was_overtaken_stops_and_publishes_nothing(spark, tmp_path, place, viewfs):
    folder = str(tmp_path) if place == "local" else viewfs
    source = write_files(spark, tmp_path / "in", FILES[:1])
    result = windowed(read_stream(spark, source), late="late")
    checkpoint = f"{folder}/checkpoint"
    sinks = {"main": Overtaken(result, checkpoint), "late": pst.ParquetSink(f"{folder}/late")}
    query = result.start(checkpoint=checkpoint, **sinks)
    with pytest.raises(FencedError, match=r"another copy .* started later on the checkpoint .*\(run 2, this is run 1\)"):
        query.await_termination()
    assert [path.name for path in (tmp_path / "late").iterdir() if "=" in path.name] == []
    # The other copy continues with the uncommitted micro-batches.
    assert run(spark, tmp_path, FILES[:2], place=folder) == [[(1, "ann", 1)], []]


@pytest.mark.parametrize("place", ["local", "elsewhere"])
def test_one_of_two_simultaneous_starts_holds_the_checkpoint(spark, tmp_path, place, viewfs):
    checkpoint = f"{tmp_path if place == 'local' else viewfs}/checkpoint"
    plan = plan_of(groups=2)
    first, second = sorted((read_lease(spark, plan, checkpoint) for _ in range(2)), key=lambda claim: claim.epoch.rank)
    assert (first.epoch.number, second.epoch.number) == (1, 1)
    register(spark, second, ["file:/out"])
    with pytest.raises(FencedError, match=r"another copy .* started later on the checkpoint .*\(run 1, this is run 1\)"):
        register(spark, first, ["file:/other"])
    second.epoch.check(spark)
    assert newest_entry(spark, checkpoint)["places"] == ["file:/out"]
    # The next run sees both entries, and continues under the name of the holder.
    third = read_lease(spark, plan, checkpoint)
    assert (third.epoch.number, third.query, third.queries) == (2, second.query, {first.query, second.query})


def test_spark_publishes_and_clears_on_other_file_systems(spark, tmp_path, viewfs):
    all_rows = [[(1, "ann", 1), (2, "ann", 1), (2, "bob", 1)], [(2, "ann", 5)]]
    assert run(spark, tmp_path, place=viewfs) == all_rows
    # Without exclusive creation of files, the claim of the folder stays for other simultaneous starts.
    assert [path.name[:6] for path in (tmp_path / "main" / "_attempts").iterdir()] == ["claim-"]
    # Back at micro-batch 1, its output is replaced, and the output of 2 is deleted.
    for number in (1, 2):
        uncommit(tmp_path / "checkpoint", number)
        if number == 2:
            for name in ("2", ".2.crc"):
                (tmp_path / "checkpoint" / "offsets" / name).unlink(missing_ok=True)
    (tmp_path / "in" / "0002").rename(tmp_path / "later")
    assert run(spark, tmp_path, FILES[:2], place=viewfs) == [[(1, "ann", 1)], []]
    with pytest.raises(SinkError, match="another query"):
        windowed(read_stream(spark, str(tmp_path / "in"))).start(
            main=pst.ParquetSink(f"{viewfs}/main"), checkpoint=f"{viewfs}/other"
        )


def test_missing_output_folder_is_an_error(spark, tmp_path):
    run(spark, tmp_path, FILES[:1])
    shutil.rmtree(tmp_path / "main")
    with pytest.raises(
        SinkError, match=r"main or its marker .*Restore the directory.*[Cc]hoose another directory.*new checkpoint"
    ):
        run(spark, tmp_path, FILES[:1])
    moved = {"main": pst.ParquetSink(f"{tmp_path}/moved"), "late": pst.ParquetSink(f"{tmp_path}/late")}
    (tmp_path / "main").mkdir()  # for the reader
    with pytest.raises(Exception, match="UNABLE_TO_INFER_SCHEMA"):
        run(spark, tmp_path, FILES[:1], sinks=moved)
    assert (tmp_path / "moved" / "_panestream").is_dir()


def test_interrupted_first_start_still_owns_its_outputs(spark, tmp_path):
    """``main`` already has the query's name when ``late`` is refused, as after a kill in between."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "of_another.txt").write_text("here")
    with pytest.raises(SinkError, match="late already holds files"):
        run(spark, tmp_path, FILES[:1])
    (tmp_path / "late" / "of_another.txt").unlink()
    # Nothing was computed yet, so even the plan may change.
    changed = windowed(read_stream(spark, str(tmp_path / "in")), pst.TumblingEventTimeWindows.of("20 seconds"), late="late")
    sinks = {tag: pst.ParquetSink(f"{tmp_path}/{tag}") for tag in ("main", "late")}
    changed.start(checkpoint=f"{tmp_path}/checkpoint", **sinks).await_termination()
    with pytest.raises(pst.errors.PlanMismatchError, match="belongs to another plan"):
        run(spark, tmp_path, FILES[:2])


def test_broken_marker_is_named_in_the_error(spark, tmp_path, monkeypatch):
    for name, text in (("empty", ""), ("cut", '{"format": 1, "que'), ("newer", '{"format": 7}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0.txt").write_text(text)
    for name, why in (
        ("empty", "is empty: do so"),
        ("cut", "is cut off .*: do so"),
        ("newer", "is of a newer panestream .format 7"),
    ):
        kind = StateFormatError if name == "newer" else StateDamagedError
        with pytest.raises(kind, match=rf"{name}/part-0.txt {why}"):
            read_markers(spark, f"{tmp_path}/{name}/part-*", "do so")
    with monkeypatch.context() as elsewhere:
        # As on a file system that only Spark sees. Hadoop's checksum of the file finds the damage first.
        elsewhere.setattr(records, "folder_here", lambda spark, path: None)
        elsewhere.setattr(records, "_contents_here", lambda addresses: None)
        write_marker(spark, f"{tmp_path}/changed", {"query": "abcd"})
        (part,) = (tmp_path / "changed").glob("part-*")
        part.write_text(part.read_text().replace("abcd", "abcx"))
        unreadable = r"a marker of .*changed/part-\* cannot be read: do so .*FAILED_READ_FILE.*changed/part-0"
        with pytest.raises(StateDamagedError, match=unreadable) as caught:
            read_markers(spark, f"{tmp_path}/changed/part-*", "do so")
        assert len(str(caught.value).splitlines()) == 1
        # Copying often loses Hadoop's checksum.
        for crc in part.parent.glob(".*.crc"):
            crc.unlink()
        with pytest.raises(StateDamagedError, match=r"part-.* was changed, .*: do so"):
            read_markers(spark, f"{tmp_path}/changed/part-*", "do so")
    with pytest.raises(StateDamagedError, match=r"part-.* was changed, .*: do so"):
        read_markers(spark, f"{tmp_path}/changed/part-*", "do so")
    odd = f"{tmp_path}/a[b]{{c}}"
    assert list_files(spark, f"{tmp_path}/nothing/*") == []
    write_marker(spark, odd, {"query": "x"})
    assert [marker["query"] for marker in read_markers(spark, f"{escaped(odd)}/part-*", "do so").values()] == ["x"]


def test_start_with_a_broken_marker_is_refused(spark, tmp_path):
    source = write_files(spark, tmp_path / "in", FILES[:1])
    result = windowed(read_stream(spark, source))
    checkpoint = str(tmp_path / "checkpoint")
    register(spark, read_lease(spark, result.plan, checkpoint), [])
    (marker,) = (tmp_path / "checkpoint" / "panestream" / "runs").glob("*/part-*")
    whole = marker.read_text()
    for crc in marker.parent.glob(".*.crc"):
        crc.unlink()
    marker.write_text(whole[:20])
    with pytest.raises(StateDamagedError, match=r"runs/0000000001-.*/part-.* is cut off.*[Rr]estore the checkpoint"):
        result.start(main=pst.ParquetSink(f"{tmp_path}/main"), checkpoint=checkpoint)


def test_columns_that_sinks_do_not_support_are_refused_at_start(spark, tmp_path):
    df = read_batch(spark, write_files(spark, tmp_path / "in", FILES[:1]))
    twice = {tag: pst.ParquetSink(f"{tmp_path}/out") for tag in ("main", "bad")}
    with pytest.raises(SinkError, match="'main' and 'bad' have one place"):
        windowed(df, invalid="bad").run(**twice)
    with pytest.raises(SinkError, match=r"'main' and 'bad' have one place, table spark_catalog\.default\.t"):
        windowed(df, invalid="bad").run(main=pst.TableSink("T"), bad=pst.MergeSink("default.t", ["user"]))
    same = pst.MemorySink()
    with pytest.raises(SinkError, match="have one place"):
        windowed(df, invalid="bad").run(main=same, bad=same)
    named = df.withColumnRenamed("price", "Batch_ID")
    stream = pst.stream(named).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks()).side_output_invalid("bad")
    result = stream.key_by("user").window(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(pst.agg.count().alias("n"))
    with pytest.raises(SinkError, match=r"out have a column 'Batch_ID'.*Rename the column"):
        result.run(bad=pst.ParquetSink(f"{tmp_path}/out"))
    assert not (tmp_path / "out").exists()
    with pytest.raises(pst.errors.InvalidPlanError, match="Batch_ID"):
        pst.stream(named).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks()).key_by("Batch_ID")
    with pytest.raises(SinkError, match="already holds files"):
        windowed(df).run(main=pst.ParquetSink(f"{tmp_path}/in"))
