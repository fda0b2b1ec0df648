"""Broadcast rules through every crash, repetition and savepoint of random schedules give what an undisturbed run gives."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

import panestream as pst
from panestream.engine.plan import WindowQuery
from panestream.engine.runtime.sides import LEFT, RIGHT
from panestream.testing.simulation.own import UserQuery, UserSubject
from panestream.testing.simulation.schedule import Schedule, Settings, with_closing_rows
from tests.comparison import broadcast
from tests.testing.simulation.exploring import explore_schedules

pytestmark = pytest.mark.usefixtures("values_apart")  # each value is a step at which a task may be killed

FAR = 10_000


@dataclass
class RulesSubject(UserSubject):
    """A function with rules; ``user_query`` is not used."""

    rules: dict = field(default_factory=dict)

    def engine(self, settings, groups=None):
        known = settings, groups or self.schedule.groups
        if known not in self._engines:
            self._engines[known] = broadcast.engine(known[1], settings.delay, **self.rules)
        return self._engines[known]

    def may_stay(self, settings):
        return None


def explore(schedules, seed):
    window = WindowQuery(pst.TumblingEventTimeWindows(10))
    query = UserQuery(window, None, (), broadcast.VALUES, False, lambda rng: ("read", 0), 10, (0, 5, 60))

    def subject_of(number):
        rng = random.Random(f"{seed}/{number}")
        schedule = Schedule(tuple(broadcast.random_batches(rng)), Settings(rng.choice([0, 5])), rng.choice([1, 2]))
        closed = with_closing_rows(schedule.batches, (LEFT, RIGHT), FAR, ("read", 0), by_clock=False)
        return RulesSubject(query, replace(schedule, batches=closed), rules={"follows": True} if number % 2 else {"idle": 3})

    return explore_schedules(subject_of, schedules, seed)


def test_rules_survive_every_crash():
    runs = explore(2, seed=40)  # its schedules are short
    assert runs.total() > 100
    assert {"crash", "savepoint"} <= runs.keys()


@pytest.mark.full
def test_rules_survive_five_thousand_disturbed_runs():
    assert explore(100, seed=2).total() >= 5_000
