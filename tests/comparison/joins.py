"""Compare joins of two streams with their definition: random streams, and the windows of both in plain Python.

The interface: :class:`Join` is a query, and ``join.plan()`` the engine's plan of it. :func:`random_join` and
:func:`random_streams` make them. :func:`found` runs the plan, and :func:`defined` the definition. Both return a
:class:`Joined` for each micro-batch.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from panestream.engine.plan import MAIN, Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.runtime.sides import HOWS, SIDES, Pairs, Sides
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.watermarks import WatermarkStrategy

KEYS = pa.schema([("key", pa.string())])
SIDE = {
    "left": pa.schema([("key", pa.string()), ("n", pa.int64()), ("name", pa.string())]),
    "right": pa.schema([("key", pa.string()), ("m", pa.int64())]),
}
VALUES = {side: pa.struct([column for column in schema if column.name != "key"]) for side, schema in SIDE.items()}
ROWS = pa.schema([(side, pa.struct(list(schema))) for side, schema in SIDE.items()])
LATE = "late"
DELETES = "__deletes"
"""The field of right rows that says whether a row deletes the value of its key, for as-of joins that have it."""


@dataclass(frozen=True)
class Row:
    """A row of either stream: its side, key, event time and the number that its values derive from."""

    side: str
    key: str | None
    time: int
    number: int

    @property
    def values(self):
        name = None if self.number % 5 == 0 else f"row {self.number}"
        return (self.number, name) if self.side == "left" else (self.number,)

    @property
    def deletes(self):
        return self.side == "right" and self.number % 3 == 0


@dataclass(frozen=True)
class Join:
    """A join: windows, kind, and the delay of each watermark."""

    windowing: WindowQuery
    how: str
    delays: tuple[int, int]
    late: bool = True

    def plan(self) -> WindowPlan:
        aggregates = [agg.collect_list(side) for side in SIDES]
        aggregates = [one.alias(side) for one, side in zip(aggregates, SIDES, strict=True)]
        operator = plan_aggregates(self.windowing, aggregates, VALUES, KEYS)
        own = {side: pa.schema(list(kind)) for side, kind in VALUES.items()}
        strategies = {side: WatermarkStrategy(delay) for side, delay in zip(SIDES, self.delays, strict=True)}
        return WindowPlan(
            keys=("key",),
            key_schema=KEYS,
            assigner=self.windowing.assigner,
            operator=operator,
            watermark=WatermarkStrategy.of_sides(strategies, "side"),
            event_time="ts",
            groups=1,
            allowed_lateness=self.windowing.allowed_lateness,
            late_tag=LATE if self.late else None,
            row_schema=ROWS if self.late else None,
            sides=Sides(SIDE["left"], SIDE["right"], (("key",), ("key",))),
            pairs=Pairs(self.how, own["left"], own["right"], keys=1),
        )


@dataclass
class Joined:
    """The output of a micro-batch: result rows of each key and window with repetitions, and late rows of each side."""

    rows: dict[tuple, Counter] = field(default_factory=dict)
    late: dict[str, list[tuple]] = field(default_factory=lambda: {side: [] for side in SIDES})


def random_join(rng: random.Random, *, exact: bool = False) -> tuple[Join, int]:
    """Return a join, and about the size of its windows."""
    span = rng.choice([4, 12, 30])
    kind = rng.choice(["tumbling", "sliding", "session"])
    if kind == "tumbling":
        assigner = TumblingEventTimeWindows(span)
    elif kind == "sliding":
        assigner = SlidingEventTimeWindows(span, rng.choice([max(1, span // 4), max(1, span // 3), span + 2]))
    else:
        assigner = EventTimeSessionWindows(max(1, span // 3))
    lateness = rng.choice([0, 0, span // 2, 3 * span])
    windowing = WindowQuery(assigner, allowed_lateness=lateness, every_firing=exact)
    delays = rng.choice([0, 0, span // 2]), rng.choice([0, span // 3, 2 * span])
    return Join(windowing, rng.choice(HOWS), delays, late=rng.random() < 0.7), span


def random_streams(rng: random.Random, span: int) -> list[list[list[Row]]]:
    """Return micro-batches of chunks of rows. One side may start late, or fall silent."""
    keys = rng.choice([["a"], ["a", "b", None], ["a", "b", "c", "d"]])
    disorder, late, pace = rng.choice([0, span // 2, span]), rng.choice([0.0, 0.1, 0.3]), rng.choice([0.1, 0.4, 1.0])
    times, number, batches = {"left": rng.choice([0, -span]), "right": 0}, 0, []
    weights = rng.choice([(1, 1), (4, 1), (1, 3)])
    for place in range(rng.randint(1, 10)):
        chunks = []
        for _ in range(rng.choice([0, 1, 1, 2])):
            rows = []
            for _ in range(rng.randint(0, 8)):
                (side,) = rng.choices(SIDES, weights)
                if place == 0 and rng.random() < 0.3:
                    continue
                times[side] += rng.randint(0, max(1, round(span * pace / 3)))
                back = rng.randint(0, 5 * span) if rng.random() < late else rng.randint(0, disorder)
                number += 1
                rows.append(Row(side, rng.choice(keys), times[side] - back, number))
            chunks.append(rows)
        batches.append(chunks)
    return batches


def given(plan: WindowPlan, chunks: list[list[Row]], *, end: bool = False) -> GroupInput:
    """Pack a micro-batch."""
    rows = [row for chunk in chunks for row in chunk]
    batch = GroupInput(input_rows=len(rows), end_of_input=end)
    for chunk in filter(None, chunks):
        whole = [{row.side: dict(zip(SIDE[row.side].names, (row.key, *row.values), strict=True))} for row in chunk]
        table = pa.Table.from_pylist(whole, schema=ROWS).combine_chunks()
        inputs = [
            pa.array(
                [
                    {**dict(zip(SIDE[side].names[1:], row.values, strict=True)), DELETES: row.deletes}
                    if row.side == side
                    else None
                    for row in chunk
                ],
                getattr(plan.operator, side, VALUES[side]),
            )
            for side in plan.operator.inputs
        ]
        times, keys = pa.array([row.time for row in chunk], pa.int64()), pa.array([row.key for row in chunk], pa.string())
        packed = Chunk(times.to_numpy(), [keys], inputs, table if plan.carries_rows else None)
        for kind, part in plan.operator.pack(plan, packed):
            batch.parts.setdefault(kind, []).append(part)
    batch.seen = {side: max(row.time for row in rows if row.side == side) for side in {row.side for row in rows}}
    return batch


def found(
    plan: WindowPlan, batches: list[list[list[Row]]], *, end: bool = False, state: MemoryState | None = None
) -> list[Joined]:
    """Return the engine's output. Every operator is new on the stored bytes.

    Args:
        plan: The query.
        batches: Micro-batches of chunks.
        end: True to process everything as one batch, at the end of the input.
        state: The state to start from.
    """
    state, emitted = MemoryState() if state is None else state, []
    for chunks in [[chunk for batch in batches for chunk in batch]] if end else batches:
        output = plan.operator.for_group(plan, state, 0).process(given(plan, chunks, end=end))
        joined, rows = Joined(), 0
        for tag, table in output.tables:
            if tag != MAIN:
                joined.late[tag.removeprefix(f"{LATE}_")] += [tuple(row.values()) for row in table.to_pylist()]
                continue
            body, _ = payload.decode(payload.encode(table), plan.emitted_schema(MAIN))
            for some in plan.pairs.opened(body):
                assert some.schema.equals(plan.output_schema(MAIN))
                rows += some.num_rows
                _note(joined, some)
        assert rows == output.metrics.outputs.get(MAIN, 0)
        emitted.append(joined)
    return emitted


def _note(joined: Joined, rows: pa.Table) -> None:
    starts, ends = (rows.column(name).cast(pa.int64()).to_pylist() for name in ("window_start", "window_end"))
    values = list(zip(*(column.to_pylist() for column in rows.columns[3:]), strict=True))
    for place in zip(rows.column("key").to_pylist(), starts, ends, values, strict=True):
        joined.rows.setdefault(place[:3], Counter())[place[3]] += 1


# ------------------------------------------------------------------------------------------------ the definition


@dataclass
class Open:
    """A window of a key that has rows."""

    start: int
    end: int
    rows: list[Row] = field(default_factory=list)
    touched: bool = False

    @property
    def last(self) -> int:
        return self.end - 1


def defined(join: Join, batches: list[list[list[Row]]], *, end: bool = False) -> list[Joined]:
    """Return the output by definition. The watermark before the micro-batch judges rows. Then windows fire, each once."""
    lateness, assigner = join.windowing.allowed_lateness, join.windowing.assigner
    nothing = -(2**62)
    newest, watermark, emitted = {}, nothing, []
    windows: dict[object, list[Open]] = {}
    for chunks in [[chunk for batch in batches for chunk in batch]] if end else batches:
        joined, before = Joined(), watermark
        rows = [row for chunk in chunks for row in chunk]
        closed = before if before == nothing else before - lateness
        for row in rows:
            if not _put(windows.setdefault(row.key, []), row, assigner, closed) and join.late and _is_late(row, assigner, closed):
                joined.late[row.side].append((row.key, *row.values))
        for row in rows:
            newest[row.side] = max(row.time, newest.get(row.side, row.time))
        if len(newest) == 2:
            watermark = max(watermark, min(newest[side] - delay - 1 for side, delay in zip(SIDES, join.delays, strict=True)))
        after = 2**62 if end else watermark
        for key, known in windows.items():
            for one in known:
                if one.last <= after and (one.touched or one.last > before):
                    results = _joined(one.rows, join.how, meet=key is not None)
                    if results:
                        joined.rows[key, one.start, one.end] = Counter(results)
                one.touched = False
            windows[key] = [one for one in known if one.last > (after if after == nothing else after - lateness)]
        emitted.append(joined)
    return emitted


def _put(known: list[Open], row: Row, assigner, closed: int) -> bool:
    """Put a row into the windows that still accept it. Return whether there is one."""
    if isinstance(assigner, EventTimeSessionWindows):
        own = Open(row.time, row.time + assigner.gap, [row], touched=True)
        met = [one for one in known if one.start <= own.end and one.end >= own.start]
        for one in met:
            known.remove(one)
            own = Open(min(own.start, one.start), max(own.end, one.end), [*one.rows, *own.rows], touched=True)
        if own.last <= closed:
            return False
        known.append(own)
        return True
    taken = False
    for start in _starts(row.time, assigner):
        if start + assigner.size - 1 <= closed:
            continue
        one = next((one for one in known if one.start == start), None)
        if one is None:
            known.append(one := Open(start, start + assigner.size))
        one.rows.append(row)
        one.touched = taken = True
    return taken


def _starts(time: int, assigner) -> list[int]:
    slide = getattr(assigner, "slide", assigner.size)
    first = (time // slide) * slide
    return [start for start in range(first, time - assigner.size, -slide) if start <= time < start + assigner.size]


def _is_late(row: Row, assigner, closed: int) -> bool:
    """Return whether a row is late. A row between two windows is late only if the watermark has passed it."""
    return isinstance(assigner, EventTimeSessionWindows) or bool(_starts(row.time, assigner)) or row.time <= closed


def _joined(rows: list[Row], how: str, *, meet: bool = True) -> list[tuple]:
    if not meet:
        # A null key equals no other key, so each row is alone.
        return [result for row in rows for result in _joined([row], how)]
    left, right = ([row.values for row in rows if row.side == side] for side in SIDES)
    if how == "left_semi":
        return left if right else []
    if how == "left_anti":
        return [] if right else left
    pairs = [(*one, *other) for one in left for other in right]
    if how in ("left", "full") and not right:
        pairs += [(*one, None) for one in left]
    if how in ("right", "full") and not left:
        pairs += [(None, None, *other) for other in right]
    return pairs


def last_firings(plan: WindowPlan, batches: list[list[list[Row]]]) -> list[dict[tuple, Counter]]:
    """Return the row operator's last firing of each key and window in a micro-batch, and of each side for a null key."""
    state, emitted = MemoryState(), []
    for chunks in batches:
        output, last = plan.operator.for_group(plan, state, 0).process(given(plan, chunks)), {}
        for tag, table in output.tables:
            for place in range(table.num_rows if tag == MAIN else 0):
                joined, firing = Joined(), table.slice(place, 1)
                for some in plan.pairs.opened(firing):
                    _note(joined, some)
                of_left = firing.column("key")[0].is_valid or len(firing.column("left")[0]) > 0
                last |= {(where, of_left): rows for where, rows in joined.rows.items()}
        together: dict[tuple, Counter] = {}
        for (where, _), rows in last.items():
            together[where] = together.get(where, Counter()) + rows
        emitted.append(together)
    return emitted
