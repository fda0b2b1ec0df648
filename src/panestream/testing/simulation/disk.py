"""The data that survives a crash: a checkpoint and the outputs. Every step is announced before it changes them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from panestream.spark.checkpoint.epoch import Rank

State: TypeAlias = Mapping[tuple[str, int], bytes]
"""The store of a key group in one version."""
OutputRow: TypeAlias = tuple[Any, ...]
ROOT = PurePosixPath("/out")
ATTEMPTS = ROOT / "_attempts"


class ConflictError(Exception):
    """Another copy of the query wrote this entry of Spark's logs, so Spark ends the query."""


@dataclass
class Checkpoint:
    """The checkpoint of a query, with Spark's and panestream's entries.

    Spark stores ``offsets`` (the planning run of each micro-batch), ``commits``, and ``states`` and ``timers`` of each key group
    and version. A version is the number of the micro-batch that starts with it. ``entries`` are the runs, with the checkpoint of
    the succeeding query, if any. ``found`` is the last planned micro-batch that each run found. ``first`` is the number of
    micro-batch 0 in the sinks.
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
        """Return the micro-batches with another planning run than the previous one, which restarts idle timers; sink numbers."""
        before = "another query" if self.first else self.offsets.get(0)
        return frozenset(
            number + self.first for number, run in self.offsets.items() if self.offsets.get(number - 1, before) != run
        )

    def state(self, group: int, version: int) -> State:
        """Return the state of a key group at the start of a micro-batch."""
        return self.states.get((group, version), {})


@dataclass
class Places:
    """The data of all outputs.

    Attributes:
        tree: the folders of each file sink by path, with their files.
        commits: the commits of each transactional table as (writer, micro-batch, rows).
        records: the records of each topic as (writer, micro-batch, id, row).
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
    """All data that survives a crash. ``before`` is called before each step; it may raise, or let another process run."""

    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    places: Places = field(default_factory=Places)
    before: Callable[[str], None] = lambda _: None

    def copy(self) -> Disk:

        return Disk(self.checkpoint.copy(), self.places.copy())


@dataclass(frozen=True)
class MemoryFolders:
    """The folders of a file sink in memory, as :class:`~panestream.spark.sinks.publication.Folders`.

    Nested folders are found by their paths. ``exchanges`` is True if two folders can be exchanged in one step.
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
        """Do nothing, since folders without files are not stored."""

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
        """Write rows into a new folder, half of them in each of two files."""
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
        """Return the rows of each published micro-batch, as a reader finds them."""
        found: dict[int, tuple[OutputRow, ...]] = {}
        for path, files in self.tree.items():
            if path.parent == ROOT and path.name.startswith("batch_id="):
                rows = tuple(row for name in sorted(files) if not name.startswith("_") for row in files[name])
                found[int(path.name.removeprefix("batch_id="))] = rows
        return found


def _called(folder: Any) -> str:
    """Return the name of a folder in steps; attempts have random names."""
    return folder.name if folder.parent == ROOT else "an attempt"


@dataclass
class TaskState:
    """The store of a key group in one task, as :class:`~panestream.engine.storage.state.State`; a commit publishes its writes."""

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
    """Store a version of a key group's state."""
    checkpoint.states[group, version] = values
    checkpoint.timers[group, version] = timer
