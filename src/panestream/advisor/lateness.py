"""The advisor on Spark: three passes over the rows in the order of arrival, of which only numbers come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panestream.advisor.advice import SHARES, DelayCost, Lateness
from panestream.advisor.frontier import UNKNOWN, starts
from panestream.advisor.needed import Closes, Completeness
from panestream.advisor.passes import (
    BEHIND,
    CAME,
    CHANGES,
    COUNTED,
    FIRST,
    MAXIMA,
    NEEDED,
    Came,
    Counted,
    Maxima,
    PanesWait,
    Waits,
)
from panestream.advisor.waiting import Waiting, windows_of_a_key
from panestream.datastream import WindowedResult
from panestream.engine.operators.panes.spec import pane_grid, why_not_aligned
from panestream.errors import InvalidPlanError
from panestream.spark.arrival import order_of
from panestream.spark.columns import column_of, key_of, micros_of, quoted
from panestream.spark.expressions import text_of
from panestream.spark.operator.without_pandas import without_pandas
from panestream.spark.types import spark_schema
from panestream.windowing.assigners import PredicateWindows, TumblingEventTimeWindows, WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.time import Duration, format_duration, to_micros

ROWS_IN_A_RANGE = 250_000
"""Into ranges of about so many rows the order of arrival is cut: Spark leaves a cached shuffle as it is, however small it is."""
LARGEST = 2**60
"""Event times beyond this (about the years ±36,000) are invalid here: differences of them could overflow."""


@dataclass(frozen=True)
class Asked:
    """What was asked, by column.

    Attributes:
        df: the rows.
        event_time, unit: what happened when.
        arrival: what the rows are ordered by.
        windows: None: none.
        lateness: how long after its end a window takes rows.
        partition: the column of source partitions; None: there is one.
        keys: empty: none.
        together: whether rows that are equal in ``arrival`` arrive at once.
        delays: that are to be told, too.
    """

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
    """Which delay of the watermark keeps how many rows, and what it costs in state: from rows of the past, a batch.

    How far a row is *behind* is the largest event time of all rows that arrived before it, minus its own: what a watermark of
    bounded out-of-orderness goes by. (It is not arrival minus event time: where every row arrives an hour after it happened,
    none is behind.) A row that is further behind than the delay is behind the watermark; it is *late* once all its windows, and
    the allowed lateness after them, are behind the watermark, too. Without ``windows`` every row behind the watermark is counted
    as late.

    With ``partition`` each source partition has a largest event time of its own, and the smallest of these counts, as with
    :meth:`WatermarkStrategy.per_partition`; all partitions that have rows are taken to be known from the start (``expected``):
    nothing is late before each has had a row. Idle partitions are not looked at: one that ends early holds time back to the end.

    Rows are judged one by one, as Flink does. Spark judges all rows of a micro-batch by the watermark before it, so there fewer
    are late; ``together=True`` counts so, with an ``arrival`` that is the same for all rows of a micro-batch.

    The rows are ordered on Spark, and looked at there in three passes (four with ``key``); what comes to this process are counts,
    some hundred thousand numbers at most. Event time, arrival and hashes of the key are cached on the executors meanwhile.

    Args:
        source: a batch DataFrame; or a :class:`WindowedResult` over one, which brings all that is said here, except
            ``together`` and ``delays``.
        event_time: a timestamp column, SQL that gives one, or a Column; a number with ``unit``.
        arrival: in which order the rows arrived: one column, or several (:data:`panestream.order.FILE`: files by modification
            time, and in each as it stands). Rows that are equal in all of them are taken in Spark's order.
        unit: of an event time that is a number: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"`` since the epoch.
        windows: tumbling, sliding or cumulating event-time windows; a duration: tumbling ones of this size.
        allowed_lateness: how long after its end a window takes rows.
        partition: the column of source partitions, e.g. Kafka's ``partition``.
        key: columns: counts panes with rows of each key as well, where windows are given.
        together: whether rows that are equal in ``arrival`` arrive at once.
        delays: to be told beside those that keep 90 %, 99 %, 99.9 %, 99.99 % and all rows.

    Returns:
        What was found: ``print`` shows a sentence and a table, a notebook a plot as well; ``.delay(0.999)`` is a ``timedelta``
        for ``WatermarkStrategy.for_bounded_out_of_orderness``.

    Raises:
        InvalidPlanError: a stream; no event time or arrival; a column that is not there; windows that do not lie alike for all
            keys (sessions, count windows) or are of the clock.
        InvalidEventTimeError: the event time is no time.
    """
    if isinstance(source, WindowedResult):
        asked = _of_result(source, event_time, arrival)
    else:
        order = (arrival,) if isinstance(arrival, (str, Column)) else tuple(arrival)
        keys = (key,) if isinstance(key, (str, Column)) else tuple(key)
        asked = _of_rows(source, event_time, order, Asked(source, "", unit, order, None, 0, partition, keys, together, ()))
        assigner = windows if isinstance(windows, WindowAssigner) or windows is None else TumblingEventTimeWindows.of(windows)
        asked = replace(asked, windows=assigner, lateness=to_micros(allowed_lateness, "allowed_lateness"))
    given = [to_micros(delay, "delays") for delay in delays]
    if min([asked.lateness, *given]) < 0:
        raise InvalidPlanError("delays and the allowed lateness must not be negative")
    return _advised(replace(asked, together=together, delays=given))


def _of_rows(df: object, event_time: object, order: Sequence[object], asked: Asked) -> Asked:
    if not isinstance(df, DataFrame):
        raise InvalidPlanError(f"lateness wants a batch DataFrame, or a result over one (.aggregate(...)), got {df!r}")
    if not isinstance(event_time, (str, Column)):
        raise InvalidPlanError(
            f"lateness wants the column of the event time, e.g. lateness(df, 'ts', 'arrived'); got {event_time!r}"
        )
    if not order:
        raise InvalidPlanError(
            "lateness wants what says in which order the rows arrived: a column, several, or pst.order.FILE for rows of files"
        )
    return replace(asked, event_time=event_time)


def _of_result(result: WindowedResult, event_time: object, arrival: object) -> Asked:
    """All that a query says of its rows."""
    events, windowed = result.windowed.keyed.source, result.windowed
    if event_time is not None:
        raise InvalidPlanError("lateness(result): the event time is the result's own: leave it out")
    order: Any = (arrival,) if isinstance(arrival, (str, Column)) else arrival or events.order
    spec = windowed.windowing
    asked = Asked(
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
    return _of_rows(events.df, events.event_time, order, asked)


def _advised(asked: Asked) -> Lateness:
    if asked.df.isStreaming:
        raise InvalidPlanError("lateness looks at rows of the past: give it a batch, e.g. spark.read instead of spark.readStream")
    closes, sizes = _windows(asked)
    with _cached(_rows_in_order(asked)) as rows:
        of_chunks = _collected(rows, Maxima().__call__, MAXIMA)
        before = starts_of(of_chunks)
        if not before[-1]:
            return Lateness(0, sum(row.invalid for row in of_chunks), 0, timedelta(0), 0, (), _told(asked))
        chunks = sorted({row.chunk for row in of_chunks})
        judged: tuple[Any, Any] = (dict(zip(chunks, before, strict=False)), closes)
        counts = _counted(rows, Counted(*judged))
        behind, wanted = counts[BEHIND], counts[NEEDED]
        delays = _delays(wanted, asked.delays)
        reached = min(before[-1].values())
        waiting = Waiting(tuple(delays), min(counts[FIRST], reached), reached)
        most = _most(_mapped(rows, Waits(*judged, waiting).__call__, CHANGES), waiting)
        panes = None
        if asked.keys and asked.windows is not None:
            came = _mapped(rows, Came(*judged).__call__, CAME).groupBy("key", "closes").agg(F.min("frontier").alias("frontier"))
            panes = _most(_mapped(came.select("closes", "frontier"), PanesWait(waiting).__call__, CHANGES), waiting)
    costs = []
    for place, delay in enumerate(delays):
        kept = wanted.keeps(delay)
        of_key = windows_of_a_key(sizes, asked.lateness, delay) if sizes else None
        length = timedelta(microseconds=delay)
        of_panes = None if panes is None else panes[place]
        costs.append(DelayCost(length, kept, wanted.rows - kept, kept / wanted.rows, most[place], of_panes, of_key))
    furthest = timedelta(microseconds=behind.delays[-1])
    not_behind = behind.keeps(0)
    invalid = sum(row.invalid for row in of_chunks)
    told = _told(asked)
    return Lateness(wanted.rows, invalid, wanted.rows - not_behind, furthest, len(before[-1]), tuple(costs), told, wanted)


def starts_of(of_chunks: Iterable[Any]) -> list[dict[str, int]]:
    """What each chunk begins with, in the order of arrival, and at last what all end with."""
    chunks: dict[int, dict[str, int]] = {}
    for row in of_chunks:
        found = chunks.setdefault(row.chunk, {})
        if row.name is not None:
            found[row.name] = row.largest
    return starts(chunks[number] for number in sorted(chunks))


def _windows(asked: Asked) -> tuple[Closes, list[tuple[int, int]]]:
    assigner = asked.windows
    if assigner is None or isinstance(assigner, PredicateWindows) or look_backs_of(assigner) is not None:
        # In the order of time: there a row is late as soon as the watermark has passed it.
        return Closes((), asked.lateness), []
    reasons = why_not_aligned(assigner)
    if not assigner.is_event_time:
        reasons = ["they are not of event time: nothing is late by the clock"]
    if reasons:
        raise InvalidPlanError(
            f"lateness knows when rows are late for tumbling, sliding and cumulating event-time windows: {'; '.join(reasons)}. "
            "Leave the windows out, and every row behind the watermark is counted as late"
        )
    windows = pane_grid(assigner).windows
    sizes = [(one.longest, getattr(one, "slide", getattr(one, "step", one.longest // one.overlap))) for one in windows]
    return Closes(windows, asked.lateness), sizes


def _rows_in_order(asked: Asked) -> DataFrame:
    """What the passes look at; chunks are ranges of the order of arrival."""
    df = asked.df
    order, _ = order_of(df, asked.arrival)
    time = micros_of(df, asked.event_time, asked.unit)
    columns = [F.when(F.abs(time) < F.lit(LARGEST), time).alias("time")]
    if asked.partition is not None:
        named = column_of(df, asked.partition, "the source partition") if isinstance(asked.partition, str) else asked.partition
        columns.append(F.coalesce(named.cast("string"), F.lit("")).alias("partition"))
    if asked.keys:
        columns.append(_hash([key_of(df, one)[1] for one in asked.keys]).alias("key"))
    if asked.together:
        columns.append(_hash(order).alias("together"))
    names = [f"order_{place}" for place in range(len(order))]
    columns += [column.alias(name) for name, column in zip(names, order, strict=True)]
    rows = df.select(*columns, F.monotonically_increasing_id().alias("position"))
    # Rows that arrive at once stay together; others may be as many as they like, of one file for instance.
    ranged = [F.col(name).asc_nulls_last() for name in (*names, *([] if asked.together else ["position"]))]
    ranges = -(-max(df.count(), 1) // ROWS_IN_A_RANGE)
    ordered = rows.repartitionByRange(ranges, *ranged).sortWithinPartitions(
        *(F.col(name).asc_nulls_last() for name in (*names, "position"))
    )
    return ordered.drop(*names, "position")


def _hash(columns: Sequence[Column]) -> Column:
    # Null is passed over by the hash: which of them are null is hashed with them.
    return F.xxhash64(*columns, *(column.isNull() for column in columns))


@contextmanager
def _cached(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that every pass finds in the same chunks."""
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


def _counted(rows: DataFrame, counts: Counted) -> dict[int, Any]:
    bins = _mapped(rows, counts.__call__, COUNTED).groupBy("what", "bin")
    found = bins.agg(F.sum("rows").alias("rows"), F.max("largest").alias("largest")).collect()
    first = [-row.largest for row in found if row.what == FIRST]
    of = {what: Completeness.of((row.largest, row.rows) for row in found if row.what == what) for what in (BEHIND, NEEDED)}
    # Where no row came after every source partition had had one, nothing is late.
    return {**of, FIRST: first[0] if first else -UNKNOWN}


def _delays(wanted: Completeness, asked: Sequence[int]) -> list[int]:
    """What is told: of the shares, what was asked for, and nothing at all."""
    return sorted({0, *(wanted.delay_for(share) for share in SHARES), *asked})


def _most(changes: DataFrame, waiting: Waiting) -> list[int]:
    import numpy as np

    total = np.zeros((len(waiting.delays), waiting.steps + 1), np.int64)
    for row in changes.groupBy("delay", "step").agg(F.sum("more").alias("more")).collect():
        total[row.delay, row.step] = row.more
    return waiting.most(total)


def _told(asked: Asked) -> list[tuple[str, str]]:
    df = asked.df
    order = ", ".join(text_of(df, one, "the arrival order") for one in asked.arrival)
    lines = [
        ("event time", text_of(df, asked.event_time, "the event time")),
        ("arrival", f"{order}{', equal ones at once' if asked.together else ''}"),
    ]
    if asked.partition is not None:
        lines.append(("time by", "source partition, the smallest counts"))
    windows = "none: a row is late as soon as it is behind the watermark" if asked.windows is None else repr(asked.windows)
    lines.append(("windows", windows))
    if asked.lateness:
        lines.append(("lateness", f"windows take rows for {format_duration(asked.lateness)} after their end"))
    return lines


__all__ = ["lateness"]
