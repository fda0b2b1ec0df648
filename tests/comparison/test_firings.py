"""Compare firing numbers and changelogs of random queries and streams with the row operator's firings."""

import random
from dataclasses import replace

import pytest

from panestream.engine.plan import EARLY, LATE, ON_TIME
from tests.comparison import harness
from tests.comparison.test_panes_random import random_query

CHUNKS = 4
FOREVER = 2**63 - 1


def numbered(rng: random.Random, seed: int) -> None:
    query, span = random_query(rng)
    by_processing_time = not query.windowing.assigner.is_event_time
    if by_processing_time and query.columnar().operator.purges:
        return  # at the end of input a window may then fire twice
    batches = harness.random_stream(rng, span, clock=by_processing_time)
    expected = harness.run(query.row(), batches)
    found = harness.run(replace(query, more={"with_firing": True}).columnar(), batches)
    lateness = 0 if by_processing_time else query.windowing.allowed_lateness
    counts, before, clock = {}, -FOREVER, 0
    for number, (batch, theirs, ours) in enumerate(zip(batches, expected, found, strict=True)):
        clock = max(clock, batch.clock)
        reached = clock - 1 if by_processing_time else theirs.metrics.watermark
        after = FOREVER if batch.end else before if reached is None else reached
        told = {}
        for place, values in harness.coalesced(theirs.fired).items():
            last = place[-1] - 1
            firing = LATE if last <= before and not by_processing_time else ON_TIME if last <= after else EARLY
            told[place] = (*values, firing, counts.get(place, 0), last + lateness <= after)
            counts[place] = counts.get(place, 0) + 1
        wrong = harness.difference(told, harness.single_firings(ours.fired))
        assert wrong is None, f"seed {seed}: micro-batch {number}: {wrong}\n{query}\n{batches[: number + 1]}"
        before = after


def changed(rng: random.Random, seed: int) -> None:
    query, span = random_query(rng)
    if query.columnar().operator.capabilities.no_changelog is not None:
        return
    batches = harness.random_stream(rng, span, clock=not query.windowing.assigner.is_event_time)
    expected, asking = harness.run(query.row(), batches), replace(query, more={"changelog": True})
    for plan in (asking.columnar(), asking.row()):
        check_changes(expected, harness.run(plan, batches), f"seed {seed}: {plan.operator.name}: {query}\n{batches}")


def check_changes(expected: list[harness.Emitted], found: list[harness.Emitted], where: str) -> None:
    """Check that a changelog applied to a table gives the last results, and takes back what was there."""
    table, truth = {}, {}
    for number, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
        truth.update(theirs.fired)
        awaited = None
        for place, (*values, op) in ours.fired:
            assert (op == "insert") == (place not in table), f"{op} of {place}\n{where}"
            assert awaited in (None, place), f"{awaited} was taken back and not replaced\n{where}"
            if op == "update_before":
                assert harness.same(table[place], values), f"{place}: {values} is taken back, {table[place]} was there\n{where}"
                awaited = place
            else:
                assert (op == "update_after") == (awaited == place)
                table[place], awaited = values, None
        wrong = harness.difference({place: list(values) for place, values in truth.items()}, table)
        assert wrong is None, f"micro-batch {number}: {wrong}\n{where}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_firing_labels_and_numbers_agree_with_the_row_operator(chunk):
    harness.run_cases(48, chunk, CHUNKS, numbered)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_changelog_applied_to_a_table_gives_the_last_results(chunk):
    harness.run_cases(48, chunk, CHUNKS, changed)


def on_both(rng: random.Random, seed: int) -> None:
    """Compare the label of the row operator's last firing in a micro-batch with the label of the panes' only firing."""
    query, span = random_query(rng)
    by_processing_time = not query.windowing.assigner.is_event_time
    if by_processing_time and query.columnar().operator.purges:
        return
    batches = harness.random_stream(rng, span, clock=by_processing_time)
    query = replace(query, more={"with_firing": True})
    plain = harness.run(replace(query, more={}).row(), batches)
    numbers = {}
    for number, (theirs, ours, unnumbered) in enumerate(
        zip(harness.run(query.row(), batches), harness.run(query.columnar(), batches), plain, strict=True)
    ):
        where = f"seed {seed}: micro-batch {number}: {query}\n{batches[: number + 1]}"
        assert harness.same([(place, values[:-3]) for place, values in theirs.fired], unnumbered.fired), where
        for place, (*_, word, count, last) in theirs.fired:
            assert count == numbers.get(place, 0), where
            assert not (last and word == EARLY), where
            numbers[place] = count + 1
        last_of = harness.coalesced(theirs.fired)
        for place, (*_, word, _, _) in ours.fired:
            # A window that its trigger purged before its end is empty when it ends. Panes only see the end.
            also = {EARLY} if query.columnar().operator.purges and word == ON_TIME else set()
            assert last_of[place][-3] in {word, *also}, where
        sure = {place for place, values in last_of.items() if values[-1]}
        assert sure <= {place for place, values in ours.fired if values[-1]}, where
        if query.windowing.trigger is None and not query.windowing.allowed_lateness and not by_processing_time:
            assert sure == set(last_of), where


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_firing_labels_of_the_row_operator_agree_with_panes(chunk):
    harness.run_cases(48, chunk, CHUNKS, on_both)
