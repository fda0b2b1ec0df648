"""Simulated sinks, which run the real code of a sink if it does not need Spark, and otherwise follow the rule of its system.

======================  ================================================================================================
``Files``               the code of :class:`~panestream.FileSink` on a local file system, on folders in memory
``Records``             readers: the code of :class:`~panestream.sinks.KafkaDeduplicator`; the topic is a list of records
``Transactions``        Delta's rule: a transaction is skipped if its number is not larger than the writer's last
``Snapshots``           the rule of :class:`~panestream.TableSink` into Iceberg; the search in the history is the real code
``Merged``              the rule of MERGE into Delta: rows by key and window, and numbers that are not larger are skipped
======================  ================================================================================================
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from panestream.spark.checkpoint.epoch import Epoch, Rank
from panestream.spark.kafka.deduplicator import BATCH, ID, WRITER, KafkaDeduplicator
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.micro_batch_folders import MicroBatchFolders
from panestream.spark.sinks.publication import Publisher
from panestream.spark.sinks.table_formats.iceberg_history import IcebergSnapshot, walk
from panestream.testing.simulation.disk import ATTEMPTS, ROOT, Disk, MemoryFolders, OutputRow

COLUMN = "batch_id"
TRIES = 3


@dataclass(frozen=True)
class HeldBy(Epoch):
    """The entry of a run in the simulated checkpoint, with the real rule."""

    disk: Disk = field(default_factory=Disk, repr=False, compare=False)

    def check(self, spark: Any) -> None:
        entries = self.disk.checkpoint.entries
        self.check_holds(entries, lambda: entries[max(entries)])

    def registered(self, spark: Any, rank: Rank) -> bool:
        return rank in self.disk.checkpoint.entries


@dataclass(frozen=True)
class Place(Sink):
    """A sink of one run."""

    disk: Disk = field(repr=False)
    epoch: HeldBy = field(repr=False)
    writer: str
    name: str

    def check(self) -> None:
        """Raise an error if another run holds the checkpoint."""
        self.epoch.check(None)

    def read(self) -> dict[int, tuple[OutputRow, ...]]:
        """Return the rows that a reader finds, by micro-batch."""
        return {}

    def describe(self) -> str:
        return self.name


@dataclass(frozen=True)
class Files(Place):
    """A folder for each micro-batch."""

    exchanges: bool = True

    @property
    def folders(self) -> MemoryFolders:
        return MemoryFolders(self.disk, self.name, self.exchanges)

    @property
    def micro_batches(self) -> MicroBatchFolders:

        registered: Callable[[Rank], bool] = lambda rank: self.epoch.registered(None, rank)  # noqa: E731
        attempts: Any = ATTEMPTS
        root: Any = ROOT
        return MicroBatchFolders(root, COLUMN, Publisher(attempts, self.epoch.rank, self.check, registered, self.folders))

    def begin(self, df: Any, batch_id: int) -> None:
        self.micro_batches.begin(batch_id)

    def on_first_commit(self, df: Any) -> None:
        self.micro_batches.withdrawn.delete()

    def write(self, df: Any, batch_id: int | None) -> None:
        self.micro_batches.write(batch_id, lambda name: self.folders.save(ATTEMPTS / name, df))

    def read(self) -> dict[int, tuple[OutputRow, ...]]:
        return self.folders.read()


@dataclass(frozen=True)
class Transactions(Place):
    """A table whose transactions have the writer and the micro-batch."""

    def write(self, df: Any, batch_id: int | None) -> None:
        self.check()
        self.disk.before(f"commit to {self.name}")
        commits = self.disk.places.commits.setdefault(self.name, [])
        last = max((number for writer, number, _ in commits if writer == self.writer), default=-1)
        if batch_id is not None and batch_id > last:
            commits.append((self.writer, batch_id, tuple(df)))

    def read(self) -> dict[int, tuple[OutputRow, ...]]:
        found: dict[int, tuple[OutputRow, ...]] = {}
        for _, number, rows in self.disk.places.commits.get(self.name, []):
            found[number] = found.get(number, ()) + rows
        return found


@dataclass(frozen=True)
class Snapshots(Transactions):
    """A table whose snapshots have the writer and micro-batch, committed onto the snapshot that the writer has read."""

    _last: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def write(self, df: Any, batch_id: int | None) -> None:
        rows = tuple(df)
        if batch_id is None or batch_id <= self._last.get(self.writer, -1) or (self.writer not in self._last and not rows):
            return
        for attempt in range(TRIES):
            head = len(self._commits)
            if attempt or self.writer not in self._last:
                self._last[self.writer] = self._last_there(head)
            if batch_id <= self._last[self.writer]:
                return
            self.check()
            self.disk.before(f"commit to {self.name}")
            if len(self._commits) == head:
                self._commits.append((self.writer, batch_id, rows))
                self._last[self.writer] = batch_id
                return
        raise RuntimeError("others add to the table in every moment, which the simulation does not")

    @property
    def _commits(self) -> list[tuple[str, int, tuple[OutputRow, ...]]]:
        return self.disk.places.commits.setdefault(self.name, [])

    def _last_there(self, head: int) -> int:
        snapshots = [
            IcebergSnapshot(place, place - 1 if place else None, place, number if writer == self.writer else None)
            for place, (writer, number, _) in enumerate(self._commits)
        ]
        last = walk(head - 1 if head else None, snapshots).last
        return -1 if last is None else last


@dataclass(frozen=True)
class Records(Place):
    """A topic: rows are appended one by one, with ids that identify them."""

    def write(self, df: Any, batch_id: int | None) -> None:
        self.check()
        there: Counter[str] = Counter()
        for row in df:
            text = json.dumps(row, default=str)
            self.disk.before(f"send a record to {self.name}")
            self.disk.places.records.setdefault(self.name, []).append((self.writer, batch_id or 0, f"{text} {there[text]}", row))
            there[text] += 1

    def read(self) -> dict[int, tuple[OutputRow, ...]]:

        once, found = KafkaDeduplicator(), dict[int, tuple[OutputRow, ...]]()
        for writer, number, id_, row in self.disk.places.records.get(self.name, []):
            if once.takes(self.name, 0, [(WRITER, writer), (BATCH, str(number)), (ID, id_)]):
                found[number] = (*found.get(number, ()), row)
        return found


@dataclass(frozen=True)
class Merged(Place):
    """A table with one row for each key and window."""

    bounds: int = 3
    """The number of leading columns that identify a row."""

    def write(self, df: Any, batch_id: int | None) -> None:
        self.check()
        rows = {row[: self.bounds]: row for row in df}
        if len(rows) != len(df):
            raise AssertionError(f"two rows of a micro-batch are for one key and window: {df}")
        self.disk.before(f"merge into {self.name}")
        last = self.disk.places.merged_last
        if batch_id is not None and batch_id > last.get(self.writer, -1):
            self.disk.places.merged.update(rows)
            last[self.writer] = batch_id


@dataclass(frozen=True)
class Several(Sink):
    """Delivers the rows of an output to several places."""

    sinks: Sequence[Place]

    def describe(self) -> str:
        return ", ".join(sink.name for sink in self.sinks)

    def begin(self, df: Any, batch_id: int) -> None:
        for sink in self.sinks:
            sink.begin(df, batch_id)

    def on_first_commit(self, df: Any) -> None:
        for sink in self.sinks:
            sink.on_first_commit(df)

    def write(self, df: Any, batch_id: int | None) -> None:
        for sink in self.sinks:
            sink.write(df, batch_id)
