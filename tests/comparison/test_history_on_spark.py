"""Start a stream from ``bootstrap`` history on Spark, and compare it with everything in one stream and in one batch.

``PANESTREAM_CASES=20 pytest tests/comparison/test_history_on_spark.py`` runs more; ``PANESTREAM_SEED`` others.

The outputs must equal the engine's stream whose first micro-batch is all of history. In half of the cases, history is all rows
before a border (``until``), and the stream repeats those rows. In the other half it is the first micro-batches. If no row is late
and results do not depend on the number of firings, the last results also equal Spark's batch of all rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pytest

import panestream as pst
from panestream import agg
from panestream.engine.operators.panes.rule import why_not_panes
from panestream.engine.plan import Top, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.testing import MicroBatches
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.triggers import CountTrigger, DeltaTrigger, PurgingTrigger
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness, test_accumulating, test_panes_random, test_savepoints_on_spark, test_savepoints_random
from tests.comparison.harness import MicroBatch, Place, Row
from tests.comparison.on_spark import SCHEMA, by_place, fired, instant, windowed_by, with_timestamps
from tests.comparison.test_savepoints_on_spark import GROUPS, Case, Sizes, batches_of

# Random streams drop late rows, and .main warns about its columns.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

MORE = f"{SCHEMA}, part string, number bigint"
END = "end"
"""The key of rows that close all windows of the other keys."""
Fired = list[tuple[Place, tuple]]


def top(rng: random.Random) -> Case:
    """Return a query of the keys with the most rows in each window."""
    while True:
        assigner, span = test_panes_random.random_assigner(rng, False)
        if not why_not_panes(WindowQuery(assigner)):
            break
    query = harness.Query(WindowQuery(assigner), (agg.count().alias("n"), agg.max("v").alias("r1")), rng.choice([0, 3, span]))
    largest = rng.choice([1, 2, 3])
    plan = replace(query.columnar(), top=Top(largest, "n"))
    return Case(
        plan, lambda windowed: windowed.aggregate(*query.aggregates).top(largest, "n"), span, query.delay, query.windowing
    )


def over_everything(rng: random.Random) -> Case:
    """Return a query of a stateful function over global windows that fire by count or by distance."""
    trigger = rng.choice([CountTrigger.of(2), DeltaTrigger(9000.0, test_savepoints_random.distance)])
    trigger = PurgingTrigger.of(trigger) if rng.random() < 0.5 else trigger
    windowing = WindowQuery(GlobalWindows.create(), trigger, every_firing=True)
    function, pa = Sizes(), test_accumulating.pa
    results = pa.schema([("n", pa.int64()), ("seen", pa.int64()), ("last", pa.int64())])
    operator = plan_functions(windowing, test_savepoints_random.KeepRows(function), results, harness.ROWS, function, harness.KEYS)
    plan = harness.plan_for(operator, windowing, 3)
    return Case(plan, lambda windowed: windowed.process(function, "n bigint, seen bigint, last bigint"), 10, 3, windowing)


KINDS = (*test_savepoints_on_spark.KINDS, top, over_everything)
BY_HOW_OFTEN = (test_savepoints_on_spark.remembering, over_everything)
"""Kinds whose results depend on earlier firings of a window. A batch does not have those."""


@dataclass
class Seam:
    """History, the micro-batches of the query, and the micro-batches that Spark reads, which repeat rows before the border."""

    history: list[Row]
    stream: list[list[Row]]
    read: list[list[Row]]
    until: int | None = None

    @classmethod
    def cut(cls, rng: random.Random, batches: Sequence[MicroBatch]) -> Seam:
        if rng.random() < 0.5:
            at = rng.randint(1, len(batches) - 1)
            stream = [batch.rows for batch in batches[at:]]
            return cls([row for batch in batches[:at] for row in batch.rows], stream, stream)
        until = rng.choice([row[1] for batch in batches for row in batch.rows])
        history = [row for batch in batches for row in batch.rows if row[1] < until]
        stream = [[row for row in batch.rows if row[1] >= until] for batch in batches]
        return cls(history, stream, [batch.rows for batch in batches], until)

    @property
    def micro_batches(self) -> list[MicroBatch]:
        return [MicroBatch([rows]) for rows in (self.history, *self.stream)]


def ends(batches: Sequence[MicroBatch], case: Case) -> MicroBatch:
    """Return a row of each source partition so far ahead that all windows fire."""
    last = max(row[1] for batch in batches for row in batch.rows)
    far = last + case.delay + 10 * case.span + case.windowing.allowed_lateness
    return MicroBatch([[(END, far, 1, 1.0, number) for number in (0, 1)]])


def last_of(case: Case, emitted: Iterable[Fired]) -> dict[object, object]:
    """Return the last result of each window. Count windows keep all results of a key, unless they contain everything so far."""
    found: dict[object, object] = {}
    fires_anew = isinstance(case.windowing.trigger, CountTrigger) and case.windowing.evictor is None
    for rows in emitted:
        for place, values in rows:
            if place[0] == END:
                continue
            if case.plan.main_schema.get_field_index("window_start") >= 0 or fires_anew:
                found[place] = values
            else:
                found.setdefault(place, []).append(values)  # type: ignore[attr-defined]
    return found


def has_a_batch(kind: object, case: Case) -> bool:
    purges = "Purging" in repr(case.windowing.trigger) and not isinstance(case.windowing.assigner, GlobalWindows)
    return kind not in BY_HOW_OFTEN and not (purges or case.plan.with_firing or case.plan.changelog)


def ranked(rows: Fired) -> Fired:
    """Return the top rows of each window with their ranks, as Spark emits them."""
    found: Fired = []
    for window in sorted({place[1:] for place, _ in rows}):
        mine = [(place, values) for place, values in rows if place[1:] == window]
        mine.sort(key=lambda row: (-row[1][0], row[0][0] is not None, row[0][0] or ""))
        found += [(place, (*values, rank)) for rank, (place, values) in enumerate(mine, 1)]
    return found


def with_more(rows: Sequence[Row], numbers: dict[object, int]) -> list[Row]:
    """Return rows with timestamps for Spark, with their source partition and their number in the order of arrival."""
    given = zip(with_timestamps(rows), rows, strict=True)
    return [(*shown, harness.partition_of(row), numbers[row]) for shown, row in given]


@pytest.mark.parametrize("seed", range(harness.first_seed(), harness.first_seed() + harness.cases(2)))
def test_history_and_stream_on_spark_agree_with_one_stream_and_one_batch(spark, tmp_path, seed):
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    case = kind(rng)
    batches = batches_of(rng, case.span)
    seam = Seam.cut(rng, [*batches, ends(batches, case)])
    partitions, ordered, in_time = rng.random() < 0.3, rng.random() < 0.5, rng.random() < 0.75
    if in_time:
        case = replace(case, delay=harness.furthest_back(seam.micro_batches) + 1)
    watermark = WatermarkStrategy(case.delay)
    case.plan = replace(case.plan, watermark=watermark.per_partition("part") if partitions else watermark)
    numbers = {row: number for number, row in enumerate(row for rows in seam.micro_batches for row in rows.rows)}
    before, after = (rng.choice([number for number in GROUPS if number >= case.least]) for _ in range(2))

    def result_of(df, groups=before):
        how = {"per_partition": "part" if partitions else None, "arrival_order": ("number",) if ordered else ()}
        return case.on_spark(windowed_by(df, case.windowing, case.delay, **how).options(key_groups=groups))

    def at_once(rows):
        """Run a batch without an order, or with the order of a single partition."""
        rows = with_more(rng.sample(rows, len(rows)) if ordered else rows, numbers)
        frame = spark.createDataFrame(rows, MORE)
        return frame.repartition(3) if ordered else frame.coalesce(1)

    expected = harness.run(case.plan, seam.micro_batches)
    files = MicroBatches(spark, tmp_path / "in", MORE)
    for rows in seam.read:
        files.add(with_more(rows, numbers))
    found: dict[int, Fired] = {}

    # The batch of history has number -1.
    def collect(rows, batch_id):
        assert batch_id not in found
        found[batch_id] = fired(rows)

    sink = pst.ForeachBatchSink(collect, idempotent=True)
    until = None if seam.until is None else instant(seam.until)
    # History may contain more than the rows before the border.
    history = seam.history if until is None else [row for rows in seam.read for row in rows]
    result = result_of(files.stream())
    assert result.operator.name == case.plan.operator.name
    if until is not None and not ordered:
        history = sorted(history, key=numbers.__getitem__)
    saved = result.bootstrap(at_once(history), f"{tmp_path}/saved", until=until, main=sink)
    running = result_of(files.stream(), after).start(savepoint=saved.path, checkpoint=f"{tmp_path}/c", main=sink)
    running.await_termination()

    what = f"seed {seed}, {kind.__name__}, {before} key groups, then {after}, {partitions=}, {ordered=}, {in_time=}"
    told = f"{case.plan}\n{seam}"
    for number, one in enumerate(expected, -1):
        wrong = harness.difference(by_place(ranked(one.fired) if case.plan.top else one.fired), by_place(found.get(number, ())))
        assert wrong is None, f"{what}: micro-batch {number}: {wrong}\n{told}"
    skipped = sum(len(rows) for rows in seam.read) - sum(len(rows) for rows in seam.stream)
    assert sum(one.history_rows for one in running.recent_progress) == skipped, what
    assert sum(one.late_rows for one in running.recent_progress) == sum(one.metrics.late_rows for one in expected), what
    if in_time and has_a_batch(kind, case):
        whole = fired(result_of(at_once(list(numbers))).main)
        wrong = harness.difference(last_of(case, [whole]), last_of(case, [found[number] for number in sorted(found)]))
        assert wrong is None, f"{what}: as a batch: {wrong}\n{told}"
