"""The table of keys that are filled although they may never have a row, read when the query is defined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.engine.kernels.columns import as_type, one_chunk
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import Names, key_of, quoted
from panestream.spark.failures import raise_as
from panestream.spark.types import spark_schema, sql_name, to_arrow
from panestream.windowing.fill import MOST_KEYS, ListedKeys


def listed_keys(query: DataFrame, schema: pa.Schema, given: DataFrame | Sequence[Any]) -> ListedKeys:
    """Read the keys that :meth:`WindowedStream.fill` takes, by the key columns of a query on a DataFrame."""
    if not len(schema):
        raise InvalidPlanError("fill: keys lists keys, and this query has none. Call .key_by(...) first, or leave out keys")
    table = given if isinstance(given, DataFrame) else _table_of(query, schema, given)
    if table.isStreaming:
        raise InvalidPlanError("fill: keys is a stream, and the keys are read once, at the start: read them with spark.read")
    find, columns = Names.of(table.sparkSession).finder(table.columns), []
    for field in schema:
        name = find(field.name)
        if name is None:
            raise InvalidPlanError(f"fill: keys has no column {field.name!r}; {did_you_mean(field.name, table.columns)}")
        # As the keys of rows, so that equal keys have equal hashes.
        columns.append(key_of(table, F.col(quoted(name)))[1])
    hashed = table.select(*(column.alias(f"key_{place}") for place, column in enumerate(columns)))
    for field, column in zip(schema, hashed.schema, strict=True):
        kind = to_arrow(column.dataType, f"keys: the column {field.name!r}")
        if kind != field.type:
            raise InvalidPlanError(
                f"fill: the column {field.name!r} of keys is {sql_name(kind)}, and the key is {sql_name(field.type)}: cast it"
            )
    rows = hashed.distinct().select("*", F.xxhash64(*hashed.columns).alias("hash")).limit(MOST_KEYS + 1).toArrow()
    if rows.num_rows > MOST_KEYS:
        raise InvalidPlanError(
            f"fill: keys has more than {MOST_KEYS:,} keys, and the plan of the query contains them: list fewer"
        )
    arrays = [as_type(one_chunk(column), field.type) for column, field in zip(rows.columns, schema, strict=False)]
    for array, field in zip(arrays, schema, strict=True):
        if array.null_count:
            raise InvalidPlanError(f"fill: keys has a null in {field.name!r}: drop such rows, a listed key has a value")
    return ListedKeys(pa.table([*arrays, one_chunk(rows.column("hash"))], schema=schema.append(pa.field("hash", pa.int64()))))


def _table_of(query: DataFrame, schema: pa.Schema, given: Sequence[Any]) -> DataFrame:
    """Return keys in a list: tuples with a value for each key column, or the values of a single key column."""
    if not isinstance(given, (list, tuple)):
        raise InvalidPlanError(
            f"fill: keys takes a DataFrame with the key columns, or a list of keys, got {type(given).__name__}"
        )
    rows = [tuple(key) if isinstance(key, (tuple, list)) else (key,) for key in given]
    wrong = next((row for row in rows if len(row) != len(schema)), None)
    if wrong is not None:
        raise InvalidPlanError(f"fill: the key {wrong!r} of keys is not of the key columns ({', '.join(schema.names)})")
    try:
        return query.sparkSession.createDataFrame(rows, spark_schema(pa.schema([field.with_nullable(True) for field in schema])))
    except PySparkException as error:
        columns = ", ".join(f"{field.name} {sql_name(field.type)}" for field in schema)
        raise_as(InvalidPlanError(f"fill: a key of keys has another type than the key columns ({columns}): {error}"), error)
