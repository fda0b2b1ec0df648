"""The summary of a state: every key group is reduced where it lies, and what little comes of each is put together here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan
from panestream.engine.storage.state import MemoryState
from panestream.inspection.asked import Asked
from panestream.inspection.merging import Looked, summary_of
from panestream.inspection.reducing import reduced
from panestream.inspection.summary import Summary
from panestream.spark.savepoint.values import OfGroup, StoredState, tables_of

PARTS = pa.schema([("part", pa.string())])
"""What comes of a key group: one row of JSON."""


def reducer(plan: WindowPlan, asked: Asked) -> OfGroup:
    """The function that reduces the state of a key group, on the executors."""

    def made(state: MemoryState, group: int) -> Iterable[pa.Table]:
        part = reduced(plan, tables_of(plan, state, group), group, asked)
        return [pa.table({"part": [json.dumps(part)]}, PARTS)]

    return made


def summarized(stored: StoredState, asked: Asked, looked: Looked) -> Summary:
    """The summary of a checkpoint's state.

    Args:
        stored: where it is.
        asked: which part of it.
        looked: what it is called, and when this is.
    """
    groups = groups_of_key(stored.spark, stored.plan, asked)
    parts = stored.made_of(reducer(stored.plan, asked), PARTS, groups)
    return summary_of(stored.plan, [json.loads(row.part) for row in parts.collect()], asked, looked)


def groups_of_key(spark: SparkSession, plan: WindowPlan, asked: Asked) -> Sequence[int] | None:
    """The key groups in which the keys lie that are asked for; None: any."""
    if len(asked.keys) < max(len(plan.key_schema), 1) or plan.split is not None:
        return None
    if any(pa.types.is_floating(column.type) for column in asked.keys.values()):
        return None  # -0.0 and 0.0 are one key
    columns = [asked.keys[place] for place in range(len(plan.key_schema))]
    names = [f"key_{place}" for place in range(len(columns))]
    given = spark.createDataFrame(pa.Table.from_arrays(columns, names=names))
    # As the exchange does it.
    hashed = F.pmod(F.xxhash64(*names), F.lit(plan.groups))
    return [int(row[0]) for row in given.select(hashed).collect()]


__all__ = ["PARTS", "groups_of_key", "reducer", "summarized"]
