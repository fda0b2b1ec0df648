"""Limit: send the rows of a case to Python, and call its function as often as its windows need. Do nothing else.

It is not a contestant: it has no shuffle, finds no key or window, and stores nothing. Rows become Python objects, and the
function gets as many of them as the windows of the case contain. Any system that runs the same function in Python takes at least
this time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.cases import Case
from benchmarks.events import EventSpec
from benchmarks.functions.cases import Counted, OwnMean, SessionMedian
from benchmarks.functions.panestream_job import BatchSum, CountAndMedian, Mean, SumAndCount
from panestream.engine.kernels.python_values import RowType, python_values
from panestream.engine.runtime.group_operator import collector_paused
from panestream.spark.session import STREAM_SETTINGS

SETTINGS = dict(STREAM_SETTINGS)
"""The settings of panestream."""
_RESULT = pa.schema([("total", pa.int64()), ("events", pa.int64())])
_AT_ONCE = 1 << 13
"""The number of rows that become Python objects together. They fit in the processor's cache."""

Elements = Sequence[Any]


@dataclass(frozen=True)
class Calls:
    """The way to call a function with rows.

    Attributes:
        function: gets rows, and returns the number of its results.
        apart: the number of rows between the first rows of two calls.
        rows: the number of rows of a call.
    """

    function: Callable[[Elements], int]
    apart: float
    rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Call the function, as ``mapInArrow`` does, and yield one row for each task."""
        results = came = 0
        with collector_paused():
            for batch in batches:
                for begin in range(0, batch.num_rows, _AT_ONCE):
                    some = batch.slice(begin, _AT_ONCE)
                    row_type = RowType(some.schema)
                    rows = row_type.from_columns(list(map(python_values, some.columns)), some.num_rows)
                    results += self._call(rows)
                    came += len(rows)
        yield pa.RecordBatch.from_pydict({"total": [results], "events": [came]}, schema=_RESULT)

    def _call(self, rows: Elements) -> int:
        first, results = 0.0, 0
        while first < len(rows):
            results += self.function(rows[int(first) : int(first) + self.rows])
            first += self.apart
        return results


def _added(function: Any) -> Callable[[Elements], int]:
    """Return a call that adds every row to an aggregate function and gets its result."""

    def add(rows: Elements) -> int:
        accumulator, each = function.create_accumulator(), function.add
        for row in rows:
            accumulator = each(row, accumulator)
        function.get_result(accumulator)
        return 1

    return add


def _handed(function: Callable[[Any, Any, Elements], Any]) -> Callable[[Elements], int]:
    """Return a call that passes all rows to a window function."""
    return lambda rows: len(list(function(None, None, rows)))


def calls_of(case: Case, spec: EventSpec) -> Calls:
    """Return the number of calls of a case's function, and their rows, from the right answer."""
    rows = spec.rows_per_batch * spec.batches
    truth = case.expected(spec, None)
    if isinstance(case, Counted):
        return Calls(_added(BatchSum()), case.every, case.every)
    if isinstance(case, OwnMean):
        apart = rows / truth.rows
        return Calls(_added(Mean()), apart, max(1, round(apart)))
    function = CountAndMedian().process if isinstance(case, SessionMedian) else SumAndCount().apply
    return Calls(_handed(function), rows / truth.rows, max(1, round(truth.events / truth.rows)))


def query(events: DataFrame, case: Case, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end`` (null), ``total, events``, with a row for each task."""
    taken = events.select("key", "batch" if isinstance(case, Counted) else "value", "ts")
    done = taken.mapInArrow(calls_of(case, spec).__call__, "total bigint, events bigint")
    return done.select(
        F.lit(None).cast("bigint").alias("key"), F.lit(None).cast("timestamp").alias("window_end"), "total", "events"
    )
