"""A savepoint that is there: what it says of itself, and its tables as DataFrames."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from panestream.engine.explain import listed
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.savepoint.migration import Migrations
from panestream.engine.savepoint.plans import plan_of
from panestream.engine.storage.state import MemoryState
from panestream.errors import CheckpointError
from panestream.inspection.asked import Asked
from panestream.inspection.merging import Looked
from panestream.inspection.summary import Summary
from panestream.spark.places import FilePath, escaped, path_of
from panestream.spark.savepoint.beginning import unread
from panestream.spark.savepoint.birth import Birth
from panestream.spark.savepoint.manifest import Manifest, read_manifest, table_folder
from panestream.spark.savepoint.pieces import with_group
from panestream.spark.savepoint.positions import FILES, SourcePosition
from panestream.spark.savepoint.positions import of_saved as positions_of
from panestream.spark.savepoint.shown_state import ShownState
from panestream.spark.savepoint.summarizing import summary_of_saved
from panestream.spark.savepoint.whole import Part, check_whole
from panestream.spark.succession import of_saved
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Savepoint(ShownState):
    """The state of a query, taken out of its checkpoint; see :func:`savepoint` and :func:`read_savepoint`.

    Attributes:
        path: the folder.
        manifest: what it says of itself.
    """

    path: str
    manifest: Manifest
    spark: SparkSession = field(repr=False)
    migrate: Migrations = field(default_factory=dict, repr=False, compare=False)
    """What a query that starts from it makes of values of users' own."""
    allow_pickled_state: bool = field(default=False, repr=False, compare=False)
    """Whether pickles in it are read where it is looked at. A query that starts from it says so itself."""

    @property
    def plan(self) -> WindowPlan:
        """The plan of the query that it was taken from: of functions of users' own the names alone."""
        return plan_of(self.manifest.saved_plan, pickles=self.allow_pickled_state)

    @property
    def batch_id(self) -> int | None:
        """After which micro-batch it was taken; None: it was made of history."""
        return self.manifest.batch_id

    @property
    def has_checksums(self) -> bool:
        """Whether it says what is in each of its files; savepoints of earlier panestreams do not."""
        return bool(self.manifest.checksums) or not any(self.manifest.tables.values())

    @property
    def birth(self) -> Birth:
        """What a checkpoint says of itself that begins with it."""
        manifest = self.manifest
        return Birth(manifest.name, self.path, of_saved(manifest.succession), manifest.sources, until=manifest.until)

    @cached_property
    def positions(self) -> tuple[SourcePosition, ...]:
        """How far each source of the query was read, in Spark's order; empty: it was made of history."""
        return tuple(positions_of(self.manifest.sources))

    def source_options(self, source: int = 0) -> dict[str, str]:
        """The options by which a stream begins where a source of the old query ended, for ``spark.readStream.options(**…)``.

        ``startingOffsets`` of Kafka (for ``pst.from_kafka`` that is ``starting``), ``startingVersion`` of Delta. None of files,
        of which ``start(savepoint=)`` leaves out those that were read.

        Args:
            source: its number, in Spark's order: 0 is the only one, or the first.

        Raises:
            CheckpointError: there is no such source; it cannot begin there (Delta in the midst of a version, Iceberg, sources
                that are not known): says what to do.
        """
        return self._position(source).options()

    def unread(self, df: DataFrame, source: int = 0) -> DataFrame:
        """The rows of a stream of files, without those of files that a source of the old query had read.

        ``start(savepoint=)`` does this by itself. It cannot where a row no longer says its file: behind a union, an aggregation
        or a Python function, or where two streams are joined. Then do it where the files are read, and give ``start``
        ``source_offsets='job'``. Spark lists files that were read as new ones, once: this must be there until it has listed all
        of them.

        Args:
            df: the stream, ``spark.readStream…load(…)``.
            source: its number; of a join the left stream's is 0, the right one's 1.

        Raises:
            CheckpointError: there is no such source of files; the rows do not say their file.
        """
        position = self._position(source)
        if position.kind != FILES:
            raise CheckpointError(f"source {source} of the savepoint {self.path} is of {position.kind}, not of files")
        return unread(self.spark, df, self.path, position)

    def _position(self, source: int) -> SourcePosition:
        if not 0 <= source < len(self.positions):
            known = f"has {len(self.positions)}, from 0" if self.positions else "knows of none: it was made of history"
            raise CheckpointError(f"there is no source {source}: the savepoint {self.path} {known}")
        return self.positions[source]

    def table(self, name: str) -> DataFrame:
        """The rows of a state table: ``key_group``, then its columns (decision 0140).

        Raises:
            CheckpointError: there is none of that name.
        """
        if name not in self.manifest.tables:
            raise CheckpointError(f"the savepoint has no table {name!r}, only {', '.join(self.manifest.tables)}")
        plan = self.plan
        schema = plan.operator.for_group(plan, MemoryState(), 0).tables().table(name).schema
        folder = table_folder(escaped(self.path), name)
        return self.spark.read.schema(spark_schema(with_group(schema))).parquet(folder)

    def check_whole(self) -> None:
        """Refuses a savepoint whose state is not what was written: rows are missing, there twice, or were changed.

        Of one without checksums (:attr:`has_checksums`) only the rows are counted.

        Raises:
            StateDamagedError: says which table and file, and what to do.
        """
        sums = self.manifest.checksums
        parts = {f"state/{name}": Part(rows, sums.get(name, {})) for name, rows in self.manifest.tables.items()}
        check_whole(f"the savepoint {self.path}", parts, lambda part: self.table(part.removeprefix("state/")))

    def _summary(self, asked: Asked) -> Summary:
        self.check_whole()
        tables = {name: self.table(name) for name in self.manifest.tables}
        looked = Looked(self.path, self.batch_id, None, time.time_ns() // 1000)
        return summary_of_saved(self.plan, self.manifest.headers, tables, asked, looked)

    def _parts(self) -> Mapping[str, str]:
        manifest = self.manifest
        return {
            "savepoint": self.path,
            "micro-batch": "" if manifest.batch_id is None else str(manifest.batch_id),
            "windows": stable_repr(self.plan.assigner),
            "key": listed(self.plan.key_names) or "none",
            "key groups": str(manifest.groups),
            "taken": manifest.taken_at,
            "checksums": "of each file" if self.has_checksums else "none: only its rows can be counted",
        }


def read_savepoint(spark: SparkSession, path: FilePath, *, allow_pickled_state: bool = False) -> Savepoint:
    """Looks at a savepoint.

    Args:
        spark: a session, classic or Spark Connect's.
        path: its folder.
        allow_pickled_state: whether pickles in it are read, which runs what is in them: for savepoints of queries with
            ``.options(allow_pickled_state=True)``, where nobody else can write to them.

    Raises:
        CheckpointError: there is none, or one that was broken off.
        StateFormatError: a newer panestream wrote it.
        StateDamagedError: its manifest cannot be read.
    """
    folder = path_of(path, "a savepoint is a folder", CheckpointError)
    return Savepoint(folder, read_manifest(spark, folder), spark, allow_pickled_state=allow_pickled_state)


__all__ = ["Savepoint", "read_savepoint"]
