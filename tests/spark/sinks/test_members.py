"""Files that a folder takes over from another: hard links if possible, otherwise copies."""

from __future__ import annotations

import errno
import os

import pytest

from panestream.spark.sinks import members
from panestream.spark.sinks.members import BatchFile, assemble


def kept(folder):
    """Make a file with its checksum, and one without."""
    folder.mkdir()
    (folder / "part-0.parquet").write_text("rows")
    (folder / ".part-0.parquet.crc").write_text("sum")
    (folder / "part-1.parquet").write_text("more")
    (folder / "_run-7").write_text("")
    return [BatchFile(folder / f"part-{number}.parquet", number, number) for number in range(2)]


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


WHOLE = {"part-0.parquet": "rows", ".part-0.parquet.crc": "sum", "part-1.parquet": "more", "_run-7": ""}


def test_kept_files_are_linked_and_added_files_are_moved(tmp_path):
    stay, added = kept(tmp_path / "old"), tmp_path / "added"
    added.mkdir()
    (added / "part-2.parquet").write_text("new")
    assemble(tmp_path / "old", stay, added, tmp_path / "a" / "out")
    assert contents(tmp_path / "a" / "out") == {**WHOLE, "part-2.parquet": "new"}
    assert (tmp_path / "a" / "out" / "part-0.parquet").samefile(stay[0].path)
    assert list(added.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS])
def test_files_are_copied_if_links_are_impossible(tmp_path, monkeypatch, number):
    def refuse(path, target):
        raise OSError(number, os.strerror(number))

    stay = kept(tmp_path / "old")
    monkeypatch.setattr(members.os, "link", refuse)
    assemble(tmp_path / "old", stay, None, tmp_path / "out")
    assert contents(tmp_path / "out") == WHOLE
    assert not (tmp_path / "out" / "part-0.parquet").samefile(stay[0].path)
    assert (tmp_path / "out" / "part-0.parquet").stat().st_mtime == stay[0].path.stat().st_mtime


def test_other_error_of_a_link_is_raised(tmp_path, monkeypatch):
    def refuse(path, target):
        raise OSError(errno.ENOSPC, "full")

    stay = kept(tmp_path / "old")
    monkeypatch.setattr(members.os, "link", refuse)
    with pytest.raises(OSError, match="full"):
        assemble(tmp_path / "old", stay, None, tmp_path / "out")
