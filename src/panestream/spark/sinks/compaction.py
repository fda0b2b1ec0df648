"""The steps of a compaction of a file sink, which may run while the query writes there. Without Spark.

A folder is changed by one exchange, under the lock of the place, and only if it still has the files that were read. A crash
leaves the change undone or complete, and its leftovers are hidden from readers until the next compaction.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from panestream.errors import SinkError
from panestream.spark.sinks.members import (
    LOCK,
    STAGED,
    BatchFile,
    alone,
    assemble,
    held,
    members,
    name_members,
    read_counts,
    synced,
    write_counts,
)
from panestream.spark.sinks.publication import exchanged, published

_ALONE = "_compactor"
_SUFFIX = ".parquet"

Merge = Callable[[Sequence[Path], Path], None]
"""Write the rows of some files, in the order of the files' names, as one file into a folder that does not exist yet."""


@dataclass(frozen=True)
class Compaction:
    """The result of :func:`compact`.

    Attributes:
        folders: the number of folders that got larger files.
        files_before: the number of files in them before.
        files_after: the number of files in them now.
        rows: the number of rows that were rewritten.
        left: the number of folders that changed meanwhile and are left for the next compaction.

    Examples:
        >>> Compaction(folders=2, files_before=40, files_after=2).files_before
        40
    """

    folders: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    left: int = 0


@dataclass(frozen=True)
class _Seen:
    """A file as it was read, to notice a replacement."""

    member: BatchFile
    number: int
    size: int

    @classmethod
    def of(cls, member: BatchFile) -> _Seen:
        status = member.path.stat()
        return cls(member, status.st_ino, status.st_size)

    def is_there(self) -> bool:
        return self.member.path.exists() and _Seen.of(self.member) == self


def compact_folders(root: Path, column: str, merge: Merge, *, file_bytes: int, grace: float) -> Compaction:
    """Merge small files in all folders except the newest, which still grows.

    ``column`` is the prefix of the folders' names. Files become about ``file_bytes`` large. Replaced files stay ``grace`` seconds
    for readers that are listing them. Raises SinkError if another compaction runs, folders are not shared, or files cannot be
    merged.
    """
    if not (root / LOCK).exists():
        raise SinkError(
            f"{root} has a folder for each micro-batch, and rows never move between folders (concurrent readers would find them "
            f"twice, or never). Let the query write with batches_per_folder=1000: then new micro-batches share folders, whose "
            f"files can be merged"
        )
    with alone(root / _ALONE, f"another compaction is at work in {root}"):
        staged = root / STAGED
        shutil.rmtree(staged, ignore_errors=True)
        done = Compaction()
        for folder, groups in _work(root, column, file_bytes):
            made = _compacted(root, folder, groups, merge)
            done = Compaction(*(getattr(done, name) + getattr(made, name) for name in Compaction.__dataclass_fields__))
        if done.folders:
            time.sleep(grace)
        shutil.rmtree(staged, ignore_errors=True)
        return done


def _work(root: Path, column: str, file_bytes: int) -> Iterator[tuple[Path, list[list[_Seen]]]]:
    """Return folders with small files and the groups to merge. Skips the last micro-batch's folder, as it may be uncommitted."""
    folders = {number: path for number, path in published(root, column).items() if number >= 0}
    there = {folder: members(folder, number) for number, folder in sorted(folders.items())}
    newest = max((member.last for found in there.values() for member in found), default=-1)
    for folder, found in there.items():
        if all(member.last < newest for member in found):
            try:
                groups = _groups([_Seen.of(member) for member in found], file_bytes)
            except FileNotFoundError:
                continue  # a restored checkpoint removed it meanwhile
            if groups:
                yield folder, groups


def _groups(found: Sequence[_Seen], file_bytes: int) -> list[list[_Seen]]:
    groups: list[list[_Seen]] = [[]]
    size = 0
    for seen in found:
        large = seen.size * 2 >= file_bytes
        if large or size + seen.size > file_bytes:
            groups.append([])
            size = 0
        if not large:
            groups[-1].append(seen)
            size += seen.size
    return [group for group in groups if len(group) > 1]


def _compacted(root: Path, folder: Path, groups: Sequence[Sequence[_Seen]], merge: Merge) -> Compaction:
    staged = root / STAGED / uuid.uuid4().hex
    added = staged / "added"
    added.mkdir(parents=True)
    rows = 0
    try:
        for position, group in enumerate(groups):
            rows += _merged([seen.member for seen in group], merge, staged / str(position), added)
    except FileNotFoundError:
        return Compaction(left=1)
    read = [seen for group in groups for seen in group]
    gone = {seen.member.path for seen in read}
    with held(root):
        if not all(seen.is_there() for seen in read):
            return Compaction(left=1)
        there = members(folder, _number(folder))
        kept = [member for member in there if member.path not in gone]
        out = staged / "out"
        try:
            assemble(folder, kept, added, out)
            synced(out)
            is_done = exchanged(out, folder)
        except FileNotFoundError:
            return Compaction(left=1)  # this process was paused, and a query took over the lock
        if not is_done:
            raise SinkError(
                f"{folder} cannot be exchanged with another folder in one step: that takes Linux and a local file system. "
                "Nothing was changed"
            )
        synced(root)
    return Compaction(1, len(there), len(kept) + len(groups), rows)


def _merged(group: Sequence[BatchFile], merge: Merge, out: Path, added: Path) -> int:
    """Merge a group into one file, move it to ``added``, and return its number of rows."""
    counts = [each for member in group for each in _counts(member)]
    merge([member.path for member in group], out)
    made = name_members(out, min(member.first for member in group), max(member.last for member in group))
    rows = sum(number for _, number in counts)
    found = [pq.read_metadata(member.path).num_rows for member in made]
    if found != [rows]:
        raise SinkError(
            f"{len(group)} files of {group[0].path.parent} have {rows:,} rows, and what was made of them is {found}: nothing was "
            "changed. Is a setting on by which Spark passes over files (spark.sql.files.ignoreCorruptFiles, …)?"
        )
    write_counts(made[0], counts)
    for path in (made[0].path, made[0].counts, made[0].checksum):
        if path.exists():
            synced(path)
            path.rename(added / path.name)
    return rows


def _counts(member: BatchFile) -> list[tuple[int, int]]:
    if not member.path.name.endswith(_SUFFIX):
        raise SinkError(f"{member.path} is not a Parquet file, and only Parquet files are merged. Nothing was changed")
    return read_counts(member) if member.first < member.last else [(member.first, pq.read_metadata(member.path).num_rows)]


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("=")[2])
