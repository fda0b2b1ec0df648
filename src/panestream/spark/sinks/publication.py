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
from dataclasses import dataclass
from pathlib import Path

from panestream.spark.checkpoint import Rank

_MARK = "_run-"
_RANK = re.compile(r"(\d{10})-([0-9a-f]+)")
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
NOBODY: Rank = (-1, "")
"""Whoever wrote a folder without a mark."""


@dataclass(frozen=True)
class Publisher:
    """Publishes the folders of one run.

    Attributes:
        attempts: a folder on the same file system, out of sight of readers.
        rank: the run. Its mark is in every folder that it publishes.
        check: raises where another run holds the place.
        registered: whether a run that left a larger mark is known: if so, it was started later and keeps what it published.
    """

    attempts: Path
    rank: Rank
    check: Callable[[], None]
    registered: Callable[[Rank], bool]

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
                attempt.rename(target)
            except OSError as error:
                if error.errno not in _NOT_EMPTY:
                    raise
                if self._replace(attempt, target):
                    return
            else:
                return

    def withdraw(self, target: Path) -> None:
        """Takes away what is published at ``target``, in one step; it is now among the attempts."""
        self.check()
        away = self.aside()
        try:
            target.rename(away)
        except FileNotFoundError:
            return
        self._drop_or_return(away, target)

    def _replace(self, attempt: Path, target: Path) -> bool:
        """False: somebody moved in between, look again."""
        self.check()
        try:
            if exchanged(attempt, target):
                self._keep_newest(attempt, target)
                return True
            away = self.aside()
            target.rename(away)
        except FileNotFoundError:
            return False
        self._drop_or_return(away, target)
        return False

    def _keep_newest(self, out: Path, target: Path) -> None:
        """After an exchange: should what came out be of a later run, it goes back, and so on until the newest is in."""
        inside, mine = self.rank, True
        while self._newer(rank_of(out), inside):
            inside, mine = rank_of(out), False
            exchanged(out, target)
        if not mine:
            self.check()

    def _drop_or_return(self, away: Path, target: Path) -> None:
        if self._newer(rank_of(away), self.rank):
            try:
                away.rename(target)
            except OSError as error:
                if error.errno not in _NOT_EMPTY:
                    raise
            self.check()

    def _newer(self, one: Rank, other: Rank) -> bool:
        return one > other and self.registered(one)

    def mark(self, folder: Path) -> None:
        """Leaves the mark of the run in a folder."""
        (folder / f"{_MARK}{self.rank[0]:010d}-{self.rank[1]}").touch()

    def aside(self) -> Path:
        """A folder of the run among the attempts that is not there yet."""
        self.attempts.mkdir(exist_ok=True)
        return self.attempts / f"{self.rank[0]:010d}-{self.rank[1]}-{uuid.uuid4().hex}"


def rank_of(folder: Path) -> Rank:
    """The run that published a folder."""
    try:
        marks = [_RANK.fullmatch(path.name.removeprefix(_MARK)) for path in folder.glob(f"{_MARK}*")]
    except FileNotFoundError:
        return NOBODY
    return max(((int(mark.group(1)), mark.group(2)) for mark in marks if mark), default=NOBODY)


def published(folder: Path, column: str) -> dict[int, Path]:
    """The folders ``COLUMN=N`` by N."""
    matches = {path: re.fullmatch(rf"{re.escape(column)}=(-?\d+)", path.name) for path in folder.iterdir()}
    return {int(match.group(1)): path for path, match in matches.items() if match}


def sweep(attempts: Path, upto: Rank | None = None) -> None:
    """Deletes what was replaced, and what attempts that were broken off have left: of runs up to ``upto``, else all."""
    for path in attempts.iterdir() if attempts.is_dir() else ():
        rank = _RANK.match(path.name)
        if upto is None or rank is None or (int(rank.group(1)), rank.group(2)) <= upto:
            shutil.rmtree(path, ignore_errors=True)


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
