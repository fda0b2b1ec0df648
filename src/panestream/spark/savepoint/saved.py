"""Savepoints: take one, read one, and the object with its manifest and its tables as DataFrames."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from panestream.engine.explain import listed
from panestream.engine.inspection.merge import StateOrigin
from panestream.engine.inspection.reduce import StateFilter
from panestream.engine.inspection.summary import Summary
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.savepoint.key_groups import header_of_all
from panestream.engine.savepoint.migration import Migrations
from panestream.engine.savepoint.operators import NamedPlan, default_name, match_operators
from panestream.engine.savepoint.plans import plan_of
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import CheckpointError, PlanMismatchError, StateDamagedError, did_you_mean
from panestream.spark.checkpoint.lease import lineage_of
from panestream.spark.checkpoint.lineage import RestoredFrom, lineage_of_saved
from panestream.spark.compat import without_pandas
from panestream.spark.failures import as_ours, writing
from panestream.spark.places import FilePath, escaped, path_of
from panestream.spark.savepoint.decode import (
    StoredState,
    explain_read_errors,
    rows_of_chunks,
    summary_of_saved,
    with_key_group,
)
from panestream.spark.savepoint.inspectable_state import InspectableState
from panestream.spark.savepoint.integrity import FileSums, WrittenPart, file_sums, total, verify
from panestream.spark.savepoint.locate import check_only_ours, locate
from panestream.spark.savepoint.manifest import (
    SavepointManifest,
    check_free,
    read_manifest,
    state_folder,
    table_folder,
    versions,
    write_manifest,
)
from panestream.spark.savepoint.read import stored_operator
from panestream.spark.savepoint.source_offsets import FILES, SourcePosition, save_positions, without_read_files
from panestream.spark.savepoint.source_offsets import positions_of_saved as positions_of
from panestream.spark.savepoint.validate import validate
from panestream.spark.session import ARROW_BYTES, ARROW_ROWS, session_settings
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Savepoint(InspectableState):
    """The state of a query, saved outside of its checkpoint; see :func:`savepoint` and :func:`read_savepoint`.

    ``path`` is the folder and ``manifest`` its description.

    >>> saved = pst.state.read_savepoint(spark, saved_path)
    >>> saved.plan.key_names, saved.has_checksums
    (('user',), True)
    """

    path: str
    manifest: SavepointManifest
    spark: SparkSession = field(repr=False)
    migrate: Migrations = field(default_factory=dict, repr=False, compare=False)
    """Conversions of user values for a query that starts from the savepoint."""
    allow_pickled_state: bool = field(default=False, repr=False, compare=False)
    """True if pickles may be read to inspect it. A query that starts from it has its own setting."""
    folder: str = field(default=state_folder(), repr=False)
    """The folder of the operator's tables in ``path``."""
    operators: tuple[str, ...] = field(default=(default_name(1),), repr=False)
    """The names of all operators of the saved query, the first one first."""
    whole: Savepoint | None = field(default=None, repr=False, compare=False)
    """The savepoint, which is of the last operator, if this is of one before it."""

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

    def operator(self, uid: str) -> Savepoint:
        """Return the state of another operator of the saved query, by its name; raises CheckpointError for an unknown one.

        >>> pst.state.read_savepoint(spark, saved_path).operators
        ('operator-1',)
        """
        whole = self.whole or self
        if uid == self.operators[-1]:
            return whole
        number = next((number for number, each in enumerate(whole.manifest.operators) if each["uid"] == uid), None)
        if number is None:
            raise CheckpointError(f"the savepoint {self.path} has no operator {uid!r}; {did_you_mean(uid, self.operators)}")
        manifest = replace(whole.manifest, **whole.manifest.operators[number])
        return replace(whole, manifest=manifest, folder=state_folder(number), whole=whole)

    def of_operators(self, chain: Sequence[NamedPlan], *, may_drop: bool) -> dict[str, Savepoint]:
        """Return the state of each operator of a query that the savepoint has, by its name in the query.

        Raises PlanMismatchError if the query lacks an operator of the savepoint, unless ``may_drop``.
        """
        unnamed = not self.manifest.uid
        saved = [NamedPlan("" if unnamed else uid, self.operator(uid).manifest.plan) for uid in self.operators]
        found = match_operators(saved, chain, may_drop=may_drop)
        return {name: self if unnamed else self.operator(uid) for name, uid in found.items()}

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
        return without_read_files(self.spark, df, self.path, position)

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
        folder = table_folder(escaped(self.path), name, self.folder)
        return self.spark.read.schema(spark_schema(with_key_group(schema))).parquet(folder)

    def check_whole(self) -> None:
        """Raise StateDamagedError with table, file and way out if rows are missing, duplicated or changed.

        Without checksums (:attr:`has_checksums`) it only counts the rows.
        """
        sums = self.manifest.checksums
        parts = {f"{self.folder}/{name}": WrittenPart(rows, sums.get(name, {})) for name, rows in self.manifest.tables.items()}
        verify(f"the savepoint {self.path}", parts, lambda part: self.table(part.removeprefix(f"{self.folder}/")))

    def _summary(self, state_filter: StateFilter) -> Summary:
        self.check_whole()
        tables = {name: self.table(name) for name in self.manifest.tables}
        origin = StateOrigin(self.path, self.batch_id, None, time.time_ns() // 1000)
        return summary_of_saved(self.plan, self.manifest.headers, tables, state_filter, origin)

    def _parts(self) -> Mapping[str, str]:
        manifest = self.manifest
        return {
            "savepoint": self.path,
            **({"operator": f"{manifest.uid}, of {listed(self.operators)}"} if len(self.operators) > 1 else {}),
            "micro-batch": "" if manifest.batch_id is None else str(manifest.batch_id),
            "windows": stable_repr(self.plan.assigner),
            "key": listed(self.plan.key_names) or "none",
            "key groups": str(manifest.groups),
            "taken": manifest.taken_at,
            "checksums": "of each file" if self.has_checksums else "none: only its rows can be counted",
        }


def read_savepoint(
    spark: SparkSession, path: FilePath, *, operator: str | None = None, allow_pickled_state: bool = False
) -> Savepoint:
    """Read a savepoint.

    Args:
        spark: a classic or Spark Connect session.
        path: its folder.
        operator: the name of the operator to read (``.uid(...)``), in a savepoint of several. None is the last.
        allow_pickled_state: whether to read pickles, which runs the code in them. Only for savepoints of queries with
            ``.options(allow_pickled_state=True)`` that nobody else can write to.

    Returns:
        The savepoint.

    Raises:
        CheckpointError: the folder is not a savepoint, or an unfinished one, or it does not have the operator.
        StateFormatError: a newer panestream wrote it.
        StateDamagedError: its manifest cannot be read.

    Examples:
        >>> pst.state.read_savepoint(spark, saved_path).batch_id
        0
    """
    folder = path_of(path, "a savepoint is a folder", CheckpointError)
    manifest = read_manifest(spark, folder)
    saved = Savepoint(folder, manifest, spark, allow_pickled_state=allow_pickled_state, operators=manifest.uids)
    return saved if operator is None else saved.operator(operator)


_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", ARROW_ROWS: "64", ARROW_BYTES: str(64 << 20)}
"""Parquet's type of times, for other tools that read them, and smaller batches to Python, since rows are large here."""


def _ignore(_step: str) -> None:
    pass


def savepoint(
    spark: SparkSession,
    checkpoint: FilePath,
    path: FilePath,
    batch_id: int | None = None,
    *,
    allow_pickled_state: bool = False,
) -> Savepoint:
    """Take a savepoint: write the state of a query as Parquet, for another query to start from.

    It holds the state of all operators of the query. The job's code is not needed. The job may run meanwhile and continue
    afterwards. A query that starts from the savepoint gets all later rows too, so stop the old query first if both write to the
    same places.

    Args:
        spark: a classic or Spark Connect session.
        checkpoint: the checkpoint.
        path: an empty folder. It becomes a savepoint only when everything is written, so an interrupted call leaves none.
        batch_id: the micro-batch after which to take it, or None for the last committed one.
        allow_pickled_state: whether to read pickles, which runs the code in them. Only for queries with
            ``.options(allow_pickled_state=True)`` whose checkpoint nobody else can write to.

    Returns:
        The savepoint, as from :func:`read_savepoint`.

    Raises:
        CheckpointError: the checkpoint or micro-batch does not exist, or the folder is not empty. Also if the query has stateful
            operators of Spark, or operators that ``start`` did not know, which the savepoint would not contain.
        StateDamagedError: the state of a key group is missing or cannot be read.
        StateFormatError: a newer panestream wrote it.

    Examples:
        >>> saved = pst.savepoint(spark, checkpoint, folder + "/saved")
        >>> saved.batch_id, saved.plan.key_names
        (0, ('user',))
    """
    return take(spark, checkpoint, path, batch_id, _ignore, allow_pickled_state=allow_pickled_state)


def take(
    spark: SparkSession,
    checkpoint: FilePath,
    path: FilePath,
    batch_id: int | None,
    report_step: Callable[[str], Any],
    *,
    allow_pickled_state: bool = False,
) -> Savepoint:
    """Take a savepoint as :func:`savepoint`, and describe each step to ``report_step`` when it begins."""
    checkpoint = path_of(checkpoint, "a savepoint is taken of a checkpoint, a folder", CheckpointError)
    path = path_of(path, "a savepoint needs a folder", CheckpointError)
    report_step(f"looking into {checkpoint}")
    found = locate(spark, checkpoint, batch_id)
    validate(found, None)
    check_free(spark, path)
    check_only_ours(spark, checkpoint)
    stored = [stored_operator(found, uid, pickles=allow_pickled_state) for uid in found.uids]
    manifest = SavepointManifest(
        saved_plan=found.entry["plan"],
        headers=[],
        tables={},
        uid=found.entry.get("uid", ""),
        operators=[
            {"uid": each["uid"], "saved_plan": each["plan"], **_write_stored(path, number, stored[number], report_step)}
            for number, each in enumerate(found.before)
        ],
        batch_id=found.batch_id,
        checkpoint=checkpoint,
        succession=lineage_of(spark, checkpoint, found.batch_id).as_saved(),
        sources=save_positions(spark, checkpoint, found.batch_id, path, signals=bool(found.entry.get("signals"))),
    )
    return replace(
        _finished(spark, path, manifest, _write_stored(path, None, stored[-1], report_step)),
        allow_pickled_state=allow_pickled_state,
    )


def _write_stored(path: str, number: int | None, stored: StoredState, report_step: Callable[[str], Any]) -> dict[str, Any]:
    """Write the state of one operator of a checkpoint; ``number`` is that of its folder, None for the last."""
    with explain_read_errors(stored):
        made = stored.headers(), stored.tables()
        return _write_tables(stored.spark, path, state_folder(number), stored.plan, *made, report_step)


def write_savepoint(
    spark: SparkSession,
    path: str,
    plan: WindowPlan,
    headers: DataFrame,
    tables: DataFrame,
    manifest: SavepointManifest,
    report_step: Callable[[str], Any] = _ignore,
) -> Savepoint:
    """Write tables, then the manifest, into an empty folder.

    ``headers`` and ``tables`` are of all key groups, as :data:`~panestream.spark.savepoint.decode.HEADERS` and ``TABLE_PARTS``.
    They complete the manifest, with versions and the time. ``report_step`` gets a description of each step when it begins. Raises
    StateDamagedError if a key group is missing, or key groups are of several micro-batches.
    """
    return _finished(spark, path, manifest, _write_tables(spark, path, state_folder(), plan, headers, tables, report_step))


def _finished(spark: SparkSession, path: str, manifest: SavepointManifest, written: Mapping[str, Any]) -> Savepoint:
    """Write the manifest, with what :func:`_write_tables` returned for the last operator."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    whole = replace(manifest, **written, versions=versions(spark), taken_at=now)
    write_manifest(spark, path, whole)
    return Savepoint(path, whole, spark, operators=whole.uids)


def _write_tables(
    spark: SparkSession,
    path: str,
    folder: str,
    plan: WindowPlan,
    headers: DataFrame,
    tables: DataFrame,
    report_step: Callable[[str], Any],
) -> dict[str, Any]:
    """Write the tables of one operator, and return its ``headers``, ``tables`` and ``checksums`` for the manifest."""
    with as_ours():
        report_step("reading the state")
        found = _headers_by_group(headers, plan)
    _check_together(found)
    empty = no_state(plan)
    # Disk, because each table is a pass over all rows, and the state may be larger than the memory.
    parts = tables.select("key_group", "table", "body").persist(StorageLevel.DISK_ONLY)
    written: dict[str, int] = {}
    checksums: dict[str, FileSums] = {}
    try:
        with session_settings(spark, _SETTINGS), without_pandas(), as_ours():
            for name, table in empty.tables.items():
                report_step(f"writing {name} ({len(written) + 1} of {len(empty.tables)})")
                mine = parts.where(F.col("table") == name).select("key_group", "body")
                rows = mine.mapInArrow(rows_of_chunks(table.schema), spark_schema(with_key_group(table.schema)))
                with writing(path):
                    rows.write.mode("overwrite").parquet(table_folder(path, name, folder))
                there = spark.read.schema(rows.schema).parquet(table_folder(escaped(path), name, folder))
                checksums[name] = file_sums(there)
                written[name], _ = total(checksums[name])
    finally:
        parts.unpersist()
    return {"headers": found, "tables": written, "checksums": checksums}


def no_state(plan: WindowPlan, group: int = 0) -> StateTables:
    """Return the state tables of an empty key group: names, columns and the initial header."""
    return plan.operator.for_group(plan, MemoryState(), group).tables()


def _check_together(headers: Sequence[Mapping[str, Any]]) -> None:
    """Refuse key groups of several micro-batches."""
    try:
        header_of_all(headers)
    except PlanMismatchError:
        return  # their headers differ: they can only start with the same number of key groups


def _headers_by_group(headers: DataFrame, plan: WindowPlan) -> list[Mapping[str, Any]]:
    """Return the headers, which are small, in the order of key groups."""
    found = {row.key_group: json.loads(row.header) for row in headers.collect()}
    if not found:
        # No row has arrived yet. The first row calls all key groups, which then get their time.
        found = {group: no_state(plan, group).header for group in range(plan.groups)}
    gone = next((group for group in range(plan.groups) if group not in found), None)
    if gone is not None:
        raise StateDamagedError(f"the state of key group {gone} is missing: only {len(found)} of {plan.groups} exist", gone)
    return [found[group] for group in range(plan.groups)]
