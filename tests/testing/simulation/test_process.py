"""Keyed process functions through every crash, repetition and savepoint of random schedules give what an undisturbed run gives."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

import panestream as pst
from panestream.engine.operators.row.process import process_spec
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.testing.simulation.own import KEY, TIME, UserEngine, UserQuery, UserSubject, row_maker
from panestream.windowing.watermarks import WatermarkStrategy
from tests.testing.simulation.exploring import explore_schedules

pytestmark = pytest.mark.usefixtures("values_apart")  # each value is a step at which a task may be killed

COLUMNS = pa.schema([("v", pa.int64())])
ROWS = pa.schema([(KEY, pa.string()), (TIME, pa.int64()), *COLUMNS])
SPAN = 12


class Alerts(pst.functions.KeyedProcessFunction):
    """Counts and lists rows until a timer; distinct values live for a time; every row also goes to a side output."""

    COUNT = pst.state.ValueStateDescriptor("count")
    RECENT = pst.state.ListStateDescriptor("recent")
    DISTINCT = pst.state.MapStateDescriptor("distinct", pst.state.StateTtlConfig(2 * SPAN))

    def __init__(self, clock):
        self._clock = clock

    @property
    def uses_processing_time(self):
        return self._clock

    def process_element(self, value, ctx):
        count, timers = ctx.get_state(self.COUNT), ctx.timer_service()
        count.update((count.value() or 0) + 1)
        ctx.get_list_state(self.RECENT).add(value.v)
        ctx.get_map_state(self.DISTINCT).put(value.v, count.value())
        timers.delete_event_time_timer(ctx.timestamp() - 1)
        timers.register_event_time_timer(ctx.timestamp() + SPAN)
        if self._clock:
            timers.register_processing_time_timer(timers.current_processing_time() + 3)
        ctx.output("rows", (count.value(),))

    def on_timer(self, timestamp, ctx):
        recent = ctx.get_list_state(self.RECENT)
        yield ctx.time_domain().value, [*recent.get(), -1, *(value for value, _ in ctx.get_map_state(self.DISTINCT).items())]
        recent.clear()


@dataclass
class ProcessSubject(UserSubject):
    """A process function; ``user_query`` only makes the rows."""

    clock: bool = False

    def engine(self, settings, groups=None):
        known = settings, groups or self.schedule.groups
        if known not in self._engines:
            results = pa.schema([("kind", pa.string()), ("seen", pa.list_(pa.int64()))])
            plan = WindowPlan(
                keys=(KEY,),
                key_schema=pa.schema([("key", pa.string())]),
                assigner=pst.GlobalWindows.create(),
                operator=process_spec(Alerts(self.clock), results, ROWS),
                watermark=WatermarkStrategy(settings.delay),
                event_time=TIME,
                groups=known[1],
                row_schema=ROWS,
                side_outputs={"rows": pa.schema([("n", pa.int64())])},
                ticks=1,
            )
            self._engines[known] = UserEngine(plan, ROWS, ("v",), ("v",))
        return self._engines[known]

    def may_stay(self, settings):
        return None


def explore(schedules, seed):
    window = WindowQuery(pst.TumblingEventTimeWindows(SPAN))
    query = UserQuery(window, None, (), COLUMNS, False, row_maker(COLUMNS), SPAN, (0, SPAN // 2, 6 * SPAN))

    def subject_of(number):
        schedule = query.closed(query.schedule(seed, number))
        return ProcessSubject(query, schedule, clock=number % 2 == 1)

    return explore_schedules(subject_of, schedules, seed)


def test_process_function_survives_every_crash():
    runs = explore(2, seed=18)  # its schedules are short
    assert runs.total() > 100
    assert {"crash", "savepoint"} <= runs.keys()


@pytest.mark.full
def test_process_function_survives_five_thousand_disturbed_runs():
    assert explore(100, seed=2).total() >= 5_000
