"""Compare lookups of single keys in files of tiles with a naive definition over the rows, without Spark.


``PANESTREAM_CASES=10000 pytest tests/comparison/test_tile_files.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panestream as pst
from panestream.engine.aggregates import Aggregation
from panestream.engine.plan import WindowQuery
from panestream.engine.tiles.format import recipes_of_tiles
from panestream.errors import InvalidPlanError
from panestream.spark.tiles import TilesManifest
from panestream.windowing.assigners import CalendarDays, TumblingEventTimeWindows
from tests.comparison import harness
from tests.comparison.harness import KEYS, TYPES, MicroBatch, Query

CHUNKS = 4
TIME = pa.timestamp("us", "UTC")
SLICES = TumblingEventTimeWindows(10)


def write_tiles(folder, rng, slices, wanted, batches) -> None:
    """Write the tiles of each micro-batch to a file, as a query does. Late rows emit a tile again."""
    aggregation = Aggregation.build(wanted, TYPES, KEYS)
    int96 = rng.random() < 0.5
    query = Query(WindowQuery(slices, allowed_lateness=10**9), tuple(recipes_of_tiles(wanted, aggregation)))
    plan = query.columnar()
    manifest = TilesManifest.of(slices, KEYS.names, wanted, aggregation).text()
    for number, emitted in enumerate(harness.run(plan, [*batches, MicroBatch([], end=True)])):
        places, values = [place for place, _ in emitted.fired], [values for _, values in emitted.fired]
        bounds = [pa.array([place[at] for place in places], pa.int64()).cast(TIME) for at in (1, 2)]
        columns = [pa.array([row[at] for row in values], field.type) for at, field in enumerate(plan.operator.result_schema)]
        names = [*KEYS.names, "window_start", "window_end", *plan.operator.result_schema.names, "tile"]
        keys, tile = pa.array([place[0] for place in places], pa.string()), pa.array([manifest] * len(places), pa.string())
        table = pa.table([keys, *bounds, *columns, tile], names=names)
        # Spark's default format of timestamps.
        pq.write_table(table, folder / f"{number}-{rng.random()}.parquet", use_deprecated_int96_timestamps=int96)


def expected(wanted, rows, key, at, length):
    """Return the values of the rows of a key in ``[at - length, at)``, by the row operator."""
    some = [row for row in rows if row[0] == key and at - length <= row[1] < at]
    if not some:
        return None
    whole = Query(WindowQuery(TumblingEventTimeWindows(length, (at - length) % length)), wanted)
    (batch,) = harness.run(whole.row(), [MicroBatch([some], end=True)])
    ((_, values),) = batch.fired
    return list(values)


def case(rng: random.Random, seed: int, folder) -> None:
    span = rng.choice([4, 30])
    wanted = tuple(one for one in harness.random_aggregates(rng) if "Decayed" not in repr(one)) or (pst.agg.count().alias("r0"),)
    batches = [MicroBatch(batch.chunks) for batch in harness.random_stream(rng, span)]
    rows = [row for batch in batches for row in batch.rows]
    place = folder / str(seed)
    place.mkdir()
    write_tiles(place, rng, TumblingEventTimeWindows(span), wanted, batches)
    if not rows:
        return
    tiles = pst.tools.TileFiles(str(place), *wanted)
    for _ in range(6):
        at, lengths = rng.choice(rows)[1] + rng.randint(0, 3 * span), {"a": span * rng.randint(1, 5), "b": span}
        key = rng.choice([rng.choice(rows)[0], "none of them"])
        found = tiles.lookup(key, at=at, windows={name: f"{length} microseconds" for name, length in lengths.items()})
        for name, length in lengths.items():
            right = expected(wanted, rows, key, at // span * span, length)
            got = [found[f"{one.output_name}_{name}"] for one in wanted]
            if right is None:
                assert all(value in (None, 0, []) for value in got), f"seed {seed}"
            else:
                assert str(got) == str(right) or harness.difference({"": [tuple(got)]}, {"": [tuple(right)]}) is None, (
                    f"seed {seed}"
                )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_lookup_in_files_equals_the_rows_before_the_instant(chunk, tmp_path):
    harness.run_cases(24, chunk, CHUNKS, lambda rng, seed: case(rng, seed, tmp_path))


def write_tile(folder, time: int, slices=SLICES) -> None:
    """Write the tile of one row."""
    write_tiles(folder, random.Random(time), slices, (pst.agg.count().alias("n"),), [MicroBatch([[("a", time, 1, 1.0, 1)]])])


@pytest.fixture
def tiles(tmp_path):
    write_tile(tmp_path, 5)
    return pst.tools.TileFiles(str(tmp_path), pst.agg.count().alias("n"))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda tiles: tiles.lookup(windows={"x": "10 microseconds"}), "lookup takes a value for each key"),
        (lambda tiles: tiles.lookup("a", "b", windows={"x": "10 microseconds"}), "got 2 values"),
        (lambda tiles: tiles.lookup(3, windows={"x": "10 microseconds"}), "does not have the types"),
        (lambda tiles: tiles.lookup("a", windows={"x": "15 microseconds"}), "not a multiple of the slice"),
        (lambda tiles: tiles.lookup("a", windows={}), "windows needs the lengths of windows by name"),
        (lambda tiles: tiles.lookup("a", at=datetime(2026, 1, 1), windows={"x": "10 microseconds"}), "without a time zone"),
        (lambda tiles: pst.tools.TileFiles(tiles._path), "TileFiles needs at least one aggregate"),
        (lambda tiles: pst.tools.TileFiles(tiles._path, "n"), "TileFiles needs aggregates such as"),
        (lambda tiles: pst.tools.TileFiles(tiles._path + "/none", pst.agg.count()), "there are no tiles"),
        (
            lambda tiles: pst.tools.TileFiles(tiles._path, pst.agg.sum("price")).lookup("a", windows={"x": "1 day"}),
            "do not contain",
        ),
    ],
)
def test_wrong_lookup_is_refused(tiles, ask, message):
    with pytest.raises(InvalidPlanError, match=message):
        ask(tiles)


def test_files_that_are_not_tiles_are_refused(tmp_path):
    pq.write_table(pa.table({"key": ["a"]}), tmp_path / "one.parquet")
    with pytest.raises(InvalidPlanError, match="have no column 'tile'"):
        pst.tools.TileFiles(str(tmp_path), pst.agg.count())


def test_slices_of_unequal_length_are_refused(tmp_path):
    write_tile(tmp_path, 5, CalendarDays.of(1, zone="Europe/Berlin"))
    with pytest.raises(InvalidPlanError, match="need slices of equal length"):
        pst.tools.TileFiles(str(tmp_path), pst.agg.count()).lookup("a", windows={"x": "1 day"})


def test_tiles_written_later_are_found_after_refresh(tiles, tmp_path):
    windows = {"x": "20 microseconds"}
    assert tiles.lookup("a", windows=windows) == {"n_x": 1}
    write_tile(tmp_path, 15)
    assert tiles.lookup("a", windows=windows) == {"n_x": 1}
    assert tiles.refresh().lookup("a", windows=windows) == {"n_x": 2}
