"""Keys with their own watermarks through every crash, repetition and savepoint of random schedules."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from panestream.engine.plan import WindowQuery
from panestream.testing.simulation.own import UserEngine, UserQuery, UserSubject, row_maker
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows
from tests.testing.simulation.exploring import explore_schedules

pytestmark = pytest.mark.usefixtures("values_apart")  # each value is a step at which a task may be killed

COLUMNS = pa.schema([("v", pa.int64())])
RESULTS = (agg.count().alias("n"), agg.sum("v").alias("total"))
SPAN = 12
WINDOWS = [
    WindowQuery(SlidingEventTimeWindows(SPAN, SPAN // 2), allowed_lateness=SPAN, per_key=True),
    WindowQuery(EventTimeSessionWindows(SPAN), per_key=True),
]


@dataclass
class PerKeySubject(UserSubject):
    """A query whose keys are idle some windows behind the others."""

    idle_after: int = 0

    def engine(self, settings, groups=None):
        known = settings, groups or self.schedule.groups
        if known not in self._engines:
            engine = UserEngine.of(self.user_query, *known)
            watermark = replace(engine.plan.watermark, key_idle_after=self.idle_after)
            self._engines[known] = replace(engine, plan=replace(engine.plan, watermark=watermark))
        return self._engines[known]


def explore(schedules, seed):
    def subject_of(number):
        query = UserQuery(WINDOWS[number % 2], None, RESULTS, COLUMNS, True, row_maker(COLUMNS), SPAN, (0, SPAN // 2))
        return PerKeySubject(query, query.closed(query.schedule(seed, number)), idle_after=(1, 3 * SPAN)[number // 2 % 2])

    return explore_schedules(subject_of, schedules, seed)


def test_watermarks_of_keys_survive_every_crash():
    runs = explore(2, seed=25)  # its schedules are short
    assert runs.total() > 100
    assert {"crash", "savepoint"} <= runs.keys()


@pytest.mark.full
def test_watermarks_of_keys_survive_five_thousand_disturbed_runs():
    assert explore(100, seed=2).total() >= 5_000
