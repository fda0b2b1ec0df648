"""Folders that a run hides from readers until its first micro-batch is committed. Without Spark.

A run that begins with micro-batch N withdraws later ones, since they come again. This may be wrong until N is committed: the run
fails if the checkpoint is damaged or the wrong one. So the withdrawn folders are kept:

- The run delivers a second micro-batch, so N is committed. The folders are deleted.
- A later run begins with N or before it. The folders are kept.
- A later run begins with N + 1: the first run committed N, or the checkpoint is another one. The folders are kept, as if the
  later run had withdrawn them.
- A later run begins after N + 1: its checkpoint has micro-batches unknown to the first run. The folders are published again.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from panestream.spark.sinks.publication import Publisher

WITHDRAWN = "_withdrawn"
"""In a sink's folder."""
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@dataclass(frozen=True)
class Withdrawn:
    """The withdrawn folders below ``root``, named ``COLUMN=N``; ``shares`` if several micro-batches share a folder."""

    root: Path
    column: str
    publisher: Publisher
    shares: bool = False

    def withdraw(self, target: Path, batch_id: int) -> None:
        """Withdraw the folder published at ``target``, in one step, for a run that begins with ``batch_id``."""
        self.publisher.withdraw(target, self._place(target, batch_id))

    def keep(self, make_copy: Callable[[Path], None], target: Path, batch_id: int) -> None:
        """Keep a copy of a folder that will lose later micro-batches. The first copy has the most and stays."""
        copy = self.publisher.aside()
        make_copy(copy)
        self._move(copy, target, batch_id)

    def settle(self, batch_id: int) -> None:
        """Publish, keep or delete the folders that earlier runs have withdrawn, for a run that begins with ``batch_id``."""
        # If a folder has two copies, the one with the larger number was made first. It has the most, so it comes last.
        for path in sorted(self._all(), key=lambda path: path.name):
            first, name = path.name.split("-", 1)
            if batch_id <= int(first):
                continue
            target = self.root / name
            if batch_id > int(first) + 1 or self._was_not_done_again(target, int(first)):
                self.publisher.publish(path, target)
            elif self.shares or int(name.split("=")[1]) >= batch_id:
                self._move(path, target, batch_id)
            self.publisher.folders.delete(path)

    def _was_not_done_again(self, target: Path, first: int) -> bool:
        """Return whether a run ended before it wrote its first micro-batch again."""
        is_first = not self.shares and target.name == f"{self.column}={first}"
        return is_first and target not in self.publisher.folders.children(self.root)

    def delete(self) -> None:
        """Delete all: the first micro-batch of this run is committed."""
        for path in self._all():
            self.publisher.check()
            self.publisher.folders.delete(path)

    def _move(self, path: Path, target: Path, batch_id: int) -> None:
        try:
            self.publisher.folders.rename(path, self._place(target, batch_id))
        except OSError as error:
            if error.errno not in _TAKEN:
                raise

    def _all(self) -> list[Path]:
        name = re.compile(rf"\d{{10}}-{re.escape(self.column)}=\d+")
        return [path for path in self.publisher.folders.children(self.root / WITHDRAWN) if name.fullmatch(path.name)]

    def _place(self, target: Path, batch_id: int) -> Path:
        self.publisher.folders.make(self.root / WITHDRAWN)
        return self.root / WITHDRAWN / f"{batch_id:010d}-{target.name}"


__all__ = ["WITHDRAWN", "Withdrawn"]
