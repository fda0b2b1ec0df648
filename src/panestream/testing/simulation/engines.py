"""What runs the key groups of a simulated query: a plan of the engine, with all that lies between rows and outputs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from panestream.engine.exchange.group_run import METRICS, bodies, run_micro_batch
from panestream.engine.exchange.packing import pack
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.savepoint.key_groups import rescaled
from panestream.engine.storage import payload
from panestream.engine.storage.payload import PayloadPart
from panestream.engine.storage.state import MemoryState
from panestream.testing.simulation.disk import State, TaskState, Told
from panestream.testing.simulation.queries import Columns, placement, table_of
from panestream.testing.simulation.schedule import MicroBatch, Row

PACKED_AGAIN = 4
"""Of so many times that the rows of a micro-batch are wanted they are packed anew once, and must give the same bytes."""


@dataclass
class Operated:
    """What a task gives: rows by output, the counters, and when the clock is to wake the key group up."""

    rows: dict[str, list[Told]]
    metrics: Mapping[str, Any]
    wake_up: int | None


class Engine(Protocol):
    """Runs the key groups of one query with one code and its settings."""

    @property
    def groups(self) -> int:
        """How many key groups there are."""

    @property
    def wakes_up(self) -> bool:
        """Whether the clock wakes key groups up."""

    @property
    def tags(self) -> Sequence[str]:
        """The outputs."""

    def pack(self, batch: MicroBatch, run: str, rng: random.Random) -> list[list[Any]]:
        """What goes to each key group, in any order."""

    def operate(self, state: TaskState, group: int, arrived: Sequence[Any], clock: int, planned_in: str) -> Operated:
        """One task; ``planned_in``: the run that planned the micro-batch, where that matters."""

    def left(self, states: Sequence[State]) -> set[Any]:
        """The keys of which something is left in state."""

    def dealt(self, states: Sequence[State], other: Any) -> list[tuple[State, int | None]]:
        """The state of each key group of another engine, made of this one's; and when it is to be woken up."""


@dataclass
class PlanEngine:
    """A plan: rows are packed, cross the exchange, are operated on and unpacked, as on Spark.

    Attributes:
        plan: the plan.
        rows: the columns of :meth:`table`; None: those of :data:`~panestream.testing.simulation.queries.ROWS`.
        tabled: makes these columns of rows.
    """

    plan: WindowPlan
    rows: pa.Schema | None = None
    tabled: Callable[[tuple[Row, ...]], pa.Table] = table_of
    _packed: dict[Any, tuple[list[list[PayloadPart]], int, MicroBatch]] = field(default_factory=dict, repr=False)

    @property
    def groups(self) -> int:
        return self.plan.groups

    @property
    def wakes_up(self) -> bool:
        return self.plan.wakes_up

    @property
    def tags(self) -> Sequence[str]:
        return self.plan.tags

    @cached_property
    def columns(self) -> Columns:
        return Columns.of(self.plan) if self.rows is None else Columns.of(self.plan, self.rows)

    def table(self, rows: Any) -> pa.Table:
        """Rows as Arrow has them."""
        return self.tabled(rows)

    def pack(self, batch: MicroBatch, run: str, rng: random.Random) -> list[list[Any]]:
        known = id(batch), run
        packed, times, _ = self._packed.get(known, ([], 0, batch))
        if times % PACKED_AGAIN == 0:
            made = self._pack(batch, run)
            if times and made != packed:
                raise AssertionError("rows that were packed again made other payloads")
            packed = made
        # With the micro-batch, so that no other has its place.
        self._packed[known] = packed, times + 1, batch
        arrived = [list(parts) for parts in packed]
        for parts in arrived:
            rng.shuffle(parts)
        return arrived

    def _pack(self, batch: MicroBatch, run: str) -> list[list[PayloadPart]]:
        arrived: list[list[PayloadPart]] = [[] for _ in range(self.plan.groups)]
        for origin, rows in enumerate(batch.tasks):
            given = self.columns.batch(self.table(rows), batch.clock)
            for group, part in pack(self.plan, self.columns.pack, [given], origin, run):
                arrived[group].append(part)
        return arrived

    def operate(self, state: TaskState, group: int, arrived: Sequence[Any], clock: int, planned_in: str) -> Operated:
        output = run_micro_batch(self.plan, state, group, arrived, clock if self.wakes_up else None, planned_in=planned_in)
        rows: dict[str, list[Told]] = {}
        metrics: Mapping[str, Any] = {}
        for tag, body in bodies(output):
            if tag == METRICS:
                metrics = json.loads(body)
            else:
                rows.setdefault(tag, []).extend(self._unpacked(tag, body))
        counted = {tag: len(some) for tag, some in rows.items() if some}
        if counted != {tag: count for tag, count in metrics["outputs"].items() if count}:
            raise AssertionError(f"a task gave {counted} rows, and counted {metrics['outputs']}")
        return Operated(rows, metrics, output.wake_up)

    def _unpacked(self, tag: str, body: bytes) -> Iterator[Told]:
        """The rows of a payload; of a join the pairs that become of them."""
        table, pairs = payload.decode(body, self.plan.emitted_schema(tag))[0], self.plan.pairs
        for some in (table,) if pairs is None or tag != MAIN else pairs.opened(table):
            yield from told(some)

    def left(self, states: Sequence[State]) -> set[Any]:
        found: set[Any] = set()
        for group, values in enumerate(states):
            saved = self.plan.operator.for_group(self.plan, MemoryState(dict(values)), group).tables()
            for table in saved.tables.values():
                found |= set(table.column("key 0").to_pylist())
        return found

    def dealt(self, states: Sequence[State], other: Any) -> list[tuple[State, int | None]]:
        operator, plan = self.plan.operator, other.plan
        saved = [operator.for_group(self.plan, MemoryState(dict(s)), n).tables() for n, s in enumerate(states)]
        made: list[tuple[State, int | None]] = []
        for group, tables in enumerate(rescaled(saved, plan, placement, plan.groups)):
            state = MemoryState()
            wake_up = plan.operator.for_group(plan, state, group).restore(tables)
            made.append((state.values, wake_up))
        return made


def told(table: pa.Table, as_time: Callable[[int], int] = int) -> list[Told]:
    """Rows of an output as plain values that can be compared.

    Args:
        table: the rows.
        as_time: what becomes of the microseconds of an instant.
    """
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            columns.append([time if time is None else as_time(time) for time in column.cast(pa.int64()).to_pylist()])
        else:
            columns.append([_fixed(value) for value in column.to_pylist()])
    return list(zip(*columns, strict=True))


def _fixed(value: Any) -> Any:
    """Lists as tuples, structs as tuples of names and values."""
    if isinstance(value, list):
        return tuple(_fixed(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, _fixed(one)) for name, one in value.items())
    return value
