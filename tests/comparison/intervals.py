"""Compare interval joins with their definition: random streams, and all pairs of rows checked one by one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.operators.intervals.spec import IntervalSpec
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.sides import SIDES, Pairs, Sides
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import joins
from tests.comparison.joins import KEYS, LATE, ROWS, SIDE, VALUES, Row

HOWS = ("inner", "left", "right", "full")


@dataclass(frozen=True)
class Interval:
    """An interval join: bounds, kind, and the delay of each watermark."""

    lower: int
    upper: int
    how: str
    delays: tuple[int, int]
    late: bool = True

    def plan(self, groups: int = 1) -> WindowPlan:
        strategies = {side: WatermarkStrategy(delay) for side, delay in zip(SIDES, self.delays, strict=True)}
        left, right = (pa.schema(list(VALUES[side])) for side in SIDES)
        return WindowPlan(
            keys=("key",),
            key_schema=KEYS,
            assigner=GlobalWindows(),
            operator=IntervalSpec(self.lower, self.upper, self.how, VALUES["left"], VALUES["right"], KEYS),
            watermark=WatermarkStrategy.of_sides(strategies, "side"),
            event_time="ts",
            groups=groups,
            late_tag=LATE if self.late else None,
            row_schema=ROWS if self.late else None,
            sides=Sides(SIDE["left"], SIDE["right"], (("key",), ("key",))),
            pairs=Pairs(self.how, left, right, keys=1),
        )


@dataclass
class Joined:
    """The output of a micro-batch: result rows with their keys and repetitions, and late rows of each side."""

    rows: Counter
    late: dict[str, Counter]


def random_interval(rng: random.Random) -> tuple[Interval, int]:
    span = rng.choice([4, 12, 30])
    lower = rng.choice([-span, -span // 2, -1, 0, 1, span // 3])
    upper = lower + rng.choice([0, 1, span // 2, span])
    delays = rng.choice([0, 0, span // 2]), rng.choice([0, span // 3, 2 * span])
    return Interval(lower, upper, rng.choice(HOWS), delays, late=rng.random() < 0.7), span


def found(
    plan: WindowPlan, batches: list[list[list[Row]]], *, end: bool = False, state: MemoryState | None = None
) -> list[Joined]:
    """Return the engine's output. Every operator is new on the stored bytes. ``end`` joins everything in one batch."""
    state, emitted = MemoryState() if state is None else state, []
    for chunks in [[chunk for batch in batches for chunk in batch]] if end else batches:
        output = plan.operator.for_group(plan, state, 0).process(joins.given(plan, chunks, end=end))
        met, rows = Joined(Counter(), {side: Counter() for side in SIDES}), 0
        for tag, table in output.tables:
            if tag != MAIN:
                met.late[tag.removeprefix(f"{LATE}_")].update(tuple(row.values()) for row in table.to_pylist())
                continue
            body, _ = payload.decode(payload.encode(table), plan.emitted_schema(MAIN))
            for some in plan.pairs.opened(body):
                assert some.schema.equals(plan.output_schema(MAIN))
                met.rows.update(tuple(row) for row in zip(*(column.to_pylist() for column in some.columns), strict=True))
                rows += some.num_rows
        metrics = output.metrics
        assert rows == metrics.outputs.get(MAIN, 0)
        assert metrics.input_rows == metrics.windowed_rows + metrics.late_rows
        emitted.append(met)
    return emitted


def defined(join: Interval, batches: list[list[list[Row]]], *, end: bool = False) -> list[Joined]:
    """Return the output by definition.

    A row before the watermark is late. A pair is emitted with its later row, and an unmatched row once no partner can come.
    """
    newest, watermark, taken, alone, emitted = {}, -(2**62), [], [], []
    for chunks in [[chunk for batch in batches for chunk in batch]] if end else batches:
        rows = [row for chunk in chunks for row in chunk]
        late = [row for row in rows if row.time < watermark]
        fresh = [row for row in rows if row.time >= watermark]
        met = Joined(
            Counter(), {side: Counter((row.key, *row.values) for row in late if row.side == side and join.late) for side in SIDES}
        )
        known = [*taken, *fresh]
        for left in known:
            for right in known:
                if (left in fresh or right in fresh) and _meet(join, left, right):
                    met.rows[(left.key, *left.values, *right.values)] += 1
        taken, alone = known, [*alone, *fresh]
        for row in rows:
            newest[row.side] = max(row.time, newest.get(row.side, row.time))
        if len(newest) == 2:
            watermark = max(watermark, min(newest[side] - delay - 1 for side, delay in zip(SIDES, join.delays, strict=True)))
        now = 2**62 if end else watermark
        over = [row for row in alone if row.time + (join.upper if row.side == "left" else -join.lower) < now]
        alone = [row for row in alone if row not in over]
        for row in over:
            if join.how in (row.side, "full") and not any(_meet(join, row, other) or _meet(join, other, row) for other in taken):
                met.rows[(row.key, *row.values, None) if row.side == "left" else (row.key, None, None, *row.values)] += 1
        emitted.append(met)
    return emitted


def _meet(join: Interval, left: Row, right: Row) -> bool:
    sides = (left.side, right.side) == SIDES
    return sides and left.key is not None and left.key == right.key and join.lower <= right.time - left.time <= join.upper
