"""The partners in traces of joins by time equal the output of the engine, on random streams with late rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from panestream.engine.inspection.filters import key_arrays
from panestream.engine.inspection.merge import StateOrigin, merge_parts
from panestream.engine.inspection.reduce import StateFilter, reduce_group
from panestream.engine.storage.state import MemoryState
from panestream.spark.savepoint.inspectable_state import lookup
from panestream.tracing.joins import JoinHistory, JoinRow, join_facts, trace_of_micro_batches
from panestream.tracing.of_state import time_facts
from panestream.tracing.why import explain
from panestream.tracing.why_state import explain_state
from tests.comparison import as_of, intervals, joins
from tests.comparison.harness import run_cases

CHUNKS = 4
ENDED = 2**62


def results(trace, reached):
    """Return the result rows that the partners in a trace make at a watermark."""
    found, join = Counter(), trace.join
    for facts in join_facts(trace, trace.elements):
        element, met = facts.element, facts.partners
        if element.fate == "late":
            continue
        own = tuple(element.value)
        rights = () if met is None else met.rows
        is_as_of = hasattr(join, "direction")
        final_at = element.timestamp if met is None and is_as_of else None if met is None else met.final_at
        if final_at is None:  # a null key in an interval join waits as every row without a partner
            final_at = element.timestamp + join.over(element.side) + 1
        final = reached >= final_at
        if element.side == "left" and (final or not is_as_of):
            for right in rights:
                found[(*own, *tuple(right.value)[1:])] += 1
        if not rights and final and join.how in (element.side, "full"):
            found[(*own, None) if element.side == "left" else (own[0], None, None, *own[1:])] += 1
    return found


def check(of_random, definition):
    def case(rng, seed):
        join, span = of_random(rng)
        batches, plan = joins.random_streams(rng, span), replace(join, late=True).plan()
        whole = rng.random() < 0.2
        given = [[chunk for batch in batches for chunk in batch]] if whole else batches
        trace = trace_of_micro_batches(plan, [joins.given(plan, chunks, end=whole) for chunks in given])
        reached = trace.watermarks[-1].time if trace.watermarks else -ENDED
        wanted = sum((one.rows for one in definition(join, batches, end=whole)), Counter())
        assert results(trace, reached) == wanted, f"seed {seed}\n{join}\n{batches}"
        assert str(explain(trace))

    return case


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_partners_in_a_trace_are_those_that_an_as_of_join_emits(chunk):
    run_cases(200, chunk, CHUNKS, check(as_of.random_as_of, as_of.defined))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_partners_in_a_trace_are_those_that_an_interval_join_emits(chunk):
    run_cases(200, chunk, CHUNKS, check(intervals.random_interval, intervals.defined))


def known_of(plan, state, key):
    """Return the known state of a key, as a checkpoint has it."""
    asked = StateFilter(key_arrays(plan, key), most=1000, lists=True)
    part = reduce_group(plan, plan.operator.for_group(plan, state, 0).tables(), 0, asked)
    return lookup(plan, merge_parts(plan, [part], asked, StateOrigin("there", 1, 1_000, 0)), "the checkpoint c", key)


def check_state(of_random):
    """Compare the partners in a state with those among all rows, for times that are not late."""

    def case(rng, seed):
        join, span = of_random(rng)
        batches, plan, state = joins.random_streams(rng, span), replace(join, late=True).plan(), MemoryState()
        given = [joins.given(plan, chunks) for chunks in batches]
        for batch in given:
            plan.operator.for_group(plan, state, 0).process(batch)
        trace = trace_of_micro_batches(plan, given)
        key = rng.choice(["a", "b"])
        taken = [each for each in trace.elements if each.key == key and each.fate == "taken"]
        history = JoinHistory(plan.operator, [JoinRow(each.side, each.timestamp, each.value, each.deletes) for each in taken])
        known = known_of(plan, state, key)
        for time in (known.watermark + 1 + rng.randint(0, span) for _ in range(5)):
            if abs(time) > ENDED:
                continue
            found = time_facts(known, time, one_key=True)
            for mine in found.partners:
                theirs = history.partners(mine.side, time)
                assert times_of(mine) == times_of(theirs), f"seed {seed}: {time}\n{join}\n{batches}"
                assert [tuple(row.value.values()) for row in mine.rows] == [tuple(row.value)[1:] for row in theirs.rows] or (
                    join_is_unordered(plan)
                )
            assert len(found.partners) == (1 if hasattr(plan.operator, "direction") else 2)
            assert "row of this time, by the rows so far:" in str(explain_state(known, key=key, at=time))

    return case


def join_is_unordered(plan):
    return not plan.operator.capabilities.order_sensitive


def times_of(found):
    return found.side, [row.timestamp for row in found.rows], found.final_at


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_partners_in_a_state_are_those_among_all_rows(chunk):
    run_cases(60, chunk, CHUNKS, check_state(as_of.random_as_of))
    run_cases(60, chunk, CHUNKS, check_state(intervals.random_interval))
