"""Folders that several micro-batches share: what is published, replaced and taken away, and what a reader finds. Without Spark."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace

import pytest

from panestream.errors import FencedError, SinkError
from panestream.spark.sinks.members import members
from tests.spark.sinks.shared import Place

CASES = int(os.environ.get("PANESTREAM_CASES", "20"))
SEED = int(os.environ.get("PANESTREAM_SEED", "0"))


def test_micro_batches_share_a_folder_and_come_one_by_one(tmp_path):
    place = Place(tmp_path, 10)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(23):
        place.write(run, batch, files=1 + batch % 3)
        assert place.read() == place.wanted()
    assert sorted(path.name for path in tmp_path.glob("batch_id=*")) == ["batch_id=0", "batch_id=10", "batch_id=20"]


def test_a_file_more_leaves_the_others_as_they_are(tmp_path):
    """Who has listed them finds them; and a micro-batch of one file costs one rename, however full the folder is."""
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


def test_a_micro_batch_that_is_run_again_takes_the_place_of_its_own_files_only(tmp_path):
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


def test_a_checkpoint_that_was_restored_goes_on_within_a_file_of_many_micro_batches(tmp_path):
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


def test_what_says_whose_the_rows_are_is_missed(tmp_path):
    place = Place(tmp_path, 5)
    run = place.run(1)
    place.begin(run, 0)
    for batch in range(7):
        place.write(run, batch)
    place.compact()
    next(tmp_path.glob("batch_id=0/_counts-*")).write_text("[[0")
    with pytest.raises(
        SinkError, match=r"rows of micro-batches 0 to 4, and _counts-.* cannot be read .*: restore it from a copy"
    ):
        place.run(2).begin(3)


def test_the_number_of_micro_batches_of_a_folder_may_change(tmp_path):
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


@pytest.mark.parametrize("case", range(CASES))
def test_random_histories(tmp_path, case):
    """Runs that go on, fall back by one or by many, with other sizes; compaction in between: every row once, after each step."""
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


def test_readers_beside_a_run_that_writes_and_one_that_compacts_find_each_row_once(tmp_path):
    """They list and open files that were just replaced: then they read again."""
    place, ended, seen, failed = Place(tmp_path, 20), threading.Event(), [], []
    run = place.run(1)
    place.begin(run, 0)
    place.write(run, 0)
    # Before a row can be read, it is among these.
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


def test_a_run_that_was_overtaken_begins_and_writes_nothing(tmp_path):
    """Also where there is nothing to take away."""

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
