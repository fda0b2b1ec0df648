"""Random upgrades add, drop, rename and reorder aggregates. ``agg.complete`` must agree with a count of the input.

The count uses a query that never stopped and collects the rows of each window, the micro-batch of each row, and since when each
aggregate exists. ``PANESTREAM_CASES=20000 pytest ...`` runs more; ``PANESTREAM_SEED`` others.
"""

from dataclasses import dataclass, field, replace

import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import split_of
from panestream.engine.savepoint.migration import untold_results
from panestream.windowing import aggregates as agg
from tests.comparison import harness, test_counts_random, test_panes_random, test_savepoints_random, test_sessions_random
from tests.comparison.savepoints import GROUPS, Query, placement, rescaled, shuffled

CHUNKS = 8
POOL = (
    agg.count(),
    agg.count("v"),
    agg.sum("v"),
    agg.max("u"),
    agg.min("u"),
    agg.mean("x"),
    agg.count_distinct("v"),
    agg.last("u"),
)
TOGETHER = (agg.count(), agg.count_distinct("v"), agg.sum("v"), agg.max("u"), agg.min("u"))
"""The aggregates that a query with split distinct values supports."""
ROWS = agg.collect_list("u").alias("rows")


def bare(recipe):
    return replace(recipe, output_name=None)


@dataclass
class History:
    """The micro-batches since which each part of the state exists, and since which an aggregate reports its completeness."""

    since: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)

    def begin(self, parts, told, now):
        """Start or continue a query with these parts, some of which have a completeness aggregate."""
        before, before_told = set(self.since), set(self.told)
        unsure = {one for one in self.unsure if one in parts}
        unsure |= {one for one in parts if one not in told and (one not in before if now else False)}
        unsure |= {one for one in parts if one in before and one in before_told and one not in told}
        since = {one: self.since.get(one, now) for one in parts}
        self.told = {one: self.told[one] if one in before_told else now if one in self.unsure else since[one] for one in told}
        self.since, self.unsure = since, unsure


def parts_of(recipe, *, by_row):
    """Return the stored parts of an aggregate: shared partials on columns, or an accumulator row by row."""
    if by_row:
        return {repr(bare(recipe))}
    aggregation = Aggregation.build([recipe], harness.TYPES, harness.KEYS)
    return {partial.described(aggregation.inputs) for partial in aggregation.partial_aggregates}


def random_list(rng, pool, before=()):
    """Return some aggregates, old and new, under any names. Some have a completeness aggregate."""
    kept = [bare(one) for one in before if not isinstance(one, agg.Complete) and rng.random() < 0.8]
    added = [one for one in pool if one not in kept and rng.random() < 0.3]
    chosen = [*kept, *added] or [rng.choice(pool)]
    rng.shuffle(chosen)
    named = [one.alias(rng.choice([f"r{place}", f"other{place}"])) for place, one in enumerate(chosen)]
    told = [agg.complete(one.name).alias(f"{one.name}_complete") for one in named if rng.random() < 0.7]
    named += told
    rng.shuffle(named)
    return named


def check_upgrades(rng, seed, plan_with, batches, *, pool=POOL, by_row=False, must=(), part_of=None, least=1, all_plan_with=None):
    numbers = [one for one in GROUPS if one >= least]
    groups = rng.choice(numbers)
    stops = sorted({rng.randint(1, len(batches) - 1) for _ in range(rng.randint(1, 3))}) if len(batches) > 1 else []
    came = {row[4]: number for number, batch in enumerate(batches) for row in batch.rows}
    chosen = [*must, *random_list(rng, [one for one in pool if one not in map(bare, must)])]
    everything = [one.alias(f"all{place}") for place, one in enumerate(pool)]
    whole = Query((all_plan_with or plan_with)([ROWS, *everything]), groups)
    query, history = Query(plan_with(chosen), groups, part_of=part_of), History()

    def note(now):
        told = {one.output for one in chosen if isinstance(one, agg.Complete)}
        own = {one.name: parts_of(one, by_row=by_row) for one in chosen if not isinstance(one, agg.Complete)}
        history.begin({part for parts in own.values() for part in parts}, {part for name in told for part in own[name]}, now)
        return own

    own = note(0)
    for number, batch in enumerate(batches):
        if number in stops:
            groups, known = rng.choice(numbers), set(history.since)
            saved = rescaled(query.tables(), query.plan, placement, groups)
            chosen = [*must, *random_list(rng, [one for one in pool if one not in map(bare, must)], chosen[len(must) :])]
            query = Query(plan_with(chosen), groups, part_of=part_of)
            own = note(number)
            untold = [name for name, parts in own.items() if any(one not in known and one not in history.told for one in parts)]
            assert sorted(untold_results(saved[0].header, query.plan)) == sorted(untold), seed
            query.restore([shuffled(one, rng) for one in saved])
        expected, found = whole.run(batch), query.run(batch)
        names = [one.name for one in chosen]
        for key in {*expected.fired, *found.fired}:
            reference, ours = expected.fired.get(key, []), found.fired.get(key, [])
            if part_of is not None:
                reference, ours = sorted(reference), in_one(ours, chosen)
            assert [place for place, _ in reference] == [place for place, _ in ours], f"{seed}: {key}"
            for (place, right), (_, values) in zip(reference, ours, strict=True):
                result = dict(zip(names, values, strict=True))
                rows = right[0]
                for one in chosen:
                    what = f"seed {seed}: {key} {place} {one!r} {stops} micro-batch {number}: {result}, rows {rows}"
                    if isinstance(one, agg.Complete):
                        parts = own[one.output]
                        complete = all(came[row] >= history.told[part] for row in rows for part in parts if history.told[part])
                        assert result[one.name] is complete, what
                        target = next(other for other in chosen if other.name == one.output)
                        if complete:
                            assert harness.same(result[target.name], right[1 + pool.index(bare(target))]), what


def in_one(rows, chosen):
    """Combine the parts of a window that are in several key groups."""
    found = {}
    for place, values in rows:
        found.setdefault(place, []).append(values)
    how = {agg.Max: max, agg.Min: min, agg.Complete: min}

    def one(recipe, values):
        present = [value for value in values if value is not None]
        return how.get(type(recipe), sum)(present) if present else None

    return [
        (place, tuple(one(recipe, column) for recipe, column in zip(chosen, zip(*parts, strict=True), strict=True)))
        for place, parts in sorted(found.items())
    ]


def of_query(query):
    return lambda chosen: replace(query, aggregates=tuple(chosen)).columnar()


def panes(rng, seed):
    query, span = test_panes_random.random_query(rng)
    check_upgrades(rng, seed, of_query(query), harness.random_stream(rng, span, clock=not query.windowing.assigner.is_event_time))


def several(rng, seed):
    query, span = test_panes_random.random_query(rng)
    other, _ = test_panes_random.random_assigner(rng, not query.windowing.assigner.is_event_time)
    together = test_savepoints_random.SeveralWindows.of({"a": query.windowing.assigner, "b": other})
    windowing = replace(query.windowing, assigner=together)
    if not test_panes_random.why_not_panes(windowing):
        stream = harness.random_stream(rng, span, clock=not other.is_event_time)
        check_upgrades(rng, seed, of_query(replace(query, windowing=windowing)), stream)


def sessions(rng, seed):
    clock = rng.random() < 0.3
    query, span = test_sessions_random.random_query(rng, clock=clock)
    check_upgrades(rng, seed, of_query(query), harness.random_stream(rng, span, clock=clock))


def counts(rng, seed):
    query = test_counts_random.random_query(rng)
    # Count windows only support the order of arrival.
    check_upgrades(rng, seed, of_query(query), harness.random_stream(rng, 10), pool=POOL[:-1])


def rows(rng, seed):
    clock = rng.random() < 0.3
    query, span = (
        test_sessions_random.random_query(rng, clock=clock) if rng.random() < 0.4 else test_panes_random.random_query(rng)
    )
    clock = not query.windowing.assigner.is_event_time
    stream = harness.random_stream(rng, span, clock=clock)
    check_upgrades(rng, seed, lambda chosen: replace(query, aggregates=tuple(chosen)).row(), stream, by_row=True)


def split(rng, seed):
    assigner, span = test_panes_random.random_assigner(rng, False)
    windowing, delay, parts = WindowQuery(assigner), rng.choice([0, 3, span]), rng.choice([2, 3])
    if test_panes_random.why_not_panes(windowing):
        return
    query = harness.Query(windowing, (), delay)

    def plan_with(chosen):
        plan = of_query(query)(chosen)
        return replace(plan, split=split_of(parts, chosen, plan.operator))

    distinct = agg.count_distinct("v").alias("distinct")
    stream = harness.random_stream(rng, span)
    check_upgrades(
        rng, seed, plan_with, stream, pool=TOGETHER, must=(distinct,), part_of=lambda row: hash(row[2]) % parts, least=parts,
        all_plan_with=of_query(query),
    )  # fmt: skip


CASES = {panes: 32, several: 8, sessions: 16, counts: 16, rows: 16, split: 8}


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_completeness_of_aggregates_added_by_upgrades_agrees_with_a_count(case, chunk):
    harness.run_cases(CASES[case], chunk, CHUNKS, case)
