"""One computed micro-batch: the counters of its key groups, and the rows of each output, possibly already on the driver."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.exchange.group_run import METRICS
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.storage import payload
from panestream.spark.columns import quoted
from panestream.spark.operator.dataflow import unpack
from panestream.spark.progress.micro_batch import metrics_of
from panestream.spark.types import spark_schema

FEW_BYTES = 1 << 19
"""The limit for one output. Rows on the driver travel with their task, and Spark warns about tasks larger than a megabyte."""
FEW_BYTES_OF_A_GROUP = 1 << 12
"""The size that a payload may have even if very many key groups share the limit above."""
FEW_PAIRS = 1 << 14
"""A few rows of two streams may have very many pairs."""
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True)
class BatchOutput:
    """A micro-batch whose operator ran.

    If an output has few rows, they come with the counters. A sink then needs neither a Python worker nor a task for each key
    group to write them, and writes one file. Otherwise the sinks read the rows that Spark has cached.

    Attributes:
        operated: the operator's output, cached.
        plan: the query.
        metrics: the counters of each key group.
        bodies: by output tag, the payloads of its rows, or None if some were too large. Tags without rows are missing.
    """

    operated: DataFrame
    plan: WindowPlan
    metrics: list[dict[str, Any]]
    bodies: Mapping[str, list[bytes] | None]

    @classmethod
    def of(cls, operated: DataFrame, plan: WindowPlan) -> BatchOutput:
        """Run the operator, in one job."""
        few = max(FEW_BYTES_OF_A_GROUP, FEW_BYTES // plan.groups)
        # As text, since each function of a Column takes a dozen Java calls, in every micro-batch.
        brought = f"CASE WHEN tag = '{METRICS}' OR length(body) <= {few} THEN body END AS body"
        rows = operated.selectExpr("tag", brought).collect()
        bodies: dict[str, list[bytes] | None] = {}
        metrics = []
        for tag, body in rows:
            if tag == METRICS:
                metrics.append(body.decode())
                continue
            collected = bodies.setdefault(tag, [])
            if body is None:
                bodies[tag] = None
            elif collected is not None:
                collected.append(bytes(body))
        return cls(operated, plan, metrics_of(metrics), bodies)

    @property
    def present(self) -> Collection[str]:
        """The outputs that have rows."""
        return self.bodies.keys()

    def rows(self, tag: str) -> DataFrame:
        """Return the rows of one output, with only the largest of each window if the plan has ``top``."""
        rows = self._brought(tag)
        return output(self.operated, self.plan, tag) if rows is None else _decided(rows, self.plan, tag)

    def _brought(self, tag: str) -> DataFrame | None:
        """Return the rows on the driver, or None if they are too many or PySpark does not convert their types exactly."""
        bodies, schema, emitted = self.bodies.get(tag, []), self.plan.output_schema(tag), self.plan.emitted_schema(tag)
        # For nested values with times, PySpark's conversion from Arrow loses the nulls.
        if bodies is None or any(pa.types.is_nested(field.type) for field in schema):
            return None
        tables = [payload.decode(body, emitted)[0] for body in bodies]
        if tag == MAIN and self.plan.pairs is not None:
            pairs = self.plan.pairs
            if sum(map(pairs.count, tables)) > FEW_PAIRS:
                return None
            tables = [table for table_of_body in tables for table in pairs.opened(table_of_body)]
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        spark = self.operated.sparkSession
        if table.nbytes > FEW_BYTES or int(spark.conf.get(_ARROW_ROWS) or 0) <= 0:
            return None
        return spark.createDataFrame(table, spark_schema(schema)).coalesce(1)


def output(operated: DataFrame, plan: WindowPlan, tag: str) -> DataFrame:
    """Return the rows of one output of the operator, like :meth:`BatchOutput.rows`, from Spark's cache."""
    return _decided(unpack(operated, plan, tag), plan, tag)


def _decided(rows: DataFrame, plan: WindowPlan, tag: str) -> DataFrame:
    """Complete the rows with the parts that a key group cannot decide alone or need not send."""
    if tag == MAIN and plan.constants:
        rows = rows.select("*", *(F.lit(text).alias(name) for name, text in plan.constants.items()))
    if tag == MAIN and plan.split is not None:
        return merge_split_results(rows, plan)
    if tag != MAIN or plan.top is None:
        return rows
    # Every key group kept its own largest. All groups fire a window in the same micro-batch, so these rows suffice.
    order = [F.col(quoted(plan.top.by)).desc_nulls_last()]
    order += [F.col(quoted(name)).asc_nulls_first() for name in plan.key_names]
    ranked = rows.withColumn("rank", F.row_number().over(Window.partitionBy(*plan.window_names).orderBy(*order)))
    return ranked.where(F.col("rank") <= plan.top.n)


def merge_split_results(rows: DataFrame, plan: WindowPlan) -> DataFrame:
    """Merge the main output of a split query to one row for each key and window.

    ``rows`` has a row for each key, window and key group with rows of that window.
    """
    together = plan.split.together if plan.split is not None else {}
    results = [
        _merged(field, F.col(quoted(field.name)), together[field.name]).alias(field.name)
        for field in rows.schema
        if field.name in together
    ]
    grouped = rows.groupBy(*(F.col(quoted(name)) for name in (*plan.key_names, *plan.window_names))).agg(*results)
    return grouped.select(*(F.col(quoted(field.name)) for field in rows.schema))


def merge_split_windows(view: DataFrame, plan: WindowPlan) -> DataFrame:
    """Merge the view of open windows of a split query to one row for each key and window, without a key group."""
    together = plan.split.together if plan.split is not None else {}
    parts: dict[str, T.StructType] = {field.name: field.dataType for field in view.schema}  # type: ignore[misc]
    results = [
        _merged(field, F.col("results")[field.name], together[field.name]).alias(field.name) for field in parts["results"].fields
    ]
    places = [name for name in ("key", "window", "window_start", "window_end", "operator") if name in view.columns]
    same = [F.max(name).alias(name) for name in ("contents", "firings", "last_firing", "due", "closes")]
    sums = [F.sum(name).alias(name) for name in ("rows", "bytes")]
    grouped = view.groupBy(*places).agg(F.struct(*results).alias("results"), *same, *sums)
    return grouped.withColumn("key_group", F.lit(None).cast("int")).select(*view.columns)


def merge_split_timers(view: DataFrame) -> DataFrame:
    """Merge the view of timers of a split query to one row for each key and window."""
    return view.withColumn("key_group", F.lit(None).cast("int")).distinct()


def _merged(field: T.StructField, part: Column, how: str) -> Column:
    kind = field.dataType
    if how != "sum":
        return F.min(part) if how == "min" else F.max(part)
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return F.sum(part).cast(kind)
    # Spark's own sum of integers wraps around if ANSI mode is off.
    total = F.sum(part.cast("decimal(38, 0)") if isinstance(kind, T.IntegralType) else part).try_cast(kind)
    error = F.raise_error(F.lit(f"the column {field.name!r} left the range of {kind.simpleString()}: cast its input to double"))
    return F.when((F.count(part) > 0) & total.isNull(), error.cast(kind)).otherwise(total)
