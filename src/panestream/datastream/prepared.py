"""Windowed queries that are built before their input exists, for Spark's declarative pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.datastream.result import WindowedResult
from panestream.engine.explain import Explanation, ReprHtml, parts_of
from panestream.engine.plan import MAIN
from panestream.errors import InvalidPlanError
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import raise_as
from panestream.spark.types import schema_of, spark_schema


def prepare(
    build: Callable[..., WindowedResult],
    schema: str | T.StructType,
    *others: str | T.StructType,
    streaming: bool = True,
    spark: SparkSession | None = None,
) -> PreparedQuery:
    """Build a query before its input exists, so that Spark does not analyse anything when it is applied.

    The query functions of Spark's declarative pipelines (``@dp.table``) may not inspect a DataFrame: reading its schema is
    refused there, and a table of the pipeline may not exist yet. So call ``prepare`` outside of them. It analyses the query over
    an empty DataFrame with these columns, without a Spark job::

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
        build: takes a DataFrame and returns the result of ``.aggregate``, ``.apply`` or a similar method. Refer to columns by
            name (``"price"``, ``F.col("price")``), since ``clicks.price`` belongs to this DataFrame only. Pass it to
            ``pst.stream`` unchanged, and filter or extend the rows that the query is applied to instead.
        schema: the columns of the rows to come, as DDL or Spark type. Rows may have more columns.
        *others: for a query over two streams, the columns of the second DataFrame.
        streaming: whether the rows will be a stream (a streaming table of a pipeline) or a batch (a materialized view).
        spark: the session. The default is the active one.

    Raises:
        InvalidPlanError: ``build`` returns something else, uses columns of the DataFrame itself, or changes it before
            ``pst.stream``. Also for ``top`` on a stream.
        PanestreamError: any error of the steps in ``build``.

    Examples:
        >>> def hourly(rows):
        ...     events = pst.stream(rows, time="ts", out_of_orderness="5 seconds")
        ...     return events.group_by("user", pst.tumbling("1 hour")).agg(F.sum("price").alias("total"))
        >>> pst.prepare(hourly, "user STRING, price DOUBLE, ts TIMESTAMP", streaming=False).main(df).columns
        ['user', 'window_start', 'window_end', 'total']
    """
    session = spark or SparkSession.active()
    kinds = tuple(spark_schema(schema_of(session, declared)) for declared in (schema, *others))
    given = [_rows_like(session, kind, streaming=streaming) for kind in kinds]
    result = build(*given)
    if not isinstance(result, WindowedResult):
        raise InvalidPlanError(f"prepare: build must return what .aggregate, .apply and their like return, not {result!r}")
    prepared = PreparedQuery(result, kinds, _places(result, given))
    try:
        with silence_analysis_errors():
            # Performs all analysis by Spark, and reveals references to this one DataFrame.
            for tag in prepared.result.plan.tags:
                rows = _together(prepared, [_rows_like(session, kind, streaming=streaming) for kind in kinds])
                prepared.result.output_over(rows, tag, quiet=True).schema  # noqa: B018
    except AnalysisException as error:
        reason = str(error).strip().splitlines()[0]
        refused = InvalidPlanError(
            "prepare: build uses a Column of its argument, which other rows do not have. Write the name or "
            f"F.col('name') ({reason})"
        )
        raise_as(refused, error)
    return prepared


def _places(result: WindowedResult, given: Sequence[DataFrame]) -> tuple[int, ...]:
    """Return the positions of the left and right DataFrame of ``build`` in the query; refuse others, which rows would bypass."""
    source = result.windowed.keyed.source
    begins = [source.df] if source.united is None else [source.united.left, source.united.right]
    places = tuple(next((place for place, one in enumerate(given) if one is df), -1) for df in begins)
    if -1 in places:
        raise InvalidPlanError(
            "prepare: build starts with another DataFrame than its argument, so later rows would skip the steps in between. "
            "Start with pst.stream(rows), and prepare the rows before: prepared.main(rows.where(...)). A second stream is a "
            "second argument of build with its own schema: prepare(lambda views, clicks: ..., schema, schema)"
        )
    if len(given) > 1 and set(places) != set(range(len(given))):
        raise InvalidPlanError(
            f"prepare: {len(given)} schemas were given, but build does not use all of them. Give one for each stream that it "
            f"joins"
        )
    return places


def _rows_like(spark: SparkSession, schema: T.StructType, *, streaming: bool) -> DataFrame:
    """Return an empty DataFrame for analysis only."""
    rows = spark.readStream.format("rate").load() if streaming else spark.range(0)
    return rows.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema))


@dataclass(frozen=True, eq=False, repr=False)
class PreparedQuery(ReprHtml):
    """A query without its input, created by :func:`prepare`. Applying it needs neither a Spark job nor analysis.

    ``schemas`` are the columns that the rows of each stream must have, ``places`` the positions of the left and right stream.

    >>> def pairs(rows):
    ...     return pst.stream(rows).key_by("user").count_window(2).aggregate(agg.count().alias("n"))
    >>> prepared = pst.prepare(pairs, "user STRING, ts TIMESTAMP", streaming=False)
    >>> prepared.schema.names, prepared.main(df).columns
    (['user', 'ts'], ['user', 'window_start', 'window_end', 'n'])
    """

    result: WindowedResult
    schemas: tuple[T.StructType, ...]
    places: tuple[int, ...] = (0,)

    @property
    def schema(self) -> T.StructType:
        """The columns that rows must have, or for two streams those of the first DataFrame."""
        return self.schemas[0]

    def main(self, rows: DataFrame, *others: DataFrame) -> DataFrame:
        """Return the results for these rows, and for two streams ``others``: key columns, window_start, window_end, results.

        A stream takes its settings from the starting session, in a pipeline ``configuration`` of the spec, or ``spark_conf`` of
        the table. Warns as :attr:`WindowedResult.main` does for other settings. Raises InvalidPlanError without a DataFrame for
        each schema.
        """
        return self.result.output_over(_together(self, [rows, *others]), MAIN)

    def output(self, tag: str, rows: DataFrame, *others: DataFrame) -> DataFrame:
        """Return another output for these rows, e.g. late ones; arguments and errors are as for :meth:`main`.

        A table made from it is a separate query that computes the operator again, with its own state. :meth:`all_outputs` needs
        only one.
        """
        return self.result.output_over(_together(self, [rows, *others]), tag)

    def all_outputs(self, rows: DataFrame, *others: DataFrame) -> DataFrame:
        """Return the rows of all outputs in one DataFrame, so that one query with one state serves them all.

        The column ``output`` is ``"main"`` or a tag. One struct column for each output has the row's columns, and is null in rows
        of other outputs. Store them in one table, and read each output from it::

            @dp.table
            def windows():
                return prepared.all_outputs(spark.readStream.json(path))

            @dp.table
            def late_clicks():
                return spark.readStream.table("windows").where("output = 'late'").select("late.*")

        Arguments, warnings and errors are as for :meth:`main`.

        Raises:
            InvalidPlanError: also for ``top``, ``split_distinct`` and ``panes``, and if an output is named ``output``.

        Examples:
            >>> def pairs(rows):
            ...     return pst.stream(rows).key_by("user").count_window(2).aggregate(agg.count().alias("n"))
            >>> prepared = pst.prepare(pairs, "user STRING, ts TIMESTAMP", streaming=False)
            >>> rows = prepared.all_outputs(df)
            >>> rows.columns
            ['output', 'main']
            >>> rows.where("output = 'main'").select("main.*").columns
            ['user', 'window_start', 'window_end', 'n']
        """
        return self.result.all_outputs_over(_together(self, [rows, *others]))

    def explain(self) -> Explanation:
        """Explain how the query will run; see :meth:`WindowedResult.explain`."""
        return self.result.explain()

    def _parts(self) -> Mapping[str, str]:
        return {**parts_of(self.result)}


def _counted(streams: int) -> str:
    return "one DataFrame" if streams == 1 else f"{streams} DataFrames"


def _together(prepared: PreparedQuery, rows: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all DataFrames as input of the query; raise InvalidPlanError unless there is one for each schema."""
    if len(rows) != len(prepared.schemas):
        raise InvalidPlanError(
            f"the query was prepared for {_counted(len(prepared.schemas))}, and is applied to {_counted(len(rows))}: give as "
            "many, in the order of the schemas"
        )
    united = prepared.result.windowed.keyed.source.united
    return rows[0] if united is None else united.rows_of(*(rows[place] for place in prepared.places))
