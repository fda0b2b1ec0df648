"""What survives a crash: a checkpoint, and the places of outputs. Every step that changes it is announced before it is taken."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from panestream.spark.checkpoint import Rank

State: TypeAlias = Mapping[tuple[str, int], bytes]
"""What a key group has in the store, in one version."""
OutputRow: TypeAlias = tuple[Any, ...]
"""A row of an output."""
ROOT = PurePosixPath("/out")
ATTEMPTS = ROOT / "_attempts"


class ConflictError(Exception):
    """Another copy of the query wrote this entry of Spark's logs: Spark ends the query."""


@dataclass
class Checkpoint:
    """What Spark keeps of a query, and panestream beside it.

    Attributes:
        offsets: the micro-batches that were planned, and the run that did.
        commits: the micro-batches that were committed.
        states: of each key group and version what the store holds; the version is that of the micro-batch that begins with it.
        timers: the same for the timer of the clock that Spark keeps.
        entries: the runs of the query, with the checkpoint of the query that succeeds it where there is one.
        found: of each run the last micro-batch that it found planned.
        query: its identity.
        first: what sinks call micro-batch 0.
    """

    offsets: dict[int, str] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    states: dict[tuple[int, int], State] = field(default_factory=dict)
    timers: dict[tuple[int, int], int | None] = field(default_factory=dict)
    entries: dict[Rank, str | None] = field(default_factory=dict)
    found: dict[Rank, int] = field(default_factory=dict)
    query: str = "q"
    first: int = 0

    def copy(self) -> Checkpoint:
        return Checkpoint(
            dict(self.offsets),
            set(self.commits),
            dict(self.states),
            dict(self.timers),
            dict(self.entries),
            dict(self.found),
            self.query,
            self.first,
        )

    def starts(self) -> frozenset[int]:
        """The micro-batches that another run planned than the one before: its idle timers begin anew. By the sinks' numbers."""
        before = "another query" if self.first else self.offsets.get(0)
        return frozenset(
            number + self.first for number, run in self.offsets.items() if self.offsets.get(number - 1, before) != run
        )

    def state(self, group: int, version: int) -> State:
        """What the key group has when that micro-batch begins."""
        return self.states.get((group, version), {})


@dataclass
class Places:
    """What outputs have written.

    Attributes:
        tree: of each file sink its folders, by path, with their files.
        commits: of each transactional table the writer, micro-batch and rows of every commit.
        records: of each topic the records: writer, micro-batch, id and row.
        merged: the table into which results are merged.
        merged_last: of each writer the last micro-batch that was merged.
    """

    tree: dict[str, dict[PurePosixPath, dict[str, tuple[OutputRow, ...]]]] = field(default_factory=dict)
    commits: dict[str, list[tuple[str, int, tuple[OutputRow, ...]]]] = field(default_factory=dict)
    records: dict[str, list[tuple[str, int, str, OutputRow]]] = field(default_factory=dict)
    merged: dict[Any, OutputRow] = field(default_factory=dict)
    merged_last: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Places:
        return Places(
            {place: {path: dict(files) for path, files in tree.items()} for place, tree in self.tree.items()},
            {place: list(commits) for place, commits in self.commits.items()},
            {place: list(records) for place, records in self.records.items()},
            dict(self.merged),
            dict(self.merged_last),
        )


@dataclass
class Disk:
    """All that survives.

    Attributes:
        checkpoint: of the query that is looked at.
        places: of its outputs.
        before: is called before every step that changes anything, with its name; may raise, or let another process run.
    """

    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    places: Places = field(default_factory=Places)
    before: Callable[[str], None] = lambda _: None

    def copy(self) -> Disk:
        """What is there now; nobody listens to it."""
        return Disk(self.checkpoint.copy(), self.places.copy())


@dataclass(frozen=True)
class MemoryFolders:
    """The folders of a file sink. Flat: a folder has files; what is in a folder that others lie in, is found by their paths.

    It is a :class:`~panestream.spark.sinks.publication.Folders`.

    Attributes:
        disk: where they lie.
        place: of which sink.
        exchanges: whether two folders can be exchanged in one step.
    """

    disk: Disk
    place: str
    exchanges: bool = True

    @property
    def tree(self) -> dict[PurePosixPath, dict[str, tuple[OutputRow, ...]]]:
        return self.disk.places.tree.setdefault(self.place, {})

    def touch(self, folder: Any, name: str) -> None:
        self.disk.before(f"mark {_called(folder)}")
        self._there(folder)[name] = ()

    def make(self, folder: Any) -> None:
        """Nothing is kept of a folder without files."""

    def rename(self, folder: Any, to: Any) -> None:
        self.disk.before(f"rename {_called(folder)} to {_called(to)}")
        tree = self.tree
        self._there(folder)
        if tree.get(to):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(to))
        tree[to] = tree.pop(folder)

    def exchange(self, one: Any, other: Any) -> bool:
        if not self.exchanges:
            return False
        self.disk.before(f"exchange {_called(one)} and {_called(other)}")
        tree = self.tree
        tree[one], tree[other] = self._there(other), self._there(one)
        return True

    def children(self, folder: Any) -> list[Any]:
        files = [folder / name for name in self.tree.get(folder, ())]
        return files + [path for path in self.tree if path.parent == folder]

    def delete(self, folder: Any) -> None:
        self.disk.before(f"delete {_called(folder)}")
        self.tree.pop(folder, None)

    def save(self, folder: PurePosixPath, rows: Iterable[OutputRow]) -> None:
        """Writes rows into a new folder, half of them in each of two files."""
        every = list(rows)
        self.tree[folder] = {}
        for number, part in enumerate((every[: len(every) // 2], every[len(every) // 2 :])):
            self.disk.before(f"write part-{number} of an attempt")
            self._there(folder)[f"part-{number}"] = tuple(part)

    def _there(self, folder: Any) -> dict[str, tuple[OutputRow, ...]]:
        if folder not in self.tree:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        return self.tree[folder]

    def read(self) -> dict[int, tuple[OutputRow, ...]]:
        """What a reader finds: the rows of each micro-batch that is published."""
        found: dict[int, tuple[OutputRow, ...]] = {}
        for path, files in self.tree.items():
            if path.parent == ROOT and path.name.startswith("batch_id="):
                rows = tuple(row for name in sorted(files) if not name.startswith("_") for row in files[name])
                found[int(path.name.removeprefix("batch_id="))] = rows
        return found


def _called(folder: Any) -> str:
    """A folder in the name of a step; attempts have names by chance."""
    return folder.name if folder.parent == ROOT else "an attempt"


@dataclass
class TaskState:
    """The store of one key group in one task: what it writes is there for others when the task commits.

    It is a :class:`~panestream.engine.storage.state.State`.
    """

    disk: Disk
    group: int
    version: int
    values: dict[tuple[str, int], bytes] = field(init=False)
    steps: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.values = dict(self.disk.checkpoint.state(self.group, self.version))

    @property
    def micro_batch(self) -> int:
        return self.version

    def get(self, space: str, key: int) -> bytes | None:
        return self.values.get((space, key))

    def put(self, space: str, key: int, value: bytes) -> None:
        self._step(f"put {space} {key} of key group {self.group}")
        self.values[space, key] = value

    def remove(self, space: str, key: int) -> None:
        self._step(f"remove {space} {key} of key group {self.group}")
        del self.values[space, key]

    def _step(self, step: str) -> None:
        self.steps.append(step)
        self.disk.before(step)


def keep(checkpoint: Checkpoint, group: int, version: int, values: State, timer: int | None) -> None:
    """A version of a key group's state is there."""
    checkpoint.states[group, version] = values
    checkpoint.timers[group, version] = timer
