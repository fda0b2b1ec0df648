"""What a file sink leaves on a local file system, run by run; and what it refuses. The rows are words here, and no Spark runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import panestream as pst
from panestream.errors import FencedError, SinkError
from panestream.spark.checkpoint import Epoch
from panestream.spark.sinks import files
from panestream.spark.sinks.base import Run
from tests.spark.local_files import LocalFiles, leave_marker

SPARK = LocalFiles()


@pytest.fixture(autouse=True)
def written_here(monkeypatch):
    monkeypatch.setattr(files, "write_marker", leave_marker)


class Words:
    """Rows that are words: a file each, as Spark writes them."""

    sparkSession = SPARK  # noqa: N815 - Spark's name

    def __init__(self, *words):
        self.words = words

    @property
    def write(self):
        return self

    def format(self, kind):
        self.kind = kind
        return self

    def options(self, **given):
        self.given = given
        return self

    def mode(self, mode):
        assert mode == "overwrite"
        return self

    def save(self, path):
        Path(path).mkdir(parents=True)
        for number, word in enumerate(self.words):
            (Path(path) / f"part-{number}.{self.kind}").write_text(word)
        (Path(path) / "_SUCCESS").touch()


class Query:
    """A query with a checkpoint, and its sink."""

    def __init__(self, folder, **given):
        self.folder, self.checkpoint = folder / "out", folder / "checkpoint"
        self.sink = pst.ParquetSink(str(self.folder), **given)

    def epoch(self, number):
        leave_marker(SPARK, self.checkpoint / "panestream/runs" / f"{number:010d}-ab", {})
        return Epoch(str(self.checkpoint), number, "ab")

    def opened(self, number, first=0, **told):
        sink = self.sink.open(SPARK, Run("q", epoch=self.epoch(number), queries=frozenset({"q"}), **told))
        sink.begin(Words(), first)
        return sink

    def found(self):
        """The words that readers find, by folder."""
        there = sorted(self.folder.glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1]))
        return {path.name: sorted(file.read_text() for file in path.glob("[!_.]*")) for path in there}


def test_a_folder_for_each_micro_batch_and_one_for_a_batch(tmp_path):
    query = Query(tmp_path, compression="none")
    sink = query.opened(1)
    written = Words("a", "b")
    sink.write(written, 0)
    sink.write(Words("c"), 1)
    assert (written.kind, written.given, query.found()) == (
        "parquet",
        {"compression": "none"},
        {"batch_id=0": ["a", "b"], "batch_id=1": ["c"]},
    )
    assert not (query.folder / "_lock").exists()
    again = query.opened(2, first=0)
    again.write(Words("d"), 0)
    assert query.found() == {"batch_id=0": ["d"]}
    with pytest.raises(FencedError):
        sink.write(Words("e"), 1)
    assert (sink.describe(), query.found()) == (f"parquet {query.folder}", {"batch_id=0": ["d"]})
    batch = pst.ParquetSink(str(tmp_path / "batch"))
    batch.open(SPARK, Run()).write(Words("all"), None)
    assert [path.read_text() for path in (tmp_path / "batch/batch_id=-1").glob("part-*")] == ["all"]


def test_micro_batches_share_folders_and_what_a_crash_left_is_swept(tmp_path):
    query = Query(tmp_path, batches_per_folder=3)
    sink = query.opened(1)
    for batch in range(5):
        sink.write(Words(f"of {batch}"), batch)
    broken = query.folder / "_attempts" / "0000000001-ab-broken"
    broken.mkdir(parents=True)
    again = query.opened(2, first=4)
    again.write(Words("again"), 4)
    assert query.found() == {"batch_id=0": ["of 0", "of 1", "of 2"], "batch_id=3": ["again", "of 3"]}
    assert not broken.exists()
    assert (query.folder / "_lock").exists()
    # Shared once, always shared: also where each is to have a folder of its own from now on.
    query.sink = pst.ParquetSink(str(query.folder))
    alone = query.opened(3, first=5)
    alone.write(Words("of 5"), 5)
    assert query.found() == {"batch_id=0": ["of 0", "of 1", "of 2"], "batch_id=3": ["again", "of 3"], "batch_id=5": ["of 5"]}
    assert next((query.folder / "batch_id=5").glob("b*")).name == "batches-0000000005-0000000005-part-0.parquet"


@pytest.mark.parametrize("step", ["begin", "write"])
def test_where_another_run_holds_the_place_shared_folders_stay(tmp_path, step):
    query = Query(tmp_path, batches_per_folder=3)
    sink = query.opened(1)
    sink.write(Words("of 0"), 0)
    query.epoch(2)
    with pytest.raises(FencedError):
        getattr(sink, step)(Words("late"), 1)
    assert query.found() == {"batch_id=0": ["of 0"]}


def test_who_does_not_see_shared_folders_does_not_write_to_them(tmp_path):
    query = Query(tmp_path, batches_per_folder=3)
    sink = query.opened(1)
    next((query.folder / "_panestream").iterdir()).unlink()
    with pytest.raises(
        SinkError, match="has folders of several micro-batches, and the process that writes them does not see them"
    ):
        sink.write(Words("a"), 0)


def test_a_place_that_is_not_the_querys_is_refused(tmp_path):
    query = Query(tmp_path)
    query.opened(1)
    known = Run("new", queries=frozenset({"new", "q"}))
    query.sink.open(SPARK, known)
    for run, what in ((Run("r", queries=frozenset({"r"})), "another query"), (Run(), "another query")):
        with pytest.raises(SinkError, match=f"{query.folder} holds the output of {what}"):
            query.sink.open(SPARK, run)
    batch = pst.ParquetSink(str(tmp_path / "batch"))
    batch.open(SPARK, Run())
    with pytest.raises(SinkError, match="holds the output of another batch run"):
        batch.open(SPARK, Run("q", queries=frozenset({"q"})))


def test_a_place_that_lost_its_marker_or_has_files_of_others_is_refused(tmp_path):
    query = Query(tmp_path)
    with pytest.raises(SinkError, match=r"is gone, or has lost its marker _panestream: micro-batches .* were written there"):
        query.sink.open(SPARK, Run("q", written=True))
    (query.folder / "deep").mkdir(parents=True)
    query.sink.open(SPARK, Run("q", queries=frozenset({"q"})))
    other = pst.ParquetSink(str(tmp_path / "other"))
    (tmp_path / "other/deep").mkdir(parents=True)
    (tmp_path / "other/deep/a.txt").touch()
    with pytest.raises(SinkError, match="already holds files that are not this query's: choose an empty directory"):
        other.open(SPARK, Run("q", queries=frozenset({"q"})))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "avro"}, "writes parquet, json, csv or orc, not 'avro'"),
        ({"path": " "}, "the path of a file sink must be a directory name; got ' '"),
        ({"batches_per_folder": 0}, "must be a whole number from 1 on, got 0"),
        ({"batches_per_folder": True}, "must be a whole number from 1 on, got True"),
    ],
)
def test_what_makes_no_sense_is_refused(given, said):
    with pytest.raises(SinkError, match=said):
        pst.FileSink(**{"path": "/out", **given})


def test_what_it_is_asked_before_a_query_starts():
    sink = pst.FileSink("/out/x/", "json")
    assert (sink.place(SPARK), sink.describe(), sink.guarantee(SPARK)) == ("file:/out/x", "json /out/x/", "exactly once")
    sink.check_columns(["user", "batch"])
    with pytest.raises(SinkError, match=r"have a column 'Batch_Id': readers would find the number"):
        sink.check_columns(["user", "Batch_Id"])
    with pytest.raises(SinkError, match="a FileSink is written by a query"):
        sink.write(SimpleNamespace(), 0)
