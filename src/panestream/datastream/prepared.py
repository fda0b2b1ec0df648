"""A windowed query that is built before its input is there: for Spark's declarative pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.datastream.result import WindowedResult
from panestream.engine.explain import Explanation, Shown, parts_of
from panestream.engine.plan import MAIN
from panestream.errors import InvalidPlanError
from panestream.spark.asking import asking
from panestream.spark.failures import raise_as
from panestream.spark.types import schema_of, spark_schema


def prepare(
    build: Callable[..., WindowedResult],
    schema: str | T.StructType,
    *others: str | T.StructType,
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

    A query over two streams takes two DataFrames, ``prepare(lambda views, clicks: ..., "user STRING, ...", "user STRING, ...")``,
    and is applied to the rows of both, ``.main(views, clicks)``.

    Args:
        build: given a DataFrame, returns what ``.aggregate``, ``.apply`` and their like return. Columns are named
            (``"price"``, ``F.col("price")``): one of the DataFrame itself (``clicks.price``) belongs to no other. It goes into
            ``pst.stream`` as it is: what filters rows or adds columns is done to the rows that the query is applied to.
        schema: the columns of the rows to come, as DDL or as Spark's type. Rows may have more columns.
        *others: of a query over two streams, those of the second DataFrame.
        streaming: whether the rows will be a stream (a streaming table of a pipeline) or a batch (a materialized view).
        spark: the session; None: the active one.

    Returns:
        What gives ``.main(rows)`` and ``.output(tag, rows)``.

    Raises:
        InvalidPlanError: ``build`` returns something else, uses columns of the DataFrame itself, or changes it before
            ``pst.stream``; ``top`` on a stream.
        PanestreamError: whatever the steps in ``build`` refuse.
    """
    session = spark or SparkSession.active()
    kinds = tuple(spark_schema(schema_of(session, one)) for one in (schema, *others))
    given = [_rows_like(session, kind, streaming=streaming) for kind in kinds]
    result = build(*given)
    if not isinstance(result, WindowedResult):
        raise InvalidPlanError(f"prepare: build must return what .aggregate, .apply and their like return, not {result!r}")
    prepared = PreparedQuery(result, kinds, _places(result, given))
    try:
        with asking():
            # Asks all there is to ask; and shows what holds for this one DataFrame only.
            for tag in prepared.result.plan.tags:
                rows = _together(prepared, [_rows_like(session, kind, streaming=streaming) for kind in kinds])
                prepared.result.output_over(rows, tag, quiet=True).schema  # noqa: B018
    except AnalysisException as error:
        reason = str(error).strip().splitlines()[0]
        refused = InvalidPlanError(
            "prepare: build uses a Column of the DataFrame that it is given, which other rows do not have: write the name or "
            f"F.col('name') ({reason})"
        )
        raise_as(refused, error)
    return prepared


def _places(result: WindowedResult, given: Sequence[DataFrame]) -> tuple[int, ...]:
    """Which of the DataFrames that ``build`` was given the query begins with: of two streams the left one and the right one.

    Raises:
        InvalidPlanError: it begins with others, which rows to come would not go through; or leaves one out.
    """
    source = result.windowed.keyed.source
    begins = [source.df] if source.united is None else [source.united.left, source.united.right]
    places = tuple(next((place for place, one in enumerate(given) if one is df), -1) for df in begins)
    if -1 in places:
        raise InvalidPlanError(
            "prepare: build begins with another DataFrame than it is given, and rows to come would not go through what makes it: "
            "write pst.stream(rows) there, and apply the query to rows that are filtered and have their columns, "
            "prepared.main(rows.where(...)). A second stream is given to build as well, and has a schema: prepare(lambda views, "
            "clicks: ..., schema, schema)"
        )
    if len(given) > 1 and set(places) != set(range(len(given))):
        raise InvalidPlanError(
            f"prepare: {len(given)} schemas were given, and build makes no use of some: give one for each stream that it joins"
        )
    return places


def _rows_like(spark: SparkSession, schema: T.StructType, *, streaming: bool) -> DataFrame:
    """An empty DataFrame that nobody reads."""
    rows = spark.readStream.format("rate").load() if streaming else spark.range(0)
    return rows.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema))


@dataclass(frozen=True, eq=False, repr=False)
class PreparedQuery(Shown):
    """A query without its input. Made by :func:`prepare`; applying it runs no Spark job and needs no analysis.

    Attributes:
        result: the query over an empty DataFrame.
        schemas: the columns that rows must have; of a query over two streams those of both.
        places: of two streams, which of the two is the left one, and which the right one.
    """

    result: WindowedResult
    schemas: tuple[T.StructType, ...]
    places: tuple[int, ...] = (0,)

    @property
    def schema(self) -> T.StructType:
        """The columns that rows must have; of a query over two streams those of the first DataFrame."""
        return self.schemas[0]

    def main(self, rows: DataFrame, *others: DataFrame) -> DataFrame:
        """The windows' results: key columns, window_start, window_end, results.

        A stream takes its settings from whoever starts it: in a pipeline ``configuration`` of the spec, or ``spark_conf`` of the
        table. Warns where the session has others, as :attr:`WindowedResult.main` does.

        Args:
            rows: with the columns of the schema.
            *others: of a query over two streams, the rows of the second, in the order of the schemas.

        Raises:
            InvalidPlanError: the rows of so many streams were not asked for.
        """
        return self.result.output_over(_together(self, [rows, *others]), MAIN)

    def output(self, tag: str, rows: DataFrame, *others: DataFrame) -> DataFrame:
        """The rows of another output, e.g. late ones.

        A table made of them is a query of its own that computes the operator once more, with a state of its own.

        Args:
            tag: the output's name.
            rows: with the columns of the schema.
            *others: as of :meth:`main`.

        Raises:
            InvalidPlanError: no such output; the rows of so many streams were not asked for.
        """
        return self.result.output_over(_together(self, [rows, *others]), tag)

    def explain(self) -> Explanation:
        """How the query will run; see :meth:`WindowedResult.explain`."""
        return self.result.explain()

    def _parts(self) -> Mapping[str, str]:
        return {**parts_of(self.result)}


def _counted(streams: int) -> str:
    return "one DataFrame" if streams == 1 else f"{streams} DataFrames"


def _together(prepared: PreparedQuery, rows: Sequence[DataFrame]) -> DataFrame:
    """The rows of all DataFrames as the query takes them.

    Raises:
        InvalidPlanError: there are more or less than schemas.
    """
    if len(rows) != len(prepared.schemas):
        raise InvalidPlanError(
            f"the query was prepared for {_counted(len(prepared.schemas))}, and is applied to {_counted(len(rows))}: give as "
            "many, in the order of the schemas"
        )
    united = prepared.result.windowed.keyed.source.united
    return rows[0] if united is None else united.rows_of(*(rows[place] for place in prepared.places))
