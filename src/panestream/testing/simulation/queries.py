"""Queries in plain words as plans of the engine, and rows as what ``pack`` takes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from panestream.engine.exchange.packing import PackColumns
from panestream.engine.kernels.columns import plain
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.operators.row.row_plan import Aggregate, Elements
from panestream.engine.plan import OperatorSpec, WindowPlan
from panestream.engine.planner import aggregating, calling
from panestream.engine.query import WindowSpec
from panestream.testing.simulation.schedule import Query, Row, Settings
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
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

ROWS = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("u", pa.int64()), ("p", pa.string())])
KEYS = pa.schema([("key", pa.string())])
LATE, INVALID = "late", "invalid"
RESULTS = pa.schema([("n", pa.int64()), ("total", pa.int64()), ("ids", pa.list_(pa.int64())), ("code", pa.int64())])
"""How many rows, the sum of their values, their numbers; and which version of the code said so."""
AGGREGATES = (agg.count().alias("n"), agg.sum("v").alias("total"), agg.collect_list("u").alias("ids"))
"""The same, declared."""
TYPES = {"v": pa.int64(), "u": pa.int64()}


@dataclass(frozen=True)
class Listed(WindowFunction):
    """Sees the rows of a window."""

    code: int

    def apply(self, key: Any, window: Any, elements: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(len(elements), total_of([row.v for row in elements]), [row.u for row in elements], self.code)]


@dataclass(frozen=True)
class Added(AggregateFunction):
    """Adds rows one by one."""

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
class Remembering(ProcessWindowFunction):
    """Keeps the number of firings of each key, and tells it in place of the version of its code."""

    def process(self, key: Any, context: Any, elements: Sequence[Any]) -> list[tuple[Any, ...]]:
        firings = context.global_state().get_state(ValueStateDescriptor("firings"))
        firings.update((firings.value() or 0) + 1)
        return [(len(elements), total_of([row.v for row in elements]), [row.u for row in elements], firings.value())]


def total_of(values: Sequence[int | None]) -> int | None:
    """The sum of those that are not null; null where all are."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def assigner_of(said: Mapping[str, Any]) -> tuple[WindowAssigner, Trigger | None, Evictor | None]:
    """The windows; and of count windows what makes them such."""
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
    """The trigger; None: the default."""
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
    """The evictor; None: nothing is evicted."""
    if said is None:
        return None
    return CountEvictor(said["count"], said["after"]) if said["type"] == "count" else TimeEvictor(said["size"], said["after"])


def window_of(query: Query, settings: Settings) -> WindowSpec:
    """The windows of a query, and when they fire."""
    assigner, trigger, evictor = assigner_of(query.assigner)
    trigger, evictor = trigger_of(query.trigger) or trigger, evictor_of(query.evictor) or evictor
    return WindowSpec(assigner, trigger, evictor, settings.lateness, every_firing=query.exact or query.operator == "row")


def plan_of(query: Query, settings: Settings, groups: int) -> WindowPlan:
    """The plan of a query over windows, as the planner makes it."""
    window = window_of(query, settings)
    return plan_with(query, settings, groups, window.assigner, _operator_of(query, settings, window))


def plan_with(query: Query, settings: Settings, groups: int, assigner: WindowAssigner, operator: OperatorSpec) -> WindowPlan:
    """The plan of a query of one stream with an operator that was chosen for it."""
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


def _operator_of(query: Query, settings: Settings, window: WindowSpec) -> OperatorSpec:
    if query.function == "declared":
        return aggregating(window, AGGREGATES, TYPES, KEYS)
    functions: Mapping[str, Aggregate | Elements] = {
        "list": Elements(Listed(settings.code)),
        "aggregate": Aggregate(Added(settings.code)),
        "context": Elements(Remembering()),
    }
    return calling(window, functions[query.function], RESULTS, ROWS, query.function, KEYS)


@dataclass(frozen=True)
class Columns:
    """What ``pack`` takes of rows, as the projection on Spark has it (:mod:`panestream.spark.operator.dataflow`)."""

    plan: WindowPlan
    pack: PackColumns
    names: tuple[str, ...]

    @classmethod
    def of(cls, plan: WindowPlan, rows: pa.Schema = ROWS) -> Columns:
        """Those of a plan."""
        inputs = [f"value {text}" for text in plan.operator.inputs]
        names, places = ["time", *plan.keys, *inputs], dict[str, Any]()
        wanted = {
            "group": plan.groups > 1,
            "partition": plan.watermark.partition_column is not None,
            "row": plan.row_schema is not None,
            "processing_time": plan.operator.capabilities.shows_processing_time or plan.watermark.uses_processing_time,
        }
        for name in (name for name, is_wanted in wanted.items() if is_wanted):
            places[name] = len(names)
            names.append(name)
        types = tuple(rows.field(text).type for text in plan.operator.inputs)
        return cls(plan, PackColumns(tuple(field.type for field in plan.key_schema), types, **places), tuple(names))

    def batch(self, table: pa.Table, clock: int) -> pa.RecordBatch:
        """The rows of a task; ``clock``: the time of the micro-batch."""
        plan, groups = self.plan, self.plan.groups
        now = pa.array([clock] * table.num_rows, pa.int64())
        made: list[pa.Array] = []
        for name in self.names:
            if name == "time":
                made.append(now if plan.event_time is None else plain(table[plan.event_time]))
            elif name == "group":
                made.append(pa.array(placement([plain(table[key]) for key in plan.keys], groups), pa.int32()))
            elif name == "partition":
                made.append(plain(table[plan.watermark.partition_column]))
            elif name == "row":
                made.append(self._whole(table))
            elif name == "processing_time":
                made.append(now)
            else:
                made.append(plain(table[name.removeprefix("value ")]))
        return pa.RecordBatch.from_arrays(made, names=list(self.names))

    def _whole(self, table: pa.Table) -> pa.Array:
        """Rows as structs; of two streams they come as such."""
        if "row" in table.column_names:
            return plain(table["row"])
        names = table.column_names if self.plan.row_schema is None else self.plan.row_schema.names
        return pa.StructArray.from_arrays([plain(table[name]) for name in names], names=names)


def placement(keys: Sequence[pa.Array], groups: int) -> Any:
    """The key group of each key. Stands in for Spark's hash."""
    return key_hashes([plain(key) for key in keys], len(keys[0])) % groups


@lru_cache(maxsize=64)
def table_of(rows: tuple[Row, ...]) -> pa.Table:
    """Rows as Arrow has them."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(ROWS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ROWS)
