"""Input with pauses, as Spark hands it to the key groups of a query, and the expected output by definition.

Micro-batches have times of the clock. Rows go to their key groups, reports to all of them. A micro-batch without rows calls
the key groups whose timer is due, as in Spark. A query may run several times, with pauses between the runs. If a micro-batch
is interrupted, the next run repeats it with its original time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from panestream.engine.plan import MAIN, Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy

ROWS = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("p", pa.string())])
KEYS = pa.schema([("key", pa.string())])
Row = tuple[str, int, int, str]
"""Key, event time, value, source partition."""


@dataclass(frozen=True)
class Step:
    """A micro-batch.

    Attributes:
        clock: its time.
        run: the run of the query.
        rows: its rows. An empty tuple means that the source was read and lacked data.
        broken: whether it is interrupted at its end, so that the next run repeats it.
        end: whether it reports the end of the available input.
    """

    clock: int
    run: str
    rows: tuple[Row, ...] = ()
    broken: bool = False
    end: bool = False


@dataclass(frozen=True)
class Query:
    """Windows that count and sum.

    Attributes:
        assigner: tumbling or sliding windows.
        watermark: the watermark strategy.
        lateness: the allowed lateness.
        exact: whether the row operator runs the query.
        groups: the number of key groups.
    """

    assigner: TumblingEventTimeWindows | SlidingEventTimeWindows
    watermark: WatermarkStrategy
    lateness: int = 0
    exact: bool = False
    groups: int = 2

    def plan(self) -> WindowPlan:
        """Return the plan that the engine runs."""
        windowing = WindowQuery(self.assigner, allowed_lateness=self.lateness, every_firing=self.exact)
        counted = [agg.count().alias("n"), agg.sum("v").alias("s")]
        return WindowPlan(
            keys=("key",),
            key_schema=KEYS,
            assigner=self.assigner,
            operator=plan_aggregates(windowing, counted, {"v": pa.int64()}, KEYS),
            watermark=self.watermark,
            event_time="ts",
            groups=self.groups,
            allowed_lateness=self.lateness,
            late_tag="late",
            row_schema=ROWS,
            ticks=1,
        )


@dataclass
class Emitted:
    """The output of a micro-batch: fired windows, late rows, and the watermark after it, or None if no key group was called."""

    fired: list[tuple] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    watermark: int | None = None


def group_of(key: str, groups: int) -> int:
    """Return a key group for a key. Any placement works."""
    return ord(key[0]) % groups


def run(query: Query, steps: Sequence[Step]) -> list[Emitted]:
    """Run the engine. Each key group has its own state and timer, and remembers only the bytes of its state."""
    plan, states, timers = query.plan(), [MemoryState() for _ in range(query.groups)], [None] * query.groups
    emitted = []
    for number, step in enumerate(steps):
        # The time belongs to the run that planned the micro-batch.
        planned_in = steps[number - 1].run if number > 0 and steps[number - 1].broken else step.run
        copies = [MemoryState(dict(state_.values)) for state_ in states]
        out, due = Emitted(), list(timers)
        for group, state in enumerate(copies):
            # Spark calls a key group that has rows, or whose timer is not later than the clock.
            if not (step.rows or step.end) and (due[group] is None or due[group] > step.clock):
                continue
            output = plan.operator.for_group(plan, state, group).process(_input(plan, step, group, planned_in))
            due[group] = None if output.wake_up is None else output.wake_up + 1
            watermark = output.metrics.watermark
            assert out.watermark in (None, watermark), f"key groups disagree: {out.watermark} and {watermark}"
            out.watermark = watermark
            for tag, table in output.tables:
                if tag == MAIN:
                    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table]
                    out.fired += list(zip(*(column.to_pylist() for column in columns), strict=True))
                else:
                    out.late += [tuple(row.values()) for row in table.to_pylist()]
        if not step.broken:
            states, timers = copies, due
        emitted.append(out)
    return emitted


def _input(plan: WindowPlan, step: Step, group: int, planned_in: str) -> GroupInput:
    group_input = GroupInput(batch_time=step.clock, run=step.run, planned_in=planned_in, end_of_available=step.end)
    group_input.input_rows = len(step.rows)
    group_input.seen = _largest(plan.watermark, step.rows)
    mine = [row for row in step.rows if group_of(row[0], plan.groups) == group]
    if mine:
        table = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in mine], schema=ROWS).combine_chunks()
        inputs = [table[text].chunk(0) for text in plan.operator.inputs]
        chunk = Chunk(table["ts"].to_numpy(), [table["key"].chunk(0)], inputs, table)
        for kind, part in plan.operator.pack(plan, chunk):
            group_input.parts.setdefault(kind, []).append(part)
    return group_input


def _largest(watermark: WatermarkStrategy, rows: Sequence[Row]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for _, time, _, partition in rows:
        name = "" if watermark.partition_column is None else partition
        largest[name] = max(time, largest.get(name, time))
    return largest


# -- the definition --------------------------------------------------------------------------------------------------------


@dataclass
class Definition:
    """The expected output by definition. It is computed again from the whole history, which is all that is stored.

    Attributes:
        query: the query.
        looks: the micro-batches that count as a look at the source, because they have rows or were due.
        mark: the current watermark.
        rows: the rows that windows took.
    """

    query: Query
    looks: list[Step] = field(default_factory=list)
    mark: int = MIN_TIMESTAMP
    rows: list[Row] = field(default_factory=list)

    def up(self, number: int) -> int:
        """Return how long the query had been observing the source at the look with this number."""
        newest, total = self.looks[0].clock, 0
        for before, look in zip(self.looks[:number], self.looks[1 : number + 1], strict=True):
            if look.run == before.run:
                total += max(look.clock - newest, 0)
            newest = max(newest, look.clock)
        return total

    def silent(self, partition: str | None = None) -> int | None:
        """Return how long the input, or a partition, had been silent at the last look, or None if it never had rows."""
        with_rows = [
            number
            for number, look in enumerate(self.looks)
            if look.rows and (partition is None or partition in _largest(self.query.watermark, look.rows))
        ]
        return self.up(len(self.looks) - 1) - self.up(with_rows[-1]) if with_rows else None

    def due(self) -> int | None:
        """Return the clock of the next look without rows, or None if no look is planned."""
        if not self.looks:
            return None
        after, silent = self.query.watermark.closes_after, self.silent() or 0
        if after is None:
            return None
        clock, longest = max(look.clock for look in self.looks), max(after // 10, 1)
        if self.looks[-1].rows:
            return clock + longest
        last = len(self.looks) - 1
        counted = self.up(last) - self.up(max(last - 1, 0))
        pause = min(max(2 * counted, 1), longest)
        return clock + (min(pause, after - silent) if silent < after else pause)

    def _reached(self, partition: str) -> int:
        """Return the watermark that the rows of a partition allow."""
        times = [_largest(self.query.watermark, look.rows).get(partition, MIN_TIMESTAMP) for look in self.looks]
        return max(times) - self.query.watermark.delay - 1

    def watermark(self) -> int:
        """Return the watermark after the last look."""
        names = sorted({name for look in self.looks for name in _largest(self.query.watermark, look.rows)})
        if not names:
            return self.mark
        if self.looks[-1].rows:
            return max(self.mark, min(self._reached(name) for name in names))
        if (self.silent() or 0) < self.query.watermark.closes_after:
            return self.mark
        return max(self.mark, min(self._reached(name) + self.silent(name) for name in names))

    def at_end(self) -> int:
        """Return the watermark at the end of the available input."""
        times = [row[1] for look in self.looks for row in look.rows]
        if not times:
            return self.mark
        ends = [window.max_timestamp() for window in self.query.assigner.assign_windows(None, max(times), 0)]
        return max([self.mark, *(ends or [max(times)])])

    def take(self, step: Step, planned_in: str) -> Emitted:
        """Return the output of a micro-batch, and advance the watermark."""
        due, before = self.due(), self.mark
        if step.end and not step.rows:
            self.mark = self.at_end()
        elif step.rows or (due is not None and step.clock >= due):
            self.looks.append(replace(step, run=planned_in))
            self.mark = self.watermark()
        else:
            return Emitted()
        after = self.mark
        windows = {}
        late = []
        fresh = set()
        for row in step.rows:
            open_ = [window_ for window_ in self._windows(row) if window_[2] - 1 > before - self.query.lateness]
            if open_:
                self.rows.append(row)
                fresh |= set(open_)
            elif row[1] <= before - self.query.lateness:  # otherwise the row is between two windows
                late.append(row)
        for row in self.rows:
            for window in self._windows(row):
                windows.setdefault(window, []).append(row)
        fired = []
        for window, rows in windows.items():
            last = window[2] - 1
            if before < last <= after or (window in fresh and last <= before):
                fired.append((*window, len(rows), sum(row[2] for row in rows)))
        return Emitted(fired, late, None if after == MIN_TIMESTAMP else after)

    def _windows(self, row: Row) -> list[tuple[str, int, int]]:
        return [(row[0], window.start, window.end) for window in self.query.assigner.assign_windows(None, row[1], 0)]
