"""Compare columnar operators with the row operator on random queries and streams.

The interface for the tests of every columnar operator:

* :class:`Query` has windows, trigger, lateness and aggregates. ``query.row()`` and ``query.columnar()`` are its two plans.
* :func:`random_aggregates` and :func:`random_stream` make them from a ``random.Random``. The same seed gives the same results.
* :func:`run` runs a plan over micro-batches with a new operator on the stored bytes each time, and returns an :class:`Emitted`
for each.
* :func:`coalesced` keeps the row operator's last firing of each key, window and micro-batch.
* :func:`compare` runs both plans and raises ``AssertionError`` with the first difference and everything to reproduce it.
* :func:`compare_batch` compares the stream, once all windows are closed, with the same rows as one batch.
* :func:`cases` is the number of cases of a test: ``PANESTREAM_CASES`` or its default. :func:`first_seed` is ``PANESTREAM_SEED``.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from unittest import mock

import pyarrow as pa

from panestream.engine.operators.panes.operator import PaneSpec
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import MAIN, Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput, GroupMetrics
from panestream.engine.runtime.sides import SIDES
from panestream.engine.storage.sealed_state import SmallValues
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.watermarks import WatermarkStrategy
from tests.costs import random_cases
from tests.engine.aggregates import naive

ROWS = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("x", pa.float64()), ("u", pa.int64())])
"""The input: a nullable key, event time, an integer with nulls, a number with nulls, and a number that is unique to each row."""
KEYS = pa.schema([("key", pa.string())])
TYPES = {"v": pa.int64(), "x": pa.float64(), "u": pa.int64()}
SIDED = pa.struct([("v", pa.int64()), ("u", pa.int64())])
"""A row on its side of a join, if one stream provides both sides."""
LATE = "late"
PREDICATES: dict[str, Callable[[dict], bool]] = {
    "u % 5 = 0": lambda row: row["u"] % 5 == 0,
    "u % 4 = 1": lambda row: row["u"] % 4 == 1,
    "v > 0": lambda row: (row["v"] or 0) > 0,
    "never": lambda row: False,
}
"""The predicates of rows that windows by predicates may use, each with its definition."""
Row = tuple[object, ...]
Place = tuple[object, ...]
"""Key, label (if the query has several windows), window start, window end."""


@dataclass(frozen=True)
class MicroBatch:
    """Rows in the chunks of their arrival, from several source partitions in turn, with the processing time."""

    chunks: list[list[Row]]
    clock: int = 0
    end: bool = False
    partitions: int = 1

    @property
    def rows(self) -> list[Row]:
        return [row for chunk in self.chunks for row in chunk]


@dataclass(frozen=True)
class Query:
    """One windowed query.

    Attributes:
        windowing: The windows as the fluent API passes them to the planner.
        aggregates: Declared aggregates over the columns ``v``, ``x``, ``u``.
        delay: The delay of the watermark.
        late: True if there is a late output.
        more: Further fields of the plan.
    """

    windowing: WindowQuery
    aggregates: tuple[agg.Aggregate, ...]
    delay: int = 0
    late: bool = False
    more: dict[str, object] = field(default_factory=dict)

    def columnar(self) -> WindowPlan:
        """Return the planner's plan. Fail if it uses the row operator."""
        plan = self._plan(self.windowing)
        assert not isinstance(plan.operator, RowSpec), f"the planner took the row operator: {plan.operator.reasons}"
        return plan

    def row(self) -> WindowPlan:
        """Return the plan of the row operator."""
        return self._plan(replace(self.windowing, every_firing=True))

    def _plan(self, windowing: WindowQuery) -> WindowPlan:
        operator = plan_aggregates(windowing, self.aggregates, TYPES, KEYS)
        return plan_for(operator, windowing, self.delay, late=self.late, **self.more)


def plan_for(operator, windowing: WindowQuery, delay: int = 0, *, late: bool = False, watermark=None, **more) -> WindowPlan:
    """Return a plan over :data:`ROWS` with one key group. ``watermark`` replaces the strategy of a fixed delay."""
    return WindowPlan(
        keys=("key",),
        key_schema=KEYS,
        assigner=windowing.assigner,
        operator=operator,
        watermark=watermark or WatermarkStrategy(delay),
        event_time="ts",
        groups=1,
        allowed_lateness=windowing.allowed_lateness,
        late_tag=LATE if late else None,
        row_schema=ROWS if late or operator.capabilities.takes_rows else None,
        **more,
    )


@dataclass
class Emitted:
    """The output of a micro-batch: firings as (place, values) in order, late rows, counters, and the requested wake-up."""

    fired: list[tuple[Place, tuple]]
    late: list[Row]
    metrics: GroupMetrics
    wake_up: int | None = None


# ------------------------------------------------------------------------------------------------ random queries and streams


def random_aggregates(rng: random.Random) -> tuple[agg.Aggregate, ...]:
    """Return one to four declared aggregates."""
    known = [
        agg.count(), agg.count("v"), agg.sum("v"), agg.sum("x"), agg.mean("x"), agg.min("v"), agg.max("x"), agg.var("x"),
        agg.first("v"), agg.last("v"), agg.first("v", ignore_nulls=True), agg.max_by("v", "u"), agg.min_by("x", "u"),
        agg.arg_max("u", "v", "x"), agg.count_distinct("v"), agg.collect_list("v"), agg.top_k("v", 2),
        agg.max_by("u", "v"), agg.arg_min("v", "x", "u"), agg.corr("u", "v"), agg.mode("v"), agg.percentile("v", 0.75),
        agg.collect_set("v"), agg.entropy("v"), agg.increase("v"), agg.rate("u"), agg.time_weighted_mean("u"),
        agg.decayed_mean("x", "10 microseconds"), agg.ohlc("v"),
    ]  # fmt: skip
    chosen = rng.sample(known, rng.randint(1, 4))
    return tuple(aggregate.alias(f"r{place}") for place, aggregate in enumerate(chosen))


def random_stream(
    rng: random.Random, span: int, *, batches: int = 12, clock: bool = False, late: float | None = None, partitions: int = 1
) -> list[MicroBatch]:
    """Return micro-batches of random rows.

    Args:
        rng: The source of randomness.
        span: About the size of the windows. Times advance by a fraction of it in each micro-batch, sometimes by several.
        batches: The largest number of micro-batches.
        clock: True if processing time advances, by at most some spans.
        late: The share of rows far in the past, or None for a random share.
        partitions: The number of source partitions.
    """
    keys = rng.choice([["a"], ["a", "b", None], ["a", "b", "c", "d", "e", None]])
    late = rng.choice([0.0, 0.1, 0.4]) if late is None else late
    # Sometimes use numbers whose squares overflow floats. All have one sign, so that no order of addition loses the others.
    huge = [None, 1e155, 1e200, 1e306, 0.5] if rng.random() < 0.2 else None
    disorder, pace = rng.choice([0, span // 3, span]), rng.choice([0.1, 0.4, 1.0])
    time, now, number, made = rng.choice([0, -3 * span, 1000]), rng.choice([0, 1000]), 0, []
    for _ in range(rng.randint(1, batches)):
        chunks = []
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            rows = []
            for _ in range(rng.randint(0, 6)):
                time += rng.randint(0, max(1, round(span * pace / 3)))
                back = rng.randint(0, 4 * span) if rng.random() < late else rng.randint(0, disorder)
                number += 1
                value = rng.choice([None, rng.randint(-9, 9), rng.randint(-9, 9), 2**40])
                x = rng.choice(huge or [None, number / 8, -0.5])
                rows.append((rng.choice(keys), time - back, value, x, (number * 7919) % 65_537))
            chunks.append(rows)
        if rng.random() < 0.08:
            time += rng.randint(span, 6 * span)
        if clock and rng.random() < 0.8:
            now += rng.choice([1, rng.randint(0, span), rng.randint(0, 3 * span)])
        made.append(MicroBatch(chunks, now if clock else 0, partitions=partitions))
    if rng.random() < 0.5:
        made.append(MicroBatch([], now if clock else 0, end=True))
    return made


# ------------------------------------------------------------------------------------------------ running


def group_input(plan: WindowPlan, batch: MicroBatch) -> GroupInput:
    """Pack a micro-batch for the only key group."""
    given = GroupInput(input_rows=len(batch.rows), batch_time=batch.clock, end_of_input=batch.end)
    for place, rows in enumerate(batch.chunks):
        if not rows:
            continue
        columns = zip(zip(*rows, strict=True), ROWS.types, strict=True)
        table = pa.Table.from_arrays([pa.array(values, kind) for values, kind in columns], schema=ROWS)
        inputs = [side_of(table, text) if text in SIDES else input_of(table, text) for text in plan.operator.inputs]
        whole = rows_carried(plan, table) if plan.carries_rows else None
        for kind, part in plan.operator.pack(plan, Chunk(table["ts"].to_numpy(), [table["key"].chunk(0)], inputs, whole)):
            assert part.schema.names == plan.operator.part_schema(plan, kind).names
            given.parts.setdefault(kind, []).append(part)
            given.origins.setdefault(kind, []).append(place % batch.partitions)
    given.seen = seen(plan, batch.rows)
    given.oldest = oldest(plan, batch.rows)
    return given


def oldest(plan: WindowPlan, rows: Sequence[Row]) -> int | None:
    """Return the oldest time of a micro-batch as reports have it."""
    return min((row[1] for row in rows), default=None) if plan.operator.capabilities.follows_oldest else None


def rows_carried(plan: WindowPlan, table: pa.Table) -> pa.Table:
    """Return whole rows as the plan carries them, with two streams each on its side."""
    return table if plan.sides is None else pa.table({side: side_of(table, side) for side in SIDES})


def side_of(table: pa.Table, side: str) -> pa.Array:
    """Return the rows of one of two streams. ``u`` decides the side of each row."""
    rows = [
        {"v": v, "u": u} if side == SIDES[u % 2] else None
        for v, u in zip(table["v"].to_pylist(), table["u"].to_pylist(), strict=True)
    ]
    return pa.array(rows, SIDED)


def input_of(table: pa.Table, text: str) -> pa.Array:
    """Return an input column: a column of the rows, or a predicate's value for each row (sometimes null if it is not true)."""
    predicate = PREDICATES.get(text.removeprefix("whether "))
    if predicate is None:
        return table[text].chunk(0)
    said = [True if predicate(row) else None if row["u"] % 3 else False for row in table.to_pylist()]
    return pa.array(said, pa.bool_())


def seen(plan: WindowPlan, rows: Sequence[Row]) -> dict[str, int]:
    """Return the largest event time of each source partition (:func:`partition_of`), or of all if they share a watermark."""
    found: dict[str, int] = {}
    for row in rows:
        name = "" if plan.watermark.partition_column is None else partition_of(row)
        found[name] = max(row[1], found.get(name, row[1]))
    return found


def partition_of(row: Row) -> str:
    """Return the source partition of a row."""
    return f"p{row[4] % 2}"


def plans(plan: WindowPlan, batches: int, latenesses: Sequence[int] | None = None) -> list[WindowPlan]:
    """Return the plan of each micro-batch. Given latenesses restart the query with another allowed lateness."""
    if latenesses is None:
        return [plan] * batches
    return [with_lateness(plan, lateness) for lateness in latenesses]


def with_lateness(plan: WindowPlan, lateness: int) -> WindowPlan:
    """Return the plan with another allowed lateness."""
    operator = plan.operator
    if isinstance(operator, RowSpec):
        operator = replace(
            operator, row_plan=replace(operator.row_plan, window=replace(operator.row_plan.window, allowed_lateness=lateness))
        )
    elif isinstance(operator, PaneSpec):
        operator = replace(operator, fires_again=lateness > 0)
    return replace(plan, operator=operator, allowed_lateness=lateness)


def run(
    plan: WindowPlan,
    batches: Sequence[MicroBatch],
    state: MemoryState | None = None,
    latenesses: Sequence[int] | None = None,
) -> list[Emitted]:
    """Run the micro-batches in order. Every operator is new and only has the stored bytes."""
    state, emitted = MemoryState() if state is None else state, []
    for batch, plan in zip(batches, plans(plan, len(batches), latenesses), strict=True):  # noqa: B020
        output = plan.operator.for_group(plan, state, 0).process(group_input(plan, batch))
        fired = [row for tag, table in output.tables if tag == MAIN for row in rows_of(plan, table)]
        late = [tuple(row.values()) for tag, table in output.tables if tag == LATE for row in table.to_pylist()]
        check_sum(output.metrics)
        if not plan.changelog:  # a retraction is not a firing
            assert sum(output.metrics.firings.values()) >= len({place for place, _ in fired}), output.metrics
        emitted.append(Emitted(fired, late, output.metrics, output.wake_up))
    return emitted


def check_sum(metrics: GroupMetrics) -> None:
    """Check that each row is counted once: in windows, late, invalid or outside all windows."""
    counted = metrics.windowed_rows + metrics.late_rows + metrics.invalid_rows + metrics.outside_rows
    assert metrics.input_rows == counted, metrics


def late_firings(emitted: Emitted) -> int:
    """Count late firings. Columnar operators emit only the last firing of a micro-batch, on-time rather than early."""
    return emitted.metrics.firings.get("late", 0)


def rows_of(plan: WindowPlan, table: pa.Table) -> list[tuple[Place, tuple]]:
    """Return the rows of the main output as (place, values), with window bounds as integers."""
    assert table.schema.equals(plan.main_schema), f"{table.schema} is not {plan.main_schema}"
    places = [name for name in ("key", "window", "window_start", "window_end") if name in table.column_names]
    columns = {
        name: table[name].cast(pa.int64()) if pa.types.is_timestamp(table.schema.field(name).type) else table[name]
        for name in table.column_names
    }
    rows = pa.table(columns).to_pylist()
    return [
        (tuple(row[name] for name in places), tuple(value for name, value in row.items() if name not in places)) for row in rows
    ]


# ------------------------------------------------------------------------------------------------ comparing


def coalesced(fired: Sequence[tuple[Place, tuple]]) -> dict[Place, tuple]:
    """Return the last firing of each key and window, which a columnar operator emits in a micro-batch."""
    return dict(fired)


def single_firings(fired: Sequence[tuple[Place, tuple]]) -> dict[Place, tuple]:
    """Return the firings of a micro-batch. Fail if a key and window has several."""
    found = dict(fired)
    assert len(found) == len(fired), f"a window fired twice in a micro-batch: {sorted(map(str, fired))}"
    return found


def same(one: object, other: object) -> bool:
    """Return whether values are equal up to the rounding of floating point."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return one == other


def difference(expected: dict[Place, tuple], found: dict[Place, tuple]) -> str | None:
    """Describe the first firings that differ."""
    for place in sorted({*expected, *found}, key=str):
        if not same(expected.get(place), found.get(place)):
            return f"{place}: expected {expected.get(place)}, found {found.get(place)}"
    return None


def compare(
    query: Query,
    batches: Sequence[MicroBatch],
    what: object = "",
    expected: list[Emitted] | None = None,
    *,
    count_late: bool = True,
    latenesses: Sequence[int] | None = None,
) -> None:
    """Run both operators over the same micro-batches. Compare coalesced firings, late rows and late counts.

    Args:
        query: The query to run.
        batches: The micro-batches.
        what: A name for the error, e.g. the seed.
        expected: The expected output, if it is not the row operator's.
        count_late: Whether to compare the number of late rows.
        latenesses: The allowed lateness of each micro-batch, if the query restarts with other values.
    """
    counted = expected is None  # otherwise the counters come from several operators
    expected = run(query.row(), batches, latenesses=latenesses) if expected is None else expected
    found = run(query.columnar(), batches, latenesses=latenesses)
    for number, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
        wrong = difference(coalesced(theirs.fired), single_firings(ours.fired))
        if wrong is None and count_late and theirs.metrics.late_rows != ours.metrics.late_rows:
            wrong = f"late rows: expected {theirs.metrics.late_rows}, found {ours.metrics.late_rows}"
        if wrong is None and counted and count_late and theirs.metrics.windowed_rows != ours.metrics.windowed_rows:
            wrong = f"rows in windows: expected {theirs.metrics.windowed_rows}, found {ours.metrics.windowed_rows}"
        if wrong is None and counted and late_firings(ours) and not late_firings(theirs):
            wrong = f"firings: expected {theirs.metrics.firings}, found {ours.metrics.firings}"
        if wrong is None and theirs.late != ours.late:
            wrong = f"late output: expected {theirs.late}, found {ours.late}"
        if wrong is not None:
            shown = "\n".join(f"  {place}: {batch}" for place, batch in enumerate(batches[: number + 1]))
            raise AssertionError(f"{what}: micro-batch {number}: {wrong}\n{query}\n{shown}")


def compare_batch(query: Query, batches: Sequence[MicroBatch], what: object = "") -> None:
    """Compare the columnar operator's last firings on the stream with the same rows as one batch, for event time only.

    The watermark is delayed, less the allowed lateness, until no window misses a row. It is delayed by one more instant, because
    a row
    at the very end of a session belongs to that session if it has not fired, but starts another one on time.
    """
    if not query.windowing.assigner.is_event_time:
        return
    plan = replace(query, delay=max(0, furthest_back(batches) + 1 - query.windowing.allowed_lateness)).columnar()
    whole = [*(batch for batch in batches if not batch.end), MicroBatch([], end=True)]
    stream = run(plan, whole)
    (batch,) = run(plan, [MicroBatch([chunk for one in whole for chunk in one.chunks], end=True)])
    last: dict[Place, tuple] = {}
    for emitted in stream:
        assert not emitted.metrics.late_rows, f"{what}: late rows, with a watermark that no row is behind"
        last.update(single_firings(emitted.fired))
    wrong = difference(single_firings(batch.fired), last)
    assert wrong is None, f"{what}: batch against stream: {wrong}\n{query}\n{batches}"


def furthest_back(batches: Sequence[MicroBatch]) -> int:
    """Return the largest distance of a row to the largest event time of the micro-batches before."""
    largest, back = None, 0
    for batch in batches:
        times = [row[1] for row in batch.rows]
        if largest is not None:
            back = max([back, *(largest - time for time in times)])
        largest = max(times) if largest is None and times else max([largest, *times]) if times else largest
    return back


# ------------------------------------------------------------------------------------------------ how many


def cases(default: int) -> int:
    """Return how many random cases to run."""
    return int(os.environ.get("PANESTREAM_CASES") or random_cases(default))


def first_seed() -> int:
    """Return the first seed."""
    return int(os.environ.get("PANESTREAM_SEED", "0"))


def run_cases(default: int, chunk: int, chunks: int, case: Callable[[random.Random, int], None]) -> None:
    """Run ``case(rng, seed)`` for every ``chunks``-th seed, starting with ``chunk``.

    Chunks are tests that can run in parallel. The meta record holds all small values, some of them, or none.
    """
    begin = first_seed()
    for seed in range(begin + chunk, begin + cases(default), chunks):
        with mock.patch.object(SmallValues, "MAX_ALL_BYTES", (SmallValues.MAX_ALL_BYTES, 3000, -1)[seed % 3]):
            case(random.Random(seed), seed)


def check_reruns(plan: WindowPlan, batches: Sequence[MicroBatch], seed: int) -> None:
    """Run every micro-batch twice from the same state. It must give the same rows, and leave the same bytes."""
    state = MemoryState()
    for batch in batches:
        before = dict(state.values)
        given = group_input(plan, batch)
        first = plan.operator.for_group(plan, state, 0).process(given)
        rested = dict(state.values)
        state.values.clear()
        state.values.update(before)
        again = plan.operator.for_group(plan, state, 0).process(given)
        assert rested == state.values, seed
        assert [table.to_pylist() for _, table in first.tables] == [table.to_pylist() for _, table in again.tables], seed


def by_own_time(
    plan: WindowPlan, batches: Sequence[MicroBatch]
) -> Iterator[tuple[MicroBatch, list[naive.Row], list[Row], int | None]]:
    """Yield for each micro-batch all accepted rows so far, its late rows, and the watermark after it, or None before the first.

    A row is late if the watermark had reached its time before its micro-batch.
    """
    watermark: int | None = None
    taken: list[naive.Row] = []
    for batch in batches:
        late = [row for row in batch.rows if watermark is not None and row[1] <= watermark]
        for row in batch.rows:
            if row not in late:
                taken.append(naive.Row((row[0],), row[1], row[1], len(taken), dict(zip(ROWS.names, row, strict=True))))
        times = [row[1] for row in batch.rows]
        if times:
            came = max(times) - plan.watermark.delay - 1
            watermark = came if watermark is None else max(watermark, came)
        yield batch, taken, late, watermark
