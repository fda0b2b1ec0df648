"""Windows from tiles and answers as of an instant, compared with naive aggregates over the rows, on random tiles.

``PANESTREAM_CASES=10000 pytest tests/engine/tiles`` runs more cases, ``PANESTREAM_SEED`` others.
"""

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.panes.spec import pane_grid
from panestream.engine.tiles import as_of
from panestream.engine.tiles.as_of import AsOf, AsOfRequest, AsOfRows
from panestream.engine.tiles.format import Tiles, recipes_of_tiles
from panestream.engine.tiles.windows import check_whole, windows_of_tiles
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import CumulatingEventTimeWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.comparison import harness
from tests.engine.aggregates import naive
from tests.engine.aggregates.naive import Row
from tests.engine.aggregates.test_against_naive import Story

CHUNKS = 4
TYPES = {
    "v": pa.int64(),
    "x": pa.float64(),
    "price": pa.decimal128(28, 5),
    "word": pa.string(),
    "w": pa.float64(),
    "text": pa.string(),
    "int": pa.int32(),
}


def recipes(rng: random.Random, *, ordered: bool) -> list[agg.Aggregate]:
    """Return one to five aggregates.

    Args:
        rng: the source of randomness.
        ordered: whether partials come in time order, which a user function may observe.
    """
    every = [
        agg.count(),
        agg.count("v"),
        agg.sum("v"),
        agg.sum("x"),
        agg.sum("price"),
        agg.mean("price"),
        agg.mean("x"),
        agg.var("x"),
        agg.min("v"),
        agg.max("word"),
        agg.first("v"),
        agg.last("word", ignore_nulls=True),
        agg.min_by("v", "x"),
        agg.arg_max("x", "v", "word"),
        agg.count_distinct("word"),
        agg.collect_list("v"),
        agg.top_k("v", 2),
        agg.weighted_mean("v", "w"),
        agg.histogram("v", [-5, 0, 2.5]),
        agg.approx_count_distinct("v"),
        agg.approx_quantile("x", 0.25),
        *([agg.user(Story(), "text", "int")] if ordered else []),
    ]
    aggregates = rng.sample(every, rng.randint(1, 5))
    if rng.random() < 0.2:
        aggregates.append(agg.complete(aggregates[0].name))
    return aggregates


def rows_of(rng: random.Random, slice_: int, offset: int) -> list[Row]:
    keys = rng.choice([["a"], ["a", "b", None], list("abcdefg")])
    rows = []
    for _ in range(rng.randint(0, 60)):
        number = offset // slice_ + rng.randint(-10, 14)
        border = rng.random() < 0.2
        values = {
            "v": rng.choice([None, rng.randint(-9, 9), 2**40]),
            "x": rng.choice([None, rng.randint(-80, 80) / 8]),
            "price": rng.choice([None, Decimal(rng.randint(-(10**20), 10**20)).scaleb(-5)]),
            "word": rng.choice([None, "", "a", "b", "é"]),
            "w": rng.choice([0.0, 0.5, 2.0]),
            "text": rng.choice("pqr"),
            "int": rng.randint(0, 3),
        }
        time = number * slice_ + offset % slice_ + (0 if border else rng.randint(0, slice_ - 1))
        rows.append((rng.choice(keys), time, values))
    # In time order, so that no function can observe the order of arrival.
    rows.sort(key=lambda row: row[1])
    return [Row((key,), 0, time, place, values) for place, (key, time, values) in enumerate(rows)]


KEYS = pa.schema([("key", pa.string())])


def columns(aggregation: Aggregation, rows: list[Row]) -> AsOfRows:
    keys = [pa.array([row.key[0] for row in rows], pa.string())]
    values = [pa.array([row.values[text] for row in rows], TYPES[text]) for text in aggregation.inputs]
    return AsOfRows(keys, np.asarray([row.time for row in rows], np.int64), values)


def stored_tiles(rng: random.Random, aggregates: list[agg.Aggregate], slices, rows: list[Row]) -> list[pa.Array]:
    """Return tiles as a store has them: key, start, end, rows, partials. Older tiles of the same slices are among them, in any
    order.
    """
    writer = Aggregation.build(recipes_of_tiles(aggregates, Aggregation.build(aggregates, TYPES, KEYS)), TYPES, KEYS)
    lots = [rows]
    if rng.random() < 0.5:
        # Tiles from before some late rows came.
        lots.insert(0, [row for row in rows if rng.random() < 0.6])
    tables = []
    for lot in lots:
        columns_ = columns(writer, lot)
        cut = rng.randint(0, len(lot))
        parts = [
            writer.partials(
                [k[part] for k in columns_.keys],
                slices.panes_of(columns_.times[part]),
                [v[part] for v in columns_.values],
                columns_.times[part],
            )
            for part in (slice(0, cut), slice(cut, None))
        ]
        merged = writer.merge(parts)
        panes = np.unique(merged.column("pane").to_numpy())
        which, results = writer.windows(merged, panes, panes + 1)
        own = slices.starts_of(panes[which]), slices.starts_of(panes[which] + 1)
        tables.append(
            pa.table(
                [results.column(0), *map(pa.array, own), *results.columns[1:]],
                names=list(map(str, range(results.num_columns + 2))),
            )
        )
    whole = pa.concat_tables(tables)
    order = list(range(whole.num_rows))
    rng.shuffle(order)
    return [column.combine_chunks() for column in whole.take(pa.array(order, pa.int64())).columns]


def expected_results(aggregates, rows: list[Row]) -> list:
    return [naive.aggregate(recipe, rows, TYPES) for recipe in aggregates]


def check(aggregates, results: list, rows: list[Row], what: str) -> None:
    for recipe, value, right in zip(aggregates, results, expected_results(aggregates, rows), strict=True):
        scale = 1e4 if isinstance(recipe, agg.Var) else 1e2
        assert naive.same(value, right, scale), f"{what}: {recipe!r} is {right!r}, found {value!r}"


def windows(rng: random.Random, seed: int) -> None:
    slice_ = rng.choice([1, 7, 60])
    offset = rng.randrange(slice_) if rng.random() < 0.3 else 0
    aggregates, slices = recipes(rng, ordered=False), pane_grid(TumblingEventTimeWindows(slice_, offset))
    rows = rows_of(rng, slice_, offset)
    size, slide = slice_ * rng.randint(1, 9), slice_ * rng.randint(1, 5)
    assigner = rng.choice(
        [
            TumblingEventTimeWindows(size, offset),
            SlidingEventTimeWindows(size, slide, offset % slide),
            CumulatingEventTimeWindows(size, slice_, offset),
        ]
    )
    aggregation, grid = Aggregation.build(aggregates, TYPES, KEYS), pane_grid(assigner)
    check_whole(slices, grid)
    columns_of_tiles = stored_tiles(rng, aggregates, slices, rows)
    tiles, later = Tiles.of(columns_of_tiles[:1], columns_of_tiles[1:], aggregation), None
    if rng.random() < 0.4:
        # The last slices lack tiles. Their rows are passed as rows.
        until = slices.start_of(offset // slice_ + rng.randint(-12, 16))
        tiles = tiles.take(np.flatnonzero(tiles.starts < until))
        columns_ = columns(aggregation, [row for row in rows if row.time >= until])
        later = aggregation.partials(columns_.keys, grid.panes_of(columns_.times), columns_.values, columns_.times)
    table = windows_of_tiles(aggregation, grid, tiles, later)
    table.validate(full=True)
    results = {}
    for row in (
        table.set_column(1, "start", table[1].cast(pa.int64())).set_column(2, "end", table[2].cast(pa.int64())).to_pylist()
    ):
        key, start, end, *values = row.values()
        assert (key, start, end) not in results, f"seed {seed}: twice"
        results[key, start, end] = values
    members: dict = {}
    for row in rows:
        for window in assigner.assign_windows(None, row.time, row.time):
            members.setdefault((row.key[0], window.start, window.end), []).append(row)
    assert results.keys() == members.keys(), f"seed {seed}: {assigner!r} over slices of {slice_}"
    for place, inside in members.items():
        check(aggregates, results[place], inside, f"seed {seed}: {assigner!r} over slices of {slice_}: {place}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_windows_from_tiles_equal_those_of_the_rows(chunk):
    harness.run_cases(80, chunk, CHUNKS, windows)


def answers(rng: random.Random, seed: int) -> None:
    slice_ = rng.choice([1, 7, 60])
    offset = rng.randrange(slice_) if rng.random() < 0.3 else 0
    aggregates, slices = recipes(rng, ordered=True), pane_grid(TumblingEventTimeWindows(slice_, offset))
    rows = rows_of(rng, slice_, offset)
    aggregation = Aggregation.build(aggregates, TYPES, KEYS)
    columns_of_tiles = stored_tiles(rng, aggregates, slices, rows)
    tiles = Tiles.of(columns_of_tiles[:1], columns_of_tiles[1:], aggregation)
    alone, exact_start = rng.random() < 0.4, rng.random() < 0.7
    lengths = tuple(rng.randint(1, 9) * slice_ if alone else rng.randint(1, 9 * slice_) for _ in range(rng.randint(1, 2)))
    until = slices.start_of(offset // slice_ + rng.randint(-12, 16))
    if not alone:
        tiles = tiles.take(np.flatnonzero(tiles.starts < until))
    questions = []
    for _ in range(rng.randint(0, 30)):
        # Often exactly at the time of a row or at a bound.
        at = (
            rng.choice([*(row.time for row in rows), offset])
            if rng.random() < 0.4
            else offset + rng.randint(-12 * slice_, 20 * slice_)
        )
        questions.append((rng.choice(["a", "b", "c", None, "z"]), at if rng.random() < 0.95 else None))
    times = np.asarray([0 if at is None else at for _, at in questions], np.int64)
    valid = np.asarray([at is not None for _, at in questions], np.bool_)
    request = AsOfRequest(
        [pa.array([key for key, _ in questions], pa.string())], times, valid if rng.random() < 0.5 or not valid.all() else None
    )
    needed = rows
    if rng.random() < 0.5:
        needed = [row for row in rows if row.time >= until or is_needed_as_row(row, questions, lengths, slices, exact_start)]
    tables = AsOf(aggregation, slices, lengths, until, exact_start).answers(
        request, tiles, None if alone else columns(aggregation, needed)
    )
    for length, table in zip(lengths, tables, strict=True):
        table.validate(full=True)
        assert table.schema.equals(aggregation.output_schema), f"seed {seed}"
        assert table.num_rows == len(questions), f"seed {seed}"
        for (key, at), answer in zip(questions, table.to_pylist(), strict=True):
            inside = []
            if at is not None:
                end = slices.start_of(slices.pane_of(at)) if alone else at
                start = end - length if alone or exact_start else slices.start_of(slices.pane_of(at - length))
                inside = [row for row in rows if row.key == (key,) and start <= row.time < end]
            what = f"seed {seed}: {key} at {at}, {length} long, slices of {slice_} from {offset}, rows {not alone}, exact {exact_start}"
            if inside:
                check(aggregates, list(answer.values()), inside, what)
            else:
                for recipe, value in zip(aggregates, answer.values(), strict=True):
                    right = None if isinstance(recipe, agg.User) else naive.aggregate(recipe, [], TYPES)
                    assert naive.same(value, right), f"{what}: {recipe!r} of nothing is {right!r}, found {value!r}"


def is_needed_as_row(row: Row, questions, lengths, slices, exact_start: bool) -> bool:
    """Return whether a row is in a slice in which the window of a question begins or ends. Callers must pass these rows."""
    own = slices.pane_of(row.time)
    ends = {slices.pane_of(at) for key, at in questions if at is not None and row.key == (key,)}
    starts = {slices.pane_of(at - length) for key, at in questions for length in lengths if at is not None and row.key == (key,)}
    return own in ends or (exact_start and own in starts)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_answers_as_of_an_instant_equal_those_of_the_rows(chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(as_of, "_QUESTIONS", 7)
        harness.run_cases(120, chunk, CHUNKS, answers)
