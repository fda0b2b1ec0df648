"""Compute the rows before a stream as a batch: it writes outputs and the savepoint that the stream starts from."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.storagelevel import StorageLevel

from panestream.engine.exchange.group_run import METRICS, bodies, check_history, run_history
from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.operators import NamedPlan, default_name
from panestream.engine.savepoint.plans import plan_json
from panestream.engine.storage.payload import PayloadPart
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.spark.batch_output import output
from panestream.spark.checkpoint.lineage import Lineage
from panestream.spark.columns import Names, quoted
from panestream.spark.compat import group_number, group_values, without_pandas
from panestream.spark.failures import of_operator, of_sink, without_internal_traceback
from panestream.spark.operator.dataflow import Projection
from panestream.spark.operator.task_functions import EXCHANGE_SCHEMA, Pack
from panestream.spark.savepoint.decode import TABLE_PARTS, headers_of, parts_of
from panestream.spark.savepoint.manifest import SavepointManifest, check_free
from panestream.spark.savepoint.saved import Savepoint, write_savepoint
from panestream.spark.savepoint.source_offsets import KAFKA, SourcePosition, kind_of, positions_as_saved
from panestream.spark.session import session_settings, settings_for
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.outputs import checked_places, open_for_batch
from panestream.spark.types import spark_schema
from panestream.windowing.time import instant, micros_of_text

_TABLE, _HEADER = "__table", "__header"
"""Tags of a key group's state in the staged output. Users' tags never start with an underscore."""
_STAGED = pa.schema([pa.field("tag", pa.string()), *TABLE_PARTS])
"""Staged rows: outputs (tag and body) and :data:`TABLE_PARTS`. The header is the body of its tag."""


def rows_like(history: object, stream: DataFrame, called: str = "the stream") -> DataFrame:
    """Return ``history`` with only the stream's columns, in their order; ``called`` names the stream in errors.

    Raises InvalidPlanError if ``history`` is a stream, or a column is missing or has another type.
    """
    if not isinstance(history, DataFrame):
        raise InvalidPlanError(f"bootstrap needs history as a DataFrame, got {type(history).__name__}")
    if history.isStreaming:
        raise InvalidPlanError(
            "bootstrap needs history as a batch (spark.read), not as a stream: what comes later is the stream's"
        )
    find, kinds = Names.of(history.sparkSession).finder(history.columns), {each.name: each.dataType for each in history.schema}
    wrong, columns = [], []
    for field in stream.schema:
        found = find(field.name)
        if found is None:
            wrong.append(f"  {field.name}: {field.dataType.simpleString()} in {called}, missing in history")
            continue
        kind = kinds[found]
        if not _alike(kind, field.dataType):
            wrong.append(f"  {field.name}: {field.dataType.simpleString()} in {called}, {kind.simpleString()} in history")
        columns.append(F.col(quoted(found)).alias(field.name))
    if wrong:
        raise InvalidPlanError(
            "\n".join([f"bootstrap: history must have the columns of {called}, and their types:", *wrong])
            + "\nGive them by .select or .withColumn, e.g. .withColumn('price', F.col('price').cast('double')); what the windows "
            "do not need, leave out of the stream by .select before pst.stream(...)"
        )
    return history.select(*columns)


def _alike(each: T.DataType, other: T.DataType) -> bool:
    """Return whether two types are equal except for nullability."""
    if isinstance(each, T.StructType) and isinstance(other, T.StructType):
        return each.names == other.names and all(_alike(a.dataType, b.dataType) for a, b in zip(each, other, strict=True))
    if isinstance(each, T.ArrayType) and isinstance(other, T.ArrayType):
        return _alike(each.elementType, other.elementType)
    if isinstance(each, T.MapType) and isinstance(other, T.MapType):
        return _alike(each.keyType, other.keyType) and _alike(each.valueType, other.valueType)
    return each == other


def bootstrap(
    history: DataFrame,
    chain: Sequence[NamedPlan],
    projection: Projection,
    path: str,
    sinks: Mapping[str, Sink],
    until: int | None,
    sources: Sequence[Mapping[str, Any]] = (),
) -> Savepoint:
    """Compute history, write its outputs to sinks and its state to a savepoint; see ``WindowedResult.bootstrap``.

    The last operator of the ``chain`` computes history. ``history`` must contain only the stream's columns and only rows before
    ``until`` (microseconds). ``projection`` selects the stream's columns from it. ``sources`` are the positions from which the
    stream continues, if known.
    """
    spark, plan = history.sparkSession, chain[-1].plan
    check_history(plan)
    check_free(spark, path)
    query = uuid.uuid4().hex
    succession = Lineage((query,), 0, tuple(sorted(checked_places(spark, plan, sinks).values())))
    uid = "" if chain[-1].name == default_name(1) else chain[-1].name
    known = SavepointManifest(plan_json(plan), [], {}, succession=succession.as_saved(), uid=uid)
    manifest = replace(known, until=until, sources=list(sources))
    opened = open_for_batch(spark, plan, sinks, query)
    with session_settings(spark, settings_for(spark, plan.groups)):
        # Disk, because each sink and each table of the savepoint reads the result.
        staged = _staged(history, plan, projection).persist(StorageLevel.DISK_ONLY)
        try:
            with of_operator(None):
                staged.count()
            for tag, sink in opened.items():
                with of_sink(tag, sink, None):
                    sink.write(output(staged.select("tag", "body"), plan, tag), None)
            headers = staged.where(F.col("tag") == _HEADER)
            headers = headers.select("key_group", F.col("body").cast("string").alias("header"))
            tables = staged.where(F.col("tag") == _TABLE).select(*TABLE_PARTS.names)
            return write_savepoint(spark, path, plan, headers, tables, manifest)
        finally:
            staged.unpersist()


def before(time: Column, until: int) -> Column:
    """Return whether a row is history: its time is before ``until``, or is null."""
    return time.isNull() | (time < F.lit(until))


def _staged(history: DataFrame, plan: WindowPlan, projection: Projection) -> DataFrame:
    """Return outputs and state of all key groups, as in :data:`_STAGED`."""
    spark = history.sparkSession
    with without_pandas():
        exchanged = projection.rows_of(history).mapInArrow(Pack(plan, projection.pack).__call__, EXCHANGE_SCHEMA)
        # Each key group has state, even without rows.
        values = F.array(*map(F.lit, group_values(plan.groups)))
        nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in EXCHANGE_SCHEMA.fields[1:]]
        every = spark.range(0, plan.groups, 1, 1).select(values[F.col("id").cast("int")].alias("group"), *nothing)
        return exchanged.unionAll(every).groupBy("group").applyInArrow(_process(plan), spark_schema(_STAGED))


def _process(plan: WindowPlan) -> Callable[[pa.Table], pa.Table]:
    """Return the function for ``applyInArrow``, which computes all history of a key group at once."""

    def process(group: pa.Table) -> pa.Table:
        number = group_number(plan.groups, group.column("group")[0].as_py())
        came = group.filter(group.column("body").is_valid())
        columns = [came.column(name).to_pylist() for name in PayloadPart._fields]
        state = MemoryState()
        with without_internal_traceback():
            output = run_history(plan, state, number, map(PayloadPart, *columns))
            emitted = [{"tag": tag, "body": body} for tag, body in bodies(output) if tag != METRICS]
            found = [pa.Table.from_pylist(emitted, schema=_STAGED)]
            found += [_as_staged(_HEADER, table) for table in headers_of(plan)(state, number)]
            found += [_as_staged(_TABLE, table) for table in parts_of(plan)(state, number)]
        return pa.concat_tables(found)

    return process


def _as_staged(tag: str, table: pa.Table) -> pa.Table:
    """Add the missing columns of :data:`_STAGED` to rows of :data:`TABLE_PARTS` or :data:`HEADERS`."""
    columns = {name: table.column(name) for name in table.column_names}
    if tag == _HEADER:
        columns["body"] = columns.pop("header").cast(pa.binary())
    columns["tag"] = pa.array([tag] * table.num_rows, pa.string())
    arrays = [columns.get(field.name, pa.nulls(table.num_rows, field.type)) for field in _STAGED]
    return pa.Table.from_arrays(arrays, schema=_STAGED)


def instant_of(until: object) -> int:
    """Return a user's ``until`` in microseconds since the epoch; raises InvalidPlanError if it is not a time.

    >>> instant_of("1970-01-02"), instant_of("1970-01-01 00:00:01Z"), instant_of("1970-01-01T01:00:00+01:00")
    (86400000000, 1000000, 0)
    """
    try:
        found = micros_of_text(until) if isinstance(until, str) else None
    except ValueError:
        found = None
    if isinstance(until, datetime):
        found = instant(until if until.tzinfo is not None else until.replace(tzinfo=timezone.utc), "until")
    if found is None:
        raise InvalidPlanError(
            f"bootstrap: until must be a time, got {until!r}; write until='2026-11-01T00:00:00Z', or a datetime (without a zone: "
            "UTC)"
        )
    return found


def sources_of(position: object, *, streams: int = 1) -> list[dict[str, Any]]:
    """Return the positions of Kafka streams for the manifest, in the form of ``startingOffsets``; empty if unknown.

    ``position`` of two streams is a tuple, with None for an unknown one. Raises InvalidPlanError for another form.

    >>> sources_of(None), sources_of({"clicks": {"0": 23}})
    ([], [{'number': 0, 'kind': 'kafka', 'offset': '{"clicks": {"0": 23}}', 'files': 0, 'checksums': {}}])
    >>> [one["number"] for one in sources_of((None, {"clicks": {"0": 23}}), streams=2)]
    [1]
    """
    if position is None:
        return []
    every = position if streams > 1 and isinstance(position, tuple) else (position,)
    if len(every) != streams:
        raise InvalidPlanError(
            "bootstrap: this query has two streams: give the position of each, position=({'views': {'0': 23}}, {'clicks': "
            f"{{'0': 17}}}}), and None for one that has none; got {position!r}"
        )
    found = []
    for number, each in enumerate(every):
        offset = json.dumps(each) if isinstance(each, Mapping) else ""
        if each is not None and kind_of(offset) != KAFKA:
            raise InvalidPlanError(
                "bootstrap: position must be the first offset of each partition that is not in history, by topic, e.g. "
                f"{{'clicks': {{'0': 23, '1': 17}}}}; got {each!r}"
            )
        found += [] if each is None else [SourcePosition(number, KAFKA, offset)]
    return positions_as_saved(found)
