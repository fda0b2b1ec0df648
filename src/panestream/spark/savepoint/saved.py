"""Read a savepoint: its manifest, and its tables as DataFrames."""

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
from panestream.inspection.asked import StateFilter
from panestream.inspection.merging import Looked
from panestream.inspection.summary import Summary
from panestream.spark.checkpoint.lineage import RestoredFrom, lineage_of_saved
from panestream.spark.places import FilePath, escaped, path_of
from panestream.spark.savepoint.beginning import unread
from panestream.spark.savepoint.manifest import SavepointManifest, read_manifest, table_folder
from panestream.spark.savepoint.pieces import with_group
from panestream.spark.savepoint.positions import FILES, SourcePosition
from panestream.spark.savepoint.positions import of_saved as positions_of
from panestream.spark.savepoint.shown_state import ShownState
from panestream.spark.savepoint.summarizing import summary_of_saved
from panestream.spark.savepoint.whole import Part, check_whole
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Savepoint(ShownState):
    """The state of a query, saved outside of its checkpoint; see :func:`savepoint` and :func:`read_savepoint`.

    ``path`` is the folder and ``manifest`` its description.
    """

    path: str
    manifest: SavepointManifest
    spark: SparkSession = field(repr=False)
    migrate: Migrations = field(default_factory=dict, repr=False, compare=False)
    """Conversions of user values for a query that starts from the savepoint."""
    allow_pickled_state: bool = field(default=False, repr=False, compare=False)
    """True if pickles may be read to inspect it. A query that starts from it has its own setting."""

    @property
    def plan(self) -> WindowPlan:
        """The plan of the saved query. User functions are present only by name."""
        return plan_of(self.manifest.saved_plan, pickles=self.allow_pickled_state)

    @property
    def batch_id(self) -> int | None:
        """The micro-batch after which it was taken, or None if it was made of history."""
        return self.manifest.batch_id

    @property
    def has_checksums(self) -> bool:
        """True if its files have checksums. Savepoints of earlier panestreams do not."""
        return bool(self.manifest.checksums) or not any(self.manifest.tables.values())

    @property
    def restored_from(self) -> RestoredFrom:
        """The record of this savepoint in a checkpoint that begins with it."""
        manifest = self.manifest
        return RestoredFrom(
            manifest.name, self.path, lineage_of_saved(manifest.succession), manifest.sources, until=manifest.until
        )

    @cached_property
    def positions(self) -> tuple[SourcePosition, ...]:
        """The position of each source of the query, in Spark's order. Empty if it was made of history without a position."""
        return tuple(positions_of(self.manifest.sources))

    def source_options(self, source: int = 0) -> dict[str, str]:
        """Return the options for ``spark.readStream.options(**…)`` with which a stream begins at the end of an old source.

        These are ``startingOffsets`` for Kafka (``starting`` in ``pst.from_kafka``) and ``startingVersion`` for Delta. Files do
        not need options, as ``start(savepoint=)`` excludes the files that were read.

        Args:
            source: its number in Spark's order, from 0.

        Raises:
            CheckpointError: the source does not exist, or cannot begin there (Delta within a version, Iceberg, unknown sources).
                The message has the way out.
        """
        return self._position(source).options()

    def unread(self, df: DataFrame, source: int = 0) -> DataFrame:
        """Return a stream of files without the rows of files that a source of the old query had read.

        ``start(savepoint=)`` does this itself, unless rows no longer have their file: after a union, an aggregation or a Python
        function, or in a join of two streams. Then call this where the files are read, and pass ``source_offsets='job'`` to
        ``start``. Spark lists the files that were read as new ones once. Keep the savepoint until it has listed all of them.

        Args:
            df: the stream, ``spark.readStream…load(…)``.
            source: its number. In a join the left stream is 0 and the right one 1.

        Raises:
            CheckpointError: the source does not exist or is not of files, or the rows do not have their file.
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
        """Return a state table as ``key_group`` and its columns (decision 0140); raises CheckpointError for an unknown name."""
        if name not in self.manifest.tables:
            raise CheckpointError(f"the savepoint has no table {name!r}, only {', '.join(self.manifest.tables)}")
        plan = self.plan
        schema = plan.operator.for_group(plan, MemoryState(), 0).tables().table(name).schema
        folder = table_folder(escaped(self.path), name)
        return self.spark.read.schema(spark_schema(with_group(schema))).parquet(folder)

    def check_whole(self) -> None:
        """Raise StateDamagedError with table, file and way out if rows are missing, duplicated or changed.

        Without checksums (:attr:`has_checksums`) it only counts the rows.
        """
        sums = self.manifest.checksums
        parts = {f"state/{name}": Part(rows, sums.get(name, {})) for name, rows in self.manifest.tables.items()}
        check_whole(f"the savepoint {self.path}", parts, lambda part: self.table(part.removeprefix("state/")))

    def _summary(self, asked: StateFilter) -> Summary:
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
    """Read a savepoint.

    Args:
        spark: a classic or Spark Connect session.
        path: its folder.
        allow_pickled_state: whether to read pickles, which runs the code in them. Only for savepoints of queries with
            ``.options(allow_pickled_state=True)`` that nobody else can write to.

    Returns:
        The savepoint.

    Raises:
        CheckpointError: the folder is not a savepoint, or an unfinished one.
        StateFormatError: a newer panestream wrote it.
        StateDamagedError: its manifest cannot be read.
    """
    folder = path_of(path, "a savepoint is a folder", CheckpointError)
    return Savepoint(folder, read_manifest(spark, folder), spark, allow_pickled_state=allow_pickled_state)


__all__ = ["Savepoint", "read_savepoint"]
