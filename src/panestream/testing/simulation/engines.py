"""Engines that run the key groups of a simulated query, from rows to outputs."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from panestream.engine.exchange.group_run import METRICS, bodies, run_micro_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.kernels.columns import plain
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.key_groups import rescaled
from panestream.engine.storage.payload import PayloadPart
from panestream.engine.storage.state import MemoryState
from panestream.testing.simulation.disk import OutputRow, State, TaskState
from panestream.testing.simulation.schedule import MicroBatch, Row

PACKED_AGAIN = 4
"""One of this many uses of a micro-batch packs its rows again, which must give the same bytes."""


@dataclass
class Operated:
    """The result of a task: rows by output, counters, and the time of the key group's next wake-up."""

    rows: dict[str, list[OutputRow]]
    metrics: Mapping[str, Any]
    wake_up: int | None


class Engine(Protocol):
    """Runs the key groups of a query with one version of its code and settings."""

    @property
    def groups(self) -> int:
        """The number of key groups."""

    @property
    def wakes_up(self) -> bool:
        """True if key groups have timers on the clock."""

    @property
    def tags(self) -> Sequence[str]:
        """The outputs."""

    def pack(self, batch: MicroBatch, run: str, rng: random.Random) -> list[list[Any]]:
        """Return the input of each key group, in random order."""

    def operate(self, state: TaskState, group: int, arrived: Sequence[Any], clock: int, planned_in: str) -> Operated:
        """Run a task; ``planned_in`` is the run that planned the micro-batch, if it matters."""

    def left(self, states: Sequence[State]) -> set[Any]:
        """Return the keys that still have state."""

    def dealt(self, states: Sequence[State], other: Any) -> list[tuple[State, int | None]]:
        """Distribute the state over the key groups of another engine, with the wake-up time of each."""


@dataclass(frozen=True)
class Columns:
    """The input columns of ``pack``, as in the projection on Spark (:mod:`panestream.spark.operator.dataflow`)."""

    plan: WindowPlan
    pack: PackColumns
    names: tuple[str, ...]

    @classmethod
    def of(cls, plan: WindowPlan, rows: pa.Schema) -> Columns:

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
        """Return the rows of a task at the time of the micro-batch."""
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
        """Return rows as structs; rows of two streams already are structs."""
        if self.plan.sides is not None:
            return plain(table["row"])
        names = [] if self.plan.row_schema is None else self.plan.row_schema.names
        return pa.StructArray.from_arrays([plain(table[name]) for name in names], names=names)


@dataclass
class PlanEngine(ABC):
    """A plan of the engine that packs, exchanges, processes and unpacks rows as on Spark."""

    plan: WindowPlan
    rows: pa.Schema
    _packed: dict[Any, tuple[list[list[PayloadPart]], int, MicroBatch]] = field(init=False, default_factory=dict, repr=False)

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
        return Columns.of(self.plan, self.rows)

    @abstractmethod
    def table(self, rows: tuple[Row, ...]) -> pa.Table:
        """Return rows as an Arrow table with the columns ``rows``."""

    @abstractmethod
    def unpacked(self, tag: str, body: bytes) -> Iterator[OutputRow]:
        """Yield the rows of a payload."""

    @abstractmethod
    def left(self, states: Sequence[State]) -> set[Any]:
        """Return the keys that still have state."""

    def pack(self, batch: MicroBatch, run: str, rng: random.Random) -> list[list[Any]]:
        known = id(batch), run
        packed, times, _ = self._packed.get(known, ([], 0, batch))
        if times % PACKED_AGAIN == 0:
            made = self._pack(batch, run)
            if times and made != packed:
                raise AssertionError("rows that were packed again made other payloads")
            packed = made
        # The micro-batch is stored too, so that its id is not reused.
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
        rows: dict[str, list[OutputRow]] = {}
        metrics: Mapping[str, Any] = {}
        for tag, body in bodies(output):
            if tag == METRICS:
                metrics = json.loads(body)
            else:
                rows.setdefault(tag, []).extend(self.unpacked(tag, body))
        counted = {tag: len(some) for tag, some in rows.items() if some}
        if counted != {tag: count for tag, count in metrics["outputs"].items() if count}:
            raise AssertionError(f"a task gave {counted} rows, and counted {metrics['outputs']}")
        return Operated(rows, metrics, output.wake_up)

    def dealt(self, states: Sequence[State], other: Any) -> list[tuple[State, int | None]]:
        operator, plan = self.plan.operator, other.plan
        saved = [operator.for_group(self.plan, MemoryState(dict(s)), n).tables() for n, s in enumerate(states)]
        made: list[tuple[State, int | None]] = []
        for group, tables in enumerate(rescaled(saved, plan, placement, plan.groups)):
            state = MemoryState()
            wake_up = plan.operator.for_group(plan, state, group).restore(tables)
            made.append((state.values, wake_up))
        return made


def placement(keys: Sequence[pa.Array], groups: int) -> Any:
    """Return the key group of each key, in place of Spark's hash."""
    return key_hashes([plain(key) for key in keys], len(keys[0])) % groups
