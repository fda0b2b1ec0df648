"""Processes die at each step of compaction, publication and withdrawal. Readers and successors must find correct rows."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from panestream.errors import SinkError
from panestream.spark.sinks import compaction, members, publication
from tests.spark.sinks.shared import COLUMN, Place, merge


class DiedError(BaseException):
    """The process has died. No code catches this."""


class Steps:
    """Count the changes of the file system, and die before or after one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.at, self.after = 0, -1, False
        # Only steps below a folder of these tests count, not steps of other threads and of pytest.
        self.below = "/nowhere"
        for module, name in (
            *((os, name) for name in ("rename", "link", "mkdir", "unlink", "rmdir", "fsync")),
            *((module, "exchanged") for module in (compaction, publication)),
        ):
            monkeypatch.setattr(module, name, self._counted(getattr(module, name)))

    def _counted(self, function):
        def counted(path, *arguments, **named):
            if not isinstance(path, int) and not str(path).startswith(self.below) and named.get("dir_fd") is None:
                return function(path, *arguments, **named)
            step, self.count = self.count, self.count + 1
            if step == self.at and not self.after:
                raise DiedError
            result = function(path, *arguments, **named)
            if step == self.at:
                raise DiedError
            return result

        return counted

    def dies(self, place: Place, number: int, after: bool, action) -> bool:
        """Run the action, and die at that step. Return False if there are fewer steps."""
        self.count, self.at, self.after, self.below = 0, number, after, str(place.root)
        try:
            action()
        except DiedError:
            pass
        finally:
            self.at, self.below = -1, "/nowhere"
        # A step that fails by itself (a folder without a parent) is not a place to die after.
        return self.count > number


@pytest.fixture
def steps(monkeypatch):
    return Steps(monkeypatch)


def make_place(root: Path, batches: int = 7) -> Place:
    place = Place(root, 3)
    root.mkdir(parents=True)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(batches):
        place.write(run, batch, files=1 + batch % 2)
    return place


def copy_place(place: Place, root: Path) -> Place:
    shutil.copytree(place.root, root)
    copy = Place(root, place.size)
    copy.expected, copy.written = dict(place.expected), place.written
    return copy


def test_compaction_that_dies_before_any_step_changes_nothing_or_everything(tmp_path, steps):
    """(The state after a step is the state before the next step.)"""
    original = make_place(tmp_path / "original")
    number = 0
    while True:
        place = copy_place(original, tmp_path / str(number))
        died = steps.dies(place, number, False, place.compact)
        assert place.read() == place.wanted(), number
        # The query continues, with another compaction. It may also withdraw part of the compacted rows.
        run = place.run(2)
        place.begin(run, 7)
        place.write(run, 7)
        place.compact()
        assert (place.read(), place.files(), (place.root / "_compacting").exists()) == (place.wanted(), 4, False), number
        back = place.run(3)
        place.begin(back, 2)
        place.write(back, 2)
        assert place.read() == place.wanted(), number
        shutil.rmtree(place.root)
        if not died:
            break
        number += 1
    assert number > 30


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("files", [1, 3])
def test_run_that_dies_at_any_step_of_publication_loses_and_doubles_no_row(tmp_path, steps, after, files):
    original = make_place(tmp_path / "original")
    number = 0
    while True:
        place = copy_place(original, tmp_path / str(number))
        run, before = place.run(2), place.wanted()
        died = steps.dies(place, number, after, partial(place.write, run, 7, files=files))
        rows = place.read()
        assert not before - rows
        assert len(rows - before) in (0, 2 * files), number
        again = place.run(3)
        place.begin(again, 7)
        place.write(again, 7)
        assert place.read() == place.wanted(), number
        shutil.rmtree(place.root)
        if not died:
            break
        number += 1
    assert number > 5


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_next_run_completes_a_withdrawal_that_died(tmp_path, steps, after):
    original = make_place(tmp_path / "original")
    original.compact()
    number = 0
    while True:
        place = copy_place(original, tmp_path / str(number))
        died = steps.dies(place, number, after, partial(place.run(2).begin, 2))
        assert not place.read() - place.wanted()
        assert {row for row in place.wanted() if row[0] < 2} <= set(place.read()), number
        again = place.run(3)
        place.begin(again, 2)
        place.write(again, 2)
        assert place.read() == place.wanted(), number
        shutil.rmtree(place.root)
        if not died:
            break
        number += 1
    assert number > 10


def test_second_concurrent_compaction_is_refused(tmp_path):
    place = make_place(tmp_path / "place")
    with (
        members.alone(place.root / "_compactor", "another"),
        pytest.raises(SinkError, match=r"another compaction is at work in .* \(it holds .*_compactor\): let it end"),
    ):
        place.compact()
    assert place.compact().folders == 2


def test_replaced_files_stay_for_a_while_for_readers_that_listed_them(tmp_path, monkeypatch):
    place, waited = make_place(tmp_path / "place"), []
    monkeypatch.setattr(
        compaction.time, "sleep", lambda seconds: waited.append((seconds, len(list(place.root.rglob("*.parquet")))))
    )
    before = len(list(place.root.rglob("*.parquet")))
    assert place.compact(grace=7).folders == 2
    assert len(waited) == 1
    seconds, there = waited[0]
    assert (seconds, there) == (7, before + 2)
    assert len(list(place.root.rglob("*.parquet"))) < before
    assert place.compact(grace=7).folders == 0
    assert len(waited) == 1, "nothing was replaced, and nobody waits"


def test_folder_that_changed_during_compaction_is_left_unchanged(tmp_path):
    place = make_place(tmp_path / "place")

    def merge_beside_a_run_that_goes_back(files, out):
        merge(files, out)
        if files[0].parent.name == "batch_id=3":
            run = place.run(2)
            place.begin(run, 5)
            place.write(run, 5)

    done = compaction.compact_folders(place.root, COLUMN, merge_beside_a_run_that_goes_back, file_bytes=1 << 20, grace=0)
    assert (done.folders, done.left, place.read()) == (1, 1, place.wanted())


def test_files_added_to_a_folder_during_compaction_stay(tmp_path):
    """A query that restarts with fewer micro-batches per folder, and then with more again, returns to an older folder."""
    place = make_place(tmp_path / "place")

    def merge_beside_one_that_joins(files, out):
        merge(files, out)
        if files[0].parent.name == "batch_id=0":
            place.write(place.run(1, size=100), 9)

    done = compaction.compact_folders(place.root, COLUMN, merge_beside_one_that_joins, file_bytes=1 << 20, grace=0)
    assert (done.folders, done.left, place.read()) == (2, 0, place.wanted())


def test_compaction_stops_if_the_merge_lost_rows(tmp_path):
    place = make_place(tmp_path / "place")

    def losing(files, out):
        out.mkdir()
        pq.write_table(pq.ParquetFile(files[0]).read(), out / "part-0.parquet")

    with pytest.raises(SinkError, match=r"files of .* have 8 rows, and what was made of them is \[2\]: nothing was changed"):
        compaction.compact_folders(place.root, COLUMN, losing, file_bytes=1 << 20, grace=0)
    assert place.read() == place.wanted()


def test_compaction_changes_nothing_if_folders_cannot_be_exchanged(tmp_path, monkeypatch):
    place = make_place(tmp_path / "place")
    monkeypatch.setattr(publication, "_renameat2", lambda: None)
    with pytest.raises(SinkError, match="cannot be exchanged with another folder in one step"):
        place.compact()
    assert place.read() == place.wanted()


def test_compaction_leaves_large_files_unchanged(tmp_path):
    place = Place(tmp_path, 3)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(7):
        place.write(run, batch, rows=20_000 if batch == 1 else 2)
    large = next(tmp_path.glob("batch_id=0/batches-0000000001-*"))
    done = place.compact(file_bytes=2 * large.stat().st_size - 1)
    # The files after the large one would start another file. A single file is not rewritten.
    assert (done.folders, done.files_before, done.files_after, large.exists()) == (1, 3, 1, True)
    assert place.read() == place.wanted()


def test_compaction_of_a_folder_for_each_micro_batch_is_refused(tmp_path):
    with pytest.raises(SinkError, match=r"has a folder for each micro-batch.* batches_per_folder=1000"):
        compaction.compact_folders(tmp_path, COLUMN, merge, file_bytes=1, grace=0)


def test_compaction_refuses_and_keeps_orc_files(tmp_path):
    place = make_place(tmp_path / "place")
    for file in place.root.glob("batch_id=*/*.parquet"):
        file.rename(file.with_suffix(".orc"))
    there = sorted(place.root.glob("batch_id=*/*"))
    with pytest.raises(
        SinkError, match=r"batch_id=0/batches-0000000000-0000000000-.*\.orc is not a Parquet file, and only Parquet files"
    ):
        place.compact()
    assert sorted(place.root.glob("batch_id=*/*")) == there


@pytest.mark.parametrize("suffix", [".json", ".parquet.gz"])
def test_compaction_refuses_files_with_another_suffix(tmp_path, suffix):
    place = make_place(tmp_path / "place")
    for file in place.root.glob("batch_id=0/*.parquet"):
        file.rename(file.with_name(file.name.removesuffix(".parquet") + suffix))
    there = sorted(place.root.rglob("*"))
    with pytest.raises(
        SinkError, match=rf"batch_id=0/batches-.*{suffix} is not a Parquet file, and only Parquet files are merged"
    ):
        place.compact()
    assert set(there) <= set(place.root.rglob("*"))


def test_compacted_file_is_compacted_again_with_its_neighbours(tmp_path):
    """A file of several micro-batches still records the owner of its rows."""
    place = Place(tmp_path, 10)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(4):
        place.write(run, batch, rows=batch + 1)
    place.write(run, 11)
    assert place.compact() == compaction.Compaction(1, 4, 1, 10, 0)
    back = place.run(2, size=10)
    place.write(back, 5, rows=7)
    assert place.compact() == compaction.Compaction(1, 2, 1, 17, 0)
    (member,) = members.members(tmp_path / "batch_id=0", 0)
    assert (member.first, member.last, members.read_counts(member)) == (0, 5, [(0, 1), (1, 2), (2, 3), (3, 4), (5, 7)])
    assert member.counts_before(3) == [(0, 1), (1, 2), (2, 3)]
    assert place.read() == place.wanted()
    # Nothing remains to compact.
    assert place.compact() == compaction.Compaction()
