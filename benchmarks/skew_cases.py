"""The windows and functions whose skew :mod:`benchmarks.skew` counts: one or more for each operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panestream.engine.operators.accumulating.windowed_rows import AllWindows
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.plan import OperatorSpec, WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions, plan_table_function
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import TimeEvictor
from panestream.windowing.functions import AggregateFunction, applied, processed

SECOND = 1_000_000
KEYS = pa.schema([("key", pa.int64())])
ROWS = pa.schema([("key", pa.int64()), ("ts", pa.int64()), ("price", pa.int64()), ("user", pa.int64())])
TYPES = {name: ROWS.field(name).type for name in ROWS.names}
RESULT = pa.schema([("result", pa.float64())])
ACCUMULATOR = pa.schema([("total", pa.int64()), ("n", pa.int64())])
REST = pa.schema([field for field in ROWS if field.name != "key"])

TUMBLING = WindowQuery(TumblingEventTimeWindows(60 * SECOND))
SLIDING = WindowQuery(SlidingEventTimeWindows(60 * SECOND, 5 * SECOND))
SESSIONS = WindowQuery(EventTimeSessionWindows(2 * SECOND))
SEVERAL = WindowQuery(
    SeveralWindows.of({"minute": TumblingEventTimeWindows(60 * SECOND), "hour": TumblingEventTimeWindows(3600 * SECOND)})
)
SUM = (agg.sum("price").alias("total"), agg.count().alias("n"))


class Mean(AggregateFunction):
    """A mean as users would write it."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value.price, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]


@dataclass(frozen=True)
class Case:
    """One query.

    Attributes:
        name: the name in the table.
        window: the windows.
        operator: makes the operator.
        keyed: whether it has a key. Without a key, all rows are in one group.
        late: whether late rows go to an output, so that all rows cross completely.
        split: whether a row's group depends on the value of ``user`` in addition to the key.
    """

    name: str
    window: WindowQuery
    operator: Callable[[], OperatorSpec]
    keyed: bool = True
    late: bool = False
    split: bool = False


def declared(name: str, window: WindowQuery, aggregates: Sequence[agg.Aggregate] = SUM, **more: bool) -> Case:
    """Return a case of declared aggregates over windows."""
    keys = KEYS if more.get("keyed", True) else pa.schema([])
    return Case(name, window, lambda: plan_aggregates(window, aggregates, TYPES, keys), **more)


def own(
    name: str,
    window: WindowQuery,
    function: ReduceRows | AggregateRows | KeepRows,
    results: pa.Schema = RESULT,
    accumulators: pa.Schema | None = None,
) -> Case:
    """A user function over rows. It has two phases if the columns of its accumulators are given."""
    return Case(name, window, lambda: plan_functions(window, function, results, ROWS, name, KEYS, accumulators))


def _largest(a: Any, b: Any) -> Any:
    return a if a.price >= b.price else b


def _applied(key: Any, _: Any, rows: Sequence[Any]) -> list[float]:  # noqa: ARG001 - a window function
    return [sum(row.price for row in rows) / len(rows)]


def cases() -> Iterator[Case]:
    """Yield one or more cases for each operator."""
    yield declared("panes: tumbling 1 min, sum and count", TUMBLING)
    yield declared("panes: sliding 1 min / 5 s, sum and count", SLIDING)
    yield declared("panes: several windows, sum and count", SEVERAL)
    yield declared("panes: tumbling, sum and count, late output", TUMBLING, late=True)
    yield declared("panes: no key at all, sum and count", TUMBLING, keyed=False)
    yield declared("panes: tumbling, approx_quantile", TUMBLING, [agg.approx_quantile("price", 0.5)])
    yield declared("panes: tumbling, approx_count_distinct", TUMBLING, [agg.approx_count_distinct("user")])
    yield declared("panes: tumbling, count_distinct of 100,000", TUMBLING, [agg.count_distinct("user")])
    yield declared("panes: sliding, count_distinct of 100,000", SLIDING, [agg.count_distinct("user")])
    yield declared("split by value: tumbling, count_distinct", TUMBLING, [agg.count_distinct("user")], split=True)
    yield declared("split by value: sliding, count_distinct", SLIDING, [agg.count_distinct("user")], split=True)
    yield declared("panes: tumbling, collect_list", TUMBLING, [agg.collect_list("price")])
    yield declared("sessions: gap 2 s, sum and count", SESSIONS)
    yield declared("sessions: gap 2 s, sum and count, late output", SESSIONS, late=True)
    yield declared("counts: 100 rows, sum and count", WindowQuery(*CountWindows(100).parts))
    yield own("accumulating: tumbling, apply", TUMBLING, KeepRows(applied(_applied)))
    yield Case("accumulating: tumbling, apply_arrow of all windows", TUMBLING, _all_windows)
    evicting = WindowQuery(SLIDING.assigner, evictor=TimeEvictor(15 * SECOND))
    yield own("accumulating: sliding, time evictor, apply", evicting, KeepRows(applied(_applied)))
    yield own("row operator: tumbling, process", TUMBLING, KeepRows(processed(_applied)))
    yield own("row operator: tumbling, AggregateFunction", TUMBLING, AggregateRows(Mean()))
    yield own("row operator: sliding, AggregateFunction", SLIDING, AggregateRows(Mean()))
    yield own("row operator: sessions, AggregateFunction", SESSIONS, AggregateRows(Mean()))
    yield own("row operator: tumbling, reduce", TUMBLING, ReduceRows(_largest), REST)
    yield own("in two phases: tumbling, AggregateFunction", TUMBLING, AggregateRows(Mean()), accumulators=ACCUMULATOR)
    yield own("in two phases: sliding, AggregateFunction", SLIDING, AggregateRows(Mean()), accumulators=ACCUMULATOR)
    yield own("in two phases: sessions, AggregateFunction", SESSIONS, AggregateRows(Mean()), accumulators=ACCUMULATOR)
    yield own("in two phases: tumbling, reduce", TUMBLING, ReduceRows(_largest), REST, accumulators=ROWS)


def _all_windows() -> OperatorSpec:
    return plan_table_function(TUMBLING, AllWindows(_means), RESULT, ROWS, KEYS)


def _means(table: pa.Table) -> pa.Table:
    places = ["key", "window_start", "window_end"]
    return table.group_by(places).aggregate([("price", "mean")]).rename_columns([*places, "result"])
