"""Build plans of the engine for queries of two streams: window joins, co-groups, interval joins and as-of joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from panestream.engine.co_groups import OfLists, OfTables
from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.operators.as_of_join import AsOfSpec
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import OperatorSpec, WindowPlan
from panestream.engine.planner import plan_aggregates, plan_functions, plan_table_function
from panestream.engine.runtime.sides import SIDES, Pairs, Sides
from panestream.testing.simulation.schedule import Row, Settings
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.watermarks import WatermarkStrategy
from tests.testing.simulation.campaign.plans import INVALID, KEYS, LATE, ROWS, QueryEngine, window_of
from tests.testing.simulation.campaign.queries import Query, join_of

FROM = "from"
"""The column with the side of a row, and its source partition on that side."""
WHOLE = pa.schema([(side, pa.struct(list(ROWS))) for side in SIDES])
"""A row of the two streams: its own row on one side, null on the other."""
VALUES = pa.struct([("v", pa.int64()), ("u", pa.int64())])
"""The columns of either side that a join stores."""
FLAGGED = pa.struct([*VALUES, ("deletes", pa.bool_())])
"""The columns of right rows that may delete the value of their key."""
PAIRED = (pa.schema([("v", pa.int64()), ("u", pa.int64())]), pa.schema([("w", pa.int64()), ("x", pa.int64())]))
"""The columns of either side in the results."""
NUMBERS = pa.schema([("lefts", pa.list_(pa.int64())), ("rights", pa.list_(pa.int64())), ("code", pa.int64())])
"""The results of functions over both sides: the rows that they saw, and the version of the code that computed the result."""
COLUMNS = pa.schema(
    [*KEYS, ("ts", pa.int64()), (FROM, pa.string()), *((side, VALUES) for side in SIDES), ("row", pa.struct(list(WHOLE)))]
)


@dataclass(frozen=True)
class SeesLists:
    """A function that gets the rows of both sides as lists."""

    code: int

    def __call__(self, key: Any, window: Any, left: Sequence[Any], right: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [([row.u for row in left], [row.u for row in right], self.code)]


@dataclass(frozen=True)
class SeesTables:
    """A function that gets the rows of both sides as tables."""

    code: int

    def __call__(self, key: Any, window: Any, left: pa.Table, right: pa.Table) -> list[tuple[Any, ...]]:
        return [(left.column("u").to_pylist(), right.column("u").to_pylist(), self.code)]


def engine_of_two(query: Query, settings: Settings, groups: int) -> QueryEngine:
    """Return the engine of a query of two streams."""
    joins = query.function == "pairs"
    assigner = GlobalWindows() if query.operator in ("intervals", "as-of joins") else window_of(query, settings).assigner
    invalid = tuple(f"{INVALID}_{side}" if query.invalid else None for side in SIDES)
    sides = Sides(ROWS, ROWS, (("key",), ("key",)), (invalid[0], invalid[1]))
    operator = _operator_of(query, settings, sides)
    plan = WindowPlan(
        keys=("key",),
        key_schema=KEYS,
        assigner=assigner,
        operator=operator,
        watermark=_strategy_of(query, settings),
        event_time="ts" if query.of_time else None,
        groups=groups,
        allowed_lateness=settings.lateness,
        late_tag=LATE if query.late else None,
        invalid_tag=invalid[0],
        row_schema=WHOLE if query.late or query.invalid or operator.capabilities.takes_rows else None,
        ticks=1,
        sides=sides,
        pairs=Pairs(join_of(query, settings), *PAIRED, keys=1) if joins else None,
    )
    schema = COLUMNS
    if query.assigner.get("deletes"):
        schema = schema.set(schema.get_field_index(SIDES[1]), pa.field(SIDES[1], FLAGGED))
    tabled: Callable[[tuple[Row, ...]], pa.Table] = partial(table_of_two, partitions=query.partitions, schema=schema)
    return QueryEngine(plan, schema, tabled)


def _strategy_of(query: Query, settings: Settings) -> WatermarkStrategy:
    if not query.of_time:
        return WatermarkStrategy.no_watermarks()
    delays = settings.delay, settings.delay + query.behind
    own = {
        side: WatermarkStrategy(delay, FROM if query.partitions else None, query.idle)
        for side, delay in zip(SIDES, delays, strict=True)
    }
    return WatermarkStrategy.of_sides(own, FROM)


def _operator_of(query: Query, settings: Settings, sides: Sides) -> OperatorSpec:
    if query.operator == "intervals":
        return IntervalSpec(query.assigner["lower"], query.assigner["upper"], query.how, VALUES, VALUES, KEYS)
    if query.operator == "as-of joins":
        direction, tolerance, deletes = (query.assigner[name] for name in ("direction", "tolerance", "deletes"))
        return AsOfSpec(direction, tolerance, query.how, deletes, VALUES, FLAGGED if deletes else VALUES, KEYS)
    window = window_of(query, settings)
    if query.function == "lists":
        return plan_functions(window, KeepRows(OfLists(SeesLists(settings.code), sides)), NUMBERS, WHOLE, query.function, KEYS)
    if query.function == "tables":
        return plan_table_function(window, TablePerWindow(OfTables(SeesTables(settings.code), sides)), NUMBERS, WHOLE, KEYS)
    lists = [agg.collect_list(side).alias(side) for side in SIDES]
    return plan_aggregates(window, lists, dict.fromkeys(SIDES, VALUES), KEYS)


@lru_cache(maxsize=64)
def table_of_two(rows: tuple[Row, ...], *, partitions: bool, schema: pa.Schema = COLUMNS) -> pa.Table:
    """Return the rows of both streams as an Arrow table. With ``partitions``, each partition has a separate watermark."""
    whole = [{row.side: dict(zip(ROWS.names, row, strict=True))} for row in rows]
    values = {side: [_stored(row) if row.side == side else None for row in rows] for side in SIDES}
    columns = [
        [row.key for row in rows],
        [row.time for row in rows],
        [row.partition if partitions else row.side for row in rows],
        *(values[side] for side in SIDES),
        whole,
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _stored(row: Row) -> dict[str, Any]:
    return {"v": row.value, "u": row.number, "deletes": row.value == 1}
