"""Summarize a state: executors reduce each key group, and the driver merges the small results."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.key_groups import put_together
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from panestream.inspection.asked import StateFilter
from panestream.inspection.merging import Looked, summary_of
from panestream.inspection.reducing import Part, reduced
from panestream.inspection.summary import Summary
from panestream.spark.checkpoint.spark_logs import planned_at
from panestream.spark.columns import quoted
from panestream.spark.compat import without_pandas
from panestream.spark.failures import without_internal_traceback
from panestream.spark.savepoint.damage import check_all_told, reading
from panestream.spark.savepoint.pieces import PIECES, pieces_of_rows
from panestream.spark.savepoint.values import OfGroup, StoredState, table_in, tables_of
from panestream.spark.types import spark_schema

PARTS = pa.schema([("part", pa.string())])
"""The result of a key group: one row of JSON."""


def summary_of_stored(stored: StoredState, asked: StateFilter) -> Summary:
    """Return the summary of a checkpoint's state; raises StateDamagedError if it cannot be read, or key groups are missing."""
    planned = planned_at(stored.spark, stored.path, stored.batch_id)
    groups = groups_of_key(stored.spark, stored.plan, asked)
    parts = stored.made_of(reducer(stored.plan, asked), PARTS, groups)
    looked = Looked(stored.path, stored.batch_id, None if planned is None else planned * 1000, time.time_ns() // 1000)
    with reading(stored):
        told = _told(parts)
    if groups is None:
        check_all_told(stored, len(told))
    return summary_of(stored.plan, told, asked, looked)


def reducer(plan: WindowPlan, asked: StateFilter) -> OfGroup:
    """Return the function that reduces the state of a key group on the executors."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        return [_part(reduced(plan, tables_of(plan, state, group), group, asked))]

    return made


def summary_of_saved(
    plan: WindowPlan,
    headers: Sequence[Mapping[str, Any]],
    tables: Mapping[str, DataFrame],
    asked: StateFilter,
    looked: Looked,
) -> Summary:
    """Return the summary of saved state tables, which have the number of the key group as the first column.

    ``headers`` are by key group. ``looked`` has the name of the state and the current time.
    """
    spark = next(iter(tables.values())).sparkSession
    asked_groups = groups_of_key(spark, plan, asked)
    groups = list(range(len(headers))) if asked_groups is None else list(asked_groups)
    with without_pandas():
        pieces = [_pieces(name, table.where(F.col("key_group").isin(groups))) for name, table in tables.items()]
        # Each key group has a row, because its header has the time even without open windows.
        none = [F.col("id").cast("int").alias("key_group"), F.lit(None).cast("string").alias("table")]
        every = spark.range(0, len(headers), 1, 1).where(F.col("id").isin(groups))
        together = reduce(DataFrame.unionAll, pieces, every.select(*none, F.lit(None).cast("binary").alias("body")))
        placed = together.repartition(len(groups), "key_group").sortWithinPartitions("key_group")
        parts = placed.mapInArrow(SavedGroups(plan, tuple(headers), asked).__call__, spark_schema(PARTS))
        return summary_of(plan, _told(parts), asked, looked)


@dataclass(frozen=True)
class SavedGroups:
    """The function for ``mapInArrow`` that reduces saved key groups, one at a time. Pieces must be sorted by key group."""

    plan: WindowPlan
    headers: tuple[Mapping[str, Any], ...]
    asked: StateFilter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        empty = tables_of(self.plan, MemoryState(), 0).tables
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        for group, pieces in groupby(rows, key=lambda row: row[0]):
            with without_internal_traceback():
                parts = ({name: table_in(body)} for _, name, body in pieces if name is not None)
                found = put_together(self.headers[group], parts, group)
                saved = StateTables(self.headers[group], {**empty, **found.tables})
                yield from _part(reduced(self.plan, saved, group, self.asked)).to_batches()


def _pieces(name: str, table: DataFrame) -> DataFrame:
    # mapInArrow reads a dot in a column's name as a field of a struct.
    names = table.columns[1:]
    columns = [F.col(quoted(each)).alias(f"column_{place}") for place, each in enumerate(names)]
    return table.select("key_group", *columns).mapInArrow(pieces_of_rows(name, names), spark_schema(PIECES))


def _part(part: Mapping[str, Any]) -> pa.Table:
    return pa.table({"part": [json.dumps(part)]}, PARTS)


def _told(parts: DataFrame) -> list[Part]:
    return [json.loads(row.part) for row in parts.collect()]


def groups_of_key(spark: SparkSession, plan: WindowPlan, asked: StateFilter) -> Sequence[int] | None:
    """Return the key groups of the requested keys, or None for any."""
    if not asked.keys or len(asked.keys) < len(plan.key_schema) or plan.split is not None:
        return None
    if any(pa.types.is_floating(column.type) for column in asked.keys.values()):
        return None  # -0.0 and 0.0 are one key
    columns = [asked.keys[place] for place in range(len(plan.key_schema))]
    names = [f"key_{place}" for place in range(len(columns))]
    table = pa.Table.from_arrays(columns, names=names)
    # With its schema, because Spark would otherwise read a time without a zone as an instant, which has another hash.
    given = spark.createDataFrame(table, spark_schema(table.schema))
    # Same hash as in the exchange.
    hashed = F.pmod(F.xxhash64(*names), F.lit(plan.groups))
    return [int(row[0]) for row in given.select(hashed).collect()]


__all__ = ["groups_of_key", "reducer", "summary_of_saved", "summary_of_stored"]
