"""Compare as-of joins with their definition, as streams, as one batch, and restored from state tables.

``PANESTREAM_CASES=10000 pytest tests/comparison/test_as_of_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import json
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import PlanMismatchError
from tests.comparison import as_of, intervals, joins
from tests.comparison.harness import run_cases
from tests.comparison.joins import Row

CHUNKS = 8


def compare(ours, theirs, shown):
    for place, (found, wanted) in enumerate(zip(ours, theirs, strict=True)):
        assert found.rows == wanted.rows, f"micro-batch {place}: {shown}"
        assert found.late == wanted.late, f"micro-batch {place}: {shown}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_as_of_join_agrees_with_the_definition(chunk):
    def case(rng, seed):
        join, span = as_of.random_as_of(rng)
        batches = joins.random_streams(rng, span)
        compare(intervals.found(join.plan(), batches), as_of.defined(join, batches), f"seed {seed}\n{join}\n{batches}")

    run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_as_of_join_agrees_with_a_stream_without_late_rows(chunk):
    def case(rng, seed):
        join, span = as_of.random_as_of(rng)
        batches = joins.random_streams(rng, span)
        shown = f"seed {seed}\n{join}\n{batches}"
        (batch,) = intervals.found(join.plan(), batches, end=True)
        compare([batch], as_of.defined(join, batches, end=True), shown)
        patient = replace(join, delays=(10**6, 10**6), late=True)
        last = [[Row(side, None, 10**9, 0) for side in ("left", "right")]]
        stream = intervals.found(patient.plan(), [*batches, last])
        assert not any(one.late[side] for one in stream for side in one.late), shown
        rows = sum((one.rows for one in stream), Counter())
        if join.direction == "backward" or join.tolerance is not None:
            assert rows == batch.rows, shown
        else:
            # Without a tolerance, left rows that nothing follows still wait.
            assert rows <= batch.rows, shown

    run_cases(56, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_as_of_join_restored_from_state_tables_agrees_with_the_definition(chunk):
    def case(rng, seed):
        join, span = as_of.random_as_of(rng)
        batches, state = joins.random_streams(rng, span), MemoryState()
        cut, plan = rng.randint(0, len(batches)), join.plan()
        found = intervals.found(plan, batches[:cut], state=state)
        other = MemoryState()
        if cut:
            saved = plan.operator.for_group(plan, state, 0).tables()
            shuffled = {
                side: table.take(pa.array(rng.sample(range(table.num_rows), table.num_rows), pa.int64()))
                for side, table in saved.tables.items()
            }
            plan.operator.for_group(plan, other, 0).restore(StateTables(saved.header, shuffled))
        found += intervals.found(plan, batches[cut:], state=other)
        compare(found, as_of.defined(join, batches), f"seed {seed}, cut at {cut}\n{join}\n{batches}")

    run_cases(56, chunk, CHUNKS, case)


@pytest.mark.parametrize("change", [{"direction": "forward"}, {"tolerance": 9}, {"how": "left"}, {"deletes": True}])
def test_checkpoint_of_another_as_of_join_is_refused(change):
    join, state = as_of.AsOf("backward", 5, "inner", (0, 0)), MemoryState()
    intervals.found(join.plan(), [[[Row("left", "a", 1, 1)]]], state=state)
    other = replace(join, **change).plan()
    with pytest.raises(PlanMismatchError, match=r"join:|rows of the right:"):
        other.operator.for_group(other, state, 0)
    saved = join.plan().operator.for_group(join.plan(), state, 0).tables()
    with pytest.raises(PlanMismatchError, match=r"join:|rows of the right:"):
        other.operator.for_group(other, MemoryState(), 0).restore(saved)


def test_plan_of_as_of_join_survives_json():
    plan = as_of.AsOf("backward", 5, "left", (3, 4), deletes=True).plan()
    found = plan_of(json.loads(json.dumps(plan_json(plan))))
    assert (found.operator, found.sides, found.pairs) == (plan.operator, plan.sides, plan.pairs)
    assert found.output_schema("main").names == ["key", "n", "name", "m"]


def test_as_of_join_stores_the_newest_right_row_of_each_key():
    """A key without new rows keeps its row for ever, unless a tolerance or a deletion ends it."""
    rows = [[[Row(side, "a", time, 3 * time + 1) for side in ("left", "right")]] for time in range(0, 400, 10)]
    rows.insert(0, [[Row("right", "b", 0, 1), Row("right", "c", -1, 1), Row("right", "c", 0, 3)]])
    for join, kept in [
        (as_of.AsOf("backward", None, "left", (0, 5)), ["a", "b", "c"]),
        (as_of.AsOf("backward", None, "left", (0, 5), deletes=True), ["a", "b"]),
        (as_of.AsOf("backward", 30, "left", (0, 5)), ["a"]),
        (as_of.AsOf("nearest", 30, "left", (0, 5)), ["a"]),
        (as_of.AsOf("forward", None, "left", (0, 5)), []),
    ]:
        plan, state = join.plan(), MemoryState()
        intervals.found(plan, rows, state=state)
        tables = plan.operator.for_group(plan, state, 0).tables().tables
        times = tables["right"].column("time").to_pylist()
        settled = [key for key, time in zip(tables["right"].column("key 0").to_pylist(), times, strict=True) if time < 385]
        assert sorted(settled) == kept, join
        assert times.count(390) == 1, join
        assert len(state.values) <= 20, join


def test_as_of_join_gives_reasons_against_firings_and_changelog():
    capabilities = as_of.AsOf("backward", None, "left", (3, 4)).plan().operator.capabilities
    assert "there is nothing to number" in capabilities.no_firings
    assert "nothing is taken back" in capabilities.no_changelog
    assert capabilities.order_sensitive


def test_definition_of_an_as_of_join_in_single_cases():
    """The judge itself: ties go to the row that arrived last, and of two equally near rows to the earlier one."""
    rights = [Row("right", "a", 10, 1), Row("right", "a", 20, 2), Row("right", "a", 20, 3), Row("right", "b", 15, 4)]

    def number(direction, tolerance, time, key="a"):
        join = as_of.AsOf(direction, tolerance, "left", (0, 0))
        match = as_of.chosen(join, Row("left", key, time, 9), rights)
        return None if match is None else match.number

    assert [number("backward", None, time) for time in (9, 10, 19, 20, 99)] == [None, 1, 1, 3, 3]
    assert [number("forward", None, time) for time in (9, 10, 11, 20, 21)] == [1, 1, 3, 3, None]
    assert [number("nearest", None, time) for time in (9, 15, 16, 99)] == [1, 1, 3, 3]
    assert [number("nearest", 4, time) for time in (5, 6, 15, 16, 24, 25)] == [None, 1, None, 3, 3, None]
    assert number("backward", None, 99, key=None) is None


@pytest.mark.parametrize(
    ("direction", "tolerance", "kept"),
    [("backward", None, None), ("nearest", None, None), ("backward", 30, 30), ("forward", 30, 30), ("nearest", 30, 60)],
)
def test_right_rows_are_kept_as_long_as_they_can_match(direction, tolerance, kept):
    assert as_of.AsOf(direction, tolerance, "left", (0, 5)).plan().operator.kept_for == kept
