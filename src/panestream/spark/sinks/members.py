"""Folders that hold the files of several micro-batches: their file names, and how one folder replaces another. Without Spark.

A row never moves from one folder to another, so a reader that lists the folders one after another finds it once. Every change is
one step: a new file is renamed into its folder, and any other change exchanges the whole folder. All changes hold one lock, which
the operating system releases when a process dies.
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
"""The lock in the sink's folder, held during a change of a folder. The file exists once folders are shared."""
WARN_AFTER_SECONDS, MAX_WAIT_SECONDS = 10.0, 60.0
"""How long a process waits for the lock before it warns, and before it fails. A change takes milliseconds."""
_LOOK_EVERY_SECONDS = 0.02
STAGED = "_compacting"
"""In the sink's folder: the result of a compaction until it is exchanged."""
_NAME = re.compile(r"batches-(\d{10})-(\d{10})-.+")
_COUNTS = "_counts-"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


@dataclass(frozen=True)
class BatchFile:
    """A file with the rows of micro-batches ``first`` to ``last``. A name without numbers means the folder's micro-batch."""

    path: Path
    first: int
    last: int

    @property
    def checksum(self) -> Path:
        return self.path.with_name(f".{self.path.name}.crc")

    @property
    def counts(self) -> Path:
        """The file with the number of rows of each micro-batch, in their order. Only for a file of several micro-batches."""
        return self.path.with_name(f"{_COUNTS}{self.path.name}.json")

    def counts_before(self, batch_id: int) -> list[tuple[int, int]]:
        """Return the micro-batches before ``batch_id`` and their numbers of rows, which come first in the file."""
        return [(number, rows) for number, rows in read_counts(self) if number < batch_id and rows]


def named(first: int, last: int, name: str) -> str:
    """Return a file name for these micro-batches.

    >>> named(7, 7, "part-0.parquet")
    'batches-0000000007-0000000007-part-0.parquet'
    """
    return f"batches-{first:010d}-{last:010d}-{name}"


def members(folder: Path, number: int) -> list[BatchFile]:
    """Return the files of rows in the folder ``number``, by name and so by micro-batch."""
    found = []
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(("_", ".")):
            match = _NAME.fullmatch(path.name)
            first, last = (int(match.group(1)), int(match.group(2))) if match else (number, number)
            found.append(BatchFile(path, first, last))
    return found


def write_counts(member: BatchFile, counts: Sequence[tuple[int, int]]) -> None:
    """Write the micro-batches of a file with their numbers of rows."""
    member.counts.write_text(json.dumps(counts), "utf-8")


def read_counts(member: BatchFile) -> list[tuple[int, int]]:
    """Return the micro-batches of a file of several, with their numbers of rows; raises SinkError if they cannot be read."""
    try:
        counts = [(int(number), int(rows)) for number, rows in json.loads(member.counts.read_text("utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise SinkError(
            f"{member.path} holds the rows of micro-batches {member.first} to {member.last}, and {member.counts.name} with "
            f"their numbers of rows cannot be read ({error}). Restore it from a copy"
        ) from None
    return counts


@contextmanager
def held(root: Path, fence: Callable[[], None] | None = None) -> Iterator[None]:
    """Wait for the lock of a sink's folder and hold it. Readers do not need it.

    Anyone who can read the file can hold the lock, such as a paused copy of the query. So the wait is limited. Then ``fence``
    raises if this run does not hold the place. Otherwise it stops every holder of the old lock from publishing, and the lock is
    replaced. If ``fence`` is None, the end of the wait raises SinkError.
    """
    handle = _wait_for(root / LOCK, fence)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def alone(lock: Path, what: str) -> Iterator[None]:
    """Take a lock without waiting; raises SinkError, whose text begins with ``what``, if another process holds it."""
    handle = _try_to_lock(lock)
    if handle is None:
        raise SinkError(f"{what} (it holds {lock}): let it end, or end it, then try again")
    try:
        yield
    finally:
        os.close(handle)


def _wait_for(lock: Path, fence: Callable[[], None] | None) -> int:
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
        # A lock that was replaced after it was opened protects nothing.
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
    """Replace a lock that another process holds with a new lock that this process holds."""
    fence()
    fresh = lock.with_name(f"{LOCK}-{uuid.uuid4().hex}")
    handle = _try_to_lock(fresh)
    if handle is None:
        raise SinkError(f"{fresh} was locked by another process as soon as it was made: end that process, then try again")
    try:
        fresh.rename(lock)
        # Fence again: the holder of the old lock may have continued in between.
        fence()
    except BaseException:
        os.close(handle)
        raise
    return handle


def assemble(folder: Path, kept: Iterable[BatchFile], added: Path | None, out: Path) -> None:
    """Make ``out`` a folder that can replace ``folder``. Readers do not see it yet.

    It gets the marks of the runs in ``folder`` and the files of the folder ``added``. The files of ``kept`` are linked under the
    same names, so a reader that has listed them finds them.
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


def name_members(attempt: Path, first: int, last: int) -> list[BatchFile]:
    """Rename the files that Spark wrote so that the names contain their micro-batches, and remove all other files."""
    given = []
    for path in [path for path in attempt.iterdir() if not path.name.startswith(("_", "."))]:
        member = BatchFile(path.with_name(named(first, last, path.name)), first, last)
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
    """Flush a file or folder to the disk, since the files that it replaces are deleted afterwards."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
