"""Folders that hold the files of several micro-batches: how the files are called, and how one folder takes the place of another.

A row never moves from one folder to another: whoever lists the folders one after another, as all readers do, finds it once. What
changes in a folder changes in one step: a file more by its own rename, everything else by an exchange of the whole folder.
All of it under one lock, which the operating system gives back when a process dies. Without Spark.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from panestream.errors import SinkError

LOCK = "_lock"
"""In the sink's folder: held while a folder is changed. It is there once folders are shared."""
_NAME = re.compile(r"batches-(\d{10})-(\d{10})-.+")
_COUNTS = "_counts-"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


@dataclass(frozen=True)
class Member:
    """A file of rows in a folder.

    Attributes:
        path: the file.
        first, last: the micro-batches whose rows it has. A file without them in its name is of the one that its folder is
            named by.
    """

    path: Path
    first: int
    last: int

    @property
    def checksum(self) -> Path:
        """What Hadoop leaves beside a file, and compares it with."""
        return self.path.with_name(f".{self.path.name}.crc")

    @property
    def counts(self) -> Path:
        """How many rows of which micro-batch it has, in their order; only beside a file of several."""
        return self.path.with_name(f"{_COUNTS}{self.path.name}.json")

    def counts_before(self, batch_id: int) -> list[tuple[int, int]]:
        """The micro-batches before this one whose rows it has, with their numbers of rows: they come first in the file.

        Raises:
            SinkError: what says so is gone or broken.
        """
        return [(number, rows) for number, rows in read_counts(self) if number < batch_id and rows]


def named(first: int, last: int, name: str) -> str:
    """The name of a file with the rows of these micro-batches.

    >>> named(7, 7, "part-0.parquet")
    'batches-0000000007-0000000007-part-0.parquet'
    """
    return f"batches-{first:010d}-{last:010d}-{name}"


def members(folder: Path, number: int) -> list[Member]:
    """The files of rows in a folder, by name: so by micro-batch. ``number`` is the folder's."""
    found = []
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(("_", ".")):
            match = _NAME.fullmatch(path.name)
            first, last = (int(match.group(1)), int(match.group(2))) if match else (number, number)
            found.append(Member(path, first, last))
    return found


def write_counts(member: Member, counts: Sequence[tuple[int, int]]) -> None:
    """Leaves beside a file which rows of it are of which micro-batch."""
    member.counts.write_text(json.dumps(counts), "utf-8")


def read_counts(member: Member) -> list[tuple[int, int]]:
    """The micro-batches of a file of several, with their numbers of rows.

    Raises:
        SinkError: the file that says so is gone or broken.
    """
    try:
        counts = [(int(number), int(rows)) for number, rows in json.loads(member.counts.read_text("utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise SinkError(
            f"{member.path} holds the rows of micro-batches {member.first} to {member.last}, and {member.counts.name} beside it, "
            f"which says how many each has, cannot be read ({error}): restore it from a copy"
        ) from None
    return counts


@contextmanager
def held(root: Path) -> Iterator[None]:
    """The lock of a sink's folder, waited for. No reader needs it."""
    with _locked(root / LOCK, wait=True):
        yield


@contextmanager
def alone(lock: Path, what: str) -> Iterator[None]:
    """A lock that is not waited for.

    Raises:
        SinkError: another process holds it; ``what`` begins the text.
    """
    with _locked(lock, wait=False, what=what):
        yield


@contextmanager
def _locked(lock: Path, *, wait: bool, what: str = "") -> Iterator[None]:
    try:
        import fcntl
    except ModuleNotFoundError:
        raise SinkError("folders of several micro-batches need file locks (flock), which this system has not") from None
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise SinkError(f"{what} (it holds {lock}): let it end, or end it, then try again") from None
        yield
    finally:
        os.close(handle)


def assemble(folder: Path, kept: Iterable[Member], added: Path | None, out: Path) -> None:
    """Makes ``out`` the folder that is to take another's place. Nobody sees it yet.

    Args:
        folder: whose place it takes: the marks of the runs that wrote there go with it.
        kept: the files that stay. They are the same files, under the same names: whoever has listed them finds them.
        added: a folder whose files move in; None: none.
        out: is made.
    """
    out.mkdir(parents=True)
    for member in kept:
        for path in (member.checksum, member.counts, member.path):
            if path.exists():
                _link(path, out / path.name)
    for mark in folder.glob("_run-*"):
        (out / mark.name).touch()
    for path in sorted(added.iterdir()) if added is not None else ():
        path.rename(out / path.name)


def name_members(attempt: Path, first: int, last: int) -> list[Member]:
    """Gives the files that Spark wrote into a folder the names that say of which micro-batches they are, and removes the rest."""
    given = []
    for path in [path for path in attempt.iterdir() if not path.name.startswith(("_", "."))]:
        member = Member(path.with_name(named(first, last, path.name)), first, last)
        crc = path.with_name(f".{path.name}.crc")
        if crc.exists():
            crc.rename(member.checksum)
        path.rename(member.path)
        given.append(member)
    known = {path for member in given for path in (member.path, member.checksum)}
    for path in [path for path in attempt.iterdir() if path not in known]:
        path.unlink()
    return sorted(given, key=lambda member: member.path.name)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(path, target)


def synced(path: Path) -> None:
    """Brings a file or folder to the disk: what it replaces is deleted afterwards."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
