"""Processes that die at each step of compacting, publishing and going back: what a reader finds then, and who comes next."""

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


class Died(BaseException):
    """The process is gone: nobody catches this."""


class Steps:
    """Counts what changes the file system, and dies before or after the one with a number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.at, self.after = 0, -1, False
        # Steps of other threads and of pytest do not count: only below a folder of these.
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
                raise Died
            result = function(path, *arguments, **named)
            if step == self.at:
                raise Died
            return result

        return counted

    def dies(self, place: Place, number: int, after: bool, action) -> bool:
        """Does it, and dies at that step; False: there are not so many."""
        self.count, self.at, self.after, self.below = 0, number, after, str(place.root)
        try:
            action()
        except Died:
            pass
        finally:
            self.at, self.below = -1, "/nowhere"
        # A step that fails by itself (a folder without a parent) is no place to die after.
        return self.count > number


@pytest.fixture
def steps(monkeypatch):
    return Steps(monkeypatch)


def made(root: Path, batches: int = 7) -> Place:
    place = Place(root, 3)
    root.mkdir(parents=True)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(batches):
        place.write(run, batch, files=1 + batch % 2)
    return place


def copied(place: Place, root: Path) -> Place:
    shutil.copytree(place.root, root)
    copy = Place(root, place.size)
    copy.expected, copy.written = dict(place.expected), place.written
    return copy


def test_a_compaction_that_dies_before_any_step_changes_nothing_or_all(tmp_path, steps):
    """(What it is after a step it is before the next one.)"""
    original = made(tmp_path / "original")
    number = 0
    while True:
        place = copied(original, tmp_path / str(number))
        died = steps.dies(place, number, False, place.compact)
        assert place.read() == place.wanted(), number
        # The query goes on, one more compaction too; and it may go back into what was put together.
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
def test_a_run_that_dies_at_any_step_of_publishing_loses_and_doubles_nothing(tmp_path, steps, after, files):
    original = made(tmp_path / "original")
    number = 0
    while True:
        place = copied(original, tmp_path / str(number))
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
def test_a_run_that_dies_while_it_takes_a_future_away_is_followed_by_one_that_does(tmp_path, steps, after):
    original = made(tmp_path / "original")
    original.compact()
    number = 0
    while True:
        place = copied(original, tmp_path / str(number))
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


def test_one_compaction_at_a_time(tmp_path):
    place = made(tmp_path / "place")
    with (
        members.alone(place.root / "_compactor", "another"),
        pytest.raises(SinkError, match=r"another compaction is at work in .* \(it holds .*_compactor\): let it end"),
    ):
        place.compact()
    assert place.compact().folders == 2


def test_what_was_replaced_stays_for_a_while_for_those_who_list_it(tmp_path, monkeypatch):
    place, waited = made(tmp_path / "place"), []
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


def test_a_folder_that_changed_while_its_files_were_read_is_left_for_the_next_time(tmp_path):
    place = made(tmp_path / "place")

    def merge_beside_a_run_that_goes_back(files, out):
        merge(files, out)
        if files[0].parent.name == "batch_id=3":
            run = place.run(2)
            place.begin(run, 5)
            place.write(run, 5)

    done = compaction.compact_folders(place.root, COLUMN, merge_beside_a_run_that_goes_back, file_bytes=1 << 20, grace=0)
    assert (done.folders, done.left, place.read()) == (1, 1, place.wanted())


def test_what_joins_a_folder_while_others_of_its_files_are_read_stays(tmp_path):
    """A query that was started with fewer micro-batches a folder, and then with more again, comes back to an older folder."""
    place = made(tmp_path / "place")

    def merge_beside_one_that_joins(files, out):
        merge(files, out)
        if files[0].parent.name == "batch_id=0":
            place.write(place.run(1, size=100), 9)

    done = compaction.compact_folders(place.root, COLUMN, merge_beside_one_that_joins, file_bytes=1 << 20, grace=0)
    assert (done.folders, done.left, place.read()) == (2, 0, place.wanted())


def test_rows_that_the_merge_lost_stop_it(tmp_path):
    place = made(tmp_path / "place")

    def losing(files, out):
        out.mkdir()
        pq.write_table(pq.ParquetFile(files[0]).read(), out / "part-0.parquet")

    with pytest.raises(SinkError, match=r"files of .* have 8 rows, and what was made of them is \[2\]: nothing was changed"):
        compaction.compact_folders(place.root, COLUMN, losing, file_bytes=1 << 20, grace=0)
    assert place.read() == place.wanted()


def test_where_folders_cannot_be_exchanged_nothing_changes(tmp_path, monkeypatch):
    place = made(tmp_path / "place")
    monkeypatch.setattr(publication, "_renameat2", lambda: None)
    with pytest.raises(SinkError, match="cannot be exchanged with another folder in one step"):
        place.compact()
    assert place.read() == place.wanted()


def test_what_is_large_is_left_as_it_is(tmp_path):
    place = Place(tmp_path, 3)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(7):
        place.write(run, batch, rows=20_000 if batch == 1 else 2)
    large = next(tmp_path.glob("batch_id=0/batches-0000000001-*"))
    done = place.compact(file_bytes=2 * large.stat().st_size - 1)
    # What lies behind the large one begins a file of its own: of one file none is made.
    assert (done.folders, done.files_before, done.files_after, large.exists()) == (1, 3, 1, True)
    assert place.read() == place.wanted()


def test_a_place_with_a_folder_for_each_micro_batch_is_refused(tmp_path):
    with pytest.raises(SinkError, match=r"has a folder for each micro-batch.* batches_per_folder=1000"):
        compaction.compact_folders(tmp_path, COLUMN, merge, file_bytes=1, grace=0)


def test_what_is_no_parquet_is_refused_and_left(tmp_path):
    place = made(tmp_path / "place")
    for file in place.root.glob("batch_id=*/*.parquet"):
        file.rename(file.with_suffix(".orc"))
    there = sorted(place.root.glob("batch_id=*/*"))
    with pytest.raises(
        SinkError, match=r"batch_id=0/batches-0000000000-0000000000-.*\.orc is no Parquet file: only those are put"
    ):
        place.compact()
    assert sorted(place.root.glob("batch_id=*/*")) == there


@pytest.mark.parametrize("suffix", [".json", ".parquet.gz"])
def test_what_is_not_parquet_is_not_put_together(tmp_path, suffix):
    place = made(tmp_path / "place")
    for file in place.root.glob("batch_id=0/*.parquet"):
        file.rename(file.with_name(file.name.removesuffix(".parquet") + suffix))
    there = sorted(place.root.rglob("*"))
    with pytest.raises(SinkError, match=rf"batch_id=0/batches-.*{suffix} is no Parquet file: only those are put together"):
        place.compact()
    assert set(there) <= set(place.root.rglob("*"))


def test_what_was_put_together_is_put_together_again_with_what_is_beside_it(tmp_path):
    """Of a file of several micro-batches it stays known whose its rows are."""
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
    # Nothing is left to do.
    assert place.compact() == compaction.Compaction()
