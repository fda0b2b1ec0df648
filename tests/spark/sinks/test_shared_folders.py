"""Folders that several micro-batches share: publication, replacement, withdrawal, and the view of readers. Without Spark."""

from __future__ import annotations

import fcntl
import os
import random
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from panestream.errors import FencedError, PanestreamWarning, SinkError
from panestream.spark.sinks import compaction, publication
from panestream.spark.sinks import members as member_files
from panestream.spark.sinks.compaction import Compaction
from panestream.spark.sinks.members import held, members
from tests.costs import random_cases
from tests.spark.sinks.shared import Place

CASES = int(os.environ.get("PANESTREAM_CASES") or random_cases(20))
SEED = int(os.environ.get("PANESTREAM_SEED", "0"))


def test_micro_batches_are_published_one_by_one_in_a_shared_folder(tmp_path):
    place = Place(tmp_path, 10)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(23):
        place.write(run, batch, files=1 + batch % 3)
        assert place.read() == place.wanted()
    assert sorted(path.name for path in tmp_path.glob("batch_id=*")) == ["batch_id=0", "batch_id=10", "batch_id=20"]


def test_added_file_leaves_the_other_files_unchanged(tmp_path):
    """Readers that listed the other files still find them. A micro-batch of one file costs one rename, even in a full folder."""
    place = Place(tmp_path, 100)
    run = place.run(1)
    place.begin(run, 0)
    place.write(run, 0, files=2)
    before = {member.path: member.path.stat().st_ino for member in members(tmp_path / "batch_id=0", 0)}
    folder = (tmp_path / "batch_id=0").stat().st_ino
    place.write(run, 1)
    assert (tmp_path / "batch_id=0").stat().st_ino == folder
    place.write(run, 2, files=3)
    assert (tmp_path / "batch_id=0").stat().st_ino != folder
    assert before.items() <= {member.path: member.path.stat().st_ino for member in members(tmp_path / "batch_id=0", 0)}.items()
    for member in members(tmp_path / "batch_id=0", 0):
        assert member.path.name.endswith(member.checksum.read_text())


def test_repeated_micro_batch_replaces_only_its_own_files(tmp_path):
    place = Place(tmp_path, 10)
    for number in (1, 2):
        run = place.run(number)
        if number == 1:
            place.begin(run, 0)
            for batch in range(5):
                place.write(run, batch, files=2)
        else:
            place.begin(run, 4)
        place.write(run, 4, files=3 - number)
        assert place.read() == place.wanted()


def test_restored_checkpoint_continues_within_a_compacted_file(tmp_path):
    for back in range(14):
        place = Place(tmp_path / str(back), 5)
        place.root.mkdir()
        run = place.run(1)
        place.begin(run, 0)
        for batch in range(14):
            place.write(run, batch, files=1 + batch % 2, rows=1 + batch)
        assert place.compact().folders == 2
        again = place.run(2)
        place.begin(again, back)
        place.expected.pop(back, None)
        assert place.read() - place.read_of(back) == place.wanted()
        place.expected[back] = place.read_of(back)
        place.write(again, back)
        place.write(again, back + 1)
        assert place.read() == place.wanted()


def test_missing_owner_of_rows_is_an_error(tmp_path):
    place = Place(tmp_path, 5)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(7):
        place.write(run, batch)
    place.compact()
    next(tmp_path.glob("batch_id=0/_counts-*")).write_text("[[0")
    with pytest.raises(
        SinkError,
        match=r"rows of micro-batches 0 to 4, and _counts-.* with their numbers of rows cannot be read .*. Restore it from a copy",
    ):
        place.run(2).begin(3)


def test_number_of_micro_batches_per_folder_may_change(tmp_path):
    place = Place(tmp_path, 1)
    batch = 0
    for number, size in enumerate((4, 10, 3, 1, 10)):
        run = place.run(number, size)
        # The last micro-batch of the run before was not committed.
        first = max(batch - 1, 0)
        place.begin(run, first)
        for batch in range(first, first + 9):
            place.write(run, batch, files=1 + batch % 2)
            assert place.read() == place.wanted()


def lock_of(root):
    """Hold the lock of a folder through another handle, like a stranger."""
    handle = os.open(root / "_lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


@pytest.fixture
def impatient(monkeypatch):
    """Set the time to wait for the lock to zero."""
    monkeypatch.setattr(member_files, "WARN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(member_files, "MAX_WAIT_SECONDS", 0.0)


def test_lock_that_a_stranger_never_releases_is_replaced_after_the_wait(tmp_path, impatient):
    place = Place(tmp_path, 10)
    run = place.run(1)
    place.begin(run, 0)
    stranger = lock_of(tmp_path)
    place.write(run, 0)
    place.write(run, 1)
    assert place.read() == place.wanted()
    os.close(stranger)
    place.write(run, 2)
    assert (place.read(), [path.name for path in tmp_path.glob("_lock*")]) == (place.wanted(), ["_lock"])


def test_wait_for_the_lock_is_logged_once_and_ends_on_release(tmp_path, monkeypatch):
    monkeypatch.setattr(member_files, "WARN_AFTER_SECONDS", 0.0)
    stranger, looks = lock_of(tmp_path), []
    monkeypatch.setattr(member_files.time, "sleep", lambda _: looks.append(1) or len(looks) < 3 or os.close(stranger))
    with pytest.warns(PanestreamWarning, match=r"waiting for .*/_lock, which another process holds") as told, held(tmp_path):
        pass
    assert (len(told), len(looks)) == (1, 3)


def test_compaction_gives_up_on_a_held_lock_with_advice(tmp_path, impatient):
    place = Place(tmp_path, 2)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(5):
        place.write(run, batch)
    before = place.read()
    stranger = lock_of(tmp_path)
    with pytest.raises(SinkError, match=r"_lock is held by another process for 0 seconds: end that process \(fuser "):
        place.compact()
    os.close(stranger)
    assert place.read() == before
    assert place.compact().folders == 2


def test_run_that_does_not_hold_the_place_does_not_replace_the_lock(tmp_path, impatient):
    run = replaced_check(Place(tmp_path, 10).run(1), [FencedError("another copy was started later")])
    stranger = lock_of(tmp_path)
    with pytest.raises(FencedError):
        run.begin(0)
    assert os.path.samestat(os.fstat(stranger), (tmp_path / "_lock").stat())
    os.close(stranger)


def replaced_check(run, outcomes):
    """Replace the checkpoint checks of a run by these outcomes, one after another, and then by the original."""

    def check():
        outcome = outcomes.pop(0) if outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            outcome()

    return replace(run, publisher=replace(run.publisher, check=check))


STEPS_ON_FILES = (
    (os, "rename"),
    (os, "link"),
    (publication, "exchanged"),
    *((Path, name) for name in ("mkdir", "touch", "iterdir")),
)


@pytest.mark.filterwarnings("ignore:waiting for")
@pytest.mark.parametrize("step", range(1, 25))
@pytest.mark.parametrize("files", [1, 2])
def test_copy_that_was_paused_with_the_lock_publishes_nothing_afterwards(tmp_path, monkeypatch, impatient, files, step):
    """Before one of its steps on files, a later run takes the lock over and writes the same micro-batch.

    Then the copy continues.
    """
    place, entries, steps = Place(tmp_path, 10), [2], []

    def run_of(number):
        def check():
            if max(entries) > number:
                raise FencedError("another copy was started later")

        run = place.run(number)
        return replace(run, publisher=replace(run.publisher, check=check))

    old, new = run_of(2), run_of(3)
    place.begin(old, 0)
    for batch in range(3):
        place.write(old, batch, files=2)

    def pause_at(owner, name):
        plain = getattr(owner, name)

        def step_of(*given, **named):
            if entries == [2]:
                steps.append(name)
                if len(steps) == step and (tmp_path / "_lock").exists():
                    entries.append(3)
                    place.begin(new, 3)
                    place.write(new, 3, files=2)
            return plain(*given, **named)

        monkeypatch.setattr(owner, name, step_of)

    for owner, name in STEPS_ON_FILES:
        pause_at(owner, name)
    with suppress(FencedError, FileNotFoundError):
        place.write(old, 3, files=files)
    monkeypatch.undo()
    if entries == [2, 3]:
        assert {row[1] for row in place.read_of(3)} == {place.written}
        place.expected[3] = place.read_of(3)
    assert place.read() == place.wanted()


@pytest.mark.filterwarnings("ignore:waiting for")
def test_compaction_that_was_paused_with_the_lock_restores_no_old_file(tmp_path, monkeypatch, impatient):
    place = Place(tmp_path, 5)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(7):
        place.write(run, batch)
    plain = compaction.exchanged

    def exchange_late(out, folder):
        later = place.run(2)
        place.begin(later, 0)
        place.write(later, 0)
        return plain(out, folder)

    monkeypatch.setattr(compaction, "exchanged", exchange_late)
    assert place.compact() == Compaction(left=1)
    assert place.read() == place.wanted()


@pytest.mark.parametrize("case", range(CASES))
def test_random_runs_rollbacks_and_compactions_keep_each_row_once(tmp_path, case):
    """Runs continue, fall back by one or many micro-batches, change folder sizes, and compact in between."""
    chance = random.Random(f"{SEED}-{case}")
    place = Place(tmp_path, 5)
    first = 0
    for number in range(chance.randint(2, 6)):
        run = place.run(number, chance.choice([1, 2, 5, 7]) if chance.random() < 0.3 else 5)
        place.begin(run, first)
        place.write(run, first, files=chance.randint(1, 3))
        for batch in range(first + 1, first + chance.randint(2, 15)):
            if chance.random() < 0.8:
                place.write(run, batch, files=chance.randint(1, 3), rows=chance.randint(1, 4))
            if chance.random() < 0.3 and (tmp_path / "_lock").exists():
                place.compact(file_bytes=chance.choice([1_000, 5_000, 1 << 20]))
            assert place.read() == place.wanted()
        first = chance.choice([batch, batch + 1, chance.randint(0, batch)])


def test_readers_during_writes_and_compaction_find_each_row_once(tmp_path):
    """Readers list and open files that were just replaced, and then read again."""
    place, ended, seen, failed = Place(tmp_path, 20), threading.Event(), [], []
    run = place.run(1)
    place.begin(run, 0)
    place.write(run, 0)
    # Each row is added here before it can be read.
    known = set(place.wanted())

    def read() -> None:
        while not ended.is_set():
            before = set(known)
            try:
                rows = place.read()
            except FileNotFoundError:
                continue
            if set(rows.values()) != {1} or not before <= set(rows):
                failed.append((before - set(rows), [row for row, times in rows.items() if times > 1]))
            seen.append(len(rows))

    def compact() -> None:
        while not ended.is_set():
            place.compact(file_bytes=20_000, grace=0.01)

    threads = [threading.Thread(target=each) for each in (read, read, compact)]
    for thread in threads:
        thread.start()
    try:
        for batch in range(1, 150):
            place.write(run, batch, files=1 + (batch % 5 == 0))
            known.update(place.expected[batch])
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failed
    assert len(seen) > 10
    place.compact()
    assert (place.read(), place.files()) == (place.wanted(), 7 + 12)


def test_overtaken_run_begins_and_writes_nothing(tmp_path):
    """Also without output to withdraw."""

    def overtaken() -> None:
        raise FencedError("run 2 was started later")

    place = Place(tmp_path, 5)
    run = place.run(1)
    late = replace(run, publisher=replace(run.publisher, check=overtaken))
    with pytest.raises(FencedError):
        late.begin(0)
    place.begin(run, 0)
    place.write(run, 0)
    with pytest.raises(FencedError):
        place.write(late, 1)
    assert place.read() == place.wanted()
