"""A savepoint becomes the initial state of a new query: entries of Spark's state, made on the executors.

Rows of the saved tables go to their new key groups by the expression that sends rows of the stream there. For each key group the
operator itself writes its state, into memory, and what it wrote is what Spark's state gets, an entry a row. The processor only
puts entries: nothing large is held where the query runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.key_groups import header_of_all, put_together
from panestream.engine.savepoint.migration import Migrations, migrated
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables, key_fields
from panestream.errors import PlanMismatchError
from panestream.spark.columns import quoted
from panestream.spark.operator.placement import group_values
from panestream.spark.operator.without_pandas import without_pandas
from panestream.spark.reasons import in_few_words
from panestream.spark.savepoint.pieces import PIECES, OfBatches, pieces_of_rows
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.savepoint.values import table_in
from panestream.spark.types import spark_schema

NEW_STATE = pa.schema(
    [
        pa.field("group", pa.int32()),
        pa.field("space", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("value", pa.binary()),
    ]
)
"""The integer by which Spark knows the key group, and an entry of its state. Without a space: the number is a timer of Spark's,
when the key group is to be woken up, in milliseconds. (No other column is ever null: pandas would make fractions of numbers.)"""
REFUSALS = pa.schema([("why", pa.string())])
"""Why the rows of a key group cannot be taken over."""
_BATCH_BYTES = 4 << 20
"""About as many leave in one Arrow batch."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What of a savepoint belongs to no row, and the plan that takes it over.

    Attributes:
        plan: of the new query.
        headers: of the old key groups.
        empty: the saved tables without rows.
        migrate: what makes values of users' own into others.
    """

    plan: WindowPlan
    headers: tuple[Mapping[str, Any], ...]
    empty: Mapping[str, pa.Table]
    migrate: Migrations

    @classmethod
    def of(cls, savepoint: Savepoint, plan: WindowPlan) -> Taken:
        """What is taken over from a savepoint."""
        manifest = savepoint.manifest
        old = manifest.plan
        empty = old.operator.for_group(old, MemoryState(), 0).tables().tables
        return cls(plan, tuple(manifest.headers), {name: empty[name] for name in manifest.tables}, savepoint.migrate)

    def state_of(self, group: int, parts: Iterable[Mapping[str, pa.Table]]) -> tuple[MemoryState, int | None]:
        """The state of one new key group, and Spark's timer that wakes it up, in milliseconds.

        Args:
            group: its number.
            parts: the rows that come to it.

        Raises:
            PlanMismatchError: the plan cannot take it over.
            StateDamagedError: the old key groups do not belong together.
        """
        same = len(self.headers) == self.plan.groups
        saved = put_together(self.headers[group] if same else header_of_all(self.headers), parts, group)
        tables = {**self.empty, **saved.tables}
        state = MemoryState()
        header = self.headers[group] if same else saved.header
        changed = migrated(StateTables(header, tables), self.migrate, self.plan)
        wake_up = self.plan.operator.for_group(self.plan, state, group).restore(changed)
        # As the processor has it: a timer is due once the clock is past it.
        return state, None if wake_up is None or not self.plan.wakes_up else wake_up // self.plan.ticks + 1


def initial_state(savepoint: Savepoint, plan: WindowPlan) -> DataFrame:
    """The entries that the state of a new query begins with, as in :data:`NEW_STATE`: at least the meta record of each key group.

    Args:
        savepoint: what it starts from.
        plan: its plan, which :func:`~panestream.spark.savepoint.taking_over.check_start` let through.
    """
    return _made_of(savepoint, plan, Restore(Taken.of(savepoint, plan)).__call__, NEW_STATE)


def refusal(savepoint: Savepoint, plan: WindowPlan) -> str | None:
    """What of the saved rows a plan cannot take over, in words; None: it can. A Spark job.

    The words come as a row: of an exception in its tasks Spark would try each four times and log every stack.

    Args:
        savepoint: what is to be started from.
        plan: the new one.
    """
    found = _made_of(savepoint, plan, Restore(Taken.of(savepoint, plan)).refusals, REFUSALS).collect()
    return found[0].why if found else None


def _made_of(savepoint: Savepoint, plan: WindowPlan, made: OfBatches, schema: pa.Schema) -> DataFrame:
    """What a function makes of the saved rows, which come to it in pieces, by their new key groups."""
    manifest = savepoint.manifest
    with without_pandas():
        pieces = [_pieces(savepoint, plan, name) for name in manifest.tables]
        # Each key group has a row, whether or not anything of the tables comes to it.
        none = [F.col("id").cast("int").alias("key_group"), F.lit(None).cast("string").alias("table")]
        every = savepoint.spark.range(0, plan.groups, 1, 1).select(*none, F.lit(None).cast("binary").alias("body"))
        together = reduce(DataFrame.unionAll, pieces, every)
        # By the integer that Spark puts on the partition with the group's number, so that they meet as they do in the query.
        values = F.array(*map(F.lit, group_values(plan.groups)))
        placed = together.withColumn("group", values[F.col("key_group")]).repartition(plan.groups, "group")
        return placed.sortWithinPartitions("key_group").mapInArrow(made, spark_schema(schema))


def _pieces(savepoint: Savepoint, plan: WindowPlan, name: str) -> DataFrame:
    """The rows of one table, in pieces, by their new key groups."""
    table = savepoint.table(name)
    # mapInArrow takes a dot in a column's name for a field of a struct.
    names = table.columns[1:]
    columns = [F.col(quoted(each)).alias(f"column_{place}") for place, each in enumerate(names)]
    placed = table.select(_new_group(plan, savepoint.manifest.groups).cast("int").alias("key_group"), *columns)
    return placed.mapInArrow(pieces_of_rows(name, names), spark_schema(PIECES))


def _new_group(plan: WindowPlan, there_were: int) -> Column:
    """The new key group of a saved row: as :func:`~panestream.engine.savepoint.key_groups.new_groups` has it, by Spark's hash."""
    came_from = F.col("key_group")
    if plan.groups == there_were:
        return came_from
    keys = [F.col(quoted(field.name)) for field in key_fields(plan.key_schema)]

    def placed(groups: int) -> Column:
        return F.pmod(F.xxhash64(*keys), F.lit(groups)) if keys and groups > 1 else F.lit(0)

    if plan.split is None:
        return placed(plan.groups)
    part = F.pmod(came_from - placed(there_were), F.lit(there_were))
    return F.pmod(placed(plan.groups) + part, F.lit(plan.groups))


class Restore:
    """The function for ``mapInArrow`` that makes state of pieces, a key group at a time; they come sorted by key group."""

    def __init__(self, taken: Taken) -> None:
        self._taken = taken

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group, pieces in _by_group(batches):
            yield from self._of_group(group, pieces)

    def refusals(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row of :data:`REFUSALS` for each key group that cannot be made, and nothing else."""
        for group, pieces in _by_group(batches):
            try:
                self._state_of(group, pieces)
            except PlanMismatchError as error:
                yield pa.RecordBatch.from_pylist([{"why": str(error)}], schema=REFUSALS)

    def _state_of(self, group: int, pieces: list[tuple[str, bytes]]) -> tuple[MemoryState, int | None]:
        with in_few_words():
            return self._taken.state_of(group, ({name: table_in(body)} for name, body in pieces))

    def _of_group(self, group: int, pieces: list[tuple[str, bytes]]) -> Iterator[pa.RecordBatch]:
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
    """The pieces of each key group: a table's name and some of its rows."""
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns[:3]), strict=True))
    for group, pieces in groupby(rows, key=lambda row: row[0]):
        yield group, [(name, body) for _, name, body in pieces if name is not None]


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(NEW_STATE)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), each.type) for column, each in zip(columns, NEW_STATE, strict=True)], schema=NEW_STATE
    )


__all__ = ["NEW_STATE", "Taken", "initial_state", "refusal"]
