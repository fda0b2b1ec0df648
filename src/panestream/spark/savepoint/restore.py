"""Start a query from a savepoint: check that it can, and convert the savepoint to initial entries of Spark's state.

Saved rows go to their new key groups by the expression that the stream uses. For each key group the operator itself writes its
state into memory, and each entry becomes a row for Spark's state. The executors do this, and the processor only stores entries,
so the driver needs little memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.engine.kernels.columns import Ints, key_fields
from panestream.engine.plan import WindowPlan, check_taken_over
from panestream.engine.savepoint.key_groups import header_of_all, new_groups, put_together
from panestream.engine.savepoint.migration import Migrations, check_added, check_migrations, migrated, migrated_identity
from panestream.engine.savepoint.operators import NamedPlan, migrations_by_operator
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import CheckpointError, InvalidPlanError, PlanMismatchError, warn
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.checkpoint.spark_logs import last_committed
from panestream.spark.columns import quoted
from panestream.spark.compat import group_values, without_pandas
from panestream.spark.failures import as_ours, without_internal_traceback
from panestream.spark.savepoint.decode import CHUNKS, BatchFunction, chunks_of_rows, table_in
from panestream.spark.savepoint.saved import Savepoint, read_savepoint
from panestream.spark.session import session_settings, settings_for
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEW_STATE = pa.schema(
    [
        pa.field("group", pa.int32()),
        pa.field("space", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("value", pa.binary()),
    ]
)
"""Spark's integer for the key group, and an entry of its state.

Without a space the number is Spark's timer that wakes up the key group, in milliseconds. Other columns are never null, because
pandas would convert nullable integers to fractions.
"""
REFUSALS = pa.schema([("why", pa.string())])
"""The reason why the rows of a key group cannot be restored."""
_BATCH_BYTES = 4 << 20
"""The approximate size of an outgoing Arrow batch."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The new query's plan, and the parts of a savepoint that are not rows. ``headers`` are of the old key groups."""

    plan: WindowPlan
    headers: tuple[Mapping[str, Any], ...]
    empty: Mapping[str, pa.Table]
    migrate: Migrations

    @classmethod
    def of(cls, savepoint: Savepoint, plan: WindowPlan) -> RestorePlan:
        manifest = savepoint.manifest
        old = manifest.plan
        empty = old.operator.for_group(old, MemoryState(), 0).tables().tables
        return cls(plan, tuple(manifest.headers), {name: empty[name] for name in manifest.tables}, savepoint.migrate)

    def state_of(self, group: int, parts: Iterable[Mapping[str, pa.Table]]) -> tuple[MemoryState, int | None]:
        """Return the state of a new key group from its rows, and Spark's timer that wakes it up, in milliseconds or None.

        Raises:
            PlanMismatchError: the plan cannot restore it.
            StateDamagedError: the old key groups are not of one micro-batch.
        """
        same = len(self.headers) == self.plan.groups
        saved = put_together(self.headers[group] if same else header_of_all(self.headers), parts, group)
        tables = {**self.empty, **saved.tables}
        state = MemoryState()
        header = self.headers[group] if same else saved.header
        changed = migrated(StateTables(header, tables), self.migrate, self.plan)
        wake_up = self.plan.operator.for_group(self.plan, state, group).restore(changed)
        # As in the processor: a timer is due once the clock has passed it.
        return state, None if wake_up is None or not self.plan.wakes_up else wake_up // self.plan.ticks + 1


def initial_state(savepoint: Savepoint, plan: WindowPlan) -> DataFrame:
    """Return the initial entries of a query's state as in :data:`NEW_STATE`, at least the meta record of each key group.

    The plan must have passed :func:`~panestream.spark.savepoint.restore.check_start`.
    """
    return _made_of(savepoint, plan, Restore(RestorePlan.of(savepoint, plan)).__call__, NEW_STATE)


def refusal(savepoint: Savepoint, plan: WindowPlan) -> str | None:
    """Run a Spark job that returns why the new plan cannot restore the saved rows, or None if it can.

    The reason is returned as a row, because Spark would retry a failing task four times and log every stack trace.
    """
    found = _made_of(savepoint, plan, Restore(RestorePlan.of(savepoint, plan)).refusals, REFUSALS).collect()
    return found[0].why if found else None


def _made_of(savepoint: Savepoint, plan: WindowPlan, made: BatchFunction, schema: pa.Schema) -> DataFrame:
    """Return the result of a function over the saved rows, in pieces by their new key groups."""
    manifest = savepoint.manifest
    with without_pandas():
        pieces = [_pieces(savepoint, plan, name) for name in manifest.tables]
        # Each key group has a row, even without rows in the tables.
        none = [F.col("id").cast("int").alias("key_group"), F.lit(None).cast("string").alias("table")]
        every = savepoint.spark.range(0, plan.groups, 1, 1).select(*none, F.lit(None).cast("binary").alias("body"))
        together = reduce(DataFrame.unionAll, pieces, every)
        # By the integer that Spark places on the partition with the group's number, as in the query.
        values = F.array(*map(F.lit, group_values(plan.groups)))
        placed = together.withColumn("group", values[F.col("key_group")]).repartition(plan.groups, "group")
        return placed.sortWithinPartitions("key_group").mapInArrow(made, spark_schema(schema))


def _pieces(savepoint: Savepoint, plan: WindowPlan, name: str) -> DataFrame:
    """Return the rows of one table in pieces, by their new key groups."""
    table = savepoint.table(name)
    # mapInArrow reads a dot in a column's name as a field of a struct.
    names = table.columns[1:]
    columns = [F.col(quoted(each)).alias(f"column_{place}") for place, each in enumerate(names)]
    placed = table.select(_new_group(plan, savepoint.manifest.groups).cast("int").alias("key_group"), *columns)
    return placed.mapInArrow(chunks_of_rows(name, names), spark_schema(CHUNKS))


def _new_group(plan: WindowPlan, old_groups: int) -> Column:
    """Compute the new key group of a saved row by Spark's hash, as :func:`~panestream.engine.savepoint.key_groups.new_groups`."""
    came_from = F.col("key_group")
    if plan.groups == old_groups:
        return came_from
    keys = [F.col(quoted(field.name)) for field in key_fields(plan.key_schema)]

    def placed(groups: int) -> Column:
        return F.pmod(F.xxhash64(*keys), F.lit(groups)) if keys and groups > 1 else F.lit(0)

    if plan.split is None:
        return placed(plan.groups)
    part = F.pmod(came_from - placed(old_groups), F.lit(old_groups))
    return F.pmod(placed(plan.groups) + part, F.lit(plan.groups))


class Restore:
    """The function for ``mapInArrow`` that makes state of pieces, one key group at a time. They must be sorted by key group."""

    def __init__(self, taken: RestorePlan) -> None:
        self._taken = taken

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group, pieces in _by_group(batches):
            yield from self._entries(group, pieces)

    def refusals(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row of :data:`REFUSALS` for each key group that cannot be restored."""
        for group, pieces in _by_group(batches):
            try:
                self._state_of(group, pieces)
            except PlanMismatchError as error:
                yield pa.RecordBatch.from_pylist([{"why": str(error)}], schema=REFUSALS)

    def _state_of(self, group: int, pieces: list[tuple[str, bytes]]) -> tuple[MemoryState, int | None]:
        with without_internal_traceback():
            return self._taken.state_of(group, ({name: table_in(body)} for name, body in pieces))

    def _entries(self, group: int, pieces: list[tuple[str, bytes]]) -> Iterator[pa.RecordBatch]:
        state, wake_up = self._state_of(group, pieces)
        pieces.clear()
        name = group_values(self._taken.plan.groups)[group]
        rows: list[tuple[Any, ...]] = [] if wake_up is None else [(name, None, wake_up, b"")]
        size = 0
        for space, number in list(state.values):
            value = state.values.pop((space, number))
            rows.append((name, space, number, value))
            size += len(value)
            if size >= _BATCH_BYTES:
                yield _batch(rows)
                rows, size = [], 0
        yield _batch(rows)


def _by_group(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[tuple[str, bytes]]]]:
    """Yield the pieces of each key group: a table's name and some of its rows."""
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns[:3]), strict=True))
    for group, pieces in groupby(rows, key=lambda row: row[0]):
        yield group, [(name, body) for _, name, body in pieces if name is not None]


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(NEW_STATE)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), each.type) for column, each in zip(columns, NEW_STATE, strict=True)], schema=NEW_STATE
    )


def savepoint_for(spark: SparkSession, path: str, checkpoint: str) -> Savepoint | RestoredFrom:
    """Return the savepoint that a checkpoint begins with, or only its record if the checkpoint has committed since.

    In that case the savepoint is not needed any more and may be deleted. Raises the errors of :func:`read_savepoint`.
    """
    restored = RestoredFrom.of_json((newest_entry(spark, checkpoint) or {}).get("born"))
    if restored is not None and last_committed(spark, checkpoint) >= 0:
        try:
            name = read_savepoint(spark, path).manifest.name
        except CheckpointError:
            name = restored.name if restored.lies_at(path) else ""
        if name == restored.name:
            return restored
    return read_savepoint(spark, path)


def cutover_time(spark: SparkSession, saved: Savepoint | RestoredFrom | None, checkpoint: str) -> int | None:
    """Return the time before which rows are in the history that a query started from, or None."""
    if saved is None:
        restored = RestoredFrom.of_json((newest_entry(spark, checkpoint) or {}).get("born"))
        return None if restored is None else restored.until
    return saved.restored_from.until if isinstance(saved, Savepoint) else saved.until


def check_states(
    states: Mapping[str, Savepoint], chain: Sequence[NamedPlan], migrate: Mapping[str, Any], *, allow_incomplete: bool
) -> dict[str, Savepoint]:
    """Check each operator of a query by :func:`check_start`; return the ``states``, by their names, with their conversions.

    Of several operators, the errors name the one.
    """
    migrations = migrations_by_operator(migrate, [each.name for each in chain])
    checked = {}
    for each in chain:
        if each.name not in states:
            continue
        checked[each.name] = replace(states[each.name], migrate=migrations.get(each.name, {}))
        try:
            check_start(checked[each.name], each.plan, allow_incomplete=allow_incomplete)
        except (InvalidPlanError, PlanMismatchError) as error:
            if len(chain) > 1:
                error.args = (f"the operator {each}: {error}", *error.args[1:])
            raise
    return checked


def check_start(savepoint: Savepoint, plan: WindowPlan, *, allow_incomplete: bool = False) -> None:
    """Refuse to start a plan from a savepoint that is incomplete or does not fit. Runs Spark jobs.

    ``allow_incomplete`` permits new aggregates even if no result marks that they lack the earlier rows.

    Raises:
        PlanMismatchError: with all differences.
        InvalidPlanError: a conversion is given for a value that the query does not keep.
        StateDamagedError: rows of the savepoint are missing, duplicated or changed.
    """
    manifest = savepoint.manifest
    check_migrations(savepoint.migrate, plan)
    check_taken_over(migrated_identity(manifest.plan.identity(), savepoint.migrate, plan), plan)
    taken = RestorePlan.of(savepoint, plan)
    if plan.groups != manifest.groups:
        for table in taken.empty.values():
            new_groups(table, plan, _no_groups, plan.groups, 0, manifest.groups)
    taken.state_of(0, [])
    first = migrated(StateTables(manifest.headers[0], taken.empty), savepoint.migrate, plan)
    check_added(first.header, plan, allow_incomplete=allow_incomplete)
    savepoint.check_whole()
    if not savepoint.has_checksums:
        warn(
            f"the savepoint {savepoint.path} does not have checksums, because an earlier panestream wrote it. The number of its "
            f"rows was checked, but not their content; new savepoints have checksums"
        )
    if manifest.plan.identity()["windows"] != plan.identity()["windows"]:
        # Only the rows show whether the old panes fit into new ones.
        spark = savepoint.spark
        with session_settings(spark, settings_for(spark, plan.groups)), as_ours():
            why = refusal(savepoint, plan)
        if why is not None:
            raise PlanMismatchError(why)


def _no_groups(_keys: object, _groups: int) -> Ints:
    return np.zeros(0, np.int64)
