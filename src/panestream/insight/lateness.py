"""The advisor on Spark: three passes over the rows in order of arrival, which return only counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.datastream import WindowedResult
from panestream.engine.operators.panes.rule import pane_grid, why_not_aligned
from panestream.errors import InvalidPlanError
from panestream.insight.advice import SHARES, DelayCost, Lateness
from panestream.insight.delays import (
    BEHIND,
    CAME,
    CHANGES,
    COUNTED,
    FIRST,
    MAXIMA,
    NEEDED,
    UNKNOWN,
    Came,
    Closes,
    Completeness,
    CountRows,
    Maxima,
    PanesWait,
    WaitingCounts,
    Waits,
    starts,
    windows_of_a_key,
)
from panestream.spark.columns import column_of, key_of, micros_of, order_of, quoted, text_of
from panestream.spark.compat import without_pandas
from panestream.spark.types import spark_schema
from panestream.windowing.assigners import PredicateWindows, TumblingEventTimeWindows, WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.time import Duration, format_duration, to_micros

ROWS_IN_A_RANGE = 250_000
"""Approximate rows per range of the order of arrival. Spark keeps a cached shuffle as it is, even if its ranges are tiny."""
LARGEST = 2**60
"""The limit above which event times are invalid (about the years ±36,000), because their differences could overflow."""


@dataclass(frozen=True)
class LatenessRequest:
    """The arguments of :func:`lateness` after normalisation. ``delays`` are reported in addition to the usual ones."""

    df: DataFrame
    event_time: str | Column
    unit: str | None
    arrival: Sequence[str | Column]
    windows: WindowAssigner | None
    lateness: int
    partition: str | Column | None
    keys: Sequence[str | Column]
    together: bool
    delays: Sequence[int]


def lateness(
    source: DataFrame | WindowedResult,
    event_time: str | Column | None = None,
    arrival: str | Column | Sequence[str | Column] = (),
    *,
    unit: str | None = None,
    windows: WindowAssigner | Duration | None = None,
    allowed_lateness: Duration = timedelta(0),
    partition: str | Column | None = None,
    key: str | Column | Sequence[str | Column] = (),
    together: bool = False,
    delays: Iterable[Duration] = (),
) -> Lateness:
    """Measure on past rows (a batch) how many rows each watermark delay keeps, and its cost in state.

    A row is *behind* by the largest event time of all earlier rows minus its own, as for a watermark of bounded
    out-of-orderness. (This is not arrival minus event time. If every row arrives an hour after it happened, none is behind.) A
    row is *late* once the watermark has passed all its windows and the allowed lateness after them. Without ``windows``, it is
    late once the watermark has passed the row.

    With ``partition``, the smallest of the largest event times of the source partitions counts, as in
    :meth:`WatermarkStrategy.per_partition`. All partitions with rows count as known from the start (``expected``), so no row is
    late before each partition has had a row. Idleness is ignored, so a partition that ends early holds time back to the end.

    Rows are judged one by one, as in Flink. Spark judges all rows of a micro-batch by the watermark before it, so fewer rows are
    late there. ``together=True`` counts like Spark if ``arrival`` is equal for all rows of a micro-batch.

    Spark sorts the rows and reads them in three passes (four with ``key``). This process receives only counts, at most some
    hundred thousand numbers. The executors cache event time, arrival and hashes of the key in the meantime.

    Args:
        source: a batch DataFrame, or a :class:`WindowedResult` over one. The latter provides all arguments but ``together`` and
            ``delays``, and only its ``arrival`` can be replaced.
        event_time: a timestamp column, an SQL expression or a Column. With ``unit``, a number.
        arrival: the order of arrival, as one or several columns (:data:`panestream.order.FILE` sorts files by modification time
            and keeps the order within each). Rows that are equal in all columns are in Spark's order.
        unit: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"`` since the epoch, for a numeric event time.
        windows: tumbling, sliding or cumulating event-time windows, or a duration for tumbling windows of that size.
        allowed_lateness: how long a window takes rows after its end.
        partition: the column of source partitions, e.g. Kafka's ``partition``.
        key: key columns. With ``windows``, panes with rows are also counted for each key.
        together: whether rows that are equal in ``arrival`` arrive at once.
        delays: delays to report in addition to those that keep 90 %, 99 %, 99.9 %, 99.99 % and all rows.

    Returns:
        The findings. ``print`` shows a sentence and a table, and a notebook adds a plot. ``.delay(0.999)`` is a ``timedelta`` for
        ``WatermarkStrategy.for_bounded_out_of_orderness``.

    Raises:
        InvalidPlanError: if the source is a stream, event time or arrival is missing, a column does not exist, a duration is
            negative, or windows follow the clock or are not aligned for all keys (sessions, count windows).
        InvalidEventTimeError: if the event time is not a time.

    Examples:
        >>> rows = df.withColumn("received", F.expr("if(user = 'bob', ts, ts + INTERVAL 30 MINUTES)"))
        >>> found = pst.tools.lateness(rows, "ts", "received")
        >>> found.rows, found.behind, str(found.delay(1.0))
        (3, 1, '0:15:00')
    """
    if isinstance(source, WindowedResult):
        request = _result_request(source, event_time, arrival)
    else:
        order = (arrival,) if isinstance(arrival, (str, Column)) else tuple(arrival)
        keys = (key,) if isinstance(key, (str, Column)) else tuple(key)
        request = _rows_request(
            source, event_time, order, LatenessRequest(source, "", unit, order, None, 0, partition, keys, together, ())
        )
        assigner = windows if isinstance(windows, WindowAssigner) or windows is None else TumblingEventTimeWindows.of(windows)
        request = replace(request, windows=assigner, lateness=to_micros(allowed_lateness, "allowed_lateness"))
    given = [to_micros(delay, "delays") for delay in delays]
    if min([request.lateness, *given]) < 0:
        raise InvalidPlanError("delays and the allowed lateness must not be negative")
    return _advised(replace(request, together=together, delays=given))


def _rows_request(df: object, event_time: object, order: Sequence[object], request: LatenessRequest) -> LatenessRequest:
    if not isinstance(df, DataFrame):
        raise InvalidPlanError(f"lateness needs a batch DataFrame, or a result over one (.aggregate(...)), got {df!r}")
    if not isinstance(event_time, (str, Column)):
        raise InvalidPlanError(
            f"lateness needs the column of the event time, e.g. lateness(df, 'ts', 'arrived'); got {event_time!r}"
        )
    if not order:
        raise InvalidPlanError(
            "lateness needs what says in which order the rows arrived: a column, several, or pst.order.FILE for rows of files"
        )
    return replace(request, event_time=event_time)


def _result_request(result: WindowedResult, event_time: object, arrival: object) -> LatenessRequest:
    events, windowed = result.windowed.keyed.source, result.windowed
    if event_time is not None:
        raise InvalidPlanError("lateness(result): the event time is the result's own: leave it out")
    if events.watermark.of_keys is not None:
        raise InvalidPlanError("lateness counts by one watermark for all keys, but this query has per_key. Give it the DataFrame")
    order: Any = (arrival,) if isinstance(arrival, (str, Column)) else arrival or events.order
    spec = windowed.windowing
    request = LatenessRequest(
        events.df,
        "",
        events.unit,
        order,
        spec.assigner,
        spec.allowed_lateness,
        None if events.watermark.partition_column is None else F.col(quoted(events.watermark.partition_column)),
        windowed.keyed.keys,
        together=False,
        delays=(),
    )
    return _rows_request(events.df, events.event_time, order, request)


def _advised(request: LatenessRequest) -> Lateness:
    if request.df.isStreaming:
        raise InvalidPlanError("lateness looks at rows of the past: give it a batch, e.g. spark.read instead of spark.readStream")
    closes, sizes = _windows(request)
    with _cached(_rows_in_order(request)) as rows:
        of_chunks = _collected(rows, Maxima().__call__, MAXIMA)
        before = starts_of(of_chunks)
        if not before[-1]:
            return Lateness(0, sum(row.invalid for row in of_chunks), 0, timedelta(0), 0, (), _facts(request))
        chunks = sorted({row.chunk for row in of_chunks})
        judged: tuple[Any, Any] = (dict(zip(chunks, before, strict=False)), closes)
        counts = _counted(rows, CountRows(*judged))
        behind, wanted = counts[BEHIND], counts[NEEDED]
        delays = _delays(wanted, request.delays)
        reached = min(before[-1].values())
        waiting = WaitingCounts(tuple(delays), min(counts[FIRST], reached), reached)
        most = _most(_mapped(rows, Waits(*judged, waiting).__call__, CHANGES), waiting)
        panes = None
        if request.keys and request.windows is not None:
            came = _mapped(rows, Came(*judged).__call__, CAME).groupBy("key", "closes").agg(F.min("frontier").alias("frontier"))
            panes = _most(_mapped(came.select("closes", "frontier"), PanesWait(waiting).__call__, CHANGES), waiting)
    costs = []
    for place, delay in enumerate(delays):
        kept = wanted.keeps(delay)
        of_key = windows_of_a_key(sizes, request.lateness, delay) if sizes else None
        length = timedelta(microseconds=delay)
        of_panes = None if panes is None else panes[place]
        costs.append(DelayCost(length, kept, wanted.rows - kept, kept / wanted.rows, most[place], of_panes, of_key))
    furthest = timedelta(microseconds=behind.delays[-1])
    not_behind = behind.keeps(0)
    invalid = sum(row.invalid for row in of_chunks)
    told = _facts(request)
    return Lateness(wanted.rows, invalid, wanted.rows - not_behind, furthest, len(before[-1]), tuple(costs), told, wanted)


def starts_of(of_chunks: Iterable[Any]) -> list[dict[str, int]]:
    """Return the largest event times before each chunk, in order of arrival, and after the last one."""
    chunks: dict[int, dict[str, int]] = {}
    for row in of_chunks:
        found = chunks.setdefault(row.chunk, {})
        if row.name is not None:
            found[row.name] = row.largest
    return starts(chunks[number] for number in sorted(chunks))


def _windows(request: LatenessRequest) -> tuple[Closes, list[tuple[int, int]]]:
    assigner = request.windows
    if assigner is None or isinstance(assigner, PredicateWindows) or look_backs_of(assigner) is not None:
        # These windows follow the order of time, so a row is late as soon as the watermark has passed it.
        return Closes((), request.lateness), []
    reasons = why_not_aligned(assigner)
    if not assigner.is_event_time:
        reasons = ["they are not of event time: nothing is late by the clock"]
    if reasons:
        raise InvalidPlanError(
            f"lateness supports tumbling, sliding and cumulating event-time windows: {'; '.join(reasons)}. "
            "Without windows it counts every row older than the watermark as late"
        )
    windows = pane_grid(assigner).windows
    sizes = [
        (window.longest, getattr(window, "slide", getattr(window, "step", window.longest // window.overlap)))
        for window in windows
    ]
    return Closes(windows, request.lateness), sizes


def _rows_in_order(request: LatenessRequest) -> DataFrame:
    """Return the rows for the passes, partitioned into chunks that are ranges of the order of arrival."""
    df = request.df
    order, _ = order_of(df, request.arrival)
    time = micros_of(df, request.event_time, request.unit)
    columns = [F.when(F.abs(time) < F.lit(LARGEST), time).alias("time")]
    if request.partition is not None:
        named = (
            column_of(df, request.partition, "the source partition") if isinstance(request.partition, str) else request.partition
        )
        columns.append(F.coalesce(named.cast("string"), F.lit("")).alias("partition"))
    if request.keys:
        columns.append(_hash([key_of(df, key)[1] for key in request.keys]).alias("key"))
    if request.together:
        columns.append(_hash(order).alias("together"))
    names = [f"order_{place}" for place in range(len(order))]
    columns += [column.alias(name) for name, column in zip(names, order, strict=True)]
    rows = df.select(*columns, F.monotonically_increasing_id().alias("position"))
    # Rows that arrive at once stay together. Other rows may be split, even those of one file.
    ranged = [F.col(name).asc_nulls_last() for name in (*names, *([] if request.together else ["position"]))]
    ranges = -(-max(df.count(), 1) // ROWS_IN_A_RANGE)
    ordered = rows.repartitionByRange(ranges, *ranged).sortWithinPartitions(
        *(F.col(name).asc_nulls_last() for name in (*names, "position"))
    )
    return ordered.drop(*names, "position")


def _hash(columns: Sequence[Column]) -> Column:
    # The hash skips nulls, so their positions are hashed too.
    return F.xxhash64(*columns, *(column.isNull() for column in columns))


@contextmanager
def _cached(rows: DataFrame) -> Iterator[DataFrame]:
    """Cache rows, so that every pass finds them in the same chunks."""
    cached = rows.persist()
    try:
        yield cached.select(F.spark_partition_id().alias("chunk"), "*")
    finally:
        cached.unpersist()


def _mapped(
    rows: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    with without_pandas():
        return rows.mapInArrow(function, spark_schema(schema))


def _collected(
    rows: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> list[Any]:
    return _mapped(rows, function, schema).collect()


def _counted(rows: DataFrame, counts: CountRows) -> dict[int, Any]:
    bins = _mapped(rows, counts.__call__, COUNTED).groupBy("what", "bin")
    found = bins.agg(F.sum("rows").alias("rows"), F.max("largest").alias("largest")).collect()
    first = [-row.largest for row in found if row.what == FIRST]
    of = {what: Completeness.of((row.largest, row.rows) for row in found if row.what == what) for what in (BEHIND, NEEDED)}
    # If no row came after every source partition had its first row, nothing is late.
    return {**of, FIRST: first[0] if first else -UNKNOWN}


def _delays(wanted: Completeness, extra: Sequence[int]) -> list[int]:
    return sorted({0, *(wanted.delay_for(share) for share in SHARES), *extra})


def _most(changes: DataFrame, waiting: WaitingCounts) -> list[int]:
    import numpy as np

    total = np.zeros((len(waiting.delays), waiting.steps + 1), np.int64)
    for row in changes.groupBy("delay", "step").agg(F.sum("more").alias("more")).collect():
        total[row.delay, row.step] = row.more
    return waiting.most(total)


def _facts(request: LatenessRequest) -> list[tuple[str, str]]:
    df = request.df
    order = ", ".join(text_of(df, each, "the arrival order") for each in request.arrival)
    lines = [
        ("event time", text_of(df, request.event_time, "the event time")),
        ("arrival", f"{order}{', equal ones at once' if request.together else ''}"),
    ]
    if request.partition is not None:
        lines.append(("time by", "source partition, the smallest counts"))
    windows = "none: rows older than the watermark are late" if request.windows is None else repr(request.windows)
    lines.append(("windows", windows))
    if request.lateness:
        lines.append(("lateness", f"windows take rows for {format_duration(request.lateness)} after their end"))
    return lines
