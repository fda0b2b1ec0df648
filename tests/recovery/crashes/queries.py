"""The queries that are killed, one of each operator over the same clicks, and their expected results.

Every query gets the same rows in the same order and micro-batches. Kills must therefore not change any row or firing number.
The rows also agree with the answer of the batch (:func:`settled`). Most rows are at most two minutes late, which is within the
allowed lateness, or within the delay of the watermark if no window can fire again. The rows of the user :data:`TARDY` are too
late
for every window and are written to ``late``. The last file moves the watermark past every window. Queries of two streams split
the
same clicks into two. They have one source, so every micro-batch has the same rows of both.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import panestream as pst
from panestream import agg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "user BIGINT, n BIGINT, price BIGINT, ts TIMESTAMP"
ROWS = 40
"""Rows of a file, and therefore of a micro-batch."""
USERS = 5
TARDY = 99
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
Row = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """One query.

    Attributes:
        build: Makes the query from the rows.
        operator: The operator's name in ``explain()``.
        results: The columns apart from key and window that do not depend on the number of firings, or all columns if empty.
        changes: True if its rows are changes (``.changelog()``), which merging sessions need.
        late: Its outputs of late rows. Count windows do not have late rows.
        last: The column that grows with each firing of a window, or None if each row counts by itself.
        open_end: True if no separate result contains the rows of the last file, which only move the watermark.
        closing: True if its windows close at the end of the input (``fire_at_end``), in a separate micro-batch.
        by_key: True if a micro-batch has at most one row for each key and window, as serving stores need.
    """

    build: Callable[[DataFrame], pst.datastream.WindowedResult]
    operator: str
    results: tuple[str, ...] = ("clicks", "revenue", "newest")
    changes: bool = False
    late: tuple[str, ...] = ("late",)
    last: str | None = "firing_number"
    open_end: bool = True
    closing: bool = False
    by_key: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("main", *self.late)


def clicks(files: int, seed: int) -> list[list[tuple[int, int, int, datetime]]]:
    """Return the rows of each file, one minute per file, in order of arrival. The last file moves the watermark on."""
    numbers = random.Random(seed)
    made = []
    for file in range(files - 1):
        rows = []
        for place in range(ROWS):
            minutes, user = numbers.choice([0, 0, 0, 0, 1, 2]), numbers.randrange(USERS)
            if file >= files // 3 and place % 20 == 7:
                minutes, user = 9, TARDY
            time = BEGIN + timedelta(minutes=10 + file - minutes, seconds=place)
            rows.append((user, file * ROWS + place, numbers.randrange(100), time))
        made.append(rows)
    end = BEGIN + timedelta(hours=2)
    return [*made, [(user, files * ROWS + user, 0, end) for user in range(USERS)]]


def write_clicks(folder: Path, rows: Iterable[list[tuple[int, int, int, datetime]]]) -> None:
    """Write a Parquet file for each micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    types = {"user": pa.int64(), "n": pa.int64(), "price": pa.int64(), "ts": pa.timestamp("us", tz="UTC")}
    for number, of_file in enumerate(rows):
        columns = zip(*of_file, strict=True)
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({name: pa.array(c, types[name]) for name, c in zip(types, columns, strict=True)}), path)
        # Spark orders files by age.
        os.utime(path, (1_700_000_000 + number,) * 2)


def _keyed(df: DataFrame, delay: str = "10 seconds", time: str = "ts", number: str = "n") -> pst.datastream.KeyedStream:
    watermark = pst.WatermarkStrategy.for_bounded_out_of_orderness(delay)
    return pst.stream(df).assign_timestamps(time, watermark).arrival_order(number).key_by("user")


def _parted(df: DataFrame, delay: str = "10 seconds") -> tuple[pst.datastream.KeyedStream, pst.datastream.KeyedStream]:
    """Split the clicks into a third and the rest, which gets other names.

    Both contain rows that are too late, and rows of the last file.
    """
    offers = df.where("n % 3 <> 0").selectExpr("user", "n AS m", "price AS offer", "ts AS at")
    return _keyed(df.where("n % 3 = 0"), delay), _keyed(offers, delay, "at", "m")


def _windowed(df: DataFrame, windows: pst.windows.WindowAssigner) -> pst.datastream.WindowedStream:
    return _keyed(df).window(windows).allowed_lateness("3 minutes").side_output_late_data("late").options(key_groups=2)


def _around(df: DataFrame) -> Any:
    left, right = _parted(df, _WAIT)
    return left.interval_join(right).between("-20 seconds", "10 seconds")


def _in_both(df: DataFrame) -> Any:
    left, right = _parted(df)
    windowed = left.co_group(right).window(_MINUTE).allowed_lateness("3 minutes")
    return windowed.side_output_late_data("late").options(key_groups=2)


def _totals(windowed: pst.datastream.WindowedStream) -> pst.datastream.WindowedResult:
    return windowed.aggregate(*_AGGREGATES)


def sum_up(key: Any, window: Any, rows: pa.Table) -> pa.Table:
    """Sum up the rows of a window from a table."""
    newest = rows["price"][pc.index(rows["n"], pc.max(rows["n"])).as_py()].as_py()
    return pa.table({"clicks": [len(rows)], "revenue": [pc.sum(rows["price"]).as_py()], "newest": [newest]})


def count_calls(key: Any, context: Any, rows: Any) -> list[tuple[int, int, int, int]]:
    """Count in the window's state how often this function was called for it."""
    calls = context.window_state().get_state(pst.state.ValueStateDescriptor("calls"))
    calls.update((calls.value() or 0) + 1)
    newest = max(rows, key=lambda row: row.n)
    return [(len(rows), sum(row.price for row in rows), newest.price, calls.value())]


def match(key: Any, window: Any, left: list[Any], right: list[Any]) -> list[tuple[int, int, int, int]]:
    """Match the rows of two streams."""
    return [(len(left), len(right), sum(row.price for row in left), sum(row.offer for row in right))]


_AGGREGATES = (agg.count().alias("clicks"), agg.sum("price").alias("revenue"), agg.max_by("price", "n").alias("newest"))
_RESULTS = "clicks bigint, revenue bigint, newest bigint"
_MET, _BOTH, _WAIT = "lefts bigint, rights bigint, revenue bigint, offered bigint", ("late_left", "late_right"), "3 minutes"
_PAIR = ("n", "price", "ts", "m", "offer", "at")
_MINUTE, _SLIDING = pst.TumblingEventTimeWindows.of("1 minute"), pst.SlidingEventTimeWindows.of("2 minutes", "1 minute")
_SESSIONS = pst.EventTimeSessionWindows.with_gap("15 seconds")
_LOOK_BACKS = pst.LookBackWindows.of("40 seconds")
_PREDICATES = pst.PredicateWindows.of(start="price >= 60", end="price < 20", gap="30 seconds")
QUERIES = {
    "panes": Query(lambda df: _totals(_windowed(df, _SLIDING)).with_firing(), "aligned panes", by_key=True),
    "accumulating": Query(
        lambda df: _windowed(df, _MINUTE).apply_arrow(sum_up, _RESULTS), "accumulating panes", last="clicks", by_key=True
    ),
    "sessions": Query(lambda df: _totals(_windowed(df, _SESSIONS)).changelog(), "sessions", changes=True, by_key=True),
    "counts": Query(
        lambda df: _totals(_keyed(df).count_window(7, 3).options(key_groups=2)), "counts", late=(), last=None, open_end=False
    ),
    "row": Query(
        lambda df: (
            _windowed(df, _SLIDING)
            .evictor(pst.evictors.CountEvictor.of(6))
            .process(count_calls, _RESULTS + ", calls bigint")
            .with_firing()
        ),
        "row operator",
    ),
    "look_backs": Query(
        lambda df: _totals(_keyed(df, _WAIT).window(_LOOK_BACKS).side_output_late_data("late").options(key_groups=2)),
        "look-backs",
        results=("n", "price", "ts", "clicks", "revenue", "newest"),
        last=None,
    ),
    "predicates": Query(
        lambda df: _totals(_keyed(df, _WAIT).window(_PREDICATES).side_output_late_data("late").options(key_groups=2)),
        "predicates",
        last=None,
        by_key=True,
    ),
    "join": Query(lambda df: _in_both(df).pairs("full").with_firing(), "aligned panes", results=_PAIR, late=_BOTH),
    "interval_join": Query(
        lambda df: _around(df).side_output_late_data("late").options(key_groups=2).pairs("full"),
        "interval join",
        results=_PAIR,
        late=_BOTH,
        last=None,
    ),
    "co_group": Query(
        lambda df: _in_both(df).options(every_firing=True).apply(match, _MET).with_firing(),
        "row operator",
        results=("lefts", "rights", "revenue", "offered"),
        late=_BOTH,
    ),
    "tiles": Query(lambda df: _windowed(df, _MINUTE).panes(*_AGGREGATES), "aligned panes", results=(), last="rows"),
    "closed": Query(
        lambda df: _totals(_windowed(df, _SLIDING)).with_firing(), "aligned panes", open_end=False, closing=True, by_key=True
    ),
}
"""The queries by the name of their operator, or by what distinguishes them from another query of that operator."""


def in_batch(spark: SparkSession, query: Query, folder: Path) -> list[Row]:
    """Return the answer of the batch, in the columns that it shares with the stream."""
    files = sorted(str(file) for file in folder.glob("*.parquet"))
    df = spark.read.schema(SCHEMA).parquet(*(files[:-1] if query.open_end else files))
    result = query.build(df.where(f"user <> {TARDY}") if query.late else df)
    return shared(query, collected(result.main))


def collected(df: DataFrame) -> list[Row]:
    """Collect the rows, with times as microseconds."""
    from pyspark.sql import functions as F

    times = {field.name: F.unix_micros(field.name) for field in df.schema if field.dataType.typeName() == "timestamp"}
    return [row.asDict(recursive=True) for row in df.withColumns(times).collect()]


def shared(query: Query, rows: Iterable[Row]) -> list[Row]:
    """Return the rows with only the columns that batch and stream share."""
    names = ("user", "window_start", "window_end", *query.results)
    return ordered({name: row[name] for name in (names if query.results else row) if name in row} for row in rows)


def settled(query: Query, rows: Iterable[Row]) -> list[Row]:
    """Return the final rows of a stream: the last firing of each window, or the rows that remain after all changes."""
    rows = list(rows)
    if query.changes:
        left: Counter[str] = Counter()
        for row in rows:
            left[json.dumps(shared(query, [row])[0])] += 1 if row["op"] in ("insert", "update_after") else -1
        if min(left.values()) < 0:
            raise AssertionError(f"taken back more often than given: {-left}")
        return ordered(json.loads(text) for text in left.elements())
    if query.last is None:
        return shared(query, rows)
    windows: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        windows.setdefault((row["user"], row["window_start"], row["window_end"]), []).append(row)
    # One firing of a join has several rows.
    newest = {window: max(row[query.last] for row in of_window) for window, of_window in windows.items()}
    left = [row for window, of_window in windows.items() for row in of_window if row[query.last] == newest[window]]
    return shared(query, left)


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Sort rows and their columns, so that equal lists hold the same rows equally often."""
    return sorted(({name: row[name] for name in sorted(row)} for row in rows), key=json.dumps)
