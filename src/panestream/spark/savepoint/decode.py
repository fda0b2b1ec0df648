"""Decode Spark's state store on the executors, one key group at a time: to state tables, views, chunks of rows, or a summary.

All values of a key group are in one partition of the state, and so of Spark's state reader. No exchange is needed, and a worker
holds one key group: its values, then the result.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from panestream.engine.inspection.merge import StateOrigin, merge_parts
from panestream.engine.inspection.reduce import Part, StateFilter, reduce_group
from panestream.engine.inspection.summary import Summary
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.plan import KEY_GROUPS, WindowPlan
from panestream.engine.runtime.state_views import WATERMARKS, watermarks_of
from panestream.engine.savepoint.key_groups import put_together
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage import payload
from panestream.engine.storage.sealed_state import META, SealedState, group_in
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import CheckpointError, PlanMismatchError, StateDamagedError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.checkpoint.spark_logs import planned_at
from panestream.spark.columns import quoted
from panestream.spark.compat import group_number, group_values, without_pandas
from panestream.spark.failures import as_ours, first_sentence, of_spark, raise_as, without_internal_traceback, words_of
from panestream.spark.places import escaped
from panestream.spark.savepoint.locate import VARIABLE, readable_path
from panestream.spark.types import spark_schema

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

_VALUE_BYTES = 1 << 14
"""The bytes of a value that go to Python in one row. Spark may limit a batch to 10,000 rows, and by nothing else."""
_BATCH_BYTES = 4 << 20
"""The approximate size of an outgoing Arrow batch."""

GroupFunction = Callable[[MemoryState, int], Iterable[pa.Table]]
"""Make tables of the values of a key group with the given number."""


@dataclass(frozen=True)
class StoredState:
    """The state of one operator of a query (Spark's ``operator_id``) in the checkpoint ``path`` after a micro-batch."""

    spark: SparkSession
    path: str
    batch_id: int
    plan: WindowPlan
    operator_id: int = 0
    address: str | None = field(default=None, compare=False)
    """The path for Spark's state reader, if known."""

    def headers(self) -> DataFrame:
        """Return one small row for each key group that has state, as in :data:`HEADERS`. They may be collected."""
        return self.map_groups(headers_of(self.plan), HEADERS, header_only=True)

    def tables(self) -> DataFrame:
        """Return the state tables of all key groups, as in :data:`TABLE_PARTS`."""
        return self.map_groups(parts_of(self.plan), TABLE_PARTS)

    def watermarks(self) -> DataFrame:
        """Return the watermarks of each key group, as in :data:`~panestream.engine.runtime.state_views.WATERMARKS`."""
        return self.map_groups(time_of(self.plan), WATERMARKS, header_only=True)

    def table(self, name: str) -> DataFrame:
        """Return one state table of all key groups: ``key_group`` and the columns of decision 0140."""
        schema = pa.schema([KEY_GROUP, *self.empty().table(name).schema])
        return self.map_groups(table_of(self.plan, name), schema)

    def view(self, name: str) -> DataFrame:
        """Return one view of :class:`~panestream.engine.storage.state_tables.StateViews` by its name."""
        shown: StateViews = self.plan.operator.views(self.plan, self.empty(), 0)
        schema: pa.Schema = getattr(shown, name).schema
        return self.map_groups(view_of(self.plan, name), schema)

    def empty(self) -> StateTables:
        """Return empty state tables, with all names and schemas."""
        return tables_of(self.plan, MemoryState(), 0)

    def values(self, *, header_only: bool = False) -> DataFrame:
        """Return Spark's stored values, cut into parts of at most 16 KiB, ``parts`` rows in sequence for each value.

        With ``header_only`` it returns only the values from which the header is made.
        """
        reader = (
            self.spark.read.format("statestore")
            .option("path", self.address or readable_path(self.spark, self.path))
            .option("batchId", str(self.batch_id))
        )
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
        count = F.ceil(F.greatest(F.length("value"), F.lit(1)) / _VALUE_BYTES).cast("int")
        cut = F.transform(
            F.sequence(F.lit(0), count - 1),
            lambda part: F.substring(F.col("value"), part * _VALUE_BYTES + 1, F.lit(_VALUE_BYTES)),
        )
        return values.select("group", "space", "number", count.alias("parts"), F.explode(cut).alias("value"))

    def map_groups(
        self,
        made: GroupFunction,
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
    made: GroupFunction

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


def view_of(plan: WindowPlan, name: str) -> GroupFunction:
    """Return a function that makes one view."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        views: StateViews = plan.operator.views(plan, tables_of(plan, state, group), group)
        return [getattr(views, name)]

    return made


def table_of(plan: WindowPlan, name: str) -> GroupFunction:
    """Return a function that makes one state table, with the number of the key group as the first column."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        table = tables_of(plan, state, group).table(name)
        return [table.add_column(0, KEY_GROUP, pa.repeat(pa.scalar(group, pa.int32()), table.num_rows))]

    return made


def parts_of(plan: WindowPlan) -> GroupFunction:
    """Return a function that makes the rows of :data:`TABLE_PARTS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        for name, table in tables_of(plan, state, group).tables.items():
            for number, part in enumerate([*in_batches(table)] or [pa.RecordBatch.from_pylist([], table.schema)]):
                row = {"key_group": group, "table": name, "part": number, "rows": part.num_rows, "body": _ipc(part)}
                yield pa.Table.from_pylist([row], schema=TABLE_PARTS)

    return made


def headers_of(plan: WindowPlan) -> GroupFunction:
    """Return a function that makes the row of :data:`HEADERS`."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        header = plan.operator.for_group(plan, state, group).header()
        return [pa.Table.from_pylist([{"key_group": group, "header": json.dumps(header)}], schema=HEADERS)]

    return made


def time_of(plan: WindowPlan) -> GroupFunction:
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


CHUNKS = pa.schema([KEY_GROUP, pa.field("table", pa.string()), pa.field("body", pa.binary())])
"""The number of a key group, a table's name, and some of its rows as an Arrow stream."""

_CHUNK_BYTES = 1 << 16
"""The approximate size of a piece, since Spark may limit its batches to Python only by rows."""

BatchFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def with_key_group(schema: pa.Schema) -> pa.Schema:
    """Return a table's columns after the number of the key group."""
    return pa.schema([KEY_GROUP, *schema])


def rows_of_chunks(schema: pa.Schema) -> BatchFunction:
    """Return the function for ``mapInArrow`` that converts key group and body to rows with the table's ``schema`` after it."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group, body in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                table = table_in(body.as_py())
                number = pa.array(np.full(table.num_rows, group), pa.int32())
                yield from pa.Table.from_arrays([number, *table.columns], schema=with_key_group(schema)).to_batches()

    return rows


def chunks_of_rows(name: str, columns: Sequence[str]) -> BatchFunction:
    """Return the function for ``mapInArrow`` that converts rows to pieces, at least one per key group and batch.

    The rows have the number of their key group, then ``columns``.
    """

    def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = np.asarray(batch.column(0), np.int64)
            order = stable_order(numbers)
            table = pa.Table.from_arrays(batch.columns[1:], names=list(columns)).take(pa.array(order))
            found, begins = np.unique(numbers[order], return_index=True)
            ends = [*begins.tolist(), len(numbers)][1:]
            most = max(1, _CHUNK_BYTES * table.num_rows // max(table.nbytes, 1))
            for group, begin, end in zip(found.tolist(), begins.tolist(), ends, strict=True):
                for first in range(begin, end, most):
                    yield chunk_of(group, name, table.slice(first, min(most, end - first)))

    return pieces


def chunk_of(group: int, name: str, table: pa.Table) -> pa.RecordBatch:
    """Return rows of a key group's table as a batch of one row."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    row = (group, name, sink.getvalue().to_pybytes())
    return pa.RecordBatch.from_arrays(
        [pa.array([each], field.type) for each, field in zip(row, CHUNKS, strict=True)], schema=CHUNKS
    )


WAY_OUT = "Put back a copy of the whole checkpoint from before the damage, or take another micro-batch (batch_id=, --batch)"


@contextmanager
def explain_read_errors(stored: StoredState) -> Iterator[None]:
    """Read a state within this context: damaged or missing parts raise StateDamagedError, and workers' errors are passed on."""
    try:
        with as_ours():
            yield
    except Exception as error:
        why = _damage_of(stored, error) if of_spark(error) else None
        if why is None:
            raise
        what = f"the state of the checkpoint {stored.path} after micro-batch {stored.batch_id}"
        raise_as(StateDamagedError(f"{what} cannot be read: {why}. {WAY_OUT}"), error)


def check_key_groups(stored: StoredState, told: int) -> None:
    """Raise StateDamagedError if only ``told`` key groups have state, because the first row calls all of them."""
    if 0 < told < stored.plan.groups:
        raise StateDamagedError(
            f"the state of the checkpoint {stored.path} after micro-batch {stored.batch_id} lacks key groups: there are {told} "
            f"of {stored.plan.groups}. {WAY_OUT}"
        )


def _damage_of(stored: StoredState, error: Exception) -> str | None:
    """Return the damage of the state, or None if the error has another cause."""
    if "CANNOT_LOAD_STATE_STORE" in words_of(error):
        return first_sentence(error)
    # If a partition is missing, Spark's planner only reports an internal bug.
    folder = f"state/{stored.operator_id}"
    files = list_files(stored.spark, f"{escaped(stored.path)}/{folder}/[0-9]*/*")
    there = {int(file.rsplit(f"/{folder}/", 1)[-1].split("/")[0]) for file in files}
    gone = next((number for number in range(max(there, default=-1) + 1) if number not in there), None)
    return None if gone is None else f"{folder}/{gone} is missing"


# -- which operator has a plan ---

Identity = Mapping[str, str]
_IDENTITY = pa.schema([("identity", pa.string())])


def operator_of(stored: StoredState, operators: Collection[int], identity: Identity) -> int:
    """Return the operator whose state has a plan's identity, the last of the query if there are several.

    ``stored`` is the state of any operator. Raises PlanMismatchError with the differences to the most similar operator.
    """
    identities = {number: _identity_of(replace(stored, operator_id=number)) for number in operators}
    for number in operators:
        found = identities[number]
        if found is not None and not _differences(found, identity):
            return number
    # An operator without state has not received any rows yet.
    empty = [number for number, found in identities.items() if found is None]
    if empty:
        return empty[0]
    differences = min((_differences(found, identity) for found in identities.values() if found is not None), key=len)
    lines = [f"  {name}: {there or '(absent)'}  ->  {given or '(absent)'}" for name, (there, given) in differences.items()]
    raise PlanMismatchError(
        "\n".join([f"the state in the checkpoint {stored.path} is of another plan (there -> given):", *lines]), differences
    )


def operator_and_plan(stored: StoredState, operators: Collection[int], plan: WindowPlan) -> tuple[int, WindowPlan]:
    """Return the operator that runs a user's plan, and the plan as if read from a checkpoint, with its number of key groups.

    Raises PlanMismatchError if no operator runs the plan, and CheckpointError if several do.
    """
    identities = [_identity_of(replace(stored, operator_id=number)) for number in operators]
    found = [
        (number, identity)
        for number, identity in zip(operators, identities, strict=True)
        if identity is not None and not _differences(identity, plan.identity())
    ]
    if len(found) > 1:
        raise CheckpointError(
            f"{len(found)} operators of the query in {stored.path} run this plan, so plan= is ambiguous. Leave plan= out to "
            f"read the last operator, whose result was started"
        )
    if found:
        ((number, identity),) = found
        plan = replace(plan, groups=int(identity[KEY_GROUPS]))
    else:
        number = operator_of(stored, operators, plan.identity())
    return number, plan_of(json.loads(json.dumps(plan_json(plan))))


def _differences(there: Identity, given: Identity) -> dict[str, tuple[str | None, str | None]]:
    names = sorted({*there, *given} - {KEY_GROUPS})
    return {name: (there.get(name), given.get(name)) for name in names if there.get(name) != given.get(name)}


def _identity_of(stored: StoredState) -> dict[str, str] | None:
    """Return the identity of the plan of an operator's state, or None without state."""
    found = stored.map_groups(identity_in, _IDENTITY, header_only=True, numbered=False).first()
    return None if found is None else json.loads(found.identity)


def identity_in(state: MemoryState, _: int) -> Iterable[pa.Table]:
    """Make one row with the identity in the meta record of a key group."""
    group = group_in(state.get(META, 0) or b"")
    _rows, header = payload.decode_numbers(SealedState(state, group, "of unknown windows").get(META, 0) or b"")
    return [pa.table({"identity": [json.dumps(header["identity"])]}, schema=_IDENTITY)]


# -- the summary of a state ---

PARTS = pa.schema([("part", pa.string())])
"""The result of a key group: one row of JSON."""


def summary_of_stored(stored: StoredState, state_filter: StateFilter) -> Summary:
    """Return the summary of a checkpoint's state; raises StateDamagedError if it cannot be read, or key groups are missing."""
    planned = planned_at(stored.spark, stored.path, stored.batch_id)
    groups = groups_of_key(stored.spark, stored.plan, state_filter)
    parts = stored.map_groups(reducer(stored.plan, state_filter), PARTS, groups)
    origin = StateOrigin(stored.path, stored.batch_id, None if planned is None else planned * 1000, time.time_ns() // 1000)
    with explain_read_errors(stored):
        told = _parts(parts)
    if groups is None:
        check_key_groups(stored, len(told))
    return merge_parts(stored.plan, told, state_filter, origin)


def reducer(plan: WindowPlan, state_filter: StateFilter) -> GroupFunction:
    """Return the function that reduces the state of a key group on the executors."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        return [_part(reduce_group(plan, tables_of(plan, state, group), group, state_filter))]

    return made


def summary_of_saved(
    plan: WindowPlan,
    headers: Sequence[Mapping[str, Any]],
    tables: Mapping[str, DataFrame],
    state_filter: StateFilter,
    origin: StateOrigin,
) -> Summary:
    """Return the summary of saved state tables, which have the number of the key group as the first column.

    ``headers`` are by key group. ``origin`` has the name of the state and the current time.
    """
    spark = next(iter(tables.values())).sparkSession
    asked_groups = groups_of_key(spark, plan, state_filter)
    groups = list(range(len(headers))) if asked_groups is None else list(asked_groups)
    with without_pandas():
        pieces = [_chunks(name, table.where(F.col("key_group").isin(groups))) for name, table in tables.items()]
        # Each key group has a row, because its header has the time even without open windows.
        none = [F.col("id").cast("int").alias("key_group"), F.lit(None).cast("string").alias("table")]
        every = spark.range(0, len(headers), 1, 1).where(F.col("id").isin(groups))
        together = reduce(DataFrame.unionAll, pieces, every.select(*none, F.lit(None).cast("binary").alias("body")))
        placed = together.repartition(len(groups), "key_group").sortWithinPartitions("key_group")
        parts = placed.mapInArrow(SavedGroups(plan, tuple(headers), state_filter).__call__, spark_schema(PARTS))
        return merge_parts(plan, _parts(parts), state_filter, origin)


@dataclass(frozen=True)
class SavedGroups:
    """The function for ``mapInArrow`` that reduces saved key groups, one at a time. Pieces must be sorted by key group."""

    plan: WindowPlan
    headers: tuple[Mapping[str, Any], ...]
    state_filter: StateFilter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        empty = tables_of(self.plan, MemoryState(), 0).tables
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        for group, pieces in groupby(rows, key=lambda row: row[0]):
            with without_internal_traceback():
                parts = ({name: table_in(body)} for _, name, body in pieces if name is not None)
                found = put_together(self.headers[group], parts, group)
                saved = StateTables(self.headers[group], {**empty, **found.tables})
                yield from _part(reduce_group(self.plan, saved, group, self.state_filter)).to_batches()


def _chunks(name: str, table: DataFrame) -> DataFrame:
    # mapInArrow reads a dot in a column's name as a field of a struct.
    names = table.columns[1:]
    columns = [F.col(quoted(each)).alias(f"column_{place}") for place, each in enumerate(names)]
    return table.select("key_group", *columns).mapInArrow(chunks_of_rows(name, names), spark_schema(CHUNKS))


def _part(part: Mapping[str, Any]) -> pa.Table:
    return pa.table({"part": [json.dumps(part)]}, PARTS)


def _parts(parts: DataFrame) -> list[Part]:
    return [json.loads(row.part) for row in parts.collect()]


def groups_of_key(spark: SparkSession, plan: WindowPlan, state_filter: StateFilter) -> Sequence[int] | None:
    """Return the key groups of the requested keys, or None for any."""
    if not state_filter.keys or len(state_filter.keys) < len(plan.key_schema) or plan.split is not None:
        return None
    if any(pa.types.is_floating(column.type) for column in state_filter.keys.values()):
        return None  # -0.0 and 0.0 are one key
    columns = [state_filter.keys[place] for place in range(len(plan.key_schema))]
    names = [f"key_{place}" for place in range(len(columns))]
    table = pa.Table.from_arrays(columns, names=names)
    # With its schema, because Spark would otherwise read a time without a zone as an instant, which has another hash.
    given = spark.createDataFrame(table, spark_schema(table.schema))
    # Same hash as in the exchange.
    hashed = F.pmod(F.xxhash64(*names), F.lit(plan.groups))
    return [int(row[0]) for row in given.select(hashed).collect()]
