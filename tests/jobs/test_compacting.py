"""The output and exit status of ``panestream compact``, and a Spark query whose sink folders are shared and compacted."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

import panestream as pst
from panestream.errors import SinkError
from panestream.jobs import cli, state_commands
from panestream.jobs.state_commands import compaction_lines
from tests.datastream.test_stream import at, read_stream, windowed, write_files
from tests.spark.sinks.test_fenced import uncommit

# Each file closes the windows of the file before it. From the second file on, each micro-batch has a result and a late row.
ROWS = [[("ann", at(20 * number), 1)] + [("ann", at(0), number)] * (number > 1) for number in range(8)]


@pytest.fixture
def run_command(request, monkeypatch):
    spark = request.getfixturevalue("spark")
    monkeypatch.setattr(state_commands, "make_session", lambda name, settings: nullcontext(spark))
    return lambda *arguments: CliRunner().invoke(cli.app, ["compact", *map(str, arguments)])


def files(place: Path) -> int:
    return len(list(place.glob("batch_id=*/*.parquet")))


def windows(results):
    return sorted(map(tuple, results.selectExpr("unix_seconds(window_start)", "n").collect()))


def run(spark, folder: Path, upto: int, size: int, place: str | None = None):
    """Run a query over the first files to their end. Return the rows of main and late as a reader sees them."""
    place = place or str(folder)
    if not (folder / "all").exists():
        write_files(spark, folder / "all", ROWS)
    for number in range(upto):
        target = folder / "in" / f"{number:04d}"
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            (folder / "all" / f"{number:04d}").rename(target)
    sinks = {tag: pst.ParquetSink(f"{place}/{tag}", batches_per_folder=size) for tag in ("main", "late")}
    result = windowed(read_stream(spark, str(folder / "in")), delay="0 seconds", late="late")
    result.start(checkpoint=f"{place}/checkpoint", **sinks).await_termination()
    read = [spark.read.parquet(f"{place}/{tag}") for tag in ("main", "late")]
    return [
        windows(read[0]),
        sorted(map(tuple, read[1].select("price").collect())),
    ]


@pytest.mark.spark
def test_query_restarts_correctly_during_and_after_compaction(spark, tmp_path, run_command):
    place, plain = (
        tmp_path,
        [[(int(at(20 * number).timestamp()), 1) for number in range(7)], [(number,) for number in range(2, 8)]],
    )
    run(spark, place, 4, 3)
    shutil.copytree(place / "checkpoint", tmp_path / "older")
    assert run(spark, place, 8, 3) == plain
    small = files(place / "main")
    done = run_command(place / "main", "--grace", "0")
    assert done.exit_code == 0, done.output
    lines = dict(line.split(maxsplit=1) for line in done.output.splitlines())
    assert (lines["folders"], lines["files"]) == ("2", f"{small - 2} -> 2")
    found = spark.read.parquet(f"{place}/main")
    assert windows(found) == plain[0]
    assert found.schema["window_start"].dataType.typeName() == "timestamp"
    # Crash before the last commit. Then use an old checkpoint from the middle of a file of many micro-batches.
    uncommit(place / "checkpoint", 7)
    assert run(spark, place, 8, 3) == plain
    shutil.rmtree(place / "checkpoint")
    shutil.move(tmp_path / "older", place / "checkpoint")
    assert run(spark, place, 8, 3) == plain
    strange = run_command(tmp_path)
    assert (strange.exit_code, "is not the folder of a file sink" in strange.output) == (cli.EXIT_ERROR, True)


@pytest.mark.spark
def test_compaction_keeps_columns_that_only_some_files_have(spark, tmp_path):
    """A savepoint changed the query in the middle of a folder."""
    from panestream.spark.checkpoint.records import write_marker

    write_marker(spark, f"{tmp_path}/_panestream", {"query": "q"})
    (tmp_path / "_lock").touch()
    for batch, columns in enumerate((["id"], ["id", "id * 2 AS more"], ["id"])):
        spark.range(batch, batch + 2).selectExpr(*columns).coalesce(1).write.parquet(f"{tmp_path}/new")
        folder = tmp_path / f"batch_id={batch - batch % 2}"
        folder.mkdir(exist_ok=True)
        part = next((tmp_path / "new").glob("part-*"))
        part.rename(folder / f"batches-{batch:010d}-{batch:010d}-{part.name}")
        shutil.rmtree(tmp_path / "new")
    assert pst.sinks.compact(spark, str(tmp_path), grace_seconds=0) == pst.sinks.Compaction(1, 2, 1, 4)
    rows = spark.read.parquet(f"{tmp_path}/batch_id=0").select("id", "more").collect()
    assert list(map(tuple, rows)) == [(0, None), (1, None), (1, 2), (2, 4)]
    for wrong in ({"file_bytes": 0}, {"file_bytes": 1.5}, {"grace_seconds": -1}):
        with pytest.raises(SinkError, match=f"{next(iter(wrong))} must be a number"):
            pst.sinks.compact(spark, str(tmp_path), **wrong)


@pytest.mark.spark
def test_shared_folders_are_refused_on_a_remote_file_system(spark, tmp_path, viewfs):
    with pytest.raises(SinkError, match="batches_per_folder=3 needs a local file system"):
        run(spark, tmp_path, 1, 3, place=viewfs)
    with pytest.raises(SinkError, match="is not on a local file system of this machine"):
        pst.sinks.compact(spark, f"{viewfs}/main")


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3"])
def test_batches_per_folder_must_be_a_positive_whole_number(wrong):
    with pytest.raises(SinkError, match="batches_per_folder must be a whole number from 1 on"):
        pst.ParquetSink("/out", batches_per_folder=wrong)


def test_compaction_report_counts_folders_that_changed_meanwhile():
    assert dict(compaction_lines(pst.sinks.Compaction(2, 30, 4, 5000, 1))) == {
        "folders": "2",
        "files": "30 -> 4",
        "rows": "5,000",
        "left": "1 that changed meanwhile: run it again",
    }
