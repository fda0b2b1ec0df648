"""Tells Spark Connect's client what it would ask the server: the columns of a DataFrame whose columns we chose ourselves."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

_KEPT = "_cached_schema"


def known(df: DataFrame, schema: T.StructType) -> DataFrame:
    """The DataFrame, whose schema the client need not ask for any more.

    ``mapInArrow`` and ``transformWithState`` ask for the names of the columns, through Spark Connect by a call of the server. In
    the query functions of Spark's declarative pipelines such calls are refused, and the input may not be there yet. The client
    keeps a schema that it knows in this attribute, as it does itself of a function's results; classic Spark has none, and asks no
    server. Where a client has none either, it asks, as it would have.
    """
    if getattr(df, _KEPT, schema) is None:
        setattr(df, _KEPT, schema)
    return df
