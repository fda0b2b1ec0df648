"""From Spark's state store to state tables and views, on the executors: a key group at a time, nothing of it through the driver.

All values of a key group lie in one partition of Spark's state reader, since they lie in one partition of the state. So they are
taken as they come, without an exchange; what a worker holds is one key group: its values, then what is made of them.
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
from panestream.engine.runtime.time_view import WATERMARKS, watermarks_of
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import CheckpointError
from panestream.spark.operator.placement import group_number, group_values
from panestream.spark.operator.without_pandas import without_pandas
from panestream.spark.reasons import in_few_words
from panestream.spark.savepoint.addresses import readable_path
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "panestream"
"""The name of the state variable that every operator keeps."""
TABLE_PARTS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("table", pa.string()),
        pa.field("part", pa.int32()),
        pa.field("rows", pa.int64()),
        pa.field("body", pa.binary()),
    ]
)
"""State tables of all key groups as rows: ``body`` is an Arrow IPC stream with ``rows`` rows of the table, its ``part`` counted
from 0. A table without rows has one part, so every key group names all its tables."""
HEADERS = pa.schema([pa.field("key_group", pa.int32()), pa.field("header", pa.string())])
"""Of each key group that has state the header of its state tables, as JSON text."""
KEY_GROUP = pa.field("key_group", pa.int32())

_MOST_BYTES = 1 << 14
"""Of a value that goes to Python in one row: what Spark sends at a time may be limited to 10,000 rows, and to nothing else."""
_BATCH_BYTES = 4 << 20
"""About as many leave in one Arrow batch."""

OfGroup = Callable[[MemoryState, int], Iterable[pa.Table]]
"""Makes tables of the values of a key group, with its number."""


@dataclass(frozen=True)
class StoredState:
    """The state that one operator of a query had after a micro-batch.

    Attributes:
        spark: the session.
        path: the checkpoint.
        batch_id: the micro-batch.
        plan: the query.
        operator_id: Spark's number of the operator in the query.
    """

    spark: SparkSession
    path: str
    batch_id: int
    plan: WindowPlan
    operator_id: int = 0

    @cached_property
    def _address(self) -> str:
        return readable_path(self.spark, self.path)

    def headers(self) -> DataFrame:
        """One row for each key group that has state, as in :data:`HEADERS`: few and small, they may be collected."""
        return self.made_of(headers_of(self.plan), HEADERS, header_only=True)

    def tables(self) -> DataFrame:
        """The state tables of all key groups, as in :data:`TABLE_PARTS`."""
        return self.made_of(parts_of(self.plan), TABLE_PARTS)

    def watermarks(self) -> DataFrame:
        """What each key group knows of time, as in :data:`~panestream.engine.runtime.time_view.WATERMARKS`."""
        return self.made_of(time_of(self.plan), WATERMARKS, header_only=True)

    def table(self, name: str) -> DataFrame:
        """One of the state tables, of all key groups: ``key_group`` and the columns of decision 0140."""
        schema = pa.schema([KEY_GROUP, *self.empty().table(name).schema])
        return self.made_of(table_of(self.plan, name), schema)

    def view(self, name: str) -> DataFrame:
        """One of the views of :class:`~panestream.engine.storage.state_tables.StateViews`, by its name."""
        shown: StateViews = self.plan.operator.views(self.plan, self.empty(), 0)
        schema: pa.Schema = getattr(shown, name).schema
        return self.made_of(view_of(self.plan, name), schema)

    def empty(self) -> StateTables:
        """The state tables of a key group that has nothing: all names and schemas."""
        return tables_of(self.plan, MemoryState(), 0)

    def values(self, *, header_only: bool = False) -> DataFrame:
        """What lies in Spark's state store: values in parts of at most 16 KiB, ``parts`` of each in a row, one after the other.

        Args:
            header_only: what the header is made of, and nothing else.
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
        # Cut before they are exploded: else each part would be made beside a copy of its whole value.
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
        """What a function makes of each key group's values, on the executors.

        Args:
            made: the function.
            schema: of the tables that it makes.
            groups: of which key groups; None: of all.
            header_only: whether it wants no other values than the header is made of.
            numbered: whether it is told the number of the key group; False, where the number of key groups is unknown: -1.
        """
        with without_pandas():
            rows = self.values(header_only=header_only)
            if groups is not None:
                rows = rows.where(F.col("group").isin([group_values(self.plan.groups)[group] for group in groups]))
            run = GroupByGroup(self.plan.groups if numbered else None, made)
            return rows.mapInArrow(run.__call__, spark_schema(schema))


@dataclass(frozen=True)
class GroupByGroup:
    """The function for ``mapInArrow`` that makes something of each key group's values.

    Attributes:
        groups: how many key groups the query has; None: unknown.
        made: what is to be made.
    """

    groups: int | None
    made: OfGroup

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group, state in groups_in(batches):
            with in_few_words():
                tables = self.made(state, -1 if self.groups is None else group_number(self.groups, group))
                for table in tables:
                    yield from in_batches(table)


def groups_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, MemoryState]]:
    """The values of :meth:`StoredState.values`, put together again: Spark's name for the key group, and its state.

    RocksDB has the values of one key of Spark's, that is a key group, in a row.

    Raises:
        CheckpointError: here it has not.
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
    """A table's rows, some 4 MiB at a time."""
    rows = max(1, _BATCH_BYTES * table.num_rows // max(table.nbytes, 1))
    return iter(table.to_batches(max_chunksize=rows))


# -- what is made of a key group ---------------------------------------------------------------------------------------------


def view_of(plan: WindowPlan, name: str) -> OfGroup:
    """Makes one view."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        views: StateViews = plan.operator.views(plan, tables_of(plan, state, group), group)
        return [getattr(views, name)]

    return made


def table_of(plan: WindowPlan, name: str) -> OfGroup:
    """Makes one state table, with the number of the key group as the first column."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        table = tables_of(plan, state, group).table(name)
        return [table.add_column(0, KEY_GROUP, pa.repeat(pa.scalar(group, pa.int32()), table.num_rows))]

    return made


def parts_of(plan: WindowPlan) -> OfGroup:
    """Makes the rows of :data:`TABLE_PARTS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        for name, table in tables_of(plan, state, group).tables.items():
            for number, part in enumerate([*in_batches(table)] or [pa.RecordBatch.from_pylist([], table.schema)]):
                row = {"key_group": group, "table": name, "part": number, "rows": part.num_rows, "body": _ipc(part)}
                yield pa.Table.from_pylist([row], schema=TABLE_PARTS)

    return made


def headers_of(plan: WindowPlan) -> OfGroup:
    """Makes the row of :data:`HEADERS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        header = plan.operator.for_group(plan, state, group).header()
        return [pa.Table.from_pylist([{"key_group": group, "header": json.dumps(header)}], schema=HEADERS)]

    return made


def time_of(plan: WindowPlan) -> OfGroup:
    """Makes the rows of :data:`~panestream.engine.runtime.time_view.WATERMARKS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        return [watermarks_of(plan, plan.operator.for_group(plan, state, group).header(), group)]

    return made


def table_in(body: bytes) -> pa.Table:
    """The rows in a ``body`` of :data:`TABLE_PARTS`."""
    return pa.ipc.open_stream(body).read_all()


def tables_of(plan: WindowPlan, state: MemoryState, group: int) -> StateTables:
    """The state tables of one key group."""
    saved: StateTables = plan.operator.for_group(plan, state, group).tables()
    return saved


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body
