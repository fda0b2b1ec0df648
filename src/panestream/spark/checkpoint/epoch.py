"""The runs of a query, as entries in its checkpoint. The newest run holds the checkpoint, and fences all earlier ones.

Each start adds an entry, ``panestream/runs/NUMBER-NAME``, and never changes another, so a crash loses nothing. The run with the
largest number (on a tie, the largest name) holds the checkpoint. All other runs stop at their next check. Spark reads and writes
the entries, so this works on any file system and from a Spark Connect client. If this process sees the same files, it reads them
directly.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from panestream.errors import FencedError, SinkError
from panestream.spark.checkpoint.records import PARTS, list_files, read_markers, write_marker
from panestream.spark.checkpoint.spark_logs import last_committed
from panestream.spark.places import escaped, file_place, local_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUCCESSOR = "successor"
"""The key of the new checkpoint in an entry of the old one."""

RUNS, GAPS, FIRSTS, ENDS = "panestream/runs", "panestream/gaps", "panestream/firsts", "panestream/ends"
"""The folders of a checkpoint with an entry or a record of each run."""

UNKNOWN = -1
"""In a gap record: the micro-batch that the state belongs to is unknown."""

_ENTRY = re.compile(r"(\d{10})-([0-9a-f]+)")
_KEPT = 20
"""The number of newest runs whose entries are kept."""

_BROKEN = (
    "the checkpoint's identity was in it. If there are other entries next to it, delete the folder of this entry, because they "
    "contain the same; otherwise restore the checkpoint from a copy, or start on a new checkpoint with new outputs"
)


Rank = tuple[int, str]
"""A run's number and name. The larger of two ranks was started later."""


@dataclass(frozen=True)
class Epoch:
    """One run of a query, as its entry in the checkpoint. Numbers increase; the random name separates simultaneous starts."""

    checkpoint: str
    number: int
    name: str

    @property
    def rank(self) -> Rank:
        return self.number, self.name

    @property
    def entry(self) -> str:
        """The name of the entry's folder."""
        return f"{self.number:010d}-{self.name}"

    def check(self, spark: SparkSession) -> None:
        """Raise FencedError if a later run holds the checkpoint, or SinkError if this run's entry was deleted or replaced."""
        self.check_holds(self._entries(spark), lambda: (newest_entry(spark, self.checkpoint) or {}).get(SUCCESSOR))

    def check_holds(self, entries: Collection[Rank], successor_of_newest: Callable[[], str | None]) -> None:
        """Apply the rule of :meth:`check` to ``entries``. ``successor_of_newest`` returns a successor's checkpoint, or None."""
        newest = max(entries, default=self.rank)
        if newest > self.rank:
            successor = successor_of_newest()
            if successor is not None:
                raise FencedError(
                    f"another query continues from a savepoint, with the checkpoint {successor}, and writes to the same outputs "
                    f"(as noted in {self.checkpoint}): this run stops, and publishes no more rows"
                )
            raise FencedError(
                f"another copy of this query was started later on the checkpoint {self.checkpoint} (run {newest[0]}, this is "
                f"run {self.number}): this copy stops, and publishes no more rows. Run only one copy for each checkpoint; if "
                f"the other copy is the mistake, stop it and start this copy again"
            )
        if self.rank not in entries:
            raise SinkError(
                f"the checkpoint {self.checkpoint} was deleted or replaced while the query ran (the entry of run {self.number} "
                f"is missing): this run stops. Start the query again to continue from the present checkpoint"
            )

    def registered(self, spark: SparkSession, rank: Rank) -> bool:
        """Return whether the checkpoint has an entry for a run. A restored copy lacks the entries of later runs."""
        return rank in self._entries(spark)

    def write_gap(self, spark: SparkSession, state_of: int) -> None:
        """Record that a micro-batch of this run left the state as it was after ``state_of``."""
        self._leave(spark, GAPS, {"state_of": state_of})

    def write_first(self, spark: SparkSession, batch_id: int) -> None:
        """Record, before the commit, the first micro-batch of this run."""
        self._leave(spark, FIRSTS, {"batch_id": batch_id})

    def write_end(self, spark: SparkSession) -> None:
        """Record that this run has ended, and the last micro-batch that was committed."""
        self._leave(spark, ENDS, {"last": last_committed(spark, self.checkpoint)})

    def _leave(self, spark: SparkSession, kind: str, marker: Mapping[str, Any]) -> None:
        runs = self._seen_here()
        folder = None if runs is None else runs.with_name(Path(kind).name) / self.entry
        write_marker(spark, f"{self.checkpoint}/{kind}/{self.entry}", marker, folder)

    def forget_old(self) -> None:
        """Delete the entries of old runs if this process sees the files."""
        runs = self._seen_here()
        if runs is not None:
            folders = [runs.with_name(Path(kind).name) for kind in (RUNS, GAPS, FIRSTS, ENDS)]
            for path in [path for folder in folders if folder.is_dir() for path in folder.iterdir()]:
                entry = _ENTRY.fullmatch(path.name)
                if entry and int(entry.group(1)) < self.number - _KEPT:
                    shutil.rmtree(path, ignore_errors=True)

    @property
    def is_local(self) -> bool:
        """True if the checkpoint of a registered run is on a file system of this machine."""
        return self._seen_here() is not None

    def _entries(self, spark: SparkSession) -> set[Rank]:
        runs = self._seen_here()
        if runs is None:
            # Numbers are consecutive: if a larger one exists, so does the next. Spark lists a few paths without a job.
            near = f"{{{self.number:010d},{self.number + 1:010d}}}-*"
            return set(ranks_of(list_files(spark, _entries_pattern(self.checkpoint, near))))
        # An interrupted start leaves a folder without a part file. It never held the checkpoint.
        return set(ranks_of(path.as_posix() for path in runs.glob(f"*/{PARTS}")))

    def _seen_here(self) -> Path | None:
        """Return the folder of the entries, or None if this process does not see an entry there with this run's random name."""
        folder = local_folder(file_place(self.checkpoint))
        runs = None if folder is None else folder / RUNS
        return runs if runs is not None and (runs / self.entry).is_dir() else None


def planner_of(planned: Mapping[Rank, int], number: int) -> Rank | None:
    """Return the last run that did not find micro-batch ``number`` planned. ``planned`` has the last one at each start."""
    return max((rank for rank, last in planned.items() if last < number), default=None)


def newest_entry(spark: SparkSession, checkpoint: str, batch_id: int | None = None) -> Mapping[str, Any] | None:
    """Return the entry of the newest run, or of the run that committed ``batch_id``. None if no run was ever started.

    The entries of old runs are deleted. For their micro-batches, return the oldest remaining entry.
    """
    entries = read_entries(spark, checkpoint)
    if batch_id is None or not entries:
        return entries[max(entries)] if entries else None
    begun = [rank for rank, marker in entries.items() if marker["after"] < batch_id]
    return entries[max(begun, default=min(entries))]


def read_entries(spark: SparkSession, checkpoint: str) -> dict[Rank, dict[str, Any]]:
    """Return the entries of all runs."""
    markers = read_markers(spark, _entries_pattern(checkpoint), _BROKEN)
    return {rank: marker for path, marker in markers.items() for rank in ranks_of([path])}


def in_order(entries: Mapping[Rank, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of runs, oldest first."""
    return [entries[rank] for rank in sorted(entries)]


def address_of(spark: SparkSession, checkpoint: str) -> str:
    """Return the checkpoint's folder for processes elsewhere: a relative path is resolved as Spark resolves it here."""
    if checkpoint.startswith("/") or urlsplit(checkpoint).scheme:
        return checkpoint
    entries = list_files(spark, _entries_pattern(checkpoint))
    return unquote(entries[0]).split(f"/{RUNS}/", maxsplit=1)[0] if entries else checkpoint


def _entries_pattern(checkpoint: str, names: str = "*") -> str:
    return f"{escaped(checkpoint)}/{RUNS}/{names}/{PARTS}"


def ranks_of(paths: Iterable[str]) -> list[Rank]:
    """Return the runs that these files are entries of."""
    entries = [_ENTRY.fullmatch(path.split("/")[-2]) for path in paths]
    return [(int(entry.group(1)), entry.group(2)) for entry in entries if entry]
