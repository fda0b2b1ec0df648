"""Two streams in one query: separating their rows, joins, the watermarks of both sides, and saving the plan."""

import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.plan import WindowQuery
from panestream.engine.runtime.sides import HOWS, Pairs, Sides, join_called
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage import payload
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkStrategy
from tests.comparison import joins

NAMES = pa.schema([("name", pa.string())])
NUMBERS = pa.schema([("n", pa.int64())])


def test_rows_of_each_side_are_separated_with_their_columns():
    rows = pa.table(
        {
            "left": pa.array([{"name": "a"}, None, {"name": None}], pa.struct(list(NAMES))),
            "right": pa.array([None, {"n": 7}, None], pa.struct(list(NUMBERS))),
        }
    )
    left, right = Sides(NAMES, NUMBERS, ((), ())).apart(pa.concat_tables([rows, rows.slice(1)]))
    assert left.column("name").to_pylist() == ["a", None, None]
    assert right.column("n").to_pylist() == [7, 7]


@pytest.mark.parametrize(
    ("how", "names"), [("full", ["key", "end", "name", "n", "firing"]), ("left_semi", ["key", "end", "name", "firing"])]
)
def test_opening_pairs_keeps_the_other_columns(how, names):
    emitted = pa.table(
        {
            "key": ["k", "m"],
            "end": [1, 2],
            "left": pa.array([[{"name": "a"}, {"name": "b"}], []], pa.list_(pa.struct(list(NAMES)))),
            "right": pa.array([[{"n": 1}], [{"n": 2}]], pa.list_(pa.struct(list(NUMBERS)))),
            "firing": ["on_time", "late"],
        }
    )
    pairs = Pairs(how, NAMES, NUMBERS, keys=1)
    kept_lists = pairs.kept(emitted)
    (opened,) = pairs.opened(kept_lists)
    assert opened.schema == pairs.schema_of(emitted.schema)
    assert opened.schema.names == names
    assert opened.num_rows == pairs.count(kept_lists) == (3 if how == "full" else 2)
    assert opened.column("firing").to_pylist() == ["on_time", "on_time", "late"][: opened.num_rows]


@pytest.mark.parametrize(
    ("how", "names_of_join"),
    [
        ("inner", ["inner", "INNER"]),
        ("left", ["left", "left_outer", "leftouter", "LEFT OUTER"]),
        ("right", ["right", "right_outer", "rightouter", "Right Outer"]),
        ("full", ["full", "outer", "full_outer", "FULL OUTER", "fullouter"]),
        ("left_semi", ["semi", "left_semi", "leftsemi", "LEFT SEMI"]),
        ("left_anti", ["anti", "left_anti", "leftanti", "LEFT ANTI"]),
        (None, ["cross", "", "left right", "in_er"]),
    ],
)
def test_join_types_accept_the_names_of_spark_and_flink(how, names_of_join):
    assert [join_called(name) for name in names_of_join] == [how] * len(names_of_join)


@pytest.mark.parametrize("how", HOWS)
def test_semi_and_anti_joins_have_only_the_columns_of_the_left(how):
    assert Pairs(how, NAMES, NUMBERS, keys=1).names == (("name",) if how in ("left_semi", "left_anti") else ("name", "n"))


@pytest.mark.parametrize(("how", "pairs"), [("inner", 4), ("left", 5), ("right", 4), ("left_semi", 2), ("left_anti", 1)])
def test_metrics_count_join_outputs_as_pairs_and_firings_as_windows(how, pairs):
    plan = joins.Join(WindowQuery(TumblingEventTimeWindows(10)), how, (0, 0)).plan()
    rows = [joins.Row(side, key, time, time) for side, key, time in (("left", "a", 1), ("left", "a", 2), ("right", "a", 3))]
    rows += [joins.Row("right", "a", 4, 4), joins.Row("left", "b", 5, 5)]
    output = plan.operator.for_group(plan, MemoryState(), 0).process(joins.given(plan, [rows], end=True))
    assert (output.metrics.outputs, output.metrics.fired_rows) == ({"main": pairs}, 2)
    ((_, lists),) = output.tables
    assert plan.pairs.count(lists) == pairs


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", []),
        ("left", [("a", None)]),
        ("right", [(None, 1)]),
        ("full", [("a", None), (None, 1)]),
        ("left_semi", []),
        ("left_anti", [("a",)]),
    ],
)
def test_null_in_the_key_matches_nothing(how, expected):
    lists = pa.list_(pa.struct(list(NAMES))), pa.list_(pa.struct(list(NUMBERS)))
    emitted = pa.table(
        {
            "key": ["k", "k"],
            "other": pa.array([None, 2]),
            "end": [1, 1],
            "left": pa.array([[{"name": "a"}], []], lists[0]),
            "right": pa.array([[{"n": 1}], []], lists[1]),
        }
    )
    pairs = Pairs(how, NAMES, NUMBERS, keys=2)
    opened = pa.concat_tables([*pairs.opened(pairs.kept(emitted)), pairs.schema_of(emitted.schema).empty_table()])
    assert [tuple(row.values())[3:] for row in opened.to_pylist()] == expected


POINT = pa.struct([pa.field("x", pa.int64(), nullable=False)])
POINTS = pa.schema([("at", POINT)])


def test_struct_with_non_nullable_fields_may_itself_be_null():
    # For example structs from struct(...), or the _metadata column of files. A row without a partner could not be cast to such a
    # type.
    lists = pa.list_(pa.struct(list(POINTS)))
    emitted = pa.table(
        {
            "key": ["k", "m"],
            "left": pa.array([[{"at": {"x": 1}}, {"at": None}], []], lists),
            "right": pa.array([[], [{"at": {"x": 2}}]], lists),
        }
    )
    pairs = Pairs("full", POINTS, POINTS.set(0, pa.field("at_right", POINT)), keys=1)
    (opened,) = pairs.opened(pairs.kept(emitted))
    assert [tuple(row.values()) for row in opened.to_pylist()] == [
        ("k", {"x": 1}, None),
        ("k", None, None),
        ("m", None, {"x": 2}),
    ]
    rows = pa.table(
        {"left": pa.array([{"at": None}, None], pa.struct(list(POINTS))), "right": pa.nulls(2, pa.struct(list(NUMBERS)))}
    )
    assert Sides(POINTS, NUMBERS, ((), ())).apart(rows)[0].to_pylist() == [{"at": None}]


# -- watermarks ----------------------------------------------------------------------------------------------------------------


def tracker_of(left, right, saved=None, follower=None):
    strategy = WatermarkStrategy.of_sides({"left": left, "right": right}, "side", follower=follower)
    return WatermarkTracker(strategy) if saved is None else WatermarkTracker.from_json(strategy, saved)


def test_watermark_is_the_smaller_one_once_both_sides_have_rows():
    tracker = tracker_of(WatermarkStrategy(5), WatermarkStrategy(20))
    assert tracker.advance({"left": 100}, 0) == MIN_TIMESTAMP
    tracker = tracker_of(WatermarkStrategy(5), WatermarkStrategy(20), tracker.to_json())
    assert tracker.advance({"right": 90}, 0) == 69
    assert tracker.advance({"right": 200}, 0) == 94
    assert tracker.by_partition() == [("left", 100, 94, False), ("right", 200, 179, False)]


def test_each_side_becomes_idle_after_its_own_timeout():
    tracker = tracker_of(WatermarkStrategy(0), WatermarkStrategy(0).with_idleness("10 us"))
    tracker.advance({"left": 10, "right": 10}, 0, run="r")
    # The side is silent from the first micro-batch without its rows: for 5 at 6, for 10 at 12. A step counts for at most half the
    # timeout.
    watermarks = [tracker.advance({"left": time}, clock, run="r") for time, clock in [(20, 1), (30, 6), (40, 12), (50, 13)]]
    assert watermarks == [9, 9, 39, 49]
    # The other side lacks a timeout, so it holds the watermark back without end.
    tracker = tracker_of(WatermarkStrategy(0), WatermarkStrategy(0).with_idleness("10 us"))
    tracker.advance({"left": 10, "right": 10}, 0, run="r")
    for clock in range(1, 100, 5):
        assert tracker.advance({"right": 1000 + clock}, clock, run="r") == 9


def test_watermark_waits_for_expected_partitions_of_each_side():
    left = WatermarkStrategy(0).per_partition("p", ["0", "1"])
    tracker = tracker_of(left, WatermarkStrategy(0).per_partition("q"))
    assert tracker.advance({"left/0": 50, "right/7": 40}, 0) == MIN_TIMESTAMP
    assert tracker.advance({"left/1": 30}, 0) == 29
    # A side without expected partitions is also waited for. Its partitions are those that have had rows.
    tracker = tracker_of(left, WatermarkStrategy(0).per_partition("q"), tracker_of(left, WatermarkStrategy(0)).to_json())
    assert tracker.advance({"left/0": 50, "left/1": 60}, 0) == MIN_TIMESTAMP
    assert tracker.advance({"right/7": 55}, 0) == 49
    assert sorted(tracker.partitions) == ["left/0", "left/1", "right/7"]


def test_side_without_watermarks_disables_the_watermark():
    tracker = tracker_of(WatermarkStrategy(0), WatermarkStrategy.no_watermarks())
    assert tracker.advance({"left": 50, "right": 50}, 0) == MIN_TIMESTAMP
    assert tracker.strategy.delay is None


def test_follower_without_watermarks_neither_moves_the_watermark_nor_holds_it_back():
    silent = WatermarkStrategy.no_watermarks()
    tracker = tracker_of(WatermarkStrategy(2).closing_after("1 s"), silent, follower="right")
    assert tracker.advance({"left": 10}, 0) == 7
    assert tracker.advance({"right": 500}, 0) == 7
    assert tracker.newest == 10
    # A follower that had watermarks before the restart does not hold the others back any more.
    before = tracker_of(WatermarkStrategy(2), WatermarkStrategy(0).with_idleness("10 us"), follower="right")
    assert before.advance({"left": 50, "right": 20}, 0) == 19
    after = tracker_of(WatermarkStrategy(2), silent, before.to_json(), follower="right")
    assert after.advance({"left": 60}, 0) == 57


def test_closing_after_is_refused_for_only_one_side():
    plain = WatermarkStrategy(0)
    both = WatermarkStrategy.of_sides({"left": plain.closing_after("1 s"), "right": plain.closing_after("3 s")}, "side")
    assert both.closes_after == 3_000_000
    with pytest.raises(InvalidPlanError, match="to both streams, or to neither"):
        WatermarkStrategy.of_sides({"left": plain.closing_after("1 s"), "right": plain}, "side")
    with pytest.raises(InvalidPlanError, match="a join of two streams does not support watermark generators"):
        WatermarkStrategy.of_sides({"left": WatermarkStrategy.for_generator(Nothing), "right": plain}, "side")


class Nothing(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        raise AssertionError


# -- rows that are too far ahead -----------------------------------------------------------------------------------------------


def test_max_ahead_applies_only_to_its_side():
    strategies = {"left": WatermarkStrategy(0).max_ahead("10 us", of="rows"), "right": WatermarkStrategy(0)}
    plan = joins.Join(joins.random_join(random.Random(1))[0].windowing, "inner", (0, 0)).plan()
    plan = replace(
        plan, watermark=WatermarkStrategy.of_sides(strategies, "side"), late_tag=None, invalid_tag="ahead", row_schema=joins.ROWS
    )
    assert plan.watermark.limits_ahead
    rows = [("left", 1), ("left", 2), ("left", 3000), ("right", 1), ("right", 2), ("right", 3000)]
    whole = [{side: {"key": "a", "n": time}} if side == "left" else {side: {"key": "a", "m": time}} for side, time in rows]
    values = {
        side: pa.array(
            [{"n": 1} if own == side == "left" else {"m": 1} if own == side else None for own, _ in rows], joins.VALUES[side]
        )
        for side in ("left", "right")
    }
    batch = pa.record_batch(
        {
            "time": [time for _, time in rows],
            "key": ["a"] * len(rows),
            **{f"value {place}": values[side] for place, side in enumerate(plan.operator.inputs)},
            "partition": [side for side, _ in rows],
            "row": pa.array(whole, pa.struct(list(joins.ROWS))),
        }
    )
    kinds = tuple(joins.VALUES[side] for side in plan.operator.inputs)
    columns = PackColumns((pa.string(),), kinds, partition=4, row=5)
    parts = [payload.decode(part.body) for _, part in pack(plan, columns, [batch])]
    (invalid,) = [table for table, header in parts if header["kind"] == payload.INVALID]
    left, right = plan.sides.apart(invalid)
    assert (left.column("n").to_pylist(), right.num_rows) == ([3000], 0)
    (report,) = [header for _, header in parts if header["kind"] == payload.REPORT]
    assert report["seen"] == {"left": 2, "right": 3000}


# -- the plan ------------------------------------------------------------------------------------------------------------------


def test_plan_of_two_streams_survives_json():
    for seed in range(20):
        join, _ = joins.random_join(random.Random(seed))
        plan = join.plan()
        read_plan = plan_of(json.loads(json.dumps(plan_json(plan))))
        assert (read_plan.sides, read_plan.pairs, read_plan.watermark) == (plan.sides, plan.pairs, plan.watermark)
        assert read_plan.tags == plan.tags
        assert read_plan.output_schema("main") == plan.output_schema("main")


def test_json_of_a_plan_of_one_stream_has_no_sides():
    join, _ = joins.random_join(random.Random(3))
    saved = plan_json(replace(join.plan(), sides=None, pairs=None))
    assert not {"sides", "pairs"} & saved.keys()
