"""Redistribution of state tables to another number of key groups.

Three steps can run in three places. The headers of all key groups, which are few and small, are merged into one. Every row gets
its new key group, by the hash of its key columns that the exchange (Spark) uses. The rows of each key group are combined, in any
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.plan import KEY_GROUPS, WindowPlan
from panestream.engine.storage.state_tables import StateTables, key_columns
from panestream.errors import PlanMismatchError, StateDamagedError

Placement: TypeAlias = Callable[[Sequence[pa.Array], int], Ints]
"""A function of key columns and a number of key groups that returns each row's key group, as the exchange does."""
_SAME = ("format", "operator", "identity", "watermarks", "partials", "labels", "accumulators", "incomplete")
"""Header fields that are equal in all key groups."""


def header_of_all(headers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the header for new key groups, merged from the headers of all old ones.

    All key groups get the times of all rows, so event time is the same in all. Only key groups with rows or due timers get the
    processing time. The latest one counts, because everything due until then has fired.

    Raises:
        StateDamagedError: the headers are from different micro-batches, because event time or plan differ.
        PlanMismatchError: values of single key groups cannot be merged, because windows are staggered.
    """
    first = headers[0]
    for name in _SAME:
        other = next((number for number, header in enumerate(headers) if header.get(name) != first.get(name)), None)
        if other is not None:
            raise StateDamagedError(
                f"the key groups' saved states do not belong together: key group {other} says of its {name} "
                f"{headers[other].get(name)}, key group 0 {first.get(name)}. Take a savepoint of one micro-batch",
                group=other,
            )
    made = {name: first[name] for name in _SAME if name in first}
    made |= {name: max(header[name] for header in headers) for name in ("clock", "closed")}
    made["counters"] = _counters([header["counters"] for header in headers])
    return made


def _counters(all_groups: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    how: Mapping[str, Callable[[list[Any]], Any]] = {"largest": max, "any": any, "total": sum}
    made: dict[str, dict[str, Any]] = {}
    for kind in dict.fromkeys(kind for counters in all_groups for kind in counters):
        names = dict.fromkeys(name for counters in all_groups for name in counters.get(kind, {}))
        values = {name: [counters[kind][name] for counters in all_groups if name in counters.get(kind, {})] for name in names}
        made[kind] = {name: _equal(name, found) if kind == "equal" else how[kind](found) for name, found in values.items()}
    return made


_DIFFERS = {
    "stagger": "staggered windows are shifted for each key group, so rows of one cannot go to another",
    "broadcast": "the broadcast state of key groups differs, since process_broadcast_element depends on keyed state or chance",
}
"""Why a value of single key groups, which should be equal, is not."""


def _equal(name: str, values: list[Any]) -> Any:
    if any(value != values[0] for value in values):
        raise PlanMismatchError(f"{_DIFFERS[name]}: the number of key groups must stay as it is")
    return values[0]


def header_for(header: Mapping[str, Any], group: int) -> dict[str, Any]:
    """Return the header of one new key group; totals are counted in the first only."""
    counters = dict(header["counters"])
    if group and "total" in counters:
        counters["total"] = dict.fromkeys(counters["total"], 0)
    return {**header, "counters": counters}


def new_groups(
    table: pa.Table, plan: WindowPlan, placement: Placement, groups: int, came_from: int = 0, there_were: int = 1
) -> Ints:
    """Return the new key group of each row of a state table.

    ``came_from`` is the old key group of the table, and ``there_were`` the number of old key groups.

    Raises:
        PlanMismatchError: the rows of a key are split into more parts than there were key groups.
    """
    keys = key_columns(table, plan.key_schema)
    placed = placement(keys, groups) if keys else np.zeros(table.num_rows, np.int64)
    if plan.split is None:
        return placed
    if plan.split.parts > there_were:
        raise PlanMismatchError(
            f"distinct values are split into {plan.split.parts} parts, in {there_were} key groups, and the part of a saved "
            f"value is not stored. The number of key groups must stay as it is",
            {KEY_GROUPS: (str(there_were), str(groups))},
        )
    before = placement(keys, there_were) if keys else placed
    found: Ints = (placed + (came_from - before) % there_were) % groups
    return found


def dealt(table: pa.Table, numbers: Ints, groups: int) -> list[pa.Table]:
    """Return the rows of each key group, as given by ``numbers``."""
    order = stable_order(numbers)
    ordered, ends = table.take(pa.array(order)), np.cumsum(np.bincount(numbers, minlength=groups)).tolist()
    return [ordered.slice(begin, end - begin) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def put_together(header: Mapping[str, Any], parts: Iterable[Mapping[str, pa.Table]], group: int) -> StateTables:
    """Return the state of one new key group from the common header and the tables with its rows."""
    found: dict[str, list[pa.Table]] = {}
    for part in parts:
        for name, table in part.items():
            found.setdefault(name, []).append(table)
    return StateTables(header_for(header, group), {name: pa.concat_tables(tables) for name, tables in found.items()})


def rescaled(saved: Sequence[StateTables], plan: WindowPlan, placement: Placement, groups: int) -> list[StateTables]:
    """Redistribute the state of all key groups, ordered by number, or return it unchanged if their number stays the same.

    Raises:
        StateDamagedError: the states do not belong together.
        PlanMismatchError: the number of key groups must stay the same.
    """
    if groups == len(saved):
        return list(saved)
    header = header_of_all([one.header for one in saved])
    parts: list[list[dict[str, pa.Table]]] = [[] for _ in range(groups)]
    for number, one in enumerate(saved):
        for group in parts:
            group.append({})
        for name, table in one.tables.items():
            numbers = new_groups(table, plan, placement, groups, number, len(saved))
            for group, rows in zip(parts, dealt(table, numbers, groups), strict=True):
                group[-1][name] = rows
    return [put_together(header, part, number) for number, part in enumerate(parts)]
