"""Compare user functions in two phases with the row operator. Rows are added before the shuffle, accumulators merged after it.

Windows, lateness, triggers and streams are random. The functions modify the accumulators that they get, as user functions do.
``PANESTREAM_CASES=20000 pytest tests/comparison/test_two_phase_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from panestream.engine.operators.panes.rule import why_not_panes
from panestream.engine.operators.row.contents import AggregateRows, ReduceRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_functions
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.functions import AggregateFunction
from tests.comparison import harness, test_panes_random, test_sessions_random

CHUNKS = 8


class Totals(AggregateFunction):
    """Sum up in a tuple of two numbers, with two results. A result is null without values."""

    accumulator = pa.schema([("total", pa.int64()), ("n", pa.int64())])
    results = pa.schema([("total", pa.int64()), ("n", pa.int64())])

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + (value.v or 0), accumulator[1] + 1

    def get_result(self, accumulator):
        return (accumulator[0] or None), accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Seen(AggregateFunction):
    """Collect a set in a dict that is always the same object. The result is a list."""

    accumulator = pa.schema([("seen", pa.list_(pa.int64())), ("last", pa.int64())])
    results = pa.schema([("seen", pa.list_(pa.int64()))])

    def create_accumulator(self):
        return {"seen": set(), "last": None}

    def add(self, value, accumulator):
        accumulator["seen"].add(value.u)
        accumulator["last"] = max(value.ts, accumulator["last"] or value.ts)
        return accumulator

    def get_result(self, accumulator):
        return (sorted(accumulator["seen"]),)

    def merge(self, a, b):
        a["seen"] |= b["seen"]
        a["last"] = max(a["last"], b["last"])
        return a


class Counts(AggregateFunction):
    """Count each value in a Counter that starts as None and grows in place."""

    accumulator = pa.schema([("counts", pa.map_(pa.int64(), pa.int64()))])
    results = pa.schema([("most", pa.int64()), ("different", pa.int64())])

    def create_accumulator(self):
        return Counter()

    def add(self, value, accumulator):
        if value.v is not None:
            accumulator[value.v] += 1
        return accumulator

    def get_result(self, accumulator):
        if not accumulator:
            return None
        return {"different": len(accumulator), "most": max(accumulator.values())}

    def merge(self, a, b):
        a.update(b)
        return a


def largest(a, b):
    """Return the row with the larger ``u``, which is unique, with the larger of both times."""
    winner = a if a.u >= b.u else b
    return winner.replace(ts=max(a.ts, b.ts))


FUNCTIONS = (Totals(), Seen(), Counts(), largest)


@dataclass(frozen=True)
class OwnFunction(harness.Query):
    """A query with a user function instead of declared aggregates."""

    function: object = None

    def columnar(self):
        return self._with(self.windowing, phases=True)

    def row(self):
        return self._with(replace(self.windowing, every_firing=True), phases=False)

    def _with(self, windowing, *, phases):
        function, keys = self.function, harness.KEYS
        if isinstance(function, AggregateFunction):
            accumulator = function.accumulator if phases else None
            operator = plan_functions(
                windowing, AggregateRows(function), function.results, harness.ROWS, function, keys, accumulator
            )
        else:
            rest = pa.schema([field for field in harness.ROWS if field.name != "key"])
            accumulator = harness.ROWS if phases else None
            operator = plan_functions(windowing, ReduceRows(function), rest, harness.ROWS, function, keys, accumulator)
        return harness.plan_for(operator, windowing, self.delay, late=self.late, **self.more)


def own(rng: random.Random, query: harness.Query) -> OwnFunction:
    return OwnFunction(query.windowing, (), query.delay, query.late, query.more, rng.choice(FUNCTIONS))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_panes_of_two_phase_functions_agree_with_the_row_operator(chunk):
    def case(rng, seed):
        query, span = test_panes_random.random_query(rng)
        query = own(rng, query)
        batches = harness.random_stream(rng, span, clock=not query.windowing.assigner.is_event_time)
        harness.compare(query, batches, f"seed {seed}")
        if seed % 4 == 0 and not query.columnar().operator.purges:
            harness.compare_batch(query, batches, f"seed {seed}")

    harness.run_cases(64, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_sessions_of_two_phase_functions_agree_with_the_row_operator(chunk):
    def case(rng, seed):
        query, span = test_sessions_random.random_query(rng)
        query = own(rng, query)
        batches = harness.random_stream(rng, span)
        harness.compare(query, batches, f"seed {seed}", test_sessions_random.of_the_row_operator(query, batches))

    harness.run_cases(64, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_several_windows_of_two_phase_functions_agree_with_each_alone(chunk):
    def case(rng, seed):
        pairs = [test_panes_random.random_assigner(rng, False) for _ in range(2)]
        together = SeveralWindows.of({label: assigner for label, (assigner, _) in zip("ab", pairs, strict=True)})
        windowing = WindowQuery(together, allowed_lateness=rng.choice([0, 0, 5]))
        if why_not_panes(windowing):
            return
        query = own(rng, harness.Query(windowing, (), 3, rng.random() < 0.4))
        batches = harness.random_stream(rng, max(size for _, size in pairs))
        alone = {
            label: harness.run(replace(query, windowing=replace(windowing, assigner=assigner)).row(), batches)
            for label, assigner in zip(together.labels, together.assigners, strict=True)
        }
        merged = [
            test_panes_random.in_one(dict(zip(alone, one, strict=True)), query.late) for one in zip(*alone.values(), strict=True)
        ]
        harness.compare(query, batches, f"seed {seed}", merged, count_late=query.late)

    harness.run_cases(16, chunk, CHUNKS, case)
