"""Queries over several key groups, stopped at a micro-batch and started again from saved state with another number of key groups.

The interface is :func:`compare_with_restored`. It raises ``AssertionError`` with the first difference to a query that never
stopped.
A key group gets the micro-batches that Spark would give it: those with rows, because every key group then gets their times, and
those after the wake-up time that the key group requested.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from panestream.engine.kernels.columns import plain
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.operators.accumulating.windowed_rows import AllWindows
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.savepoint.key_groups import rescaled
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from tests.comparison import harness
from tests.comparison.harness import LATE, MicroBatch

GROUPS = (1, 2, 3, 4, 5, 7, 8)


def placement(keys: Sequence[pa.Array], groups: int) -> np.ndarray:
    """Place keys in key groups, instead of Spark's hash."""
    return key_hashes([plain(key) for key in keys], len(keys[0])) % groups


@cache
def group_of(key: str | None, groups: int) -> int:
    return int(placement([pa.array([key], harness.KEYS.field(0).type)], groups)[0])


@dataclass
class Output:
    """The output of all key groups in a micro-batch: rows by key in order, late rows, counts, and the next wake-up."""

    fired: dict[object, list[tuple]] = field(default_factory=dict)
    late: list[tuple] = field(default_factory=list)
    counts: tuple[int, ...] = (0, 0, 0)
    wake_up: int | None = None


class Query:
    """A query over several key groups."""

    def __init__(self, plan: WindowPlan, groups: int, *, part_of: Callable[[tuple], int] | None = None) -> None:
        self.plan = replace(plan, groups=groups)
        self.groups = groups
        self.states = [MemoryState() for _ in range(groups)]
        self.wake_ups: list[int | None] = [None] * groups
        self._part_of = part_of or (lambda row: 0)

    def run(self, batch: MicroBatch) -> Output:
        told, rows = Output(), batch.rows
        for number, state in enumerate(self.states):
            woken = self.wake_ups[number]
            if not rows and not batch.end and (woken is None or woken >= batch.clock):
                continue
            given = self._input(batch, number)
            output = self.plan.operator.for_group(self.plan, state, number).process(given)
            self.wake_ups[number] = output.wake_up
            for tag, table in output.tables:
                if tag == MAIN:
                    for place, values in harness.rows_of(self.plan, table):
                        told.fired.setdefault(place[0], []).append((place[1:], values))
                if tag == LATE:
                    told.late += [tuple(row.values()) for row in table.to_pylist()]
            metrics = output.metrics
            new = (metrics.late_rows, metrics.windowed_rows, metrics.outside_rows)
            told.counts = tuple(a + b for a, b in zip(told.counts, new, strict=True))
        if self.plan.split is not None or isinstance(getattr(self.plan.operator, "function", None), AllWindows):
            # The parts of a window come from several key groups. A test may also order windows by all keys.
            told.fired = {key: sorted(rows, key=repr) for key, rows in told.fired.items()}
        if isinstance(self.plan.operator, IntervalSpec):
            # Pairs of equal times have no first.
            told.fired = {
                key: sorted(
                    [(one, other) for _, (left, right) in rows for one in left or [0] for other in right or [0]], key=repr
                )
                for key, rows in told.fired.items()
            }
        told.late.sort(key=repr)
        told.wake_up = min((one for one in self.wake_ups if one is not None), default=None)
        return told

    def _input(self, batch: MicroBatch, number: int) -> GroupInput:
        chunks = [
            [row for row in chunk if (group_of(row[0], self.groups) + self._part_of(row)) % self.groups == number]
            for chunk in batch.chunks
        ]
        given = harness.group_input(self.plan, replace(batch, chunks=chunks))
        times = [row[1] for row in batch.rows]
        given.seen, given.input_rows = {"": max(times)} if times else {}, len(batch.rows)
        given.oldest = harness.oldest(self.plan, batch.rows)
        return given

    def tables(self) -> list[StateTables]:
        """Return the state tables as another process reads them: by the stored JSON plan, without user code."""
        plan = self.plan_read()
        return [plan.operator.for_group(plan, state, n).tables() for n, state in enumerate(self.states)]

    def plan_read(self) -> WindowPlan:
        return plan_of(json.loads(json.dumps(plan_json(self.plan))))

    def restore(self, saved: Sequence[StateTables]) -> None:
        for number, (state, tables) in enumerate(zip(self.states, saved, strict=True)):
            self.wake_ups[number] = self.plan.operator.for_group(self.plan, state, number).restore(tables)


def shuffled(tables: StateTables, rng: random.Random) -> StateTables:
    """Return the tables with their rows in any order, sometimes after writing and reading Parquet."""
    parquet = rng.random() < 0.3

    def mixed(table: pa.Table) -> pa.Table:
        order = list(range(table.num_rows))
        rng.shuffle(order)
        table = table.take(pa.array(order, pa.int64()))
        if not parquet:
            return table
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        assert not [field for field in table.schema if pa.types.is_decimal256(field.type)]  # Spark does not have such decimals
        return pq.read_table(pa.BufferReader(sink.getvalue()))

    return StateTables(tables.header, {name: mixed(table) for name, table in tables.tables.items()})


def compare_with_restored(
    plan: WindowPlan,
    batches: Sequence[MicroBatch],
    rng: random.Random,
    what: object,
    part_of: Callable[[tuple], int] | None = None,
    least: int = 1,
) -> None:
    """Run a query twice: once without a stop, and once saved and restored at one or two micro-batches.

    Args:
        plan: The query.
        batches: The input.
        rng: Decides the stops, and the numbers of key groups.
        what: A name for the error.
        part_of: Returns the part of a row's key, if the query is split.
        least: The smallest number of key groups.
    """
    numbers = [n for n in GROUPS if n >= least]
    groups = rng.choice(numbers)
    whole, cut = Query(plan, groups, part_of=part_of), Query(plan, groups, part_of=part_of)
    stops = {rng.randint(0, len(batches) - 1) for _ in range(rng.choice([1, 1, 2]))}
    for number, batch in enumerate(batches):
        if number in stops:
            groups = rng.choice(numbers)
            saved = rescaled(cut.tables(), cut.plan, placement, groups)
            cut = Query(plan, groups, part_of=part_of)
            cut.restore([shuffled(one, rng) for one in saved])
        expected, found = whole.run(batch), cut.run(batch)
        wrong = difference(expected, found, early=isinstance(plan.operator, RowSpec))
        if wrong is not None:
            shown = "\n".join(f"  {place}: {one}" for place, one in enumerate(batches[: number + 1]))
            raise AssertionError(f"{what}: micro-batch {number}, stops {stops}: {wrong}\n{plan.operator}\n{shown}")


def difference(expected: Output, found: Output, *, early: bool) -> str | None:
    """Describe a difference. If ``early``, a wake-up may precede the first due timer, and savepoints do not keep it."""
    for key in sorted({*expected.fired, *found.fired}, key=repr):
        if not harness.same(expected.fired.get(key), found.fired.get(key)):
            return f"{key!r}: expected {expected.fired.get(key)}, found {found.fired.get(key)}"
    if expected.late != found.late:
        return f"late rows: expected {expected.late}, found {found.late}"
    if expected.counts != found.counts:
        return f"late, windowed, outside: expected {expected.counts}, found {found.counts}"
    later = found.wake_up is None or (expected.wake_up is not None and found.wake_up > expected.wake_up)
    if expected.wake_up != found.wake_up and not (early and later and expected.wake_up is not None):
        return f"wake up: expected {expected.wake_up}, found {found.wake_up}"
    return None
