"""A key group's state through Spark and back, by the functions that Spark calls with Arrow batches."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from panestream.engine.inspection.reduce import StateFilter
from panestream.engine.plan import KEY_GROUPS
from panestream.engine.storage.state import MemoryState
from panestream.errors import CheckpointError
from panestream.spark.compat import group_values
from panestream.spark.savepoint import decode, restore
from panestream.spark.savepoint.decode import (
    CHUNKS,
    HEADERS,
    TABLE_PARTS,
    GroupByGroup,
    SavedGroups,
    StoredState,
    chunk_of,
    chunks_of_rows,
    groups_in,
    headers_of,
    identity_in,
    in_batches,
    parts_of,
    reducer,
    rows_of_chunks,
    table_in,
    table_of,
    tables_of,
    time_of,
    view_of,
    with_key_group,
)
from panestream.spark.savepoint.restore import NEW_STATE, Restore, RestorePlan
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness

SECOND = 1_000_000
PLAN = replace(
    harness.Query(harness.WindowQuery(TumblingEventTimeWindows(10 * SECOND)), (agg.count().alias("n"),)).columnar(), groups=3
)
NAMES = group_values(3)
STORED = pa.schema(
    [("group", pa.int32()), ("space", pa.string()), ("number", pa.int64()), ("parts", pa.int32()), ("value", pa.binary())]
)


def state_of(group: int, keys: str) -> MemoryState:
    """Return the state of a key group that has one row for each key, in second 3."""
    state = MemoryState()
    given = harness.group_input(PLAN, harness.MicroBatch([[(key, 3 * SECOND, 1, None, 1) for key in keys]]))
    PLAN.operator.for_group(PLAN, state, group).process(given)
    return state


def stored(states, most: int = 1 << 14) -> list[pa.RecordBatch]:
    """Return the state in the form of Spark's reader, with its names of key groups and a batch for every row."""
    rows = []
    for group, state in states.items():
        for (space, number), value in state.values.items():
            cut = [value[at : at + most] for at in range(0, len(value), most)] or [b""]
            rows += [(NAMES[group], space, number, len(cut), part) for part in cut]
    return [
        pa.RecordBatch.from_arrays([pa.array([one], field.type) for one, field in zip(row, STORED, strict=True)], schema=STORED)
        for row in rows
    ]


def table(batches, schema):
    return pa.Table.from_batches(batches, schema).to_pylist()


@pytest.mark.parametrize("most", [1, 7, 1 << 14])
def test_state_values_are_grouped_by_key_group(most):
    states = {0: state_of(0, "ab"), 2: state_of(2, "c"), 1: state_of(1, "")}
    found = [(group, state.values) for group, state in groups_in(stored(states, most))]
    assert found == [(NAMES[group], state.values) for group, state in states.items()]
    assert list(groups_in([])) == []


def test_key_group_in_two_places_is_refused():
    one, two = stored({0: state_of(0, "a")}), stored({1: state_of(1, "b")})
    with pytest.raises(CheckpointError, match=rf"has the values of a key group \({NAMES[0]}\) in two places"):
        list(groups_in([*one, *two, *one]))


def test_results_of_key_groups_have_their_numbers():
    batches = stored({2: state_of(2, "c"), 0: state_of(0, "ab")})
    found = table(GroupByGroup(3, headers_of(PLAN))(batches), HEADERS)
    assert [row["key_group"] for row in found] == [2, 0]
    headers = [json.loads(row["header"]) for row in found]
    assert headers == [tables_of(PLAN, state_of(group, keys), group).header for group, keys in ((2, "c"), (0, "ab"))]
    # If the number of key groups is unknown, no key group has a number.
    numbers = []
    list(GroupByGroup(None, lambda state, group: numbers.append(group) or [])(batches))
    assert numbers == [-1, -1]


def test_tables_of_a_key_group_become_rows():
    batches = stored({1: state_of(1, "ab"), 0: state_of(0, "")})
    found = table(GroupByGroup(3, parts_of(PLAN))(batches), TABLE_PARTS)
    assert [(row["key_group"], row["table"], row["part"], row["rows"]) for row in found] == [
        (1, "panes", 0, 2),
        (0, "panes", 0, 0),
    ]
    for row, group, keys in zip(found, (1, 0), ("ab", ""), strict=True):
        assert table_in(row["body"]).equals(tables_of(PLAN, state_of(group, keys), group).table("panes"))
    schema = with_key_group(StoredState(None, "there", 4, PLAN).empty().table("panes").schema)
    shown = table(GroupByGroup(3, table_of(PLAN, "panes"))(batches), schema)
    assert [(row["key_group"], row["key 0"], row["start"], row["rows"]) for row in shown] == [(1, "a", 0, 1), (1, "b", 0, 1)]


def test_large_table_is_split_into_parts(monkeypatch):
    monkeypatch.setattr(decode, "_BATCH_BYTES", 100)
    state = state_of(0, "abcdefgh")
    found = pa.concat_tables(parts_of(PLAN)(state, 0)).to_pylist()
    assert len(found) > 2
    assert [row["part"] for row in found] == list(range(len(found)))
    assert sum(row["rows"] for row in found) == 8
    whole = pa.concat_tables(table_in(row["body"]) for row in found)
    assert whole.equals(tables_of(PLAN, state, 0).table("panes"))


def test_batches_have_a_few_mib():
    big = pa.table({"text": ["x" * 1_000_000] * 9})
    assert [batch.num_rows for batch in in_batches(big)] == [4, 4, 1]
    assert [batch.num_rows for batch in in_batches(pa.table({"n": range(5)}))] == [5]
    assert [batch.num_rows for batch in in_batches(pa.table({"text": ["x" * (5 << 20)] * 2}))] == [1, 1]


def test_views_and_times_of_a_key_group_become_rows():
    state = state_of(1, "ab")
    (windows,) = view_of(PLAN, "windows")(state, 1)
    assert [(row["key_group"], row["key"], row["rows"]) for row in windows.to_pylist()] == [
        (1, {"key": "a"}, 1),
        (1, {"key": "b"}, 1),
    ]
    (times,) = time_of(PLAN)(state, 1)
    (row,) = times.to_pylist()
    assert (row["key_group"], row["source_partition"], row["idle"]) == (1, "", False)
    assert (row["watermark"].second, row["watermark"].microsecond) == (2, 999_999)


def test_identity_of_the_plan_is_in_the_meta_record():
    (found,) = identity_in(state_of(0, "a"), -1)
    assert json.loads(found["identity"][0].as_py()) == PLAN.identity()
    assert PLAN.identity()[KEY_GROUPS] == "3"


# -- tables in pieces --------------------------------------------------------------------------------------------------------


def placed(groups, names):
    columns = [pa.array(groups, pa.int32()), pa.array(range(len(groups)), pa.int64()), pa.array([f"row {n}" for n in groups])]
    return pa.RecordBatch.from_arrays(columns, names=["key_group", *names])


def test_rows_survive_the_way_through_pieces_by_key_group():
    found = list(chunks_of_rows("panes", ["n", "a.text"])([placed([2, 0, 2, 0, 0], ["c0", "c1"]), placed([1], ["c0", "c1"])]))
    assert all(batch.schema == CHUNKS for batch in found)
    rows = [batch.to_pylist()[0] for batch in found]
    assert [(row["key_group"], row["table"]) for row in rows] == [(0, "panes"), (2, "panes"), (1, "panes")]
    tables = [table_in(row["body"]) for row in rows]
    assert [one["n"].to_pylist() for one in tables] == [[1, 3, 4], [0, 2], [0]]
    assert [one.column_names for one in tables] == [["n", "a.text"]] * 3
    parts = [pa.RecordBatch.from_arrays([batch.column(0), batch.column(2)], names=["key_group", "body"]) for batch in found]
    schema = tables[0].schema
    again = pa.Table.from_batches(rows_of_chunks(schema)(parts), with_key_group(schema))
    assert again.to_pydict() == {
        "key_group": [0, 0, 0, 2, 2, 1],
        "n": [1, 3, 4, 0, 2, 0],
        "a.text": ["row 0"] * 3 + ["row 2"] * 2 + ["row 1"],
    }
    assert list(chunks_of_rows("panes", ["n", "text"])([placed([], ["c0", "c1"])])) == []


def test_pieces_are_split_by_size(monkeypatch):
    columns = [pa.array([0] * 10 + [1] * 3, pa.int32()), pa.array(["x" * 1_000] * 13)]
    batch = pa.RecordBatch.from_arrays(columns, names=["key_group", "text"])

    def sizes():
        found = [one.to_pylist()[0] for one in chunks_of_rows("t", ["text"])([batch])]
        return [(one["key_group"], table_in(one["body"]).num_rows) for one in found]

    assert sizes() == [(0, 10), (1, 3)]
    monkeypatch.setattr(decode, "_CHUNK_BYTES", 4_100)
    assert sizes() == [(0, 4), (0, 4), (0, 2), (1, 3)]
    monkeypatch.setattr(decode, "_CHUNK_BYTES", 1)
    assert sizes() == [(0, 1)] * 10 + [(1, 1)] * 3


# -- from a savepoint --------------------------------------------------------------------------------------------------------

STATES = {0: "ab", 1: "", 2: "cde"}


def saved() -> tuple[tuple[dict, ...], dict[int, pa.Table]]:
    found = {group: tables_of(PLAN, state_of(group, keys), group) for group, keys in STATES.items()}
    return tuple(found[group].header for group in range(3)), {group: one.table("panes") for group, one in found.items()}


def sorted_pieces(tables) -> list[pa.RecordBatch]:
    """Return the pieces as a task gets them: every key group has a row without a table."""
    nothing = [pa.RecordBatch.from_pylist([{"key_group": group}], CHUNKS) for group in range(3)]
    rows = {group: [one.slice(at, 1) for at in range(one.num_rows)] for group, one in tables.items()}
    return [batch for group in range(3) for batch in (nothing[group], *(chunk_of(group, "panes", row) for row in rows[group]))]


def restore_of_saved() -> tuple[Restore, list[pa.RecordBatch]]:
    headers, tables = saved()
    return Restore(RestorePlan(PLAN, headers, {"panes": tables[1]}, {})), sorted_pieces(tables)


@pytest.mark.parametrize("batch_bytes", [1, 4 << 20])
def test_restored_state_equals_the_saved_state(batch_bytes, monkeypatch):
    monkeypatch.setattr(restore, "_BATCH_BYTES", batch_bytes)
    made, given = restore_of_saved()
    batches = list(made(given))
    assert (len(batches) > 6) == (batch_bytes == 1)
    rows = table(batches, NEW_STATE)
    assert [group for group, after in pairwise([*[row["group"] for row in rows], None]) if group != after] == list(NAMES)
    for group, keys in STATES.items():
        state = MemoryState()
        for row in rows:
            if row["group"] == NAMES[group]:
                state.put(row["space"], row["number"], row["value"])
        assert tables_of(PLAN, state, group).table("panes").equals(tables_of(PLAN, state_of(group, keys), group).table("panes"))
    assert list(made.refusals(given)) == []


def test_reasons_against_restoring_into_a_plan_are_rows():
    made, given = restore_of_saved()
    shifted = harness.Query(harness.WindowQuery(TumblingEventTimeWindows(7 * SECOND)), (agg.count().alias("n"),)).columnar()
    other = Restore(replace(made._taken, plan=replace(shifted, groups=3)))
    found = pa.Table.from_batches(other.refusals(given))["why"].to_pylist()
    # The key group without rows has no reason.
    assert len(found) == 2
    assert all("7 seconds" in why or "pane" in why for why in found)


def test_summary_of_a_savepoint_equals_the_summary_of_a_checkpoint():
    headers, tables = saved()
    found = pa.Table.from_batches(SavedGroups(PLAN, headers, StateFilter())(sorted_pieces(tables)))["part"].to_pylist()
    assert len(found) == 3
    for group, keys in STATES.items():
        (one,) = reducer(PLAN, StateFilter())(state_of(group, keys), group)
        # The number of bytes depends on the layout of its rows.
        assert {**json.loads(found[group]), "bytes": 0} == {**json.loads(one["part"][0].as_py()), "bytes": 0}
