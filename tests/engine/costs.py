"""Count the costs of a micro-batch of a key group. The counts do not depend on the machine or its load.

A query of :data:`QUERIES` runs over micro-batches as on Spark, but without Spark. Rows are packed, cross the exchange as
bytes, are gathered and processed, and leave as bytes. :class:`Recorded` counts the state calls and their bytes, and
:func:`python_calls` counts the calls in Python.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found, partials_saved
from panestream.engine.exchange.group_run import bodies, run_micro_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.accumulating.windowed_rows import AllWindows
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.operators.row.contents import ReduceRows
from panestream.engine.plan import OperatorSpec, WindowPlan, WindowQuery
from panestream.engine.planner import choose, plan_aggregates, plan_functions, plan_table_function
from panestream.engine.rule import DeclaredAggregates
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    RollingWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.triggers import CountTrigger
from panestream.windowing.watermarks import WatermarkStrategy

SECOND = 1_000_000
BATCH = 2 * SECOND
"""The event time that a micro-batch spans, whatever its number of rows."""
MEASURED = 10
"""The number of micro-batches that are measured, after those that fill the state."""
KEYS = pa.schema([("key", pa.int64())])
ROWS = pa.schema([("key", pa.int64()), ("v", pa.int64())])
SIDED = pa.struct([("v", pa.int64())])
"""The columns that an interval join keeps of a row."""


def larger(left: Any, right: Any) -> Any:
    """A user function that the row operator calls for each row and window. It calls nothing itself."""
    return left if left.v > right.v else right


def counted(rows: pa.Table) -> pa.Table:
    """A user function over all windows that fire."""
    places = ["key", "window_start", "window_end"]
    return rows.group_by(places, use_threads=False).aggregate([("v", "sum")]).rename_columns({"v_sum": "total"})


def _declared(windows: WindowQuery) -> OperatorSpec:
    return plan_aggregates(windows, (agg.sum("v").alias("total"), agg.count().alias("n")), {"v": pa.int64()}, KEYS)


def _looking_back(windows: WindowQuery) -> OperatorSpec:
    aggregates, row = (agg.sum("v").alias("total"), agg.count().alias("n")), pa.schema([ROWS.field("v")])
    return choose(windows, DeclaredAggregates(aggregates, {"v": pa.int64()}, KEYS, columns=("v",), kept=row))


def _over_rows(windows: WindowQuery) -> OperatorSpec:
    return plan_table_function(windows, AllWindows(counted), pa.schema([("total", pa.int64())]), ROWS, KEYS)


def _joined(windows: WindowQuery) -> OperatorSpec:
    return IntervalSpec(500, 500, "left", SIDED, SIDED, KEYS)


def _reduced(windows: WindowQuery) -> OperatorSpec:
    return plan_functions(windows, ReduceRows(larger), ROWS, ROWS, "larger", KEYS)


@dataclass(frozen=True)
class Query:
    """One query.

    Attributes:
        windows: its windows.
        operator: a function that plans its operator.
        runs_on: the name of the operator.
        fill: how many micro-batches come before the measured ones.
        busy: the share of a micro-batch's time in which rows come.
    """

    windows: WindowQuery
    operator: Callable[[WindowQuery], OperatorSpec]
    runs_on: str
    fill: int = 6
    busy: float = 1.0

    def plan(self) -> WindowPlan:
        """Return the plan with one key group."""
        operator = self.operator(self.windows)
        assert operator.name == self.runs_on, operator.name
        rows, delay = ROWS if operator.capabilities.takes_rows else None, WatermarkStrategy(SECOND)
        return WindowPlan(("key",), KEYS, self.windows.assigner, operator, delay, "ts", 1, row_schema=rows)


def _sliding(size: int, slide: int, **more: Any) -> WindowQuery:
    return WindowQuery(SlidingEventTimeWindows(size * SECOND, slide * SECOND), **more)


QUERIES = {
    "panes, sliding 60 s / 1 s": Query(_sliding(60, 1), _declared, "aligned panes", fill=32),
    "panes, tumbling 10 s": Query(WindowQuery(TumblingEventTimeWindows(10 * SECOND)), _declared, "aligned panes"),
    "sessions that end": Query(WindowQuery(EventTimeSessionWindows(SECOND)), _declared, "sessions", busy=0.25),
    "sessions that go on": Query(WindowQuery(EventTimeSessionWindows(5 * SECOND)), _declared, "sessions"),
    "counts of 100": Query(WindowQuery(*CountWindows(100).parts), _declared, "counts"),
    "accumulating, 10 s / 2 s": Query(_sliding(10, 2), _over_rows, "accumulating panes"),
    "interval join, outer": Query(WindowQuery(GlobalWindows.create()), _joined, "interval join"),
    "look-backs of 4 s": Query(WindowQuery(LookBackWindows(4 * SECOND)), _looking_back, "look-backs"),
    "rolling, 4 s / 1 s and ever": Query(
        WindowQuery(RollingWindows((("4s", 4 * SECOND), ("ever", None)), SECOND)), _declared, "rolling values"
    ),
    "predicates": Query(WindowQuery(PredicateWindows(end="v", gap=5 * SECOND)), _declared, "predicates"),
    "rows, 10 s / 5 s": Query(_sliding(10, 5, every_firing=True), _reduced, "row operator"),
    "rows, a trigger that counts": Query(_sliding(10, 5, trigger=CountTrigger(50)), _reduced, "row operator"),
}


@dataclass
class Recorded:
    """State in memory that records calls and the number of bytes read and written."""

    inner: MemoryState = field(default_factory=MemoryState)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    read: int = 0
    written: int = 0
    micro_batch: int = 0

    def get(self, space: str, key: int) -> bytes | None:
        value = self.inner.get(space, key)
        self.calls["get", space] += 1
        self.read += len(value or b"")
        return value

    def put(self, space: str, key: int, value: bytes) -> None:
        self.calls["put", space] += 1
        self.written += len(value)
        self.inner.put(space, key, value)

    def remove(self, space: str, key: int) -> None:
        self.calls["remove", space] += 1
        self.inner.remove(space, key)


@dataclass(frozen=True)
class Cost:
    """The cost of one micro-batch.

    Attributes:
        calls: state calls by kind and space.
        read, written: bytes read from and written to the state.
        kept: bytes in the state afterwards.
        exchanged: bytes that crossed the exchange.
        left: bytes of the output.
        python: the number of calls in Python, including calls of C functions.
        fired: the number of results.
        bodies: the number of payloads of the output. Large outputs have several.
    """

    calls: Counter[tuple[str, str]]
    read: int
    written: int
    kept: int
    exchanged: int
    left: int
    python: int
    fired: int
    bodies: int

    @property
    def state_calls(self) -> int:
        return self.calls.total()


def python_calls(work: Callable[[], Any]) -> tuple[int, Any]:
    """Return the number of calls that ``work`` makes, of Python and C functions, and its result.

    The garbage collector is paused, because finalizers of earlier tests would be counted too.
    """
    calls = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(called)
    try:
        result = work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return calls, result


@cache
def costs(name: str, rows: int, keys: int) -> tuple[Cost, ...]:
    """Return the costs of the micro-batches of a query once its state is full.

    Args:
        name: one of :data:`QUERIES`.
        rows: the number of rows in a micro-batch.
        keys: the number of keys. Each micro-batch has rows of all keys if it has enough rows.
    """
    query = QUERIES[name]
    plan, state, costs_ = query.plan(), Recorded(), []
    for number in range(query.fill + MEASURED):
        state.calls, state.read, state.written, state.micro_batch = Counter(), 0, 0, number
        columns, batch = _arrived(query, plan, number, rows, keys)

        def work(columns: PackColumns = columns, batch: pa.RecordBatch = batch) -> tuple[list[Any], Any, list[Any]]:
            parts = [part for _, part in pack(plan, columns, [batch])]
            output = run_micro_batch(plan, state, 0, parts)
            return parts, output, list(bodies(output))

        calls, (parts, output, left) = python_calls(work) if number >= query.fill else (0, work())
        assert output.metrics.input_rows == rows
        stored = sum(map(len, state.inner.values.values()))
        exchanged, came_out = _bytes(part.body for part in parts), _bytes(body for _, body in left)
        fired = output.metrics.fired_rows
        costs_.append(Cost(state.calls, state.read, state.written, stored, exchanged, came_out, calls, fired, len(left)))
    return tuple(costs_[query.fill :])


class CountedName(str):
    """A column name whose comparisons :func:`python_calls` counts."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)


def run_wide_query(windows: WindowQuery, *, keys: int = 1, sums: int = 1, reports: bool = False) -> None:
    """Plan a query with many key columns and aggregates, run a micro-batch of 12 rows, and restore its saved partials.

    Args:
        windows: the windows of the query.
        keys: the number of key columns.
        sums: the number of sums, each of another column.
        reports: whether each sum has an ``agg.complete``.
    """
    names = [CountedName(f"v{number}") for number in range(sums)]
    key_schema = pa.schema([(f"key{number}", pa.int64()) for number in range(keys)])
    declared: tuple[agg.Aggregate, ...] = tuple(agg.sum(name).alias(f"s_{name}") for name in names)
    if reports:
        declared += tuple(agg.complete(f"s_{name}").alias(f"c_{name}") for name in names)
    operator = plan_aggregates(windows, declared, dict.fromkeys(names, pa.int64()), key_schema)
    plan = WindowPlan(tuple(key_schema.names), key_schema, windows.assigner, operator, WatermarkStrategy(SECOND), "ts", 1)
    value = pa.array(np.arange(12) % 2)
    arrays = [pa.array(np.arange(12) * SECOND), *[value] * (keys + len(operator.inputs))]
    columns = PackColumns((value.type,) * keys, (value.type,) * len(operator.inputs))
    batch = pa.RecordBatch.from_arrays(arrays, list(map(str, range(len(arrays)))))
    parts = [part for _, part in pack(plan, columns, [batch])]
    assert list(bodies(run_micro_batch(plan, MemoryState(), 0, parts)))
    aggregation = Aggregation.build(declared, dict.fromkeys(names, pa.int64()), key_schema)
    before = Aggregation.build(declared[:sums], dict.fromkeys(names, pa.int64()), key_schema)
    partials_found(before.partial_schema.empty_table(), {"partials": partials_saved(before)}, aggregation)


def _bytes(bodies: Iterable[bytes]) -> int:
    return sum(map(len, bodies))


def _arrived(query: Query, plan: WindowPlan, number: int, rows: int, keys: int) -> tuple[PackColumns, pa.RecordBatch]:
    """Return the rows of a micro-batch as they leave Spark. The same number gives the same rows."""
    rng = np.random.default_rng(number)
    times = pa.array(number * BATCH + np.sort(rng.integers(0, int(BATCH * query.busy) // 1000, rows)) * 1000)
    key, value = pa.array(rng.permutation(np.arange(rows) % keys)), pa.array(rng.integers(0, 1000, rows))
    flags = pa.array(rng.integers(0, 3, rows) == 0)
    values = [flags if text.startswith("whether ") else value for text in plan.operator.inputs]
    if isinstance(plan.operator, IntervalSpec):
        # Half of the rows belong to the left side.
        of_left = rng.random(rows) < 0.5
        values = [
            pa.StructArray.from_arrays([value], fields=list(SIDED), mask=pa.array(is_null)) for is_null in (~of_left, of_left)
        ]
    arrays = [times, key, *values]
    if plan.carries_rows:
        arrays.append(pa.StructArray.from_arrays([key, value], fields=list(ROWS)))
    columns = PackColumns((key.type,), tuple(array.type for array in values), row=len(arrays) - 1 if plan.carries_rows else None)
    return columns, pa.RecordBatch.from_arrays(arrays, list(map(str, range(len(arrays)))))
