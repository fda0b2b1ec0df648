"""Queries whose results follow from the rows near a row, as plans of the engine: look-backs, windows by predicates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import pyarrow as pa

from panestream.engine.operators.predicates.operator import label_of
from panestream.engine.planner import choose
from panestream.engine.query import WindowSpec
from panestream.engine.rule import DeclaredAggregates
from panestream.testing.simulation.engines import PlanEngine
from panestream.testing.simulation.queries import AGGREGATES, KEYS, ROWS, TYPES, plan_with, table_of
from panestream.testing.simulation.schedule import Query, Row, Settings
from panestream.windowing.assigners import LookBackWindows, PredicateWindows, WindowAssigner
from panestream.windowing.assigners.several import SeveralWindows

KEPT = pa.schema([ROWS.field(name) for name in ("ts", "v", "u")])
"""The columns of a row that results of look-backs have."""


def look_back_engine(query: Query, settings: Settings, groups: int) -> PlanEngine:
    """What runs look-backs: one, or several side by side."""
    several = [LookBackWindows(size, following) for size, following in query.assigner["of"]]
    assigner: WindowAssigner = several[0]
    if len(several) > 1:
        assigner = SeveralWindows.of({f"w{place}": one for place, one in enumerate(several)})
    asked = DeclaredAggregates(AGGREGATES, {**TYPES, "ts": pa.int64()}, KEYS, columns=tuple(KEPT.names), kept=KEPT)
    return PlanEngine(plan_with(query, settings, groups, assigner, choose(WindowSpec(assigner), asked)))


def predicate_engine(query: Query, settings: Settings, groups: int) -> PlanEngine:
    """What runs windows by predicates."""
    values = {text_of(some): tuple(some) for some in (query.assigner["start"], query.assigner["end"]) if some is not None}
    start, end = (None if some is None else text_of(some) for some in (query.assigner["start"], query.assigner["end"]))
    assigner = PredicateWindows(start, end, query.assigner["gap"])
    operator = choose(WindowSpec(assigner), DeclaredAggregates(AGGREGATES, TYPES, KEYS))
    columns = pa.schema([*ROWS, *((label_of(text), pa.bool_()) for text in values)])
    plan = plan_with(query, settings, groups, assigner, operator)
    return PlanEngine(plan, columns, partial(told_table, predicates=tuple(values.items())))


def text_of(values: Sequence[int]) -> str:
    """The predicate that a value is one of these.

    >>> text_of([2, -7])
    'v IN (2, -7)'
    """
    return f"v IN ({', '.join(map(str, values))})"


@lru_cache(maxsize=64)
def told_table(rows: tuple[Row, ...], *, predicates: tuple[tuple[str, tuple[int, ...]], ...]) -> pa.Table:
    """Rows as Arrow has them, with what each predicate says of them; of a null it says nothing."""
    table = table_of(rows)
    for text, values in predicates:
        said = [None if row.value is None else row.value in values for row in rows]
        table = table.append_column(pa.field(label_of(text), pa.bool_()), pa.array(said, pa.bool_()))
    return table


__all__ = ["look_back_engine", "predicate_engine"]
