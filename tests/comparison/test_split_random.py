"""The distinct values of a key, split into parts in separate key groups and combined, equal the output of one key group.


``PANESTREAM_CASES=20000 pytest tests/comparison/test_split_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

from dataclasses import replace

import pytest

from panestream.engine.operators.panes.rule import why_not_panes
from panestream.engine.plan import MAIN, WindowQuery
from panestream.engine.planner import split_of
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from tests.comparison import harness, test_panes_random

CHUNKS = 8
AGGREGATES = (agg.count_distinct("v"), agg.count(), agg.count("x"), agg.sum("u"), agg.min("x"), agg.max("v"))
FUNCTIONS = {"sum": sum, "min": min, "max": max}


def emitted_in_parts(plan, batches, parts):
    """Return the combined output of each micro-batch by key and window, and the number of late rows.

    Each one starts from empty state.
    """
    states = [MemoryState() for _ in range(parts)]
    for batch in batches:
        found, late, of_windows = {}, 0, set()
        for part, state in enumerate(states):
            rows = [[row for row in chunk if hash(row[2]) % parts == part] for chunk in batch.chunks]
            given = harness.group_input(plan, replace(batch, chunks=rows))
            # Every key group gets every report.
            times = [row[1] for row in batch.rows]
            given.seen, given.input_rows = {"": max(times)} if times else {}, len(batch.rows)
            output = plan.operator.for_group(plan, state, 0).process(given)
            late += output.metrics.late_rows
            of_windows |= set(output.metrics.fired_windows)
            for tag, table in output.tables:
                for place, values in harness.rows_of(plan, table) if tag == MAIN else []:
                    found.setdefault(place, []).append(values)
        yield found, late, of_windows


def whole(split, parts):
    columns = zip(split.together.values(), zip(*parts, strict=True), strict=True)
    known = [(how, [value for value in values if value is not None]) for how, values in columns]
    return tuple(FUNCTIONS[how](values) if values else None for how, values in known)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_combined_parts_of_distinct_values_equal_one_key_group(chunk):
    def case(rng, seed):
        assigner, span = test_panes_random.random_assigner(rng, False)
        windowing = WindowQuery(assigner)
        if why_not_panes(windowing):
            return
        query = harness.Query(windowing, AGGREGATES, rng.choice([0, 3, span]))
        batches, plan, parts = harness.random_stream(rng, span), query.columnar(), rng.choice([2, 3, 5])
        split = split_of(parts, AGGREGATES, plan.operator)
        alone = harness.run(plan, batches)
        for number, (one, several) in enumerate(zip(alone, emitted_in_parts(plan, batches, parts), strict=True)):
            found, late, of_windows = several
            wrong = harness.difference(
                harness.single_firings(one.fired), {place: whole(split, one) for place, one in found.items()}
            )
            assert wrong is None, f"seed {seed}, micro-batch {number}: {wrong}"
            assert (late, of_windows) == (one.metrics.late_rows, set(one.metrics.fired_windows)), f"seed {seed}"

    harness.run_cases(40, chunk, CHUNKS, case)
