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
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from panestream.errors import SinkError, warn

LOCK = "_lock"
"""In the sink's folder: held while a folder is changed. It is there once folders are shared."""
WARN_AFTER_SECONDS, MAX_WAIT_SECONDS = 10.0, 60.0
"""When a process that waits for the lock says so, and when it waits no more. It is held for milliseconds."""
_LOOK_EVERY_SECONDS = 0.02
STAGED = "_compacting"
"""In the sink's folder: what a compaction makes, until it is exchanged."""
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
def held(root: Path, fence: Callable[[], None] | None = None) -> Iterator[None]:
    """The lock of a sink's folder, waited for. No reader needs it.

    Anyone who can read the file can hold the lock: a copy of the query that was paused, or a stranger. So the wait has an end.

    Args:
        root: the sink's folder.
        fence: raises if this run does not hold the place; else makes sure that nobody who holds the old lock can publish any
            more. Then the lock is replaced when the wait has ended. None: the caller cannot, and fails.

    Raises:
        SinkError: another process holds the lock for too long, and ``fence`` is None.
    """
    handle = _wait_for(root / LOCK, fence)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def alone(lock: Path, what: str) -> Iterator[None]:
    """A lock that is not waited for.

    Raises:
        SinkError: another process holds it; ``what`` begins the text.
    """
    handle = _try_to_lock(lock)
    if handle is None:
        raise SinkError(f"{what} (it holds {lock}): let it end, or end it, then try again")
    try:
        yield
    finally:
        os.close(handle)


def _wait_for(lock: Path, fence: Callable[[], None] | None) -> int:
    """Return the handle of a lock that this process holds."""
    began, has_warned = time.monotonic(), False
    while (handle := _try_to_lock(lock)) is None:
        waited = time.monotonic() - began
        if waited >= MAX_WAIT_SECONDS:
            if fence is not None:
                return _replace(lock, fence)
            raise SinkError(
                f"{lock} is held by another process for {waited:.0f} seconds: end that process (fuser {lock} names it), then try "
                "again"
            )
        if not has_warned and waited >= WARN_AFTER_SECONDS:
            has_warned = True
            end = "it is replaced then" if fence is not None else "the wait fails then"
            warn(
                f"waiting for {lock}, which another process holds (fuser {lock} names it), for at most {MAX_WAIT_SECONDS:.0f} "
                f"seconds: {end}"
            )
        time.sleep(_LOOK_EVERY_SECONDS)
    return handle


def _try_to_lock(lock: Path) -> int | None:
    """Return the handle of the lock; None if another process holds it."""
    try:
        import fcntl
    except ModuleNotFoundError:
        raise SinkError("folders of several micro-batches need file locks (flock), which this system has not") from None
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock that was replaced since it was opened protects nothing.
        if os.path.samestat(os.fstat(handle), lock.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _replace(lock: Path, fence: Callable[[], None]) -> int:
    """Put a new lock, which this process holds, in the place of one that another process holds."""
    fence()
    fresh = lock.with_name(f"{LOCK}-{uuid.uuid4().hex}")
    handle = _try_to_lock(fresh)
    if handle is None:
        raise SinkError(f"{fresh} was locked by another process as soon as it was made: end that process, then try again")
    try:
        fresh.rename(lock)
        # Once more: who held the old lock may have gone on in between.
        fence()
    except BaseException:
        os.close(handle)
        raise
    return handle


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
