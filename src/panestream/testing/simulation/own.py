"""A user query under simulation, and random rows for it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from panestream.engine.exchange.group_run import bodies, run_batch
from panestream.engine.exchange.packing import pack
from panestream.engine.operators.predicates import label_of
from panestream.engine.plan import MAIN, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.testing.column_query import column_operator, runs_on_columns_only
from panestream.testing.harness_query import LATE, HarnessQuery
from panestream.testing.simulation.disk import OutputRow, State
from panestream.testing.simulation.engines import Engine, PlanEngine
from panestream.testing.simulation.formatting import Micros, plain_rows
from panestream.testing.simulation.process import SimulatedJob
from panestream.testing.simulation.row_engine import RowEngine
from panestream.testing.simulation.schedule import END, MicroBatch, Row, Schedule, Settings, with_closing_rows
from panestream.windowing import aggregates as recipes
from panestream.windowing.assigners import GlobalWindows, PredicateWindows, RollingWindows
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy

KEY, TIME = "__key", "__time"
MakeRow = Callable[[random.Random], Any]

FAR = 1_000
"""The closing rows are this many windows ahead."""
SOURCES = ("p0", "p1")
"""The source partitions of rows."""


@dataclass(frozen=True)
class UserQuery:
    """The query and input of a simulation.

    Attributes:
        query: the query of a harness, or None for windows that run only on columns.
        columns: the columns of rows, or None if elements may be any objects.
        span: the approximate length of windows.
        delays: possible watermark delays, one of which is chosen for each schedule.
    """

    window: WindowQuery
    query: HarnessQuery | None
    aggregates: tuple[recipes.Aggregate, ...]
    columns: pa.Schema | None
    keeps_late: bool
    rows: MakeRow
    span: int
    delays: tuple[int, ...]

    @property
    def by_clock(self) -> bool:

        return self.window.uses_processing_time

    @property
    def of_event_time(self) -> bool:

        return self.window.assigner.is_event_time

    def schedule(self, seed: int, number: int) -> Schedule:
        """Return the schedule of a number, which is the same for the same seed."""
        rng = random.Random(f"{seed}/{number}")
        delay = rng.choice(self.delays) if self.of_event_time else 0
        groups = rng.choice([1, 2])
        return Schedule(tuple(self._batches(rng)), Settings(delay), groups)

    def _batches(self, rng: random.Random) -> Iterable[MicroBatch]:
        keys, late = rng.choice([["ann"], ["ann", "bob"], ["ann", "bob", "cid", "dan"]]), rng.choice([0.0, 0.1, 0.3])
        time, clock, number, step = rng.choice([0, 7 * self.span]), 1, 0, max(1, self.span // 4)
        for _ in range(rng.randint(2, 5)):
            tasks = []
            for _ in range(rng.choice([0, 1, 1, 2]) if self.by_clock else rng.choice([1, 1, 2])):
                rows = []
                for _ in range(rng.randint(1, 5)):
                    time += rng.randint(0, step)
                    back = rng.randint(0, 4 * self.span) if rng.random() < late else rng.randint(0, step)
                    number += 1
                    rows.append(Row(rng.choice(keys), time - back, self.rows(rng), number, "p0"))
                tasks.append(tuple(rows))
            clock += rng.choice([1, step, rng.randint(1, 2 * self.span)])
            yield MicroBatch(tuple(tasks), clock)

    def closed(self, schedule: Schedule) -> Schedule:

        far, value = FAR * self.span + self.window.allowed_lateness, self.rows(random.Random(0))
        by_clock = self.by_clock or not self.of_event_time
        return replace(schedule, batches=with_closing_rows(schedule.batches, SOURCES, far, value, by_clock=by_clock))


@dataclass
class UserSubject:
    """A user query with its input; the undisturbed run defines the expected results."""

    user_query: UserQuery
    schedule: Schedule
    _engines: dict[tuple[Settings, int], Engine] = field(default_factory=dict, repr=False)

    @property
    def job(self) -> SimulatedJob:
        return SimulatedJob(self.schedule.batches)

    @property
    def settings(self) -> Settings:
        return self.schedule.settings

    def engine(self, settings: Settings, groups: int | None = None) -> Engine:
        known = settings, groups or self.schedule.groups
        if known not in self._engines:
            query = self.user_query.query
            declared = self.user_query.aggregates or query is None
            self._engines[known] = (
                UserEngine.of(self.user_query, *known)
                if declared or query is None
                else RowEngine(query, settings.delay, known[1])
            )
        return self._engines[known]

    def must_be(self, settings: Sequence[Settings], restarts: Iterable[int]) -> None:
        return None

    def answer(self, tag: str, rows: Sequence[OutputRow]) -> Any:
        return Counter(map(repr, rows))

    def recut(self, number: int, *, at_once: bool) -> None:
        return None

    def may_stay(self, settings: Sequence[Settings]) -> set[Any] | None:
        assigner = self.user_query.window.assigner
        endless = isinstance(assigner, RollingWindows) and assigner.has_all_time
        endless |= isinstance(assigner, GlobalWindows) or (isinstance(assigner, PredicateWindows) and assigner.gap is None)
        return None if endless else {END}

    def check_whole(self, rows: Sequence[OutputRow]) -> None:
        """Do nothing, since only the comparison with disturbed runs is known."""

    def batch_agrees(self, fired: Sequence[OutputRow], late: int) -> str:
        """Return the difference from a batch of the same rows, or "" if it is equal or not promised to be equal."""
        window = self.user_query.window
        plain = window.trigger is None and window.evictor is None and not window.merges and self.user_query.of_event_time
        if late or not plain or self._loses_a_window():
            return ""
        engine: Any = self.engine(self.settings)
        # The identity of a row is key and window, for look-backs key and row, and for rolling windows key and step.
        place = 2 if isinstance(window.assigner, RollingWindows) else 3
        place = len(self.user_query.columns or ()) + 2 if look_backs_of(window.assigner) is not None else place
        stream = {repr(row[:place]): row for row in fired if row[0] != END}
        batch = {repr(row[:place]): row for row in engine.batch(self.schedule.batches) if row[0] != END}
        wrong = sorted(place for place in {*stream, *batch} if not same(stream.get(place), batch.get(place)))
        return f"{wrong[0]}: a batch gives {batch.get(wrong[0])}, the stream {stream.get(wrong[0])}" if wrong else ""

    def _loses_a_window(self) -> bool:
        """Return whether a row comes too late for some of its windows. It counts as late only if that is true of all of them."""
        window, delay, reached = self.user_query.window, self.settings.delay, MIN_TIMESTAMP
        if isinstance(window.assigner, (RollingWindows, PredicateWindows)) or look_backs_of(window.assigner) is not None:
            return False
        for batch in self.schedule.batches:
            timed = [(row, row.time) for row in batch.rows if row.time is not None]
            for row, time in timed:
                windows = window.assigner.assign_windows(row.value, time, batch.clock)
                if any(each.max_timestamp() + window.allowed_lateness <= reached for each in windows):
                    return True
            reached = max([reached, *(time - delay - 1 for _, time in timed)])
        return False


@dataclass
class UserEngine(PlanEngine):
    """Declared aggregates on the operator of a query; ``value_names`` are the columns of rows and the predicates."""

    row_names: tuple[str, ...] = ()
    value_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, user_query: UserQuery, settings: Settings, groups: int) -> UserEngine:
        columns = user_query.columns if user_query.columns is not None else pa.schema([])
        rows = pa.schema([(KEY, pa.string()), (TIME, pa.int64()), *columns])
        keys, assigner = pa.schema([("key", pa.string())]), user_query.window.assigner
        if runs_on_columns_only(assigner):
            operator = column_operator(user_query.window, user_query.aggregates, columns, keys, TIME)
        else:
            operator = plan_aggregates(
                user_query.window, user_query.aggregates, {column.name: column.type for column in columns}, keys
            )
        predicates = assigner.predicates if isinstance(assigner, PredicateWindows) else ()
        whole = user_query.keeps_late or operator.capabilities.takes_rows
        plan = WindowPlan(
            keys=(KEY,),
            key_schema=keys,
            assigner=user_query.window.assigner,
            operator=operator,
            watermark=WatermarkStrategy(settings.delay),
            event_time=TIME if user_query.of_event_time else None,
            groups=groups,
            allowed_lateness=user_query.window.allowed_lateness,
            late_tag=LATE if user_query.keeps_late else None,
            row_schema=rows if whole else None,
            ticks=1,
        )
        said = [pa.field(label_of(text), pa.bool_()) for text in predicates]
        return cls(plan, pa.schema([*rows, *said]), tuple(columns.names), (*columns.names, *predicates))

    def table(self, rows: tuple[Row, ...]) -> pa.Table:
        names = self.row_names
        values = [row.value if isinstance(row.value, Mapping) else dict(zip(names, row.value, strict=True)) for row in rows]
        columns = [
            [row.key for row in rows],
            [row.time for row in rows],
            *([value.get(name) for value in values] for name in self.value_names),
        ]
        arrays = [pa.array(column, column_type.type) for column, column_type in zip(columns, self.rows, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.rows)

    def unpacked(self, tag: str, body: bytes) -> Iterator[OutputRow]:
        yield from plain_rows(payload.decode(body, self.plan.emitted_schema(tag))[0], Micros)

    def left(self, states: Sequence[State]) -> set[Any]:
        found: set[Any] = set()
        for group, values in enumerate(states):
            saved = self.plan.operator.for_group(self.plan, MemoryState(dict(values)), group).tables()
            views = self.plan.operator.views(self.plan, saved, group)
            for view in (views.windows, views.elements):
                found |= {key["key"] for key in view.column("key").to_pylist()}
        return found

    def batch(self, batches: Sequence[MicroBatch]) -> list[OutputRow]:
        """Return the results of all rows as one batch."""
        arrived: list[list[Any]] = [[] for _ in range(self.groups)]
        columns = replace(self.columns.pack, never_late=True)
        for origin, rows in enumerate(task for batch in batches for task in batch.tasks):
            given = self.columns.batch(self.table(rows), 0)
            for group, part in pack(self.plan, columns, [given], origin):
                arrived[group].append(part)
        found: list[OutputRow] = []
        for group, parts in enumerate(arrived):
            for tag, body in bodies(run_batch(self.plan, group, parts)):
                found += plain_rows(payload.decode(body, self.plan.main_schema)[0], Micros) if tag == MAIN else []
        return found


def same(one: Any, other: Any) -> bool:
    """Compare values; floats only up to rounding, since they are added in any order.

    >>> same(("ann", 0.1 + 0.2), ("ann", 0.3)), same(("ann", 1), None)
    (True, False)
    """
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def row_maker(columns: pa.Schema | None) -> MakeRow:
    """Return a function that creates rows of small numbers, a few texts and some nulls, or without columns small numbers."""
    if columns is None:
        return lambda rng: rng.randint(-9, 9)
    makers = {column.name: _maker(column) for column in columns}
    return lambda rng: {name: None if rng.random() < 0.1 else make(rng) for name, make in makers.items()}


def _maker(column: pa.Field) -> MakeRow:
    kind = column.type
    if pa.types.is_integer(kind):
        return lambda rng: rng.randint(0, 9)
    if pa.types.is_floating(kind):
        return lambda rng: rng.randint(-36, 36) / 4
    if pa.types.is_boolean(kind):
        return lambda rng: rng.random() < 0.5
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return lambda rng: rng.choice("abc")
    raise InvalidPlanError(
        f"simulate cannot make values for the column {column.name!r} ({kind}): give rows=, a function of a random.Random that "
        f"makes "
        "a row, e.g. rows=lambda rng: {'at': rng.randint(0, 100)}"
    )
