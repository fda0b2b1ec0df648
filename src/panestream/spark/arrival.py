"""The order in which rows arrive, given as columns of the input."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError
from panestream.spark.columns import column_of, type_of
from panestream.spark.compat import group_values
from panestream.spark.expressions import text_of
from panestream.spark.types import to_arrow

_ORDERABLE = (
    T.BooleanType, T.IntegralType, T.DecimalType, T.FloatType, T.DoubleType, T.StringType, T.BinaryType, T.DateType,
    T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
_POSITION = "position"


def order_of(df: DataFrame, given: Sequence[str | Column]) -> tuple[list[Column], pa.Schema]:
    """Return the columns that rows are ordered by, and their types by the user's text.

    Raises:
        InvalidPlanError: a column does not exist, or its values cannot be ordered.
    """
    columns, fields = [], []
    for one in given:
        what = "the arrival order"
        column, text = column_of(df, one, what), text_of(df, one, what)
        kind = type_of(df, column)
        if not isinstance(kind, _ORDERABLE) or kind.simpleString().startswith("string collate"):
            raise InvalidPlanError(
                f"the arrival order {text!r} is a {kind.simpleString()}: it must be a number, a time, a date, a string without "
                "collation, binary or boolean; name one of its fields, or cast it"
            )
        columns.append(column)
        fields.append(pa.field(text, to_arrow(kind, f"{what} {text!r}")))
    return columns, pa.schema(fields)


def ordered(projected: DataFrame, groups: int, names: Sequence[str]) -> DataFrame:
    """Return a batch with the rows of each key group in one partition, in order, without the columns ``names``.

    Nulls come last, as in the engine. Rows that are equal in all these columns keep Spark's order. With several ``groups``, the
    column ``group`` has the number.
    """
    # The row's position, before rows change partitions.
    rows = projected.select("*", F.monotonically_increasing_id().alias(_POSITION))
    # Each group has its own partition.
    values = F.lit(list(group_values(groups)))
    rows = rows.repartition(groups, values[F.col("group")]) if groups > 1 else rows.repartition(1)
    kept = [name for name in projected.columns if name not in names]
    return rows.sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in (*names, _POSITION))).select(*kept)
