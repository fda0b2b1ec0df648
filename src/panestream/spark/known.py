"""Schemas that we chose ourselves, stored for the Spark Connect client so that it need not ask the server."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

_KEPT = "_cached_schema"


def with_known_schema(df: DataFrame, schema: T.StructType) -> DataFrame:
    """Return the DataFrame with its schema stored, so that the client does not ask the server.

    ``mapInArrow`` and ``transformWithState`` need the column names, which takes a server call through Connect. Query functions of
    Spark's declarative pipelines refuse such calls, and the input may not exist yet. The attribute is the client's own cache for
    results of functions. A client without it, or classic Spark, works as before.
    """
    if getattr(df, _KEPT, schema) is None:
        setattr(df, _KEPT, schema)
    return df
