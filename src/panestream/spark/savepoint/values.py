"""Convert Spark's state store to state tables and views on the executors, one key group at a time, without the driver.

All values of a key group are in one partition of the state, and so of Spark's state reader. No exchange is needed, and a worker
holds one key group: its values, then the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.state_views import WATERMARKS, watermarks_of
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import CheckpointError
from panestream.spark.compat import group_number, group_values, without_pandas
from panestream.spark.failures import without_internal_traceback
from panestream.spark.savepoint.addresses import readable_path
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "panestream"
"""The name of every operator's state variable."""
TABLE_PARTS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("table", pa.string()),
        pa.field("part", pa.int32()),
        pa.field("rows", pa.int64()),
        pa.field("body", pa.binary()),
    ]
)
"""State tables of all key groups as rows: ``body`` is an Arrow IPC stream with ``rows`` rows, and ``part`` counts from 0.

A table without rows has one part, so every key group names all its tables.
"""
HEADERS = pa.schema([pa.field("key_group", pa.int32()), pa.field("header", pa.string())])
"""The header of the state tables as JSON text, for each key group with state."""
KEY_GROUP = pa.field("key_group", pa.int32())

_MOST_BYTES = 1 << 14
"""The bytes of a value that go to Python in one row. Spark may limit a batch to 10,000 rows, and by nothing else."""
_BATCH_BYTES = 4 << 20
"""The approximate size of an outgoing Arrow batch."""

OfGroup = Callable[[MemoryState, int], Iterable[pa.Table]]
"""Make tables of the values of a key group with the given number."""


@dataclass(frozen=True)
class StoredState:
    """The state of one operator of a query (Spark's ``operator_id``) in the checkpoint ``path`` after a micro-batch."""

    spark: SparkSession
    path: str
    batch_id: int
    plan: WindowPlan
    operator_id: int = 0

    @cached_property
    def _address(self) -> str:
        return readable_path(self.spark, self.path)

    def headers(self) -> DataFrame:
        """Return one small row for each key group that has state, as in :data:`HEADERS`. They may be collected."""
        return self.made_of(headers_of(self.plan), HEADERS, header_only=True)

    def tables(self) -> DataFrame:
        """Return the state tables of all key groups, as in :data:`TABLE_PARTS`."""
        return self.made_of(parts_of(self.plan), TABLE_PARTS)

    def watermarks(self) -> DataFrame:
        """Return the watermarks of each key group, as in :data:`~panestream.engine.runtime.state_views.WATERMARKS`."""
        return self.made_of(time_of(self.plan), WATERMARKS, header_only=True)

    def table(self, name: str) -> DataFrame:
        """Return one state table of all key groups: ``key_group`` and the columns of decision 0140."""
        schema = pa.schema([KEY_GROUP, *self.empty().table(name).schema])
        return self.made_of(table_of(self.plan, name), schema)

    def view(self, name: str) -> DataFrame:
        """Return one view of :class:`~panestream.engine.storage.state_tables.StateViews` by its name."""
        shown: StateViews = self.plan.operator.views(self.plan, self.empty(), 0)
        schema: pa.Schema = getattr(shown, name).schema
        return self.made_of(view_of(self.plan, name), schema)

    def empty(self) -> StateTables:
        """Return empty state tables, with all names and schemas."""
        return tables_of(self.plan, MemoryState(), 0)

    def values(self, *, header_only: bool = False) -> DataFrame:
        """Return Spark's stored values, cut into parts of at most 16 KiB, ``parts`` rows in sequence for each value.

        With ``header_only`` it returns only the values from which the header is made.
        """
        reader = self.spark.read.format("statestore").option("path", self._address).option("batchId", str(self.batch_id))
        reader = reader.option("operatorId", str(self.operator_id)).option("stateVarName", VARIABLE)
        values = reader.load().select(
            F.col("key")["group"].alias("group"),
            F.col("user_map_key")["space"].alias("space"),
            F.col("user_map_key")["key"].alias("number"),
            F.col("user_map_value")["value"].alias("value"),
        )
        if header_only:
            values = values.where(F.col("space") == "meta")
        # Cut before the values are exploded. Otherwise each part would be made next to a copy of its whole value.
        count = F.ceil(F.greatest(F.length("value"), F.lit(1)) / _MOST_BYTES).cast("int")
        cut = F.transform(
            F.sequence(F.lit(0), count - 1), lambda part: F.substring(F.col("value"), part * _MOST_BYTES + 1, F.lit(_MOST_BYTES))
        )
        return values.select("group", "space", "number", count.alias("parts"), F.explode(cut).alias("value"))

    def made_of(
        self,
        made: OfGroup,
        schema: pa.Schema,
        groups: Sequence[int] | None = None,
        *,
        header_only: bool = False,
        numbered: bool = True,
    ) -> DataFrame:
        """Return the result of a function over the values of ``groups`` (or all key groups) on the executors, with ``schema``.

        With ``header_only`` it gets only the values of the header. Without ``numbered`` it gets -1 as the number of the key
        group, for a plan whose number of key groups is unknown.
        """
        with without_pandas():
            rows = self.values(header_only=header_only)
            if groups is not None:
                rows = rows.where(F.col("group").isin([group_values(self.plan.groups)[group] for group in groups]))
            run = GroupByGroup(self.plan.groups if numbered else None, made)
            return rows.mapInArrow(run.__call__, spark_schema(schema))


@dataclass(frozen=True)
class GroupByGroup:
    """The function for ``mapInArrow`` that applies ``made`` to each of ``groups`` key groups (None for an unknown number)."""

    groups: int | None
    made: OfGroup

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group, state in groups_in(batches):
            with without_internal_traceback():
                tables = self.made(state, -1 if self.groups is None else group_number(self.groups, group))
                for table in tables:
                    yield from in_batches(table)


def groups_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, MemoryState]]:
    """Join the parts of :meth:`StoredState.values`, and return Spark's name and the state of each key group.

    Relies on RocksDB, which stores the values of one Spark key (a key group) in sequence; raises CheckpointError otherwise.
    """
    done: set[int] = set()
    at, state, begun = None, MemoryState(), list[bytes]()
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("group", "space", "number", "parts", "value"))
        for group, space, number, parts, value in zip(*columns, strict=True):
            if group != at:
                if at is not None:
                    yield at, state
                    done.add(at)
                if group in done:
                    raise CheckpointError(f"Spark's state reader has the values of a key group ({group}) in two places")
                at, state = group, MemoryState()
            begun.append(value)
            if len(begun) == parts:
                state.put(space, number, b"".join(begun) if parts > 1 else value)
                begun = []
    if at is not None:
        yield at, state


def in_batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Split a table into batches of about 4 MiB."""
    rows = max(1, _BATCH_BYTES * table.num_rows // max(table.nbytes, 1))
    return iter(table.to_batches(max_chunksize=rows))


# -- what is made of a key group ---------------------------------------------------------------------------------------------


def view_of(plan: WindowPlan, name: str) -> OfGroup:
    """Return a function that makes one view."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        views: StateViews = plan.operator.views(plan, tables_of(plan, state, group), group)
        return [getattr(views, name)]

    return made


def table_of(plan: WindowPlan, name: str) -> OfGroup:
    """Return a function that makes one state table, with the number of the key group as the first column."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        table = tables_of(plan, state, group).table(name)
        return [table.add_column(0, KEY_GROUP, pa.repeat(pa.scalar(group, pa.int32()), table.num_rows))]

    return made


def parts_of(plan: WindowPlan) -> OfGroup:
    """Return a function that makes the rows of :data:`TABLE_PARTS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        for name, table in tables_of(plan, state, group).tables.items():
            for number, part in enumerate([*in_batches(table)] or [pa.RecordBatch.from_pylist([], table.schema)]):
                row = {"key_group": group, "table": name, "part": number, "rows": part.num_rows, "body": _ipc(part)}
                yield pa.Table.from_pylist([row], schema=TABLE_PARTS)

    return made


def headers_of(plan: WindowPlan) -> OfGroup:
    """Return a function that makes the row of :data:`HEADERS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        header = plan.operator.for_group(plan, state, group).header()
        return [pa.Table.from_pylist([{"key_group": group, "header": json.dumps(header)}], schema=HEADERS)]

    return made


def time_of(plan: WindowPlan) -> OfGroup:
    """Return a function that makes the rows of :data:`~panestream.engine.runtime.state_views.WATERMARKS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        return [watermarks_of(plan, plan.operator.for_group(plan, state, group).header(), group)]

    return made


def table_in(body: bytes) -> pa.Table:
    """Read the rows in a ``body`` of :data:`TABLE_PARTS`."""
    return pa.ipc.open_stream(body).read_all()


def tables_of(plan: WindowPlan, state: MemoryState, group: int) -> StateTables:
    """Return the state tables of one key group."""
    saved: StateTables = plan.operator.for_group(plan, state, group).tables()
    return saved


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body
