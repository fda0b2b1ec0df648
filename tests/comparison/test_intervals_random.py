"""Compare interval joins with their definition, as streams, as one batch, and restored from state tables.


``PANESTREAM_CASES=10000 pytest tests/comparison/test_intervals_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError
from tests.comparison import intervals, joins
from tests.comparison.harness import run_cases

CHUNKS = 8


def compare(ours, theirs, told):
    for place, (found, wanted) in enumerate(zip(ours, theirs, strict=True)):
        assert found.rows == wanted.rows, f"micro-batch {place}: {told}"
        assert found.late == wanted.late, f"micro-batch {place}: {told}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_interval_join_agrees_with_the_definition(chunk):
    def case(rng, seed):
        join, span = intervals.random_interval(rng)
        batches = joins.random_streams(rng, span)
        compare(intervals.found(join.plan(), batches), intervals.defined(join, batches), f"seed {seed}\n{join}\n{batches}")

    run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_interval_join_agrees_with_a_stream_without_late_rows(chunk):
    def case(rng, seed):
        join, span = intervals.random_interval(rng)
        batches = joins.random_streams(rng, span)
        (batch,) = intervals.found(join.plan(), batches, end=True)
        (wanted,) = intervals.defined(join, batches, end=True)
        compare([batch], [wanted], f"seed {seed}\n{join}\n{batches}")
        patient = intervals.Interval(join.lower, join.upper, join.how, (10**6, 10**6))
        stream = intervals.found(patient.plan(), batches)
        if join.how == "inner":
            assert sum((one.rows for one in stream), Counter()) == batch.rows, f"seed {seed}\n{join}\n{batches}"

    run_cases(56, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_interval_join_restored_from_state_tables_agrees_with_the_definition(chunk):
    def case(rng, seed):
        join, span = intervals.random_interval(rng)
        batches, state = joins.random_streams(rng, span), MemoryState()
        cut, plan = rng.randint(0, len(batches)), join.plan()
        found = intervals.found(plan, batches[:cut], state=state)
        other = MemoryState()
        if cut:
            plan.operator.for_group(plan, other, 0).restore(plan.operator.for_group(plan, state, 0).tables())
        found += intervals.found(plan, batches[cut:], state=other)
        compare(found, intervals.defined(join, batches), f"seed {seed}, cut at {cut}\n{join}\n{batches}")

    run_cases(56, chunk, CHUNKS, case)


def test_state_tables_have_rows_from_before_the_first_watermark():
    plan, state = intervals.Interval(-2, 5, "inner", (0, 0)).plan(), MemoryState()
    intervals.found(plan, [[[joins.Row("left", "a", 1, 1)]]], state=state)  # no rows on the right, so there is no watermark
    tables = plan.operator.for_group(plan, state, 0).tables().tables
    assert {side: table.num_rows for side, table in tables.items()} == {"left": 1, "right": 0}


@pytest.mark.parametrize("change", [{"lower": -3}, {"upper": 9}, {"how": "full"}])
def test_checkpoint_of_another_interval_or_kind_of_join_is_refused(change):
    join, state = intervals.Interval(-2, 5, "inner", (0, 0)), MemoryState()
    intervals.found(join.plan(), [[[joins.Row("left", "a", 1, 1)]]], state=state)
    other = replace(join, **change).plan()
    with pytest.raises(PlanMismatchError, match="join:"):
        other.operator.for_group(other, state, 0)
    saved = join.plan().operator.for_group(join.plan(), state, 0).tables()
    with pytest.raises(PlanMismatchError, match="join:"):
        other.operator.for_group(other, MemoryState(), 0).restore(saved)
    # For joins in windows, the kind of join is not part of the state.
    in_windows, _ = joins.random_join(random.Random(1))
    assert in_windows.plan().identity() == replace(in_windows, how="left_anti").plan().identity()


def test_plan_of_interval_join_survives_json():
    plan = intervals.Interval(-2, 5, "full", (3, 4)).plan()
    found = plan_of(json.loads(json.dumps(plan_json(plan))))
    assert (found.operator, found.sides, found.pairs) == (plan.operator, plan.sides, plan.pairs)
    assert found.output_schema("main").names == ["key", "n", "name", "m"]
    assert [found.emitted_schema(tag).names for tag in found.late_tags] == [["key", "n", "name"], ["key", "m"]]


def test_interval_join_gives_reasons_against_firings_and_changelog():
    spec = intervals.Interval(-2, 5, "full", (3, 4)).plan().operator
    assert "so firings are not numbered" in spec.capabilities.no_firings
    assert "nothing is taken back" in spec.capabilities.no_changelog


def test_interval_join_removes_expired_state():
    rows = [[[joins.Row(side, "a", time, time) for side in ("left", "right")]] for time in range(0, 400, 10)]
    for how in intervals.HOWS:
        plan, state = intervals.Interval(-30, 20, how, (0, 5)).plan(), MemoryState()
        intervals.found(plan, rows, state=state)
        tables = plan.operator.for_group(plan, state, 0).tables().tables
        assert max(table.num_rows for table in tables.values()) <= 8, how
        # A stored run is removed with its last row, so only a few merged runs remain.
        assert len(state.values) <= 16, how
