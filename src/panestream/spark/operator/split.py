"""Windows whose rows are in several key groups: merges their parts in the micro-batch in which all of them fire."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.plan import WindowPlan
from panestream.spark.columns import quoted


def merge_split_results(rows: DataFrame, plan: WindowPlan) -> DataFrame:
    """Merge the main output of a split query to one row for each key and window.

    ``rows`` has a row for each key, window and key group with rows of that window.
    """
    together = plan.split.together if plan.split is not None else {}
    results = [
        _whole(field, F.col(quoted(field.name)), together[field.name]).alias(field.name)
        for field in rows.schema
        if field.name in together
    ]
    grouped = rows.groupBy(*(F.col(quoted(name)) for name in (*plan.key_names, *plan.window_names))).agg(*results)
    return grouped.select(*(F.col(quoted(field.name)) for field in rows.schema))


def open_windows(shown: DataFrame, plan: WindowPlan) -> DataFrame:
    """Merge the view of open windows of a split query to one row for each key and window, without a key group."""
    together = plan.split.together if plan.split is not None else {}
    parts: dict[str, T.StructType] = {field.name: field.dataType for field in shown.schema}  # type: ignore[misc]
    results = [
        _whole(field, F.col("results")[field.name], together[field.name]).alias(field.name) for field in parts["results"].fields
    ]
    places = [name for name in ("key", "window", "window_start", "window_end", "operator") if name in shown.columns]
    same = [F.max(name).alias(name) for name in ("contents", "firings", "last_firing", "due", "closes")]
    sums = [F.sum(name).alias(name) for name in ("rows", "bytes")]
    grouped = shown.groupBy(*places).agg(F.struct(*results).alias("results"), *same, *sums)
    return grouped.withColumn("key_group", F.lit(None).cast("int")).select(*shown.columns)


def timers(shown: DataFrame) -> DataFrame:
    """Merge the view of timers of a split query to one row for each key and window."""
    return shown.withColumn("key_group", F.lit(None).cast("int")).distinct()


def _whole(field: T.StructField, part: Column, how: str) -> Column:
    kind = field.dataType
    if how != "sum":
        return F.min(part) if how == "min" else F.max(part)
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return F.sum(part).cast(kind)
    # Spark's own sum of integers wraps around if ANSI mode is off.
    total = F.sum(part.cast("decimal(38, 0)") if isinstance(kind, T.IntegralType) else part).try_cast(kind)
    error = F.raise_error(F.lit(f"the column {field.name!r} left the range of {kind.simpleString()}: cast its input to double"))
    return F.when((F.count(part) > 0) & total.isNull(), error.cast(kind)).otherwise(total)


__all__ = ["merge_split_results", "open_windows", "timers"]
