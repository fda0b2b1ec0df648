"""The heavy cases: their input, their query, and an expected output that needs no windows to compute.

The row numbers alone determine the rows, which numpy makes. Each case has a full size, and ``--scale`` makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import panestream as pst
from panestream import agg

START_US = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
SCHEMA = "key BIGINT, value BIGINT, ts TIMESTAMP"
Answer = Mapping[str, int]
"""The number of results, and the sums of their columns ``n`` and ``total``."""


@dataclass(frozen=True)
class Case:
    """One heavy case.

    Attributes:
        what: the description in the table.
        rows: the full size.
        files: the rows of a file. Every file is a micro-batch, unless ``at_once``.
        make: makes the rows from one number to another, for a total number of rows.
        query: the computation.
        answer: the expected output for a number of rows.
        schema: the schema of the files.
        at_once: whether all files are one micro-batch.
    """

    what: str
    rows: int
    files: int
    make: Callable[[int, int, int], pa.Table]
    query: Callable[[Any], Any]
    answer: Callable[[int], Answer]
    schema: str = SCHEMA
    at_once: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    def tables(self, rows: int) -> Iterator[pa.Table]:
        """Yield the files. The last one closes every window with a row of key -1."""
        size = min(self.files, rows)
        for first in range(0, rows, size):
            yield self.make(first, min(first + size, rows), rows)
        yield closing(self.make(0, 1, rows))


def table(keys: Any, values: Any, times_us: Any) -> pa.Table:
    """Return rows of the common schema."""
    return pa.table({"key": keys, "value": values, "ts": pa.array(times_us, pa.timestamp("us", "UTC"))})


def closing(row: pa.Table) -> pa.Table:
    """Return one row in the far future, which no case counts."""
    named = {"key": pa.array([-1]), "ts": pa.array([START_US + 10_000 * HOUR_US], pa.timestamp("us", "UTC"))}
    return pa.table({name: named.get(name, row.column(name)) for name in row.column_names}).cast(row.schema)


def _timed(stream: Any) -> Any:
    return pst.stream(stream).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("key")


def _hourly(stream: Any) -> Any:
    return _timed(stream).window(pst.TumblingEventTimeWindows.of("1 hour"))


def _declared(windows: Any) -> Any:
    return windows.aggregate(agg.count().alias("n"), agg.sum("value").alias("total"))


# -- one key with nine tenths of the rows --------------------------------------------------------------------------------


def _hot(first: int, last: int, rows: int) -> pa.Table:
    numbers = np.arange(first, last)
    return table(np.where(numbers % 10 == 0, numbers % 1000 + 1, 0), numbers, START_US + numbers * HOUR_US // rows)


def _hot_answer(rows: int) -> Answer:
    others = len(np.unique(np.arange(0, min(rows, 10_000), 10) % 1000))
    return {"results": 1 + others, "n": rows, "total": rows * (rows - 1) // 2}


def _listed(_key: Any, _window: Any, rows: Any) -> list[tuple[int, int]]:
    return [(len(rows), sum(row.value for row in rows))]


def _arrow(_key: Any, _window: Any, rows: pa.Table) -> pa.Table:
    return pa.table({"n": [rows.num_rows], "total": [int(rows.column("value").to_numpy().sum())]})


class _Process(pst.ProcessWindowFunction):
    def process(self, key: Any, ctx: Any, rows: Any) -> list[tuple[int, int]]:
        return _listed(key, ctx, list(rows))


_RESULT = "n BIGINT, total BIGINT"


# -- many windows, long sessions ---------------------------------------------------------------------------------------------


def _open(first: int, last: int, _rows: int) -> pa.Table:
    """Give each row a separate window: a tenth as many keys as rows, with ten hours each. All hours start before one ends."""
    numbers = np.arange(first, last)
    return table(numbers // 10, numbers, START_US + numbers % 10 * HOUR_US)


def _open_query(stream: Any) -> Any:
    waits = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 day")
    keyed = pst.stream(stream).assign_timestamps("ts", waits).key_by("key")
    return _declared(keyed.window(pst.TumblingEventTimeWindows.of("1 hour")))


def _session(first: int, last: int, _rows: int) -> pa.Table:
    numbers = np.arange(first, last)
    return table(np.zeros(len(numbers), np.int64), numbers, START_US + numbers * 1000)


def _sessions(stream: Any) -> Any:
    return _timed(stream).window(pst.EventTimeSessionWindows.with_gap("1 minute"))


def _one(rows: int) -> Answer:
    return {"results": 1, "n": rows, "total": rows * (rows - 1) // 2}


def _backlog(first: int, last: int, rows: int) -> pa.Table:
    numbers = np.arange(first, last)
    return table(numbers % 10_000, numbers, START_US + numbers * HOUR_US // rows)


def _by_key(keys: int) -> Callable[[int], Answer]:
    return lambda rows: {"results": min(rows, keys), "n": rows, "total": rows * (rows - 1) // 2}


# -- large rows, many columns ------------------------------------------------------------------------------------------------

_MEGABYTE = 1_000_000


def _large(first: int, last: int, rows: int) -> pa.Table:
    numbers = np.arange(first, last)
    text = [f"{number:08d}" * (_MEGABYTE // 8) for number in numbers.tolist()]
    return table(numbers % 10, numbers, START_US + numbers * HOUR_US // rows).append_column("text", pa.array(text, pa.string()))


def _lengths(_key: Any, _window: Any, rows: pa.Table) -> pa.Table:
    lengths = pc.binary_length(rows.column("text")).to_numpy()
    return pa.table({"n": [rows.num_rows], "total": [int(lengths.sum())]})


_WIDE = 10_000


def _wide(first: int, last: int, rows: int) -> pa.Table:
    numbers = np.arange(first, last)
    narrow = table(numbers % 10, numbers, START_US + numbers * HOUR_US // rows)
    more = {f"c{at}": numbers + at for at in range(_WIDE - 3)}
    return pa.table({**dict(zip(narrow.column_names, narrow.columns, strict=True)), **more})


def _last_column(_key: Any, _window: Any, rows: pa.Table) -> pa.Table:
    return pa.table({"n": [rows.num_rows], "total": [int(rows.column(f"c{_WIDE - 4}").to_numpy().sum())]})


def _many(stream: Any) -> Any:
    more = [agg.sum(f"value % {number + 2}").alias(f"s{number}") for number in range(498)]
    return _hourly(stream).aggregate(agg.count().alias("n"), agg.sum("value").alias("total"), *more)


CASES: Mapping[str, Case] = {
    "hot-aggregates": Case(
        "one key with 90 % of the rows, sum and count", 10_000_000, 1_000_000, _hot, lambda s: _declared(_hourly(s)), _hot_answer
    ),
    "hot-apply": Case("the same, `apply`", 1_000_000, 250_000, _hot, lambda s: _hourly(s).apply(_listed, _RESULT), _hot_answer),
    "hot-apply-arrow": Case(
        "the same, `apply_arrow`", 4_000_000, 1_000_000, _hot, lambda s: _hourly(s).apply_arrow(_arrow, _RESULT), _hot_answer
    ),
    "hot-process": Case(
        "the same, `process`", 1_000_000, 250_000, _hot, lambda s: _hourly(s).process(_Process(), _RESULT), _hot_answer
    ),
    "open-windows": Case(
        "open windows: a tenth as many keys, ten each", 10_000_000, 1_000_000, _open, _open_query, _by_key(10**9)
    ),
    "session": Case("one session, sum and count", 5_000_000, 1_000_000, _session, lambda s: _declared(_sessions(s)), _one),
    "session-apply": Case(
        "one session, `apply`", 1_000_000, 250_000, _session, lambda s: _sessions(s).apply(_listed, _RESULT), _one
    ),
    "backlog": Case(
        "a backlog in one micro-batch, 10,000 keys",
        50_000_000,
        1_000_000,
        _backlog,
        lambda s: _declared(_hourly(s)),
        _by_key(10_000),
        at_once=True,
    ),
    "large-rows": Case(
        "rows of 1 MB, `apply_arrow`",
        1_000,
        100,
        _large,
        lambda s: _hourly(s).apply_arrow(_lengths, _RESULT),
        lambda rows: {"results": 10, "n": rows, "total": rows * _MEGABYTE},
        f"{SCHEMA}, text STRING",
    ),
    "burst": Case(
        "a burst after silence: 40 micro-batches of 1,000 rows, then the rest in one, sliding 1 h / 5 min",
        5_000_000,
        5_000_000,
        _backlog,
        lambda s: _declared(_timed(s).window(pst.SlidingEventTimeWindows.of("1 hour", "5 minutes"))),
        lambda rows: {"n": rows * 12, "total": 12 * (rows * (rows - 1) // 2)},
    ),
    "wide": Case(
        "10,000 columns, `apply_arrow`",
        4_000,
        1_000,
        _wide,
        lambda s: _hourly(s).apply_arrow(_last_column, _RESULT),
        lambda rows: {"results": 10, "n": rows, "total": rows * (rows - 1) // 2 + rows * (_WIDE - 4)},
        SCHEMA + "".join(f", c{at} BIGINT" for at in range(_WIDE - 3)),
    ),
    "aggregates": Case("500 aggregates", 1_000_000, 250_000, _hot, _many, _hot_answer),
}
