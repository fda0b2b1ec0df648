"""Keyed process functions on columns and key groups: a batch gives what a stream gives, and repetitions give the same bytes."""

from __future__ import annotations

import pyarrow as pa

import panestream as pst
from panestream.engine.operators.row.process import process_spec
from panestream.engine.plan import WindowQuery
from tests.comparison import harness, savepoints
from tests.comparison.harness import MicroBatch, run_cases

RESULTS = pa.schema([("what", pa.string()), ("n", pa.int64())])
AFTER_ALL = 10**9


class Distinct(pst.functions.KeyedProcessFunction):
    """Emits each new value of a key at once, and their number after everything."""

    def process_element(self, value, ctx):
        seen = ctx.get_map_state(pst.state.MapStateDescriptor("seen"))
        if value.v is not None and not seen.contains(value.v):
            seen.put(value.v, ctx.timestamp())
            ctx.timer_service().register_event_time_timer(AFTER_ALL)
            return [("new", value.v)]
        return None

    def on_timer(self, timestamp, ctx):
        seen = ctx.get_map_state(pst.state.MapStateDescriptor("seen"))
        yield "distinct", len(list(seen.items()))


def plan(delay):
    return harness.plan_for(process_spec(Distinct(), RESULTS, harness.ROWS), WindowQuery(pst.GlobalWindows.create()), delay)


def random_stream(rng):
    batches = harness.random_stream(rng, 10)
    return batches if batches[-1].end else [*batches, MicroBatch([], end=True)]


def by_key(outputs):
    rows = {}
    for output in outputs:
        for key, fired in output.fired.items():
            rows.setdefault(key, []).extend(fired)
    return rows


def test_batch_gives_what_a_stream_gives():
    def case(rng, seed):
        batches, groups = random_stream(rng), rng.choice(savepoints.GROUPS)
        stream, batch = savepoints.Query(plan(3), groups), savepoints.Query(plan(3), groups)
        found = [stream.run(one) for one in batches]
        chunks = [chunk for one in batches for chunk in one.chunks]
        assert by_key(found) == by_key([batch.run(MicroBatch(chunks, end=True))]), seed
        assert sum(output.counts[0] for output in found) == 0, seed

    run_cases(80, 0, 1, case)


def test_naive_definition_gives_the_same():
    def case(rng, seed):
        batches = random_stream(rng)
        wanted = {}
        for one in batches:
            for row in one.rows:
                named = dict(zip(harness.ROWS.names, row, strict=True))
                if named["v"] is not None and ("new", named["v"]) not in wanted.setdefault(named["key"], []):
                    wanted[named["key"]].append(("new", named["v"]))
        wanted = {key: [*rows, ("distinct", len(rows))] for key, rows in wanted.items() if rows}
        query = savepoints.Query(plan(3), rng.choice(savepoints.GROUPS))
        found = by_key([query.run(one) for one in batches])
        assert {key: [values for _, values in rows] for key, rows in found.items()} == wanted, seed

    run_cases(80, 0, 1, case)


def test_repeated_micro_batch_gives_the_same_rows_and_bytes():
    def case(rng, seed):
        harness.check_reruns(plan(3), harness.random_stream(rng, 10), seed)

    run_cases(40, 0, 1, case)
