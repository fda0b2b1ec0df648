"""What is killed: one query of each operator over the same clicks, and what it must give.

Every query is fed micro-batches of the same rows in the same order, so that its rows are the same to the last firing number however
often it was killed. What is more, they agree with the answer of the batch (:func:`settled`): rows are up to two minutes late, within
the allowed lateness, or within the delay of the watermark where no window can fire again; those of the user :data:`TARDY` are too
late for any window and go to ``late``; and a last file moves the watermark past every window. Two streams are the same clicks,
parted: they have one source, and so every micro-batch the same rows of both.
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
"""Of a file, and so of a micro-batch."""
USERS = 5
TARDY = 99
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
Row = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """One query.

    Attributes:
        build: of the rows.
        operator: as ``explain()`` calls it.
        results: the columns beside key and window that do not depend on how often a window fired; none: all there are.
        changes: whether its rows are changes (``.changelog()``), as sessions need that merge.
        late: its outputs of late rows; count windows know no late ones.
        last: the column that grows with each firing of a window; None: each of its rows stands for itself.
        open_end: whether the rows of the last file, which move the watermark on, are in no result of their own.
        closing: whether its windows are closed when all has been read (``fire_at_end``), in a micro-batch of their own.
    """

    build: Callable[[DataFrame], pst.datastream.WindowedResult]
    operator: str
    results: tuple[str, ...] = ("clicks", "revenue", "newest")
    changes: bool = False
    late: tuple[str, ...] = ("late",)
    last: str | None = "firing_number"
    open_end: bool = True
    closing: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("main", *self.late)


def clicks(files: int, seed: int) -> list[list[tuple[int, int, int, datetime]]]:
    """The rows of each file, a minute after the other, in the order of arrival; the last file moves the watermark on."""
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
    """A file of Parquet for each micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    types = {"user": pa.int64(), "n": pa.int64(), "price": pa.int64(), "ts": pa.timestamp("us", tz="UTC")}
    for number, of_file in enumerate(rows):
        columns = zip(*of_file, strict=True)
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({name: pa.array(c, types[name]) for name, c in zip(types, columns, strict=True)}), path)
        # Spark takes files by their age.
        os.utime(path, (1_700_000_000 + number,) * 2)


def _keyed(df: DataFrame, delay: str = "10 seconds", time: str = "ts", number: str = "n") -> pst.datastream.KeyedStream:
    watermark = pst.WatermarkStrategy.for_bounded_out_of_orderness(delay)
    return pst.stream(df).assign_timestamps(time, watermark).arrival_order(number).key_by("user")


def _parted(df: DataFrame, delay: str = "10 seconds") -> tuple[pst.datastream.KeyedStream, pst.datastream.KeyedStream]:
    """A third of the clicks, and the others under other names; rows that are too late, and of the last file, are in both."""
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


def summed_up(key: Any, window: Any, rows: pa.Table) -> pa.Table:
    """A function over the rows of a window, as columns."""
    newest = rows["price"][pc.index(rows["n"], pc.max(rows["n"])).as_py()].as_py()
    return pa.table({"clicks": [len(rows)], "revenue": [pc.sum(rows["price"]).as_py()], "newest": [newest]})


def remembered(key: Any, context: Any, rows: Any) -> list[tuple[int, int, int, int]]:
    """A process function, which counts in the window's state how often it was called for it."""
    calls = context.window_state().get_state(pst.state.ValueStateDescriptor("calls"))
    calls.update((calls.value() or 0) + 1)
    newest = max(rows, key=lambda row: row.n)
    return [(len(rows), sum(row.price for row in rows), newest.price, calls.value())]


def met(key: Any, window: Any, left: list[Any], right: list[Any]) -> list[tuple[int, int, int, int]]:
    """A function over the rows of two streams."""
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
    "panes": Query(lambda df: _totals(_windowed(df, _SLIDING)).with_firing(), "aligned panes"),
    "accumulating": Query(
        lambda df: _windowed(df, _MINUTE).apply_arrow(summed_up, _RESULTS), "accumulating panes", last="clicks"
    ),
    "sessions": Query(lambda df: _totals(_windowed(df, _SESSIONS)).changelog(), "sessions", changes=True),
    "counts": Query(
        lambda df: _totals(_keyed(df).count_window(7, 3).options(key_groups=2)), "counts", late=(), last=None, open_end=False
    ),
    "row": Query(
        lambda df: (
            _windowed(df, _SLIDING)
            .evictor(pst.evictors.CountEvictor.of(6))
            .process(remembered, _RESULTS + ", calls bigint")
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
        lambda df: _in_both(df).options(every_firing=True).apply(met, _MET).with_firing(),
        "row operator",
        results=("lefts", "rights", "revenue", "offered"),
        late=_BOTH,
    ),
    "tiles": Query(lambda df: _windowed(df, _MINUTE).panes(*_AGGREGATES), "aligned panes", results=(), last="rows"),
    "closed": Query(lambda df: _totals(_windowed(df, _SLIDING)).with_firing(), "aligned panes", open_end=False, closing=True),
}
"""By name: of the operator that runs it, or of what makes it another one's query."""


def in_batch(spark: SparkSession, query: Query, folder: Path) -> list[Row]:
    """The answer of the batch, by the columns that it shares with the stream."""
    files = sorted(str(file) for file in folder.glob("*.parquet"))
    df = spark.read.schema(SCHEMA).parquet(*(files[:-1] if query.open_end else files))
    result = query.build(df.where(f"user <> {TARDY}") if query.late else df)
    return shared(query, collected(result.main))


def collected(df: DataFrame) -> list[Row]:
    """The rows, with times as microseconds."""
    from pyspark.sql import functions as F

    times = {field.name: F.unix_micros(field.name) for field in df.schema if field.dataType.typeName() == "timestamp"}
    return [row.asDict(recursive=True) for row in df.withColumns(times).collect()]


def shared(query: Query, rows: Iterable[Row]) -> list[Row]:
    """Of rows what batch and stream have in common."""
    names = ("user", "window_start", "window_end", *query.results)
    return ordered({name: row[name] for name in (names if query.results else row) if name in row} for row in rows)


def settled(query: Query, rows: Iterable[Row]) -> list[Row]:
    """What the rows of a stream come to: the last firing of each window; of changes, what is left of them."""
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
    # Of a join a firing has several rows.
    newest = {window: max(row[query.last] for row in of_window) for window, of_window in windows.items()}
    left = [row for window, of_window in windows.items() for row in of_window if row[query.last] == newest[window]]
    return shared(query, left)


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Rows in an order of their own, each with its columns in order: two equal lists hold the same rows as often."""
    return sorted(({name: row[name] for name in sorted(row)} for row in rows), key=json.dumps)
