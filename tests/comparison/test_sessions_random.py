"""Compare sessions with the row operator, on random queries and streams.

``PANESTREAM_CASES=20000 pytest tests/comparison/test_sessions_random.py`` runs more; ``PANESTREAM_SEED`` others.

Sessions that grow or fire several times within a micro-batch are emitted in their final form. So a firing of the row operator is
not expected if a later row of its micro-batch moved the bounds of that session.
"""

import random
from dataclasses import dataclass, replace

import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import GapColumn
from tests.comparison import harness

CHUNKS = 8


@dataclass(frozen=True, slots=True)
class GapInU(GapColumn):
    """The gap of each row is its ``u``, already in engine units."""

    @property
    def label(self):
        return "u"


def random_query(rng: random.Random, *, clock: bool = False) -> tuple[harness.Query, int]:
    span = rng.choice([4, 10, 30, 3000])
    gap = span
    if rng.random() < 0.3:
        gap, span = GapInU("u", "microseconds"), rng.choice([3_000, 20_000, 60_000])
    assigner = (ProcessingTimeSessionWindows if clock else EventTimeSessionWindows)(gap)
    if not clock and rng.random() < 0.25:
        assigner = assigner.max_duration(f"{rng.choice([1, span // 2, span, 3 * span])} us")
    lateness = 0 if rng.random() < 0.4 else rng.choice([1, span // 2, span, 5 * span])
    windowing = WindowQuery(assigner, allowed_lateness=lateness)
    delay = rng.choice([0, 0, span // 2, 2 * span])
    return harness.Query(windowing, harness.random_aggregates(rng), delay, late=rng.random() < 0.5), span


def of_the_row_operator(query, batches, latenesses=None):
    """Return the row operator's output without firings of sessions that a later row of the same micro-batch moves."""
    return [emitted for emitted, _ in with_alive(query, batches, latenesses)]


def with_alive(query, batches, latenesses=None):
    """Return this output, and the sessions (key, start, end) that exist once the rows of each micro-batch have come."""
    state, expected = MemoryState(), []
    for batch, plan in zip(batches, harness.plans(query.row(), len(batches), latenesses), strict=True):
        operator = plan.operator.for_group(plan, state, 0)
        rows = operator._operator
        advance, seen = rows.advance_watermark, {}

        def look_first(watermark, rows=rows, advance=advance, seen=seen):
            seen["count"] = len(rows._fired)
            seen["alive"] = {(owner.key, *bounds) for owner in rows.store.used_keys.values() for bounds in owner.window_states}
            advance(watermark)

        rows.advance_watermark = look_first
        output = operator.process(harness.group_input(plan, batch))
        fired = [row for tag, table in output.tables if tag == harness.MAIN for row in harness.rows_of(plan, table)]
        if query.windowing.assigner.is_event_time:
            fired = [one for place, one in enumerate(fired) if place >= seen["count"] or one[0] in seen["alive"]]
        late = [tuple(row.values()) for tag, table in output.tables if tag == harness.LATE for row in table.to_pylist()]
        expected.append((harness.Emitted(fired, late, output.metrics, output.wake_up), seen["alive"]))
    return expected


def have_ties(batches):
    """Return whether a key has rows with equal event times in several source partitions of a micro-batch."""
    for batch in batches:
        places = [(row[:2], at % batch.partitions) for at, rows in enumerate(batch.chunks) for row in rows]
        if len({place for place, _ in places}) < len(set(places)):
            return True
    return False


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_sessions_agree_with_the_row_operator(chunk):
    def case(rng, seed):
        query, span = random_query(rng)
        batches = harness.random_stream(rng, span, partitions=rng.choice([1, 2, 3]))
        if query.columnar().operator.capabilities.order_sensitive and have_ties(batches):
            # Nothing says which of these rows is first, so both must come from one partition.
            batches = [replace(batch, partitions=1) for batch in batches]
        harness.compare(query, batches, seed, of_the_row_operator(query, batches))

    harness.run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_sessions_agree_with_the_stream(chunk):
    def case(rng, seed):
        query, span = random_query(rng)
        # Allowed lateness is 0, because a session that has fired is not retracted when a larger session absorbs it.
        query = replace(query, windowing=replace(query.windowing, allowed_lateness=0))
        harness.compare_batch(query, harness.random_stream(rng, span), seed)

    harness.run_cases(48, chunk, CHUNKS, case)


def changes(rng, seed):
    """Apply a changelog with numbered firings to a table. Compare with the row operator's firings and merged sessions."""
    query, span = random_query(rng)
    batches = harness.random_stream(rng, span)
    found = harness.run(replace(query, more={"with_firing": True, "changelog": True}).columnar(), batches)
    lateness, before, table, truth = query.windowing.allowed_lateness, -(2**63), {}, {}
    for batch, (theirs, alive), ours in zip(batches, with_alive(query, batches), found, strict=True):
        after = 2**63 - 1 if batch.end else before if theirs.metrics.watermark is None else theirs.metrics.watermark
        touched = {row[0] for row in batch.rows}
        # Open sessions of these keys that have disappeared were merged into larger ones.
        truth = {
            place: told
            for place, told in truth.items()
            if place in alive or place[0] not in touched or place[2] - 1 + lateness <= before
        }
        for place, values in harness.coalesced(theirs.fired).items():
            number = truth[place][-1] + 1 if place in truth else 0
            word = "late" if place[2] - 1 <= before else "on_time"
            truth[place] = [*values, word, place[2] - 1 + lateness <= after, number]
        awaited = None
        for place, (*values, word, number, last, op) in ours.fired:
            told = [*values, word, last, number]
            assert (op == "insert") == (place not in table), f"seed {seed}: {op} of {place}"
            assert awaited in (None, place), f"seed {seed}: {awaited} was taken back and not replaced"
            if op in ("update_before", "delete"):
                was = [*table[place][:-2], op == "delete", number]
                assert harness.same(was, told), f"seed {seed}: {place}: {told} is taken back, {was} was there"
                assert number == table[place][-1]
            assert (op == "update_after") == (awaited == place)
            awaited = place if op == "update_before" else None
            if op == "delete":
                del table[place]
            elif op != "update_before":
                table[place] = told
        wrong = harness.difference(truth, table)
        assert wrong is None, f"seed {seed}: {wrong}\n{query}\n{batches}"
        before = after


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_changelog_of_sessions_applied_to_a_table_gives_the_last_results(chunk):
    harness.run_cases(64, chunk, CHUNKS, changes)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_processing_time_sessions_agree_with_the_row_operator(chunk):
    def case(rng, seed):
        query, span = random_query(rng, clock=True)
        batches = harness.random_stream(rng, span, clock=True)
        expected = of_the_row_operator(query, batches)
        harness.compare(query, batches, seed, expected)
        for theirs, ours in zip(expected, harness.run(query.columnar(), batches), strict=True):
            # The row operator may request a wake-up before anything is due.
            assert (theirs.wake_up is None) == (ours.wake_up is None), seed
            assert ours.wake_up is None or ours.wake_up >= theirs.wake_up, seed

    harness.run_cases(64, chunk, CHUNKS, case)


def test_earlier_row_of_two_partitions_is_processed_first():
    windowing = WindowQuery(EventTimeSessionWindows(8))
    query = harness.Query(windowing, (agg.count(),), late=True)
    # The row at 0 would be late alone. It is not late after the row at 8, because their sessions touch.
    first, later, earlier = ("b", 8, 1, None, 1), ("a", 8, 1, None, 2), ("a", 0, 1, None, 3)
    for chunks, partitions, late in ((([later], [earlier]), 2, 1), (([later], [earlier]), 1, 0), (([earlier], [later]), 2, 1)):
        batches = [harness.MicroBatch([[first]]), harness.MicroBatch(list(chunks), partitions=partitions)]
        expected = of_the_row_operator(query, batches)
        assert len(expected[1].late) == late
        harness.compare(query, batches, 0, expected)
