"""What is said of interval joins: how long rows are kept, what a checkpoint is tied to, the words, state as tables and as views."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from panestream.engine.operators.intervals import Matches
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from tests.comparison import intervals, joins
from tests.comparison.joins import Row

KEPT = [
    # lower, upper, how: how long a row of the left is kept after its time, and one of the right
    (-2, 5, "inner", 5, 2),
    (-2, 5, "left", 5, 7),
    (-2, 5, "right", 7, 2),
    (-2, 5, "full", 7, 7),
    (3, 7, "inner", 7, -3),
    (3, 7, "left", 7, 4),
    (3, 7, "right", 7, -3),
    (3, 7, "full", 7, 4),
    (-7, -3, "inner", -3, 7),
    (-7, -3, "left", -3, 7),
    (-7, -3, "right", 4, 7),
    (-7, -3, "full", 4, 7),
]


def plan_of(lower, upper, how="inner", *, late=False):
    return intervals.Interval(lower, upper, how, (0, 0), late=late).plan()


def after(plan, state, *batches):
    """The operator of a key group after micro-batches of rows."""
    for rows in batches:
        plan.operator.for_group(plan, state, 0).process(joins.given(plan, [list(rows)]))
    return plan.operator.for_group(plan, state, 0)


def times(saved):
    return {side: saved.table(side).column("time").to_pylist() for side in ("left", "right")}


def each(time):
    """A row of each side that nobody else meets."""
    return [Row("left", f"left {time}", time, 1), Row("right", f"right {time}", time, 1)]


@pytest.mark.parametrize(("lower", "upper", "how", "left", "right"), KEPT)
def test_how_long_rows_are_kept(lower, upper, how, left, right):
    operator = plan_of(lower, upper, how).operator
    assert (operator.kept_for("left"), operator.kept_for("right")) == (left, right)
    assert (operator.is_outer("left"), operator.is_outer("right")) == (how in ("left", "full"), how in ("right", "full"))


@pytest.mark.parametrize(("lower", "upper", "how", "left", "right"), KEPT)
def test_what_is_kept_no_longer_is_no_state(lower, upper, how, left, right):
    """The watermark is 49; rows of one micro-batch lie in one block, of which some may be over."""
    state, plan = MemoryState(), plan_of(lower, upper, how)
    came = range(30, 51)
    found = times(after(plan, state, [row for time in came for row in each(time)]).tables())
    assert found == {side: [time for time in came if time >= 49 - kept] for side, kept in (("left", left), ("right", right))}
    found = times(after(plan, state, each(54)).tables())
    later = [*came, 54]
    assert found == {side: [time for time in later if time >= 53 - kept] for side, kept in (("left", left), ("right", right))}
    # Of what nobody needs whole blocks go, and nothing is left of them.
    after(plan, state, each(1000))
    assert {space for space, _ in state.values if space in ("left", "right")} == {
        side for side, kept in (("left", left), ("right", right)) if kept >= -1
    }


def test_before_both_sides_have_come_all_is_kept():
    saved = after(plan_of(-2, 5), MemoryState(), [Row("left", "a", time, 1) for time in (-(10**9), 3, 10**9)]).tables()
    assert times(saved) == {"left": [-(10**9), 3, 10**9], "right": []}
    assert saved.header["counters"] == {}
    assert saved.table("left").column_names == ["key 0", "time", "row"]
    assert saved.table("right").schema.types == [pa.string(), pa.int64(), pa.struct([("m", pa.int64())])]


def test_saved_rows_are_met_again_in_whatever_order_they_are():
    plan = plan_of(-2, 5)
    left = [Row("left", "a", time, number) for number, time in enumerate((14, 12, 13, 16, 11), 1)]
    right = [Row("right", "a", 20, 1), Row("right", "b", 11, 2)]
    saved = after(plan, MemoryState(), left, right[1:]).tables()
    backwards = {side: table.take(pa.array(range(table.num_rows - 1, -1, -1))) for side, table in saved.tables.items()}
    state = MemoryState()
    plan.operator.for_group(plan, state, 0).restore(StateTables(saved.header, backwards))
    again = plan.operator.for_group(plan, state, 0).tables()
    assert times(again) == {"left": [11, 12, 13, 14, 16], "right": [11]}
    (met,) = intervals.found(plan, [[right[:1]]], state=state)
    assert met.rows == {("a", 4, "row 4", 1): 1}


def test_kept_rows_are_shown_each_on_its_side():
    plan = plan_of(-2, 5)
    saved = after(plan, MemoryState(), [Row("left", "a", 11, 5), Row("left", "b", 12, 2), Row("right", None, 13, 3)]).tables()
    views = plan.operator.views(plan, saved, 6)

    def at(number):
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=number)

    shown = [(row["key"], row["time"], row["element"], row["key_group"]) for row in views.elements.to_pylist()]
    assert shown == [
        ({"key": "a"}, at(11), {"left": {"n": 5, "name": None}, "right": None}, 6),
        ({"key": "b"}, at(12), {"left": {"n": 2, "name": "row 2"}, "right": None}, 6),
        ({"key": None}, at(13), {"left": None, "right": {"m": 3}}, 6),
    ]
    assert (views.windows.num_rows, views.timers.num_rows, views.user_state.num_rows) == (0, 0, 0)


def test_what_a_checkpoint_is_tied_to_and_what_is_said():
    operator = plan_of(-2_000_000, 5_000_000, "left").operator
    assert operator.name == "interval join"
    assert operator.identity() == {
        "join": "left, -2000000 to 5000000",
        "rows of the left": "struct<n: int64, name: string>",
        "rows of the right": "struct<m: int64>",
    }
    assert (operator.capabilities.has_windows, operator.capabilities.order_sensitive) == (False, False)
    assert operator.capabilities.no_firings == (
        "an interval join emits each pair once, and each row without a partner once: there is nothing to number"
    )
    assert operator.capabilities.no_changelog == "an interval join emits each pair once: nothing is taken back"
    assert operator.result_schema == pa.schema([(side, pa.list_(kind)) for side, kind in joins.VALUES.items()])


def told(plan, *, streaming=True):
    return plan.operator.explain(plan, streaming=streaming)


def test_what_is_kept_and_for_how_long_is_told():
    plan = plan_of(-2_000_000, 5_000_000, "left")
    assert told(plan) == {
        "interval": [
            "left join: a row of the right from -2 seconds to 5 seconds after the time of one of the left, both included",
        ],
        "exchange": ["rows cross the shuffle, of each side the columns that results have"],
        "state": ["rows of the left until the watermark is 5 seconds past them, of the right 7 seconds"],
    }
    assert told(plan, streaming=False)["state"] == ["none: a batch emits all at the end of input"]
    # Rows that no later one can meet are not kept at all.
    ahead = plan_of(3_000_000, 7_000_000)
    assert told(ahead)["state"] == ["rows of the left until the watermark is 7 seconds past them, of the right 0 seconds"]


@pytest.mark.parametrize("late", [False, True])
def test_each_side_crosses_alone_and_with_whole_rows_only_for_a_late_output(late):
    plan = plan_of(-2, 5, late=late)
    batch = joins.given(
        plan, [[Row("left", "a", 1, 1), Row("right", "b", 2, 2), Row("left", "c", 3, 3)], [Row("right", "d", 4, 4)]]
    )
    crossed = {side: [table.to_pylist() for table in tables] for side, tables in batch.parts.items()}
    whole = {
        "a": {"key": "a", "n": 1, "name": "row 1"},
        "b": {"key": "b", "m": 2},
        "c": {"key": "c", "n": 3, "name": "row 3"},
        "d": {"key": "d", "m": 4},
    }

    def row(key, time):
        kept = {name: value for name, value in whole[key].items() if name != "key"}
        return {"key 0": key, "pane": time, "row": kept, **({"whole": whole[key]} if late else {})}

    assert crossed == {"left": [[row("a", 1), row("c", 3)]], "right": [[row("b", 2)], [row("d", 4)]]}


@pytest.mark.parametrize(
    ("left", "right", "counts", "of_all"),
    [
        # Of one time and key as many as there are, in the order in which they came.
        ([("a", 5)], [("a", 6), ("a", 5), ("a", 6)], [3], [1, 0, 2]),
        ([("a", 5), ("a", 9)], [("a", 3), ("a", 4), ("a", 10), ("a", 11)], [1, 2], [1, 2, 3]),
        # Keys apart, be the times ever so near; the last time of one key is no time of the next.
        ([("a", 9), ("b", 5)], [("a", 9), ("b", 9), ("b", 5)], [1, 1], [0, 2]),
        ([("b", 1), ("a", 9)], [("a", 1), ("b", 9)], [0, 0], []),
        # A key that is null in any column meets none, nor does it keep others from it.
        ([(None, 5), ("a", 5)], [(None, 5), ("a", 5)], [0, 1], [1]),
        ([(None, 5)], [(None, 5), ("a", 5)], [0], []),
        ([("a", 5)], [], [0], []),
    ],
)
def test_rows_of_a_key_from_one_before_to_two_after_match(left, right, counts, of_all):
    def columns(rows):
        return [pa.chunked_array([pa.array([key for key, _ in rows], pa.string())])], pa.array(
            [time for _, time in rows], pa.int64()
        ).to_numpy()

    (ours, ours_at), (theirs, theirs_at) = columns(left), columns(right)
    found = Matches.of(ours, theirs, (ours_at, theirs_at), (-1, 2))
    assert found.counts.tolist() == counts
    assert found.of_rows(pa.array(range(len(left))).to_numpy()).tolist() == of_all
