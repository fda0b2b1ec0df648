"""Start a stream from the state of history, and compare it with everything in one stream and in one batch.

``PANESTREAM_CASES=20000 pytest tests/comparison/test_history_random.py`` runs more; ``PANESTREAM_SEED`` others.

The outputs must equal the stream whose first micro-batch is all of history, also with late rows afterwards. If no row is late,
the
last result of each key and window also equals that of any other micro-batches, and that of one batch of all rows.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest

from panestream.engine.exchange.group_run import check_history
from panestream.engine.operators.panes.rule import why_not_panes
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import split_of
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import ProcessingTimeSessionWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import ContinuousProcessingTimeTrigger, CountTrigger
from tests.comparison import (
    harness,
    intervals,
    joins,
    test_accumulating,
    test_counts_random,
    test_panes_random,
    test_sessions_random,
    test_split_random,
    test_two_phase_random,
)
from tests.comparison.savepoints import GROUPS, Output, Query, difference, placement, rescaled, shuffled
from tests.comparison.test_savepoints_random import with_random_options

CHUNKS = 8


def cut(rng, batches):
    """Split micro-batches into history and the stream after it."""
    batches = [batch for batch in batches if not batch.end]
    at = rng.randint(1, len(batches))
    return batches[:at], batches[at:]


def at_once(batches):
    return harness.MicroBatch([chunk for batch in batches for chunk in batch.chunks], max(batch.clock for batch in batches))


def from_history(plan, history, stream, rng, part_of=None, least=1):
    """Return the output of history, and of each micro-batch of the stream that starts from its state with other key groups."""
    numbers = [number for number in GROUPS if number >= least]
    query = Query(plan, rng.choice(numbers), part_of=part_of)
    told = [query.run(at_once(history))]
    groups = rng.choice(numbers)
    saved = rescaled(query.tables(), query.plan, placement, groups)
    query = Query(plan, groups, part_of=part_of)
    query.restore([shuffled(one, rng) for one in saved])
    return [*told, *(query.run(batch) for batch in stream)]


def with_end(stream):
    return [*stream, harness.MicroBatch([], end=True)]


def as_one_stream(plan, batches, rng, seed, part_of=None, least=1):
    """Compare with one stream, whose rows may be late."""
    history, stream = cut(rng, batches)
    stream = with_end(stream)
    found = from_history(plan, history, stream, rng, part_of, least)
    whole = Query(plan, rng.choice([number for number in GROUPS if number >= least]), part_of=part_of)
    assert found[0].counts[0] == 0, f"seed {seed}: rows of history are late"
    for number, batch in enumerate([at_once(history), *stream]):
        wrong = difference(whole.run(batch), found[number], early=isinstance(plan.operator, RowSpec))
        assert wrong is None, f"seed {seed}: micro-batch {number}: {wrong}\n{plan.operator}\n{history}\n{stream}"


def last_results(all_told: list[Output]):
    """Return the last result of each key and window."""
    return {(key, place): values for told in all_told for key, rows in told.fired.items() for place, values in rows}


def all_results(all_told: list[Output]):
    """Return all results of each key in order."""
    found = {}
    for told in all_told:
        for key, rows in told.fired.items():
            found.setdefault(key, []).extend(rows)
    return found


def as_one_batch(query, batches, rng, seed, *, by_row=False, results=last_results, **more):
    """Compare with one batch. No row is late, because the watermark is behind the furthest row."""
    query = replace(query, delay=harness.furthest_back(batches) + 1, late=False, more=more)
    plan = query.row() if by_row else query.columnar()
    history, stream = cut(rng, batches)
    stream = with_end(stream)
    found = from_history(plan, history, stream, rng)
    streamed, batch = Query(plan, rng.choice(GROUPS)), Query(plan, rng.choice(GROUPS))
    expected = results([streamed.run(one) for one in [*history, *stream]])
    whole = results([batch.run(replace(at_once([*history, *stream]), end=True))])
    assert sum(told.counts[0] for told in found) == 0
    for what, right in (("stream", expected), ("batch", whole)):
        ours = results(found)
        for place in {*right, *ours}:
            assert harness.same(right.get(place), ours.get(place)), (
                f"seed {seed}: {place}: as a {what} {right.get(place)}, found {ours.get(place)}\n{query}\n{history}\n{stream}"
            )


def panes(rng, seed):
    while True:
        query, span = test_panes_random.random_query(rng)
        if query.windowing.assigner.is_event_time:
            break
    query = test_two_phase_random.own(rng, query) if rng.random() < 0.2 else query
    batches = harness.random_stream(rng, span)
    as_one_stream(with_random_options(rng, query.columnar()), batches, rng, seed)
    if not query.columnar().operator.purges:
        as_one_batch(query, batches, rng, seed)


def several(rng, seed):
    pairs = [test_panes_random.random_assigner(rng, False) for _ in range(rng.randint(1, 3))]
    together = SeveralWindows.of({label: assigner for label, (assigner, _) in zip("abc", pairs, strict=False)})
    span = max(size for _, size in pairs)
    windowing = WindowQuery(together, allowed_lateness=rng.choice([0, 0, 1, span]))
    query = harness.Query(windowing, harness.random_aggregates(rng), 3, rng.random() < 0.4)
    batches = harness.random_stream(rng, span)
    as_one_stream(with_random_options(rng, query.columnar()), batches, rng, seed)
    as_one_batch(query, batches, rng, seed)


def sessions(rng, seed):
    query, span = test_sessions_random.random_query(rng)
    query = test_two_phase_random.own(rng, query) if rng.random() < 0.2 else query
    batches = harness.random_stream(rng, span)
    as_one_stream(with_random_options(rng, query.columnar()), batches, rng, seed)
    as_one_batch(query, batches, rng, seed)


def counts(rng, seed):
    query, batches = test_counts_random.random_query(rng), harness.random_stream(rng, 10)
    as_one_stream(query.columnar(), batches, rng, seed)
    last = query.windowing.evictor is None and isinstance(query.windowing.trigger, CountTrigger)
    as_one_batch(query, batches, rng, seed, results=last_results if last else all_results)


def accumulating(rng, seed):
    assigner, span = test_panes_random.random_assigner(rng, by_processing_time=False)
    lateness = rng.choice([0, 0, 1, span])
    evictor = None if lateness else rng.choice([None, None, CountEvictor(rng.randint(1, 4))])
    windowing = WindowQuery(assigner, evictor=evictor, allowed_lateness=lateness)
    _, plan = test_accumulating.plans(
        windowing, rng.choice(["rows", "arrow", "all"]), rng.random() < 0.5, rng.choice([0, 3, span])
    )
    as_one_stream(plan, harness.random_stream(rng, span), rng, seed)


def split(rng, seed):
    assigner, span = test_panes_random.random_assigner(rng, False)
    if why_not_panes(WindowQuery(assigner)):
        return
    query = harness.Query(WindowQuery(assigner), test_split_random.AGGREGATES, rng.choice([0, 3, span]))
    plan, parts = query.columnar(), rng.choice([2, 3])
    plan = replace(plan, split=split_of(parts, test_split_random.AGGREGATES, plan.operator))
    as_one_stream(plan, harness.random_stream(rng, span), rng, seed, lambda row: hash(row[2]) % parts, parts)


def rows(rng, seed):
    if rng.random() < 0.4:
        query, span = test_sessions_random.random_query(rng)
    else:
        query, span = test_panes_random.random_query(rng)
        if not query.windowing.assigner.is_event_time:
            return
    batches = harness.random_stream(rng, span)
    as_one_stream(with_random_options(rng, query.row()), batches, rng, seed)
    if "Purging" not in repr(query.windowing.trigger):
        as_one_batch(query, batches, rng, seed, by_row=True)


def from_history_of_two(found, plan, batches, rng):
    """Return the output if some micro-batches are history, and the equivalent micro-batches."""
    at = rng.randint(1, len(batches))
    history, stream = [[chunk for batch in batches[:at] for chunk in batch]], batches[at:]
    first, state = MemoryState(), MemoryState()
    told = found(plan, history, state=first)
    plan.operator.for_group(plan, state, 0).restore(plan.operator.for_group(plan, first, 0).tables())
    return told + found(plan, stream, state=state), [*history, *stream]


def of_two(rng, seed):
    """Two streams joined in windows, compared with the definition."""
    join, span = joins.random_join(rng)
    told, batches = from_history_of_two(joins.found, join.plan(), joins.random_streams(rng, span), rng)
    for place, (ours, wanted) in enumerate(zip(told, joins.defined(join, batches), strict=True)):
        late = [{side: Counter(rows) for side, rows in one.late.items()} for one in (ours, wanted)]
        assert (ours.rows, late[0]) == (wanted.rows, late[1]), f"seed {seed}, micro-batch {place}\n{join}\n{batches}"
    assert told[0].late == {"left": [], "right": []}, f"seed {seed}: rows of history are late"


def near_in_time(rng, seed):
    """Two streams joined by intervals, compared with the definition."""
    join, span = intervals.random_interval(rng)
    told, batches = from_history_of_two(intervals.found, join.plan(), joins.random_streams(rng, span), rng)
    for place, (ours, wanted) in enumerate(zip(told, intervals.defined(join, batches), strict=True)):
        assert (ours.rows, ours.late) == (wanted.rows, wanted.late), f"seed {seed}, micro-batch {place}\n{join}\n{batches}"


CASES = {of_two: 16, near_in_time: 16, panes: 16, several: 8, sessions: 16, counts: 8, accumulating: 8, split: 8, rows: 16}


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_history_and_stream_agree_with_one_stream_and_one_batch(case, chunk):
    harness.run_cases(CASES[case], chunk, CHUNKS, case)


@pytest.mark.parametrize(
    "windowing",
    [
        WindowQuery(ProcessingTimeSessionWindows(5)),
        WindowQuery(TumblingEventTimeWindows(5), ContinuousProcessingTimeTrigger(2)),
    ],
)
def test_history_of_processing_time_windows_is_refused(windowing):
    with pytest.raises(InvalidPlanError, match=r"[Uu]se the clock"):
        check_history(harness.Query(windowing, harness.random_aggregates(random.Random(1))).row())
