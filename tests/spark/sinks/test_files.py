"""The folders that a file sink leaves on a local file system, run by run, and its errors. Rows are words, without Spark."""

from __future__ import annotations

import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panestream as pst
from panestream.errors import FencedError, PanestreamWarning, SinkError
from panestream.spark.checkpoint.epoch import Epoch
from panestream.spark.sinks import claims
from panestream.spark.sinks.base import QueryRunInfo
from tests.costs import random_cases
from tests.spark.local_files import LocalFiles, leave_marker

SPARK = LocalFiles()


@pytest.fixture(autouse=True)
def written_here(monkeypatch):
    monkeypatch.setattr(claims, "write_marker", leave_marker)


class Words:
    """Rows that are words, each written to a file like Spark does."""

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
    """A query with a checkpoint and a sink."""

    def __init__(self, folder, **given):
        self.folder, self.checkpoint = folder / "out", folder / "checkpoint"
        self.sink = pst.ParquetSink(str(self.folder), **given)

    def epoch(self, number):
        leave_marker(SPARK, self.checkpoint / "panestream/runs" / f"{number:010d}-ab", {})
        return Epoch(str(self.checkpoint), number, "ab")

    def opened(self, number, first=0, **told):
        sink = self.sink.open(SPARK, QueryRunInfo("q", epoch=self.epoch(number), queries=frozenset({"q"}), **told))
        sink.begin(Words(), first)
        return sink

    def found(self):
        """Return the words that readers find, by folder."""
        there = sorted(self.folder.glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1]))
        return {path.name: sorted(file.read_text() for file in path.glob("[!_.]*")) for path in there}


def test_file_sink_writes_a_folder_for_each_micro_batch_and_one_for_a_batch(tmp_path):
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
    batch.open(SPARK, QueryRunInfo()).write(Words("all"), None)
    assert [path.read_text() for path in (tmp_path / "batch/batch_id=-1").glob("part-*")] == ["all"]


def test_micro_batches_share_folders_and_leftovers_of_a_crash_are_swept(tmp_path):
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
    # A shared place stays shared, also if the query later asks for a folder for each micro-batch.
    query.sink = pst.ParquetSink(str(query.folder))
    alone = query.opened(3, first=5)
    alone.write(Words("of 5"), 5)
    assert query.found() == {"batch_id=0": ["of 0", "of 1", "of 2"], "batch_id=3": ["again", "of 3"], "batch_id=5": ["of 5"]}
    assert next((query.folder / "batch_id=5").glob("b*")).name == "batches-0000000005-0000000005-part-0.parquet"


@pytest.mark.parametrize("size", [1, 3])
def test_output_withdrawn_by_a_failed_run_returns_with_the_repaired_checkpoint(tmp_path, size):
    query = Query(tmp_path, batches_per_folder=size)
    sink = query.opened(1)
    for batch in range(7):
        sink.write(Words(f"of {batch}"), batch)
    before = query.found()
    for number in (2, 3):
        # The checkpoint lacks its newest micro-batches. A run repeats one, and ends before its commit.
        query.opened(number, first=2).write(Words("of 2"), 2)
        assert sorted(word for words in query.found().values() for word in words) == ["of 0", "of 1", "of 2"]
    query.opened(4, first=1).write(Words("of 1"), 1)
    assert sorted(word for words in query.found().values() for word in words) == ["of 0", "of 1"]
    # The checkpoint is repaired.
    repaired = query.opened(5, first=7)
    assert query.found() == before
    repaired.write(Words("of 7"), 7)
    repaired.on_first_commit(Words())
    assert list((query.folder / "_withdrawn").iterdir()) == []


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("runs", ["one", "one for each micro-batch"])
def test_withdrawn_output_is_deleted_once_the_repeated_micro_batch_is_committed(tmp_path, size, runs):
    query = Query(tmp_path, batches_per_folder=size)
    sink = query.opened(1)
    for batch in range(7):
        sink.write(Words(f"of {batch}"), batch)
    # An older copy of the checkpoint was restored.
    sink = query.opened(2, first=2)
    sink.write(Words("again"), 2)
    if runs == "one":
        sink.on_first_commit(Words())
        assert list((query.folder / "_withdrawn").iterdir()) == []
        again = ["again"]
    else:
        for batch in (3, 4):
            query.opened(batch, first=batch).write(Words("again"), batch)
        again = ["again"] * 3
    # If later micro-batches lack rows now, the old output of those numbers does not return.
    query.opened(5, first=5).write(Words("of 5 again"), 5)
    assert sorted(word for words in query.found().values() for word in words) == [*again, "of 0", "of 1", "of 5 again"]


class RandomlyRestored:
    """A query whose checkpoint is randomly restored, damaged and repaired. Readers must find exactly the committed rows."""

    def __init__(self, folder, chance):
        self.query, self.chance = Query(folder, batches_per_folder=chance.choice([1, 1, 3, 5])), chance
        self.committed, self.last, self.runs, self.version = {}, -1, 0, 0

    def word(self, batch):
        return f"{batch} of {self.version}"

    def start(self, first):
        self.runs += 1
        return self.query.opened(self.runs, first=first)

    def run(self):
        """Continue after the last commit for some micro-batches. The last one may be interrupted before its commit."""
        sink, first = self.start(self.last + 1), self.last + 1
        for batch in range(first, first + self.chance.randint(1, 4)):
            words = [self.word(batch)] if batch == first or self.chance.random() < 0.7 else []
            if batch == first + 1:
                sink.on_first_commit(Words())
            if words:
                sink.write(Words(*words), batch)
            self.check({**self.committed, batch: words})
            if batch > first and self.chance.random() < 0.1:
                return
            self.committed[batch], self.last = words, batch

    def fail(self):
        """Use a checkpoint without its last micro-batches. A run repeats one and fails. Then the checkpoint is repaired."""
        first = self.chance.randint(max(self.last - 6, 0), self.last)
        self.start(first).write(Words(*self.committed[first]), first)

    def restore(self):
        """Restore a copy. Later micro-batches come again with other rows."""
        self.last = self.chance.randint(max(self.last - 6, -1), self.last)
        self.committed = {batch: words for batch, words in self.committed.items() if batch <= self.last}
        self.version += 1
        self.run()

    def check(self, expected):
        found = [word for words in self.query.found().values() for word in words]
        assert sorted(found) == sorted(word for words in expected.values() for word in words)


@pytest.mark.parametrize("case", range(random_cases(40)))
def test_randomly_damaged_and_restored_checkpoints_lose_and_double_no_row(tmp_path, case):
    chance = random.Random(case)
    history = RandomlyRestored(tmp_path, chance)
    history.run()
    for _ in range(12):
        for _ in range(chance.choice([0, 0, 1, 2])):
            history.fail()
        history.restore() if chance.random() < 0.2 else history.run()


@pytest.mark.parametrize("step", ["begin", "write"])
def test_overtaken_run_leaves_shared_folders_unchanged(tmp_path, step):
    query = Query(tmp_path, batches_per_folder=3)
    sink = query.opened(1)
    sink.write(Words("of 0"), 0)
    query.epoch(2)
    with pytest.raises(FencedError):
        getattr(sink, step)(Words("late"), 1)
    assert query.found() == {"batch_id=0": ["of 0"]}


def test_process_that_does_not_see_shared_folders_does_not_write(tmp_path):
    query = Query(tmp_path, batches_per_folder=3)
    sink = query.opened(1)
    next((query.folder / "_panestream").iterdir()).unlink()
    with pytest.raises(
        SinkError, match="has folders of several micro-batches, and the process that writes them does not see them"
    ):
        sink.write(Words("a"), 0)


def test_folder_of_another_query_is_refused(tmp_path):
    query = Query(tmp_path)
    query.opened(1)
    known = QueryRunInfo("new", queries=frozenset({"new", "q"}))
    query.sink.open(SPARK, known)
    for run, what in ((QueryRunInfo("r", queries=frozenset({"r"})), "another query"), (QueryRunInfo(), "another query")):
        with pytest.raises(SinkError, match=f"{query.folder} holds the output of {what}"):
            query.sink.open(SPARK, run)
    batch = pst.ParquetSink(str(tmp_path / "batch"))
    batch.open(SPARK, QueryRunInfo())
    with pytest.raises(SinkError, match="holds the output of another batch run"):
        batch.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"})))


@pytest.mark.parametrize("size", [1, 3])
def test_output_that_is_older_than_the_checkpoint_is_warned_of(tmp_path, size):
    query = Query(tmp_path, batches_per_folder=size)
    sink = query.opened(1)
    for batch in range(7):
        sink.write(Words(f"of {batch}"), batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"}), written=True, began=6))
    # One copy of the folder is older than the run that started with micro-batch 7.
    with pytest.warns(PanestreamWarning, match=r"out ends with micro-batch 6, and the checkpoint committed micro-batch 7 to it"):
        query.sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"}), written=True, began=7))


def test_folder_whose_micro_batches_were_all_deleted_is_not_warned_of(tmp_path):
    query = Query(tmp_path)
    query.opened(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"}), written=True, began=7))


def test_files_without_a_column_of_the_output_are_warned_of(tmp_path):
    query = Query(tmp_path)
    query.opened(1)
    for batch, names in ((0, ["n"]), (1, ["n", "top"])):
        (query.folder / f"batch_id={batch}").mkdir()
        pq.write_table(pa.table({name: [1] for name in names}), query.folder / f"batch_id={batch}" / "part-0.parquet")
    with pytest.warns(PanestreamWarning, match=r"files without columns that the output 'main' has now \(top\).*mergeSchema"):
        query.sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"}), columns=("N", "top")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"}), columns=("N",)))
        (query.folder / "batch_id=0" / "part-0.parquet").write_text("damaged")
        query.sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"}), columns=("n", "top")))


def start_first(monkeypatch, sink, *queries):
    """Let other queries open the sink after this query has checked the folder's owner and before it writes its own marker."""
    waiting = list(queries)

    def leave(spark, folder, marker):
        leave_marker(spark, folder, marker)
        while waiting:
            sink.open(SPARK, QueryRunInfo(waiting[0], queries=frozenset({waiting.pop(0)})))

    monkeypatch.setattr(claims, "write_marker", leave)


def test_second_of_two_queries_that_start_in_a_new_folder_is_refused(tmp_path, monkeypatch):
    sink = pst.ParquetSink(str(tmp_path / "out"))
    start_first(monkeypatch, sink, "first")
    with pytest.raises(SinkError, match="out holds the output of another query: its batch ids would collide"):
        sink.open(SPARK, QueryRunInfo("second", queries=frozenset({"second"})))
    sink.open(SPARK, QueryRunInfo("first", queries=frozenset({"first"})))


def test_two_copies_of_a_query_that_start_in_a_new_folder_share_ownership(tmp_path, monkeypatch):
    sink = pst.ParquetSink(str(tmp_path / "out"))
    start_first(monkeypatch, sink, "copy")
    sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q", "copy"})))


@pytest.mark.parametrize("moments", range(random_cases(20)))
def test_exactly_one_of_many_simultaneous_queries_gets_the_folder(tmp_path, moments):
    sink, together = pst.ParquetSink(str(tmp_path / "out")), threading.Barrier(4)

    def start(query):
        together.wait()
        try:
            sink.open(SPARK, QueryRunInfo(query, queries=frozenset({query})))
        except SinkError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(start, ("a", "b", "c", "d")))
    assert said.count("") == 1
    assert all("holds the output of another query" in each for each in said if each)


@pytest.mark.parametrize("step", [1, 2])
def test_without_exclusive_creation_two_queries_never_both_get_the_folder(tmp_path, monkeypatch, step):
    """At step 1, the other query comes when the claim is written. At step 2, claims were read and the marker comes next."""
    monkeypatch.setattr(claims, "local_folder", lambda address: None)
    sink, steps, outcomes = pst.ParquetSink(str(tmp_path / "out")), [], {}

    def start(query):
        try:
            sink.open(SPARK, QueryRunInfo(query, queries=frozenset({query})))
        except SinkError as error:
            return str(error)
        return "opened"

    def leave(spark, folder, marker):
        steps.append(folder)
        if len(steps) == step:
            outcomes["other"] = start("other")
        leave_marker(spark, folder, marker)

    monkeypatch.setattr(claims, "write_marker", leave)
    outcomes["this"] = start("this")
    assert sorted(each == "opened" for each in outcomes.values()) == [False, True]
    (refused,) = (each for each in outcomes.values() if each != "opened")
    assert "is claimed by another query that starts at the same moment" in refused or "holds the output of another" in refused
    owner = next(name for name, each in outcomes.items() if each == "opened")
    assert start(owner) == "opened"
    assert "holds the output of another query" in start("a third")


def test_without_exclusive_creation_an_abandoned_claim_blocks_no_query(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "local_folder", lambda address: None)
    sink = pst.ParquetSink(str(tmp_path / "out"))
    leave_marker(SPARK, tmp_path / "out/_attempts/claim-ab", {"query": "other", "given_up": True})
    sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"})))
    leave_marker(SPARK, tmp_path / "held/_attempts/claim-ab", {"query": "other"})
    with pytest.raises(SinkError, match=r"is claimed by another query .*claim-ab.*[Dd]elete that claim and start again"):
        pst.ParquetSink(str(tmp_path / "held")).open(SPARK, QueryRunInfo("q", queries=frozenset({"q"})))


def test_partial_marker_of_an_earlier_panestream_is_not_an_owner(tmp_path):
    left = tmp_path / "out" / "_panestream" / "_temporary" / "0"
    left.mkdir(parents=True)
    (left.parent.parent / "_SUCCESS").touch()
    sink = pst.ParquetSink(str(tmp_path / "out"))
    sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"})))
    with pytest.raises(SinkError, match="holds the output of another query"):
        sink.open(SPARK, QueryRunInfo("r", queries=frozenset({"r"})))


def test_folder_without_its_marker_or_with_foreign_files_is_refused(tmp_path):
    query = Query(tmp_path)
    with pytest.raises(SinkError, match=r"or its marker _panestream is missing: earlier micro-batches .* were written there"):
        query.sink.open(SPARK, QueryRunInfo("q", written=True))
    (query.folder / "deep").mkdir(parents=True)
    query.sink.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"})))
    other = pst.ParquetSink(str(tmp_path / "other"))
    (tmp_path / "other/deep").mkdir(parents=True)
    (tmp_path / "other/deep/a.txt").touch()
    with pytest.raises(SinkError, match="already holds files that are not this query's: choose an empty directory"):
        other.open(SPARK, QueryRunInfo("q", queries=frozenset({"q"})))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "avro"}, "writes parquet, json, csv or orc, not 'avro'"),
        ({"path": " "}, "the path of a file sink must be a directory name; got ' '"),
        ({"batches_per_folder": 0}, "must be a whole number from 1 on, got 0"),
        ({"batches_per_folder": True}, "must be a whole number from 1 on, got True"),
    ],
)
def test_wrong_file_sink_is_refused(given, said):
    with pytest.raises(SinkError, match=said):
        pst.FileSink(**{"path": "/out", **given})


def test_file_sink_describes_itself_before_a_query_starts():
    sink = pst.FileSink("/out/x/", "json")
    assert (sink.place(SPARK), sink.describe(), sink.guarantee(SPARK)) == ("file:/out/x", "json /out/x/", "exactly once")
    sink.check_columns(["user", "batch"])
    with pytest.raises(SinkError, match=r"have a column 'Batch_Id': readers would find the number"):
        sink.check_columns(["user", "Batch_Id"])
    with pytest.raises(SinkError, match="a FileSink is written by a query"):
        sink.write(SimpleNamespace(), 0)
