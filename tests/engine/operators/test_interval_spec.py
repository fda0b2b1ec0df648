"""The spec of interval joins: how long rows are kept, identity, explain(), state tables and views."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from panestream.engine.operators.intervals import Matches
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from tests.comparison import intervals, joins
from tests.comparison.joins import Row

pytestmark = pytest.mark.usefixtures("values_apart")

KEPT = [
    # lower, upper, how, and how long a row of the left and of the right is kept after its time
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


def operator_after(plan, state, *batches):
    """Process micro-batches of rows and return the operator of the key group."""
    for rows in batches:
        plan.operator.for_group(plan, state, 0).process(joins.given(plan, [list(rows)]))
    return plan.operator.for_group(plan, state, 0)


def times(saved):
    return {side: saved.table(side).column("time").to_pylist() for side in ("left", "right")}


def row_of_each_side(time):
    """Return a row of each side without a partner."""
    return [Row("left", f"left {time}", time, 1), Row("right", f"right {time}", time, 1)]


@pytest.mark.parametrize(("lower", "upper", "how", "left", "right"), KEPT)
def test_how_long_rows_of_each_side_are_kept(lower, upper, how, left, right):
    operator = plan_of(lower, upper, how).operator
    assert (operator.kept_for("left"), operator.kept_for("right")) == (left, right)
    assert (operator.is_outer("left"), operator.is_outer("right")) == (how in ("left", "full"), how in ("right", "full"))


@pytest.mark.parametrize(("lower", "upper", "how", "left", "right"), KEPT)
def test_expired_rows_are_deleted_from_state(lower, upper, how, left, right):
    """The watermark is 49. The rows of a micro-batch share a block. Some of its rows may have expired."""
    state, plan = MemoryState(), plan_of(lower, upper, how)
    times_of_rows = range(30, 51)
    actual = times(operator_after(plan, state, [row for time in times_of_rows for row in row_of_each_side(time)]).tables())
    assert actual == {
        side: [time for time in times_of_rows if time >= 49 - duration] for side, duration in (("left", left), ("right", right))
    }
    actual = times(operator_after(plan, state, row_of_each_side(54)).tables())
    later = [*times_of_rows, 54]
    assert actual == {
        side: [time for time in later if time >= 53 - duration] for side, duration in (("left", left), ("right", right))
    }
    # Blocks of expired rows are deleted as a whole.
    operator_after(plan, state, row_of_each_side(1000))
    assert {space for space, _ in state.values if space in ("left", "right")} == {
        side for side, duration in (("left", left), ("right", right)) if duration >= -1
    }


def test_all_rows_are_kept_before_both_sides_have_rows():
    saved = operator_after(plan_of(-2, 5), MemoryState(), [Row("left", "a", time, 1) for time in (-(10**9), 3, 10**9)]).tables()
    assert times(saved) == {"left": [-(10**9), 3, 10**9], "right": []}
    assert saved.header["counters"] == {}
    assert saved.table("left").column_names == ["key 0", "time", "row"]
    assert saved.table("right").schema.types == [pa.string(), pa.int64(), pa.struct([("m", pa.int64())])]


def test_restored_rows_match_in_any_order_of_the_saved_rows():
    plan = plan_of(-2, 5)
    left = [Row("left", "a", time, number) for number, time in enumerate((14, 12, 13, 16, 11), 1)]
    right = [Row("right", "a", 20, 1), Row("right", "b", 11, 2)]
    saved = operator_after(plan, MemoryState(), left, right[1:]).tables()
    backwards = {side: table.take(pa.array(range(table.num_rows - 1, -1, -1))) for side, table in saved.tables.items()}
    state = MemoryState()
    plan.operator.for_group(plan, state, 0).restore(StateTables(saved.header, backwards))
    again = plan.operator.for_group(plan, state, 0).tables()
    assert times(again) == {"left": [11, 12, 13, 14, 16], "right": [11]}
    (met,) = intervals.found(plan, [[right[:1]]], state=state)
    assert met.rows == {("a", 4, "row 4", 1): 1}


def test_views_show_kept_rows_on_their_side():
    plan = plan_of(-2, 5)
    saved = operator_after(
        plan, MemoryState(), [Row("left", "a", 11, 5), Row("left", "b", 12, 2), Row("right", None, 13, 3)]
    ).tables()
    views = plan.operator.views(plan, saved, 6)

    def at(number):
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=number)

    elements = [(row["key"], row["time"], row["element"], row["key_group"]) for row in views.elements.to_pylist()]
    assert elements == [
        ({"key": "a"}, at(11), {"left": {"n": 5, "name": None}, "right": None}, 6),
        ({"key": "b"}, at(12), {"left": {"n": 2, "name": "row 2"}, "right": None}, 6),
        ({"key": None}, at(13), {"left": None, "right": {"m": 3}}, 6),
    ]
    assert (views.windows.num_rows, views.timers.num_rows, views.user_state.num_rows) == (0, 0, 0)


def test_identity_and_capabilities_of_interval_joins():
    operator = plan_of(-2_000_000, 5_000_000, "left").operator
    assert operator.name == "interval join"
    assert operator.identity() == {
        "join": "left, -2000000 to 5000000",
        "rows of the left": "struct<n: int64, name: string>",
        "rows of the right": "struct<m: int64>",
    }
    assert (operator.capabilities.has_windows, operator.capabilities.order_sensitive) == (False, False)
    assert operator.capabilities.no_firings == (
        "an interval join emits each pair once, and each row without a partner once, so firings are not numbered"
    )
    assert operator.capabilities.no_changelog == "an interval join emits each pair once: nothing is taken back"
    assert operator.result_schema == pa.schema([(side, pa.list_(kind)) for side, kind in joins.VALUES.items()])


def explain_sections(plan, *, streaming=True):
    return plan.operator.explain(plan, streaming=streaming)


def test_explain_shows_how_long_rows_are_kept():
    plan = plan_of(-2_000_000, 5_000_000, "left")
    assert explain_sections(plan) == {
        "interval": [
            "left join: a row of the right from -2 seconds to 5 seconds after the time of one of the left, both included",
        ],
        "exchange": ["rows of both sides cross the shuffle, with the columns of the results"],
        "state": ["rows of the left until the watermark is 5 seconds past them, of the right 7 seconds"],
    }
    assert explain_sections(plan, streaming=False)["state"] == ["none: a batch emits all at the end of input"]
    # Rows that no later row can match are not stored.
    ahead = plan_of(3_000_000, 7_000_000)
    assert explain_sections(ahead)["state"] == [
        "rows of the left until the watermark is 7 seconds past them, of the right 0 seconds"
    ]


@pytest.mark.parametrize("late", [False, True])
def test_sides_cross_separately_and_whole_rows_only_for_a_late_output(late):
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
        columns = {name: value for name, value in whole[key].items() if name != "key"}
        return {"key 0": key, "pane": time, "row": columns, **({"whole": whole[key]} if late else {})}

    assert crossed == {"left": [[row("a", 1), row("c", 3)]], "right": [[row("b", 2)], [row("d", 4)]]}


@pytest.mark.parametrize(
    ("left", "right", "counts", "of_all"),
    [
        # All rows of one time and key match, in their order of arrival.
        ([("a", 5)], [("a", 6), ("a", 5), ("a", 6)], [3], [1, 0, 2]),
        ([("a", 5), ("a", 9)], [("a", 3), ("a", 4), ("a", 10), ("a", 11)], [1, 2], [1, 2, 3]),
        # Different keys do not match, however near their times are. The last time of a key does not affect the next key.
        ([("a", 9), ("b", 5)], [("a", 9), ("b", 9), ("b", 5)], [1, 1], [0, 2]),
        ([("b", 1), ("a", 9)], [("a", 1), ("b", 9)], [0, 0], []),
        # A key with a null in any column matches nothing and does not hide the matches of other keys.
        ([(None, 5), ("a", 5)], [(None, 5), ("a", 5)], [0, 1], [1]),
        ([(None, 5)], [(None, 5), ("a", 5)], [0], []),
        ([("a", 5)], [], [0], []),
    ],
)
def test_rows_of_a_key_match_from_one_before_to_two_after(left, right, counts, of_all):
    def columns(rows):
        return [pa.chunked_array([pa.array([key for key, _ in rows], pa.string())])], pa.array(
            [time for _, time in rows], pa.int64()
        ).to_numpy()

    (left_keys, left_times), (right_keys, right_times) = columns(left), columns(right)
    matches = Matches.of(left_keys, right_keys, (left_times, right_times), (-1, 2))
    assert matches.counts.tolist() == counts
    assert matches.of_rows(pa.array(range(len(left))).to_numpy()).tolist() == of_all
