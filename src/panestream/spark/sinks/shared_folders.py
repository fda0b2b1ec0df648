"""Write a file sink whose folders hold several micro-batches each, and remove later micro-batches from the folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from panestream.spark.sinks.members import STAGED, BatchFile, assemble, held, members, name_members, write_counts
from panestream.spark.sinks.publication import Publisher, published
from panestream.spark.sinks.withdrawn import Withdrawn

Cut = Callable[[Path, int, Path], None]
"""Write the first ``n`` rows of a file as a file into a folder that does not exist yet."""


@dataclass(frozen=True)
class SharedFolders:
    """The folders ``COLUMN=N`` below ``root``, each for ``size`` micro-batches from N on, as one run writes them."""

    root: Path
    column: str
    size: int
    publisher: Publisher
    cut: Cut

    @property
    def withdrawn(self) -> Withdrawn:
        return Withdrawn(self.root, self.column, self.publisher, shares=True)

    def folder_of(self, batch_id: int) -> Path:
        return self.root / f"{self.column}={batch_id - batch_id % self.size}"

    def begin(self, batch_id: int) -> None:
        """Withdraw later micro-batches, the last first, and this one if it will be written to another folder."""
        with held(self.root, self._fence):
            self.publisher.check()
            self.withdrawn.settle(batch_id)
            folders = published(self.root, self.column)
            for number in sorted(folders, reverse=True):
                if number > batch_id:
                    self.withdrawn.withdraw(folders[number], batch_id)
                elif number >= 0:
                    self._forget(folders[number], number, batch_id)

    def write(self, attempt: Path, batch_id: int) -> None:
        """Publish the files of ``attempt`` in place of the earlier files of this micro-batch."""
        given = name_members(attempt, batch_id, batch_id)
        target = self.folder_of(batch_id)
        with held(self.root, self._fence):
            self.publisher.check()
            there = members(target, batch_id - batch_id % self.size) if target.is_dir() else []
            others = [member for member in there if not member.first <= batch_id <= member.last]
            if not target.is_dir():
                self.publisher.publish(attempt, target)
            elif len(given) == 1 and len(others) == len(there):
                self._join(given[0], target)
            else:
                self._replace(target, others, attempt)

    def _fence(self) -> None:
        """Move all unpublished folders away, so that a process with the old lock cannot rename them into place."""
        publisher = self.publisher
        publisher.check()
        attempts = publisher.folders.children(publisher.attempts)
        for path in (self.root / STAGED, *(path for path in attempts if not path.name.startswith(publisher.own_prefix))):
            # In one step: a folder that is deleted file by file could still be published with the remaining files.
            with suppress(FileNotFoundError):
                path.rename(publisher.aside())

    def _join(self, member: BatchFile, target: Path) -> None:
        """Add a file in one step, independent of the other files."""
        self.publisher.mark(target)
        if member.checksum.exists():
            member.checksum.rename(target / member.checksum.name)
        member.path.rename(target / member.path.name)

    def _replace(self, target: Path, others: Sequence[BatchFile], added: Path | None) -> None:
        if not others and (added is None or not any(added.iterdir())):
            self.publisher.withdraw(target)
            return
        out = self.publisher.aside()
        assemble(target, others, added, out)
        self.publisher.publish(out, target)

    def _forget(self, folder: Path, number: int, batch_id: int) -> None:
        """Remove later micro-batches from a folder, and this one if it will be written to another folder."""
        there = members(folder, number)
        own = folder == self.folder_of(batch_id)
        others = [member for member in there if member.last < batch_id or (own and member.first == member.last == batch_id)]
        if len(others) == len(there):
            return
        if any(member.last > batch_id for member in there):
            self.withdrawn.keep(partial(assemble, folder, there, None), folder, batch_id)
        added = self.publisher.aside()
        added.mkdir()
        for member in there:
            # A shared file is cut before this micro-batch, which is written again.
            if member.first < batch_id <= member.last:
                self._shorten(member, batch_id, added)
        self._replace(folder, others, added)

    def _shorten(self, member: BatchFile, batch_id: int, into: Path) -> None:
        counts = member.counts_before(batch_id)
        if not counts:
            return
        part = self.publisher.aside()
        self.cut(member.path, sum(rows for _, rows in counts), part)
        for cut in name_members(part, member.first, counts[-1][0]):
            write_counts(cut, counts)
            for path in (cut.checksum, cut.counts, cut.path):
                if path.exists():
                    path.rename(into / path.name)
