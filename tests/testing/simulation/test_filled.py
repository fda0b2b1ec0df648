"""Filled windows through every crash, repetition and restored savepoint of random schedules, without Spark.

``PANESTREAM_CASES=100 pytest tests/testing/simulation/test_filled.py`` runs more schedules, ``PANESTREAM_SEED`` others.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import panestream.testing.simulation as simulation
from panestream.engine.plan import WindowQuery
from panestream.testing.simulation.own import UserQuery, UserSubject, row_maker
from panestream.testing.simulation.schedule import MicroBatch, Row, Schedule, Settings
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.fill import Fill
from tests.comparison import harness
from tests.comparison.fills import listed

pytestmark = pytest.mark.usefixtures("values_apart")  # each value is a step at which a task may be killed

COLUMNS = pa.schema([("x", pa.float64())])
RESULTS = (agg.count().alias("n"), agg.mean("x").alias("m"))
WINDOWS = [
    WindowQuery(TumblingEventTimeWindows(60), fill=Fill("last", (("n", "zero"),), 240)),
    WindowQuery(SlidingEventTimeWindows(60, 20), allowed_lateness=100, fill=Fill("last", max_gap=120)),
    WindowQuery(TumblingEventTimeWindows(60), fill=Fill("zero", (("m", "linear"),), 300)),
    WindowQuery(TumblingEventTimeWindows(60), fill=Fill("last", max_gap=240), listed_keys=listed(["y", "z"])),
]


def simulated(window, schedules, seed):
    query = UserQuery(window, None, RESULTS, COLUMNS, True, row_maker(COLUMNS), 60, (0, 30, 360))
    return simulation._simulated(query, schedules, seed)


@pytest.mark.parametrize("window", WINDOWS, ids=["last", "late rows", "linear", "listed keys"])
def test_filled_windows_survive_every_crash(window):
    # The first schedule of this seed is short.
    assert simulated(window, harness.cases(8), harness.first_seed() + 11).runs > 50


@pytest.mark.full
def test_filled_windows_survive_five_thousand_disturbed_runs():
    assert sum(simulated(window, 7, seed=7).runs for window in WINDOWS) >= 5_000


@pytest.mark.parametrize(("time", "agrees"), [(-148, ""), (-121, ""), (-120, "a batch gives")])
def test_batch_is_not_compared_if_a_row_is_too_late_for_some_of_its_windows(time, agrees):
    """The first micro-batch closes windows up to -113 (30 behind, lateness 100): a row at -121 is late for one of its windows."""
    query = UserQuery(WINDOWS[1], None, RESULTS, COLUMNS, True, row_maker(COLUMNS), 60, (30,))
    batches = [MicroBatch(((Row("ann", at, {"x": 1.0}, number, "p0"),),)) for number, at in enumerate((18, time))]
    subject = UserSubject(query, Schedule(tuple(batches), Settings(30), 1))
    # Without any results of the stream, a comparison finds a difference.
    assert subject.batch_agrees([], 0).partition(": ")[2].startswith(agrees)
    assert bool(subject.batch_agrees([], 0)) is bool(agrees)
