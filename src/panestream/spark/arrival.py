"""The order in which rows arrive, as columns of the input: what may be such a column, and how a batch is put in order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError
from panestream.spark.columns import column_of, type_of
from panestream.spark.expressions import text_of
from panestream.spark.operator.placement import group_values
from panestream.spark.types import to_arrow

_ORDERABLE = (
    T.BooleanType, T.IntegralType, T.DecimalType, T.FloatType, T.DoubleType, T.StringType, T.BinaryType, T.DateType,
    T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
_POSITION = "position"


def order_of(df: DataFrame, given: Sequence[str | Column]) -> tuple[list[Column], pa.Schema]:
    """The columns that rows are ordered by, and their types by what the user wrote.

    Raises:
        InvalidPlanError: no such column, or one whose values have no order.
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
    """A batch with the rows of each key group in one partition, in order.

    Nulls come last, as in the engine. Rows that are equal in all columns keep Spark's order.

    Args:
        projected: what ``pack`` takes, and the columns to order by.
        groups: how many key groups there are; if several, the column ``group`` has the number.
        names: the columns to order by. They stay behind.
    """
    # Which row of which partition it is, before rows change partitions.
    rows = projected.select("*", F.monotonically_increasing_id().alias(_POSITION))
    # Each group on a partition of its own.
    values = F.lit(list(group_values(groups)))
    rows = rows.repartition(groups, values[F.col("group")]) if groups > 1 else rows.repartition(1)
    kept = [name for name in projected.columns if name not in names]
    return rows.sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in (*names, _POSITION))).select(*kept)
