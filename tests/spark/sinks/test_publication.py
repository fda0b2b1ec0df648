"""Folders are published by renames. The tests race real renames, without Spark."""

from __future__ import annotations

import errno
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from panestream.errors import FencedError, SinkError
from panestream.spark.places import check_apart, file_place
from panestream.spark.sinks import publication
from panestream.spark.sinks.micro_batch_folders import MicroBatchFolders
from panestream.spark.sinks.publication import NOBODY, Publisher, published, rank_of, sweep
from tests.costs import thinned

ROUNDS = len(thinned(range(150), 4))


class Entries:
    """The entries of a checkpoint in memory. The largest number holds it."""

    def __init__(self) -> None:
        self.ranks: set[tuple[int, str]] = set()

    def publisher(self, folder: Path, number: int, name: str = "ab") -> Publisher:
        rank = (number, name)
        self.ranks.add(rank)

        def check() -> None:
            if max(self.ranks) > rank:
                raise FencedError(f"{max(self.ranks)} was started later than {rank}")

        return Publisher(folder / "_attempts", rank, check, lambda other: other in self.ranks)


def attempt(publisher: Publisher, text: str, files: int = 3) -> Path:
    folder = publisher.aside()
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"part-{number}").write_text(text)
    return folder


def parts(target: Path) -> list[str]:
    return [path.read_text() for path in sorted(target.glob("part-*"))]


@pytest.fixture(params=["exchange", "two renames"])
def way(request, monkeypatch):
    if request.param == "two renames":
        monkeypatch.setattr(publication, "_renameat2", lambda: None)
    return request.param


def test_attempt_replaces_the_folder_of_an_earlier_run(tmp_path, way):
    entries, target = Entries(), tmp_path / "batch_id=3"
    first = entries.publisher(tmp_path, 1)
    first.publish(attempt(first, "old", files=5), target)
    assert (parts(target), rank_of(target)) == (["old"] * 5, (1, "ab"))
    second = entries.publisher(tmp_path, 2)
    second.publish(attempt(second, "new"), target)
    assert (parts(target), rank_of(target)) == (["new"] * 3, (2, "ab"))
    sweep(tmp_path / "_attempts")
    assert parts(target) == ["new"] * 3
    with pytest.raises(FencedError):
        first.publish(attempt(first, "late"), target)
    assert parts(target) == ["new"] * 3


def test_run_that_was_checked_before_a_later_run_does_not_replace_its_folder(tmp_path, way):
    """The check passes, the process sleeps, and a later run publishes. Then the process continues."""
    entries, target = Entries(), tmp_path / "batch_id=3"
    before = entries.publisher(tmp_path, 1)
    before.publish(attempt(before, "first"), target)
    slow = entries.publisher(tmp_path, 2)
    looks = []

    def check_that_is_overtaken():
        looks.append(len(entries.ranks))
        if len(looks) == 2:  # the last check before something is replaced
            fast = entries.publisher(tmp_path, 3)
            fast.publish(attempt(fast, "newest", files=4), target)
        elif len(looks) > 2:
            slow.check()

    overtaken = Publisher(slow.attempts, slow.rank, check_that_is_overtaken, slow.registered)
    with pytest.raises(FencedError):
        overtaken.publish(attempt(slow, "slow"), target)
    assert (parts(target), rank_of(target)) == (["newest"] * 4, (3, "ab"))


def test_folder_of_a_later_run_is_replaced_after_a_restored_checkpoint(tmp_path, way):
    """After an older copy of the checkpoint was restored, its numbers come again, and larger marks mean nothing."""
    entries, target = Entries(), tmp_path / "batch_id=3"
    future = entries.publisher(tmp_path, 9)
    future.publish(attempt(future, "future"), target)
    future.publish(attempt(future, "future"), tmp_path / "batch_id=4")
    entries.ranks.clear()
    now = entries.publisher(tmp_path, 2)
    now.publish(attempt(now, "now"), target)
    now.withdraw(tmp_path / "batch_id=4")
    assert parts(target) == ["now"] * 3
    assert list(published(tmp_path, "batch_id")) == [3]


def test_folder_of_a_later_run_is_not_withdrawn(tmp_path):
    entries, target = Entries(), tmp_path / "batch_id=3"
    old, new = entries.publisher(tmp_path, 1), entries.publisher(tmp_path, 2)
    new.publish(attempt(new, "new"), target)
    asked = []
    late = Publisher(old.attempts, old.rank, lambda: asked.append(1) or (len(asked) > 1 and old.check()), old.registered)
    with pytest.raises(FencedError):
        late.withdraw(target)
    assert parts(target) == ["new"] * 3


@pytest.mark.parametrize(("number", "raised"), [(errno.EACCES, OSError), (errno.ENOTEMPTY, FencedError)])
def test_folder_that_cannot_be_put_back_is_an_error_unless_it_was_replaced(tmp_path, monkeypatch, number, raised):
    entries, target = Entries(), tmp_path / "batch_id=3"
    old, new = entries.publisher(tmp_path, 1), entries.publisher(tmp_path, 2)
    new.publish(attempt(new, "new"), target)
    asked, renamed = [], []
    late = Publisher(old.attempts, old.rank, lambda: asked.append(1) or (len(asked) > 1 and old.check()), old.registered)
    rename = type(late.folders).rename

    def failing(self, one, other):
        renamed.append(other)
        if other == target:
            raise OSError(number, "no")
        rename(self, one, other)

    monkeypatch.setattr(type(late.folders), "rename", failing)
    with pytest.raises(raised):
        late.withdraw(target)
    assert renamed[-1] == target


def test_newest_of_racing_runs_publishes_its_whole_folder(tmp_path, way):
    for number in range(ROUNDS):
        entries, target = Entries(), tmp_path / str(number) / "batch_id=0"
        folder = target.parent
        folder.mkdir()
        begin = threading.Barrier(4)

        def run(rank, entries=entries, target=target, folder=folder, begin=begin):
            begin.wait()
            publisher = entries.publisher(folder, rank)
            made = attempt(publisher, str(rank), files=rank + 1)
            try:
                publisher.publish(made, target)
            except FencedError:
                return None
            return rank

        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(run, range(4)))
        assert done[3] == 3
        assert parts(target) == ["3"] * 4, done
        assert rank_of(target) == (3, "ab")
        shutil.rmtree(folder)


@pytest.mark.skipif(publication._renameat2() is None, reason="this system cannot exchange two folders in one step")
def test_reader_during_repeated_publication_lists_one_whole_attempt(tmp_path):
    entries, target = Entries(), tmp_path / "batch_id=0"
    first = entries.publisher(tmp_path, 0)
    first.publish(attempt(first, "0", files=1), target)
    ended, seen = threading.Event(), []

    def read() -> None:
        while not ended.is_set():
            seen.append(sorted(path.name for path in target.iterdir()))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, ROUNDS):
        publisher = entries.publisher(tmp_path, number)
        publisher.publish(attempt(publisher, str(number), files=1 + number % 7), target)
    ended.set()
    reader.join()
    assert len(seen) > 10
    for mark, *files in seen:
        assert len(files) == 1 + int(mark.split("-")[1]) % 7


def test_readers_skip_attempts(tmp_path):
    table = pa.table({"n": [1, 2]})
    for folder in ("batch_id=0", "_attempts/0000000001-ab-cd", "_panestream"):
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(table, tmp_path / folder / "part-0.parquet")
    (tmp_path / "batch_id=0" / "_run-0000000001-ab").touch()
    assert ds.dataset(tmp_path, partitioning="hive").to_table().num_rows == 2


def test_leftover_attempts_of_earlier_runs_are_swept(tmp_path):
    for name in ("0000000001-ab-cd", "0000000002-ab-cd", "0000000003-ab-cd", "odd"):
        (tmp_path / name).mkdir()
    sweep(tmp_path, upto=(2, "ab"))
    assert [path.name for path in tmp_path.iterdir()] == ["0000000003-ab-cd"]
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert rank_of(tmp_path) == NOBODY


@pytest.mark.parametrize(
    ("main", "late", "why"),
    [
        ("/out/x", "/out/x/", "have one place"),
        ("/out/x", "file:/out/x", "have one place"),
        ("file:///out/x", "/out/y/../x", "have one place"),
        ("s3a://b/x", "S3A://b//x/", "have one place"),
        ("/out", "/out/late", "are nested"),
        ("/out/main/late", "/out/main", "are nested"),
        ("x", str(Path("x").absolute()), "have one place"),
    ],
)
def test_two_outputs_in_one_folder_are_refused(main, late, why):
    with pytest.raises(SinkError, match=f"'main' and 'late' .*{why}"):
        check_apart({"main": file_place(main), "late": file_place(late)})


def test_link_and_its_target_count_as_one_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert file_place(f"{tmp_path}/link") == file_place(f"{tmp_path}/real")


def test_sibling_and_hidden_output_folders_are_accepted():
    check_apart({"main": file_place("/out/a"), "late": file_place("/out/ab"), "bad": "table c.s.t"}, "/out/checkpoint")
    check_apart({"main": file_place("/out"), "late": file_place("/out/_late")}, "/out/_checkpoint")
    with pytest.raises(SinkError, match="'main' and the checkpoint"):
        check_apart({"main": file_place("/out")}, "/out/checkpoint")


def test_later_micro_batches_are_withdrawn_in_reverse_order(tmp_path):
    """A concurrent reader then finds the output of an earlier time."""
    for number in (3, 10, 7, 12):
        (tmp_path / f"batch_id={number}").mkdir()
    gone = []
    publisher = SimpleNamespace(check=lambda: None, folders=publication.LOCAL, withdraw=lambda path, kept: gone.append(path.name))
    MicroBatchFolders(tmp_path, "batch_id", publisher).begin(7)
    assert gone == ["batch_id=12", "batch_id=10"]
