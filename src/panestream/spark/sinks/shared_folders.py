"""A file sink whose folders hold several micro-batches each: publishing into them, and taking a future out of them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from panestream.spark.sinks.members import STAGED, Member, assemble, held, members, name_members, write_counts
from panestream.spark.sinks.publication import Publisher, published
from panestream.spark.sinks.withdrawn import Withdrawn

Cut = Callable[[Path, int, Path], None]
"""Writes the first rows of a file, so many, as a file in a folder that is not there yet."""


@dataclass(frozen=True)
class SharedFolders:
    """The folders of a place, as one run writes to them.

    Attributes:
        root: the sink's folder.
        column: what folders are called by: ``COLUMN=N`` for the micro-batches from N on.
        size: how many micro-batches a folder is for.
        publisher: of the run.
        cut: shortens a file of several micro-batches.
    """

    root: Path
    column: str
    size: int
    publisher: Publisher
    cut: Cut

    @property
    def withdrawn(self) -> Withdrawn:
        """What was taken away in the place."""
        return Withdrawn(self.root, self.column, self.publisher, shares=True)

    def folder_of(self, batch_id: int) -> Path:
        """The folder that a micro-batch goes to."""
        return self.root / f"{self.column}={batch_id - batch_id % self.size}"

    def begin(self, batch_id: int) -> None:
        """Takes away what is there of later micro-batches, and of this one where it is not to go: the last first."""
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
        """Publishes the files of ``attempt`` in place of what is there of this micro-batch."""
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
        """Takes what is not published yet away from all who hold the lock: what they rename next is not there any more."""
        publisher = self.publisher
        publisher.check()
        attempts = publisher.folders.children(publisher.attempts)
        for path in (self.root / STAGED, *(path for path in attempts if not path.name.startswith(publisher.own_prefix))):
            # In one step: a folder that is deleted file by file could still be published, with the files that are left.
            with suppress(FileNotFoundError):
                path.rename(publisher.aside())

    def _join(self, member: Member, target: Path) -> None:
        """One file more: in one step, whatever else is there."""
        self.publisher.mark(target)
        if member.checksum.exists():
            member.checksum.rename(target / member.checksum.name)
        member.path.rename(target / member.path.name)

    def _replace(self, target: Path, others: Sequence[Member], added: Path | None) -> None:
        if not others and (added is None or not any(added.iterdir())):
            self.publisher.withdraw(target)
            return
        out = self.publisher.aside()
        assemble(target, others, added, out)
        self.publisher.publish(out, target)

    def _forget(self, folder: Path, number: int, batch_id: int) -> None:
        """A folder without what is later, and without this micro-batch where its place is another: it is written anew there."""
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
            # What several micro-batches share ends before this one, which is written anew.
            if member.first < batch_id <= member.last:
                self._shorten(member, batch_id, added)
        self._replace(folder, others, added)

    def _shorten(self, member: Member, batch_id: int, into: Path) -> None:
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
