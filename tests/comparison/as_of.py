"""Compare as-of joins with their definition: random streams, and all rows of a key searched for each left row."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from panestream.engine.operators.as_of_join import AsOfSpec
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.sides import SIDES, Pairs, Sides
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison.intervals import Joined
from tests.comparison.joins import DELETES, KEYS, LATE, ROWS, SIDE, VALUES, Row

FLAGGED = pa.struct([*VALUES["right"], pa.field(DELETES, pa.bool_())])


@dataclass(frozen=True)
class AsOf:
    """An as-of join: direction, tolerance, kind, whether right rows delete, and the delay of each watermark."""

    direction: str
    tolerance: int | None
    how: str
    delays: tuple[int, int]
    deletes: bool = False
    late: bool = True

    def plan(self, groups: int = 1) -> WindowPlan:
        strategies = {side: WatermarkStrategy(delay) for side, delay in zip(SIDES, self.delays, strict=True)}
        left, right = (pa.schema(list(VALUES[side])) for side in SIDES)
        of_right = FLAGGED if self.deletes else VALUES["right"]
        return WindowPlan(
            keys=("key",),
            key_schema=KEYS,
            assigner=GlobalWindows(),
            operator=AsOfSpec(self.direction, self.tolerance, self.how, self.deletes, VALUES["left"], of_right, KEYS),
            watermark=WatermarkStrategy.of_sides(strategies, "side"),
            event_time="ts",
            groups=groups,
            late_tag=LATE if self.late else None,
            row_schema=ROWS if self.late else None,
            sides=Sides(SIDE["left"], SIDE["right"], (("key",), ("key",))),
            pairs=Pairs(self.how, left, right, keys=1),
        )


def random_as_of(rng: random.Random) -> tuple[AsOf, int]:
    span = rng.choice([4, 12, 30])
    direction = rng.choice(["backward", "backward", "forward", "nearest"])
    delays = rng.choice([0, 0, span // 2]), rng.choice([0, span // 3, 2 * span])
    return (
        AsOf(
            direction,
            rng.choice([None, 0, 1, span // 3, 2 * span]),
            rng.choice(["inner", "left"]),
            delays,
            deletes=direction == "backward" and rng.random() < 0.5,
            late=rng.random() < 0.7,
        ),
        span,
    )


def chosen(join: AsOf, left: Row, rights: Sequence[Row]) -> Row | None:
    """Return the right row of a left row, whether or not it deletes. ``rights`` are in order of arrival."""
    best = None
    for right in rights:
        away = right.time - left.time
        wrong_way = {"backward": away > 0, "forward": away < 0, "nearest": False}[join.direction]
        too_far = join.tolerance is not None and abs(away) > join.tolerance
        if wrong_way or too_far or left.key is None or right.key != left.key:
            continue
        if best is None or (abs(away), away) <= (abs(best.time - left.time), best.time - left.time):
            best = right
    return best


def defined(join: AsOf, batches: list[list[list[Row]]], *, end: bool = False) -> list[Joined]:
    """Return the output by definition.

    A row at the watermark or before is late. A left row comes when the watermark has passed it, and no right row after the
    watermark would take the place of its right row.
    """
    newest, watermark, rights, waiting, emitted = {}, -(2**62), [], [], []
    for chunks in [[chunk for batch in batches for chunk in batch]] if end else batches:
        rows = [row for chunk in chunks for row in chunk]
        late = [row for row in rows if row.time <= watermark]
        met = Joined(
            Counter(), {side: Counter((row.key, *row.values) for row in late if row.side == side and join.late) for side in SIDES}
        )
        fresh = [row for row in rows if row.time > watermark]
        waiting += [row for row in fresh if row.side == "left"]
        rights += [row for row in fresh if row.side == "right"]
        for row in rows:
            newest[row.side] = max(row.time, newest.get(row.side, row.time))
        if len(newest) == 2:
            watermark = max(watermark, min(newest[side] - delay - 1 for side, delay in zip(SIDES, join.delays, strict=True)))
        now = 2**62 if end else watermark
        over = [row for row in rights if row.time <= now]
        for row in list(waiting):
            next_one = Row("right", row.key, now + 1, 0)
            match = chosen(join, row, over)
            if row.time > now or (not end and chosen(join, row, [*over, next_one]) is not match):
                continue
            waiting.remove(row)
            if match is not None and join.deletes and match.deletes:
                match = None
            if match is not None or join.how == "left":
                met.rows[(row.key, *row.values, *((None,) if match is None else match.values))] += 1
        emitted.append(met)
    return emitted
