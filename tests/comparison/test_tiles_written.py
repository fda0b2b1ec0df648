"""Compare tiles of columnar operators with the row operator's. Reading them gives the windows over the accepted rows.


``PANESTREAM_CASES=10000 pytest tests/comparison/test_tiles_written.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.panes.rule import pane_grid
from panestream.engine.plan import WindowQuery
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.tiles.format import Tiles, recipes_of_tiles, windows_of_tiles
from panestream.windowing.assigners import CalendarDays, CalendarWeeks, SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.comparison import harness
from tests.comparison.calendars import DAY, random_stream, random_zone
from tests.comparison.harness import KEYS, TYPES, MicroBatch, Query

CHUNKS = 4


def tiles_query(rng: random.Random, slices, span: int) -> tuple[Query, tuple]:
    """Return a query that emits tiles, and the aggregates that they serve."""
    wanted = harness.random_aggregates(rng)
    kept = recipes_of_tiles(wanted, Aggregation.build(wanted, TYPES, KEYS))
    windowing = WindowQuery(slices, allowed_lateness=rng.choice([0, span // 2, 3 * span]))
    return Query(windowing, tuple(kept), rng.choice([0, span // 3]), late=True), wanted


def read_back(emitted: list[harness.Emitted], query: Query, wanted, longer) -> dict:
    """Combine windows from all emitted tiles, as from a store to which they were appended."""
    schema = query.columnar().operator.result_schema
    fired = [one for batch in emitted for one in batch.fired]
    aggregation = Aggregation.build(wanted, TYPES, KEYS)
    keys = [pa.array([place[0] for place, _ in fired], pa.string())]
    bounds = [pa.array([place[at] for place, _ in fired], pa.int64()) for at in (1, 2)]
    columns = [pa.array([values[at] for _, values in fired], field.type) for at, field in enumerate(schema)]
    table = windows_of_tiles(aggregation, pane_grid(longer), Tiles.of(keys, [*bounds, *columns], aggregation))
    rows = pa.table(
        [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns],
        names=list(map(str, range(table.num_columns))),
    )
    return {tuple(row.values())[:3]: tuple(row.values())[3:] for row in rows.to_pylist()}


def case(rng: random.Random, seed: int) -> None:
    if rng.random() < 0.3:
        zone = random_zone(rng)
        slices, longer, span = (
            CalendarDays.of(1, zone=zone),
            rng.choice([CalendarWeeks.of(1, zone=zone), CalendarDays.of(3, zone=zone, every=1)]),
            DAY,
        )
        batches = random_stream(rng, zone, span)
    else:
        span = rng.choice([4, 30])
        slices, longer = (
            TumblingEventTimeWindows(span),
            SlidingEventTimeWindows(span * rng.randint(1, 6), span * rng.randint(1, 4)),
        )
        batches = harness.random_stream(rng, span)
    query, wanted = tiles_query(rng, slices, span)
    ended = [replace(batch, end=False) for batch in batches] + [MicroBatch([], end=True)]
    if not any("PartialDistinct" in repr(one) for one in query.aggregates):
        # Distinct values have no order. The values read must be equal, but not their order within a tile.
        harness.compare(query, ended, f"seed {seed}")
    emitted, by_rows = harness.run(query.columnar(), ended), harness.run(query.row(), ended)
    late = [row for one in emitted for row in one.late]
    left = [row for batch in batches for row in batch.rows]
    for row in late:
        left.remove(row)
    whole = Query(WindowQuery(longer), wanted)
    (expected,) = harness.run(whole.row(), [MicroBatch([left], end=True)])
    for name, found in (("columns", emitted), ("rows", by_rows)):
        wrong = harness.difference(harness.coalesced(expected.fired), read_back(found, query, wanted, longer))
        assert wrong is None, f"seed {seed}: {longer!r} from {slices!r}, written by {name}: {wrong}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_windows_from_emitted_tiles_equal_windows_of_accepted_rows(chunk):
    harness.run_cases(24, chunk, CHUNKS, case)


def test_late_row_emits_the_tile_again_and_the_fullest_is_read():
    slices, longer = TumblingEventTimeWindows(10), TumblingEventTimeWindows(100)
    wanted = (harness.agg.sum("v"), harness.agg.count("x"))
    kept = recipes_of_tiles(wanted, Aggregation.build(wanted, TYPES, KEYS))
    query = Query(WindowQuery(slices, allowed_lateness=50), tuple(kept))
    rows = [("a", 3, 1, None, 0), ("a", 25, 2, 0.5, 1)], [("a", 7, 40, 1.0, 2)]
    emitted = harness.run(query.columnar(), [*(MicroBatch([some]) for some in rows), MicroBatch([], end=True)])
    tiles = [(place, values[0]) for batch in emitted for place, values in batch.fired]
    assert tiles == [(("a", 0, 10), 1), (("a", 0, 10), 2), (("a", 20, 30), 1)]
    assert read_back(emitted, query, wanted, longer) == {("a", 0, 100): (43, 2)}


def test_tile_has_counts_that_operators_omit():
    # Operators do not count a column without nulls. Readers of a tile cannot know that, so a tile has the count.
    wanted = (harness.agg.mean("v"), harness.agg.var("v"), harness.agg.count("u"))
    kept = recipes_of_tiles(wanted, Aggregation.build(wanted, TYPES, KEYS))
    query = Query(WindowQuery(TumblingEventTimeWindows(10)), tuple(kept))
    (emitted,) = harness.run(query.columnar(), [MicroBatch([[("a", 1, 2, None, 5), ("a", 2, 4, None, 6)]], end=True)])
    ((_, (rows, *partials)),) = emitted.fired
    assert rows == 2
    assert sorted(map(repr, partials)) == sorted(
        map(repr, [{"sum": 6, "high": 0}, {"n": 2}, {"n": 2, "mean": 3.0, "m2": 2.0}, {"n": 2}])
    )
    assert np.isfinite(partials[2]["m2"])


def test_plan_of_tiles_survives_json():
    wanted = (harness.agg.mean("v"), harness.agg.top_k("x", 2))
    kept = recipes_of_tiles(wanted, Aggregation.build(wanted, TYPES, KEYS))
    plan = Query(WindowQuery(TumblingEventTimeWindows(10)), tuple(kept)).columnar()
    again = plan_of(json.loads(json.dumps(plan_json(plan))))
    assert again.operator.aggregates == plan.operator.aggregates
    assert again.main_schema == plan.main_schema
    assert again.identity() == plan.identity()
