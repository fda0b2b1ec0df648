"""Filled windows through every crash, repetition and restored savepoint of random schedules, without Spark.

``PANESTREAM_CASES=100 pytest tests/testing/simulation/test_filled.py`` runs more schedules, ``PANESTREAM_SEED`` others.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import panestream.testing.simulation as simulation
from panestream.engine.plan import WindowQuery
from panestream.testing.simulation.own import UserQuery, row_maker
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.fill import Fill
from tests.comparison import harness
from tests.comparison.fills import listed

COLUMNS = pa.schema([("x", pa.float64())])
RESULTS = (agg.count().alias("n"), agg.mean("x").alias("m"))
WINDOWS = [
    WindowQuery(TumblingEventTimeWindows(60), fill=Fill("last", (("n", "zero"),), 240)),
    WindowQuery(SlidingEventTimeWindows(60, 20), allowed_lateness=100, fill=Fill("last", max_gap=120)),
    WindowQuery(TumblingEventTimeWindows(60), fill=Fill("zero", (("m", "linear"),), 300)),
    WindowQuery(TumblingEventTimeWindows(60), fill=Fill("last", max_gap=240), listed_keys=listed(["y", "z"])),
]


@pytest.mark.parametrize("window", WINDOWS, ids=["last", "late rows", "linear", "listed keys"])
def test_filled_windows_survive_every_crash(window):
    query = UserQuery(window, None, RESULTS, COLUMNS, True, row_maker(COLUMNS), 60, (0, 30, 360))
    done = simulation._simulated(query, harness.cases(8), harness.first_seed() + 11)  # its first schedule is short
    assert done.runs > 50
