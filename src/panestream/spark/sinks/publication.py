"""How an attempt becomes what readers see, on a local file system: by one rename of a whole folder. Without Spark.

``rename(2)`` of a folder onto one that has files fails: of two that publish the same micro-batch at once, one is first. What is
there already is exchanged in one step where the system can (Linux: ``renameat2``), so that a reader's listing has the old folder
or the new one; else it is moved away first, and for that moment a reader finds neither.
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

from panestream.spark.checkpoint import Rank

_MARK = "_run-"
_RANK = re.compile(r"(\d{10})-([0-9a-f]+)")
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
NOBODY: Rank = (-1, "")
"""Whoever wrote a folder without a mark."""


class Folders(Protocol):
    """What publication asks of a file system. A class of its own, so that the simulator can stand between any two steps of it."""

    def touch(self, folder: Path, name: str) -> None:
        """Makes an empty file in a folder, if there is none."""

    def make(self, folder: Path) -> None:
        """Makes a folder, if there is none."""

    def rename(self, folder: Path, to: Path) -> None:
        """In one step. Raises OSError (``ENOTEMPTY``) where ``to`` has files, FileNotFoundError where ``folder`` is gone."""

    def exchange(self, one: Path, other: Path) -> bool:
        """Exchanges two folders in one step; False where the system cannot. Raises FileNotFoundError where one is gone."""

    def children(self, folder: Path) -> list[Path]:
        """What a folder has; nothing where it is gone."""

    def delete(self, folder: Path) -> None:
        """Deletes a folder and all that is in it, as far as that can be done."""


class LocalFolders:
    """Those of this machine."""

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
    """Publishes the folders of one run.

    Attributes:
        attempts: a folder on the same file system, out of sight of readers.
        rank: the run. Its mark is in every folder that it publishes.
        check: raises where another run holds the place.
        registered: whether a run that left a larger mark is known: if so, it was started later and keeps what it published.
        folders: the file system.
    """

    attempts: Path
    rank: Rank
    check: Callable[[], None]
    registered: Callable[[Rank], bool]
    folders: Folders = field(default=LOCAL, repr=False, compare=False)

    def publish(self, attempt: Path, target: Path) -> None:
        """Makes the folder ``attempt`` be ``target``; what was there is now among the attempts, for a later :func:`sweep`.

        Deleting it at once would let somebody who is listing it right now find a part.

        Raises:
            FencedError: by ``check``; then what the later run published stays.
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
        """Takes away what is published at ``target``, in one step; it is now at ``away``, or among the attempts."""
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
        """False: somebody moved in between, look again."""
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
        """After an exchange: should what came out be of a later run, it goes back, and so on until the newest is in."""
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
        """Leaves the mark of the run in a folder."""
        self.folders.touch(folder, f"{_MARK}{self.own_prefix}")

    def aside(self) -> Path:
        """A folder of the run among the attempts that is not there yet."""
        self.folders.make(self.attempts)
        return self.attempts / self.new_name()

    def new_name(self) -> str:
        """Of a folder among the attempts, which no other has."""
        return f"{self.own_prefix}-{uuid.uuid4().hex}"

    @property
    def own_prefix(self) -> str:
        """What the names of the run's attempts begin with."""
        return f"{self.rank[0]:010d}-{self.rank[1]}"


def rank_of(folder: Path, folders: Folders = LOCAL) -> Rank:
    """The run that published a folder."""
    names = [path.name for path in folders.children(folder) if path.name.startswith(_MARK)]
    marks = [_RANK.fullmatch(name.removeprefix(_MARK)) for name in names]
    return max(((int(mark.group(1)), mark.group(2)) for mark in marks if mark), default=NOBODY)


def published(folder: Path, column: str, folders: Folders = LOCAL) -> dict[int, Path]:
    """The folders ``COLUMN=N`` by N."""
    matches = {path: re.fullmatch(rf"{re.escape(column)}=(-?\d+)", path.name) for path in folders.children(folder)}
    return {int(match.group(1)): path for path, match in matches.items() if match}


def sweep(attempts: Path, upto: Rank | None = None, folders: Folders = LOCAL) -> None:
    """Deletes what was replaced, and what attempts that were broken off have left: of runs up to ``upto``, else all."""
    for path in folders.children(attempts):
        rank = _RANK.match(path.name)
        if upto is None or rank is None or (int(rank.group(1)), rank.group(2)) <= upto:
            folders.delete(path)


def exchanged(one: Path, other: Path) -> bool:
    """Exchanges two folders in one step; False where the system or the file system cannot.

    Raises:
        FileNotFoundError: one of them is not there.
    """
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
