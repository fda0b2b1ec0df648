"""Build plans of the engine from plain descriptions of queries over one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from panestream.engine.operators.predicates import label_of
from panestream.engine.operators.row.contents import AggregateRows, KeepRows
from panestream.engine.plan import MAIN, OperatorSpec, WindowPlan, WindowQuery
from panestream.engine.planner import choose, plan_aggregates, plan_functions
from panestream.engine.rule import DeclaredAggregates
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState
from panestream.testing.simulation.disk import OutputRow, State
from panestream.testing.simulation.engines import PlanEngine
from panestream.testing.simulation.formatting import plain_rows
from panestream.testing.simulation.schedule import Row, Settings
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Trigger,
)
from panestream.windowing.watermarks import WatermarkStrategy
from tests.testing.simulation.campaign.queries import Query

ROWS = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("u", pa.int64()), ("p", pa.string())])
KEYS = pa.schema([("key", pa.string())])
LATE, INVALID = "late", "invalid"
RESULTS = pa.schema([("n", pa.int64()), ("total", pa.int64()), ("ids", pa.list_(pa.int64())), ("code", pa.int64())])
"""The number of rows, the sum of their values, their numbers, and the version of the code that computed the result."""
AGGREGATES = (agg.count().alias("n"), agg.sum("v").alias("total"), agg.collect_list("u").alias("ids"))
"""The same as declared aggregates."""
TYPES = {"v": pa.int64(), "u": pa.int64()}
KEPT = pa.schema([ROWS.field(name) for name in ("ts", "v", "u")])
"""The columns of a row that results of look-backs contain."""


@dataclass(frozen=True)
class ListRows(WindowFunction):
    """A function that gets the rows of a window."""

    code: int

    def apply(self, key: Any, window: Any, elements: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(len(elements), total_of([row.v for row in elements]), [row.u for row in elements], self.code)]


@dataclass(frozen=True)
class AddRows(AggregateFunction):
    """A function that adds rows one by one."""

    code: int

    def create_accumulator(self) -> tuple[int, int | None, list[int]]:
        return 0, None, []

    def add(self, value: Any, accumulator: tuple[int, int | None, list[int]]) -> tuple[int, int | None, list[int]]:
        count, total, ids = accumulator
        return count + 1, total_of([total, value.v]), [*ids, value.u]

    def get_result(self, accumulator: tuple[int, int | None, list[int]]) -> tuple[Any, ...]:
        return (*accumulator, self.code)

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], total_of([a[1], b[1]]), [*a[2], *b[2]]


@dataclass(frozen=True)
class CountFirings(ProcessWindowFunction):
    """A function that counts the firings of each key, and returns the count instead of the version of its code."""

    def process(self, key: Any, context: Any, elements: Sequence[Any]) -> list[tuple[Any, ...]]:
        firings = context.global_state().get_state(ValueStateDescriptor("firings"))
        firings.update((firings.value() or 0) + 1)
        return [(len(elements), total_of([row.v for row in elements]), [row.u for row in elements], firings.value())]


@lru_cache(maxsize=64)
def table_of(rows: tuple[Row, ...]) -> pa.Table:
    """Return rows as an Arrow table."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(ROWS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ROWS)


@dataclass
class QueryEngine(PlanEngine):
    """A plan of the engine for a query of the campaign.

    Attributes:
        to_table: turns rows into columns.
    """

    rows: pa.Schema = ROWS
    to_table: Callable[[tuple[Row, ...]], pa.Table] = table_of

    def table(self, rows: tuple[Row, ...]) -> pa.Table:
        return self.to_table(rows)

    def unpacked(self, tag: str, body: bytes) -> Iterator[OutputRow]:
        table, pairs = payload.decode(body, self.plan.emitted_schema(tag))[0], self.plan.pairs
        for some in (table,) if pairs is None or tag != MAIN else pairs.opened(table):
            yield from plain_rows(some)

    def left(self, states: Sequence[State]) -> set[Any]:
        keys: set[Any] = set()
        for group, values in enumerate(states):
            saved = self.plan.operator.for_group(self.plan, MemoryState(dict(values)), group).tables()
            for table in saved.tables.values():
                keys |= set(table.column("key 0").to_pylist())
        return keys


def total_of(values: Sequence[int | None]) -> int | None:
    """Return the sum of the values that are not null, or null if all are."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def assigner_of(said: Mapping[str, Any]) -> tuple[WindowAssigner, Trigger | None, Evictor | None]:
    """Return the assigner, and the trigger and evictor that make up count windows."""
    clock, kind = said.get("time") == "processing", said["type"]
    if kind == "tumbling":
        return (TumblingProcessingTimeWindows if clock else TumblingEventTimeWindows)(said["size"], said["offset"]), None, None
    if kind == "sliding":
        sliding = SlidingProcessingTimeWindows if clock else SlidingEventTimeWindows
        return sliding(said["size"], said["slide"], said["offset"]), None, None
    if kind == "session":
        return (ProcessingTimeSessionWindows if clock else EventTimeSessionWindows)(said["gap"]), None, None
    if kind == "count":
        return CountWindows(said["size"], said["slide"]).parts
    return GlobalWindows.create(), None, None


def trigger_of(said: Mapping[str, Any] | None) -> Trigger | None:
    """Return the trigger, or None for the default."""
    if said is None:
        return None
    inner: Any = trigger_of(said.get("inner"))
    made: Mapping[str, Callable[[], Trigger]] = {
        "count": lambda: CountTrigger.of(said["count"]),
        "continuous_event_time": lambda: ContinuousEventTimeTrigger(said["interval"]),
        "continuous_processing_time": lambda: ContinuousProcessingTimeTrigger(said["interval"]),
        "purging": lambda: PurgingTrigger.of(inner),
        "processing_timeout": lambda: ProcessingTimeoutTrigger(
            inner,
            said["timeout"],
            said["reset_on_each_record"],
            said["clear_on_timeout"],
        ),
    }
    return made[said["type"]]()


def evictor_of(said: Mapping[str, Any] | None) -> Evictor | None:
    """Return the evictor, or None."""
    if said is None:
        return None
    return CountEvictor(said["count"], said["after"]) if said["type"] == "count" else TimeEvictor(said["size"], said["after"])


def window_of(query: Query, settings: Settings) -> WindowQuery:
    """Return the windows of a query, with their triggers."""
    assigner, trigger, evictor = assigner_of(query.assigner)
    trigger, evictor = trigger_of(query.trigger) or trigger, evictor_of(query.evictor) or evictor
    return WindowQuery(assigner, trigger, evictor, settings.lateness, every_firing=query.exact or query.operator == "row")


def plan_of(query: Query, settings: Settings, groups: int) -> WindowPlan:
    """Return the planner's plan of a query over windows."""
    window = window_of(query, settings)
    return plan_with(query, settings, groups, window.assigner, _operator_of(query, settings, window))


def engine_of_windows(query: Query, settings: Settings, groups: int) -> QueryEngine:
    """Return the engine of a query over windows."""
    return QueryEngine(plan_of(query, settings, groups))


def plan_with(query: Query, settings: Settings, groups: int, assigner: WindowAssigner, operator: OperatorSpec) -> WindowPlan:
    """Return the plan of a query of one stream with a chosen operator."""
    clock = query.assigner.get("time") == "processing"
    watermark = WatermarkStrategy(settings.delay, "p" if query.partitions else None, query.idle)
    whole = query.late or query.invalid or operator.capabilities.takes_rows
    return WindowPlan(
        keys=("key",),
        key_schema=KEYS,
        assigner=assigner,
        operator=operator,
        watermark=watermark,
        event_time=None if clock else "ts",
        groups=groups,
        allowed_lateness=settings.lateness,
        late_tag=LATE if query.late else None,
        invalid_tag=INVALID if query.invalid else None,
        row_schema=ROWS if whole else None,
        ticks=1,
    )


def _operator_of(query: Query, settings: Settings, window: WindowQuery) -> OperatorSpec:
    if query.function == "declared":
        return plan_aggregates(window, AGGREGATES, TYPES, KEYS)
    functions: Mapping[str, AggregateRows | KeepRows] = {
        "list": KeepRows(ListRows(settings.code)),
        "aggregate": AggregateRows(AddRows(settings.code)),
        "context": KeepRows(CountFirings()),
    }
    return plan_functions(window, functions[query.function], RESULTS, ROWS, query.function, KEYS)


def look_back_engine(query: Query, settings: Settings, groups: int) -> QueryEngine:
    """Return the engine of one look-back or of several together."""
    several = [LookBackWindows(size, following) for size, following in query.assigner["of"]]
    assigner: WindowAssigner = several[0]
    if len(several) > 1:
        assigner = SeveralWindows.of({f"w{place}": each for place, each in enumerate(several)})
    asked = DeclaredAggregates(AGGREGATES, {**TYPES, "ts": pa.int64()}, KEYS, columns=tuple(KEPT.names), kept=KEPT)
    return QueryEngine(plan_with(query, settings, groups, assigner, choose(WindowQuery(assigner), asked)))


def predicate_engine(query: Query, settings: Settings, groups: int) -> QueryEngine:
    """Return the engine of windows by predicates."""
    values = {text_of(some): tuple(some) for some in (query.assigner["start"], query.assigner["end"]) if some is not None}
    start, end = (None if some is None else text_of(some) for some in (query.assigner["start"], query.assigner["end"]))
    assigner = PredicateWindows(start, end, query.assigner["gap"])
    operator = choose(WindowQuery(assigner), DeclaredAggregates(AGGREGATES, TYPES, KEYS))
    columns = pa.schema([*ROWS, *((label_of(text), pa.bool_()) for text in values)])
    plan = plan_with(query, settings, groups, assigner, operator)
    return QueryEngine(plan, columns, partial(table_with_predicates, predicates=tuple(values.items())))


def text_of(values: Sequence[int]) -> str:
    """Return the predicate that a value is in a list.

    >>> text_of([2, -7])
    'v IN (2, -7)'
    """
    return f"v IN ({', '.join(map(str, values))})"


@lru_cache(maxsize=64)
def table_with_predicates(rows: tuple[Row, ...], *, predicates: tuple[tuple[str, tuple[int, ...]], ...]) -> pa.Table:
    """Return rows as an Arrow table, with a column for each predicate. A null value gives a null predicate."""
    table = table_of(rows)
    for text, values in predicates:
        said = [None if row.value is None else row.value in values for row in rows]
        table = table.append_column(pa.field(label_of(text), pa.bool_()), pa.array(said, pa.bool_()))
    return table
