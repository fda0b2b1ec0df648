"""Publish an attempt to readers on a local file system by renaming a whole folder. Without Spark.

``rename(2)`` fails if the target folder has files, so only one of two runs that publish the same micro-batch is first. An
existing folder is exchanged in one step if the system supports ``renameat2`` (Linux), so a reader lists the old folder or the new
one. Otherwise the old folder is moved away first, and for that moment a reader finds neither.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from panestream.spark.checkpoint.epoch import Rank

_MARK = "_run-"
_RANK = re.compile(r"(\d{10})-([0-9a-f]+)")
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
NOBODY: Rank = (-1, "")
"""The rank of a folder without a mark."""


class Folders(Protocol):
    """The file system operations of publication, as a protocol so that the simulator can interrupt between any two steps."""

    def touch(self, folder: Path, name: str) -> None:
        """Make an empty file in a folder, if it does not exist."""

    def make(self, folder: Path) -> None:
        """Make a folder, if it does not exist."""

    def rename(self, folder: Path, to: Path) -> None:
        """Rename in one step. Raises OSError (``ENOTEMPTY``) if ``to`` has files, FileNotFoundError if ``folder`` is missing."""

    def exchange(self, one: Path, other: Path) -> bool:
        """Exchange two folders in one step; False if the system cannot. Raises FileNotFoundError if one is missing."""

    def children(self, folder: Path) -> list[Path]:
        """Return the entries of a folder; empty if the folder is missing."""

    def delete(self, folder: Path) -> None:
        """Delete a folder with all its content, as far as possible."""


class LocalFolders:
    """The file system of this machine."""

    def touch(self, folder: Path, name: str) -> None:
        (folder / name).touch()

    def make(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)

    def rename(self, folder: Path, to: Path) -> None:
        folder.rename(to)

    def exchange(self, one: Path, other: Path) -> bool:
        return exchanged(one, other)

    def children(self, folder: Path) -> list[Path]:
        try:
            return list(folder.iterdir())
        except FileNotFoundError:
            return []

    def delete(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


LOCAL: Folders = LocalFolders()


@dataclass(frozen=True)
class Publisher:
    """Publisher of the folders of one run; each gets the mark of its ``rank``.

    ``attempts`` is a folder on the same file system that readers skip. ``check`` raises if another run holds the place. A larger
    mark that is ``registered`` belongs to a run that was started later, and its folders stay.
    """

    attempts: Path
    rank: Rank
    check: Callable[[], None]
    registered: Callable[[Rank], bool]
    folders: Folders = field(default=LOCAL, repr=False, compare=False)

    def publish(self, attempt: Path, target: Path) -> None:
        """Publish the folder ``attempt`` as ``target``; raises FencedError if a later run's output stays.

        The old folder moves to the attempts for a later :func:`sweep`. If it were deleted now, a reader could list a part of it.
        """
        self.mark(attempt)
        while True:
            self.check()
            try:
                self.folders.rename(attempt, target)
            except OSError as error:
                if error.errno not in _NOT_EMPTY:
                    raise
                if self._replace(attempt, target):
                    return
            else:
                return

    def withdraw(self, target: Path, away: Path | None = None) -> None:
        """Move the folder published at ``target`` to ``away``, or to the attempts, in one step."""
        self.check()
        away = away or self.aside()
        try:
            self.folders.rename(target, away)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                raise
            return self.withdraw(target)
        self._drop_or_return(away, target)
        return None

    def _replace(self, attempt: Path, target: Path) -> bool:
        """Return False if another process moved a folder in between; the caller looks again."""
        self.check()
        try:
            if self.folders.exchange(attempt, target):
                self._keep_newest(attempt, target)
                return True
            away = self.aside()
            self.folders.rename(target, away)
        except FileNotFoundError:
            return False
        self._drop_or_return(away, target)
        return False

    def _keep_newest(self, out: Path, target: Path) -> None:
        """After an exchange, put the newest run's folder back at ``target``, however often it takes."""
        inside, mine = self.rank, True
        while self._newer(rank_of(out, self.folders), inside):
            inside, mine = rank_of(out, self.folders), False
            self.folders.exchange(out, target)
        if not mine:
            self.check()

    def _drop_or_return(self, away: Path, target: Path) -> None:
        if self._newer(rank_of(away, self.folders), self.rank):
            try:
                self.folders.rename(away, target)
            except OSError as error:
                if error.errno not in _NOT_EMPTY:
                    raise
            self.check()

    def _newer(self, one: Rank, other: Rank) -> bool:
        return one > other and self.registered(one)

    def mark(self, folder: Path) -> None:
        self.folders.touch(folder, f"{_MARK}{self.own_prefix}")

    def aside(self) -> Path:
        """Return the path of a new folder of the run among the attempts. It does not exist yet."""
        self.folders.make(self.attempts)
        return self.attempts / self.new_name()

    def new_name(self) -> str:
        return f"{self.own_prefix}-{uuid.uuid4().hex}"

    @property
    def own_prefix(self) -> str:
        return f"{self.rank[0]:010d}-{self.rank[1]}"


def rank_of(folder: Path, folders: Folders = LOCAL) -> Rank:
    """Return the run that published a folder."""
    names = [path.name for path in folders.children(folder) if path.name.startswith(_MARK)]
    marks = [_RANK.fullmatch(name.removeprefix(_MARK)) for name in names]
    return max(((int(mark.group(1)), mark.group(2)) for mark in marks if mark), default=NOBODY)


def published(folder: Path, column: str, folders: Folders = LOCAL) -> dict[int, Path]:
    """Return the folders ``COLUMN=N`` by N."""
    matches = {path: re.fullmatch(rf"{re.escape(column)}=(-?\d+)", path.name) for path in folders.children(folder)}
    return {int(match.group(1)): path for path, match in matches.items() if match}


def sweep(attempts: Path, upto: Rank | None = None, folders: Folders = LOCAL) -> None:
    """Delete replaced folders and unfinished attempts of the runs up to ``upto``, or of all runs if it is None."""
    for path in folders.children(attempts):
        rank = _RANK.match(path.name)
        if upto is None or rank is None or (int(rank.group(1)), rank.group(2)) <= upto:
            folders.delete(path)


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False if the system cannot. Raises FileNotFoundError if one of them is missing."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _renameat2() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return function
