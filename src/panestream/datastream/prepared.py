"""A windowed query that is built before its input is there: for Spark's declarative pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.datastream.result import WindowedResult
from panestream.engine.plan import MAIN
from panestream.engine.shown import Explanation, Shown, parts_of
from panestream.errors import InvalidPlanError
from panestream.spark.asking import asking
from panestream.spark.failures import raise_as
from panestream.spark.types import schema_of, spark_schema


def prepare(
    build: Callable[[DataFrame], WindowedResult],
    schema: str | T.StructType,
    *,
    streaming: bool = True,
    spark: SparkSession | None = None,
) -> PreparedQuery:
    """Builds a query before its input is there, so that applying it to the input asks Spark nothing.

    The query functions of Spark's declarative pipelines (``@dp.table``) may not look at a DataFrame: asking for its schema is
    refused there, and a table of the pipeline may not exist yet. So ``prepare`` stands outside of them. It asks all there is to
    ask over an empty DataFrame of these columns; no Spark job runs::

        windows = pst.prepare(
            lambda clicks: pst.stream(clicks).assign_timestamps(...).key_by("user").window(...).aggregate(agg.count().alias("n")),
            "user STRING, ts TIMESTAMP",
        )

        @dp.table
        def clicks_per_user():
            return windows.main(spark.readStream.table("clicks"))

    Args:
        build: given a DataFrame, returns what ``.aggregate``, ``.apply`` and their like return. Columns are named
            (``"price"``, ``F.col("price")``): one of the DataFrame itself (``clicks.price``) belongs to no other.
        schema: the columns of the rows to come, as DDL or as Spark's type. Rows may have more columns.
        streaming: whether the rows will be a stream (a streaming table of a pipeline) or a batch (a materialized view).
        spark: the session; None: the active one.

    Returns:
        What gives ``.main(rows)`` and ``.output(tag, rows)``.

    Raises:
        InvalidPlanError: ``build`` returns something else, or uses columns of the DataFrame itself; ``top`` on a stream.
        PanestreamError: whatever the steps in ``build`` refuse.
    """
    session = spark or SparkSession.active()
    kind = spark_schema(schema_of(session, schema))
    result = build(_rows_like(session, kind, streaming=streaming))
    if not isinstance(result, WindowedResult):
        raise InvalidPlanError(f"prepare: build must return what .aggregate, .apply and their like return, not {result!r}")
    if result.windowed.keyed.source.sides is not None:
        raise InvalidPlanError(
            "prepare: a query is prepared for the rows of one input, and build joins two streams: start it with result.start(...)"
        )
    prepared = PreparedQuery(result, kind)
    try:
        with asking():
            # Asks all there is to ask; and shows what holds for this one DataFrame only.
            for tag in prepared.result.plan.tags:
                prepared.result.output_over(_rows_like(session, kind, streaming=streaming), tag, quiet=True).schema  # noqa: B018
    except AnalysisException as error:
        reason = str(error).strip().splitlines()[0]
        refused = InvalidPlanError(
            "prepare: build uses a Column of the DataFrame that it is given, which other rows do not have: write the name or "
            f"F.col('name') ({reason})"
        )
        raise_as(refused, error)
    return prepared


def _rows_like(spark: SparkSession, schema: T.StructType, *, streaming: bool) -> DataFrame:
    """An empty DataFrame that nobody reads."""
    rows = spark.readStream.format("rate").load() if streaming else spark.range(0)
    return rows.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema))


@dataclass(frozen=True, eq=False, repr=False)
class PreparedQuery(Shown):
    """A query without its input. Made by :func:`prepare`; applying it runs no Spark job and needs no analysis.

    Attributes:
        result: the query over an empty DataFrame.
        schema: the columns that rows must have.
    """

    result: WindowedResult
    schema: T.StructType

    def main(self, rows: DataFrame) -> DataFrame:
        """The windows' results: key columns, window_start, window_end, results.

        A stream takes its settings from whoever starts it: in a pipeline ``configuration`` of the spec, or ``spark_conf`` of the
        table. Warns where the session has others, as :attr:`WindowedResult.main` does.

        Args:
            rows: with the columns of the schema.
        """
        return self.result.output_over(rows, MAIN)

    def output(self, tag: str, rows: DataFrame) -> DataFrame:
        """The rows of another output, e.g. late ones.

        A table made of them is a query of its own that computes the operator once more, with a state of its own.

        Args:
            tag: the output's name.
            rows: with the columns of the schema.

        Raises:
            InvalidPlanError: no such output.
        """
        return self.result.output_over(rows, tag)

    def explain(self) -> Explanation:
        """How the query will run; see :meth:`WindowedResult.explain`."""
        return self.result.explain()

    def _parts(self) -> Mapping[str, str]:
        return {**parts_of(self.result)}
