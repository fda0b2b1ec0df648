"""Counters of a micro-batch, added up in Python from the key groups' reports, and by Spark's observation to the same numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import Observation, Row

from panestream.engine.exchange.group_run import METRICS
from panestream.engine.runtime.group_io import GroupMetrics
from panestream.spark.operator.task_functions import OPERATED_SCHEMA
from panestream.spark.progress.micro_batch import OBSERVED, BatchProgress, PartitionProgress, metrics_of, observed
from tests.engine.exchange.test_exchange import plan as plan_of
from tests.metrics.told import HOUR, NO_COUNTERS, counters, progress

PLAN = replace(plan_of(groups=5), late_tag="late")
"""Five key groups and an output for late rows."""
QUERY = {"tags": PLAN.tags, "groups": PLAN.groups}
WHOLE = {"input_rows": 23, "invalid_rows": 2, "history_rows": 4, "watermark_before": 50, "watermark": 100, "max_event_time": 150}
"""Counters that all key groups report equally."""
FIRST = {
    **WHOLE,
    "key_group": 0,
    "windowed_rows": 6,
    "late_rows": 2,
    "outside_rows": 1,
    "fired_rows": 4,
    "fired_windows": [3, 4],
    "open_windows": (5, 9),
    "firings": {"early": 1, "on_time": 3},
    "outputs": {"main": 4, "late": 2},
    "partitions": [("b", None, None, False), ("a", 150, 100, True)],
    "partition_count": 2,
    "idle_partitions": 1,
    "state_bytes": 500,
    "state_calls": 11,
    "bytes_read": 70,
    "bytes_written": 30,
    "operator_us": 40,
}
SECOND = {
    **WHOLE,
    "key_group": 1,
    "windowed_rows": 8,
    "late_rows": 3,
    "outside_rows": 1,
    "fired_rows": 6,
    "fired_windows": [2, 4],
    "open_windows": (4, 7),
    "firings": {"on_time": 5, "late": 2},
    "outputs": {"main": 6},
    "partition_count": 2,
    "idle_partitions": 1,
    "state_bytes": 400,
    "state_calls": 5,
    "bytes_read": 20,
    "bytes_written": 90,
    "operator_us": 60,
}
TWO = BatchProgress(
    batch_id=7,
    rows=23,
    duration_ms=500,
    rows_per_second=46.0,
    watermark=100,
    watermark_before=50,
    max_event_time=150,
    windowed_rows=14,
    late_rows=5,
    dropped_rows=5,
    invalid_rows=2,
    outside_rows=2,
    history_rows=4,
    fired_rows=10,
    fired_windows=3,
    early_firings=1,
    on_time_firings=8,
    late_firings=2,
    output_rows={"main": 10, "late": 2},
    open_windows=6,  # 4 to 9
    state_bytes=900,
    state_calls=16,
    state_read_bytes=90,
    state_written_bytes=120,
    groups=5,
    groups_reporting=2,
    most_rows=12,
    most_rows_group=1,
    most_bytes=500,
    most_bytes_group=0,
    operator_us=100,
    most_us=60,
    most_us_group=1,
    partition_count=2,
    idle_partitions=1,
    partitions=(PartitionProgress("b", None, None, False), PartitionProgress("a", 150, 100, True)),
)
WOKEN = {
    "key_group": 0,
    "woken": True,
    "watermark": 120,
    "watermark_before": 100,
    "fired_rows": 1,
    "fired_windows": [4, 5],
    "open_windows": (6, 9),
    "firings": {"on_time": 1},
    "outputs": {"main": 1},
    "kept_windows": 3,
    "state_bytes": 300,
    "state_calls": 2,
    "bytes_read": 1,
    "bytes_written": 2,
    "operator_us": 60,
}
"""A second report of key group 0, which the clock woke after its rows."""
AND_WOKEN = replace(
    TWO,
    watermark=120,
    watermark_before=100,
    fired_rows=11,
    fired_windows=4,
    on_time_firings=9,
    output_rows={"main": 11, "late": 2},
    open_windows=6 + 3,
    state_bytes=700,
    state_calls=18,
    state_read_bytes=91,
    state_written_bytes=122,
    most_bytes=400,
    most_bytes_group=1,
    operator_us=160,
    most_us_group=0,
)
"""Its last report replaces the kept windows. The first of two equally slow key groups counts as the slowest."""
KEEPS = {"key_group": 4, "kept_windows": 2, "state_bytes": 7, "windowed_rows": 1, "input_rows": 3, "operator_us": 1}
"""A key group whose windows have no numbers."""
ALIKE = BatchProgress(
    batch_id=7,
    rows=3,
    duration_ms=500,
    rows_per_second=6.0,
    watermark=None,
    max_event_time=None,
    windowed_rows=3,
    late_rows=0,
    invalid_rows=0,
    fired_rows=0,
    fired_windows=0,
    output_rows={"main": 0, "late": 0},
    open_windows=2 + 5 + 2,
    state_bytes=21,
    state_calls=0,
    groups=5,
    groups_reporting=3,
    most_rows=1,
    most_rows_group=2,
    most_bytes=7,
    most_bytes_group=2,
    operator_us=3,
    most_us=1,
    most_us_group=2,
)
NOTHING = BatchProgress(
    batch_id=7,
    rows=0,
    duration_ms=500,
    rows_per_second=0.0,
    watermark=None,
    max_event_time=None,
    late_rows=0,
    invalid_rows=0,
    fired_rows=0,
    fired_windows=0,
    output_rows={"main": 0, "late": 0},
    open_windows=0,
    state_bytes=0,
    state_calls=0,
    groups=5,
)
CASES = {
    "two": ([FIRST, SECOND], TWO),
    "the other way round": ([SECOND, FIRST], TWO),
    "one of them twice": ([FIRST, SECOND, WOKEN], AND_WOKEN),
    "woken before": ([WOKEN, FIRST, SECOND], AND_WOKEN),
    "three alike": ([KEEPS, {**KEEPS, "key_group": 2, "kept_windows": 5}, {**KEEPS, "key_group": 3}], ALIKE),
    "unknown how many one keeps": (
        [KEEPS, {**KEEPS, "key_group": 2, "kept_windows": None}, {**KEEPS, "key_group": 3}],
        replace(ALIKE, open_windows=None),
    ),
    "none": ([], NOTHING),
}


def bodies_of(reports):
    """Return the reports in the form in which they leave key groups."""
    return [json.dumps(GroupMetrics(**report).to_json()) for report in reports]


@pytest.mark.parametrize(("reports", "expected"), CASES.values(), ids=CASES)
def test_reports_of_key_groups_are_added_up(reports, expected):
    bodies = bodies_of(reports)
    assert BatchProgress.of(7, 0.5, metrics_of(bodies), **QUERY, late_kept=False) == expected
    # With a sink, late rows are still late but not dropped.
    assert BatchProgress.of(7, 0.5, metrics_of(bodies), **QUERY, late_kept=True) == replace(expected, dropped_rows=0)


def test_micro_batch_that_took_no_time_has_rate_zero():
    quick = BatchProgress.of(8, 0.0, metrics_of(bodies_of([FIRST])), **QUERY, late_kept=False)
    assert (quick.batch_id, quick.rows, quick.duration_ms, quick.rows_per_second) == (8, 23, 0, 0.0)
    # Milliseconds are rounded.
    assert BatchProgress.of(8, 1.0006, [], **QUERY, late_kept=False).duration_ms == 1001


@pytest.mark.spark
@pytest.mark.parametrize(
    ("case", "late_kept"), [("one of them twice", False), ("two", True), ("unknown how many one keeps", False), ("none", False)]
)
def test_observation_of_spark_gives_the_same_counters(spark, case, late_kept):
    reports, expected = CASES[case]
    # Rows of outputs do not count.
    rows = [("main", b"\x00\x01"), *((METRICS, body.encode()) for body in bodies_of(reports)), ("late", b"{}")]
    counters = Observation(OBSERVED)
    seen = observed(spark.createDataFrame(rows, OPERATED_SCHEMA), PLAN, counters, late_kept=late_kept)
    assert seen.schema == OPERATED_SCHEMA
    assert [(row.tag, bytes(row.body)) for row in seen.collect()] == rows
    told = {
        "batchId": 7,
        "durationMs": {"addBatch": 500, "walCommit": 3},
        "observedMetrics": {OBSERVED: Row(**counters.get)},
        "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}],
    }
    dropped = 0 if late_kept else expected.late_rows
    same = replace(expected, dropped_rows=dropped, stages=told["durationMs"], spark_dropped_rows=3)
    assert BatchProgress.of_spark(told) == same


def test_progress_entry_of_spark_becomes_a_batch_progress():
    told = BatchProgress.of_spark(progress(5).progress)
    assert (told.batch_id, told.rows, told.duration_ms, told.stages["walCommit"]) == (5, 10, 1500, 100)
    assert told.rows_per_second == pytest.approx(10 / 1.5)
    assert (told.output_rows, told.early_firings, told.on_time_firings) == ({"main": 5, "late": 0}, 0, 4)
    assert told.partitions == (
        PartitionProgress("a", HOUR + 1, HOUR, False),
        PartitionProgress("b", 2 * HOUR, 2 * HOUR - 1, True),
    )
    assert (told.spark_dropped_rows, told.watermark, told.watermark_before) == (3, HOUR, None)
    # Spark Connect gives the values and their schema separately.
    beside = progress(5).progress
    values, schema = list(counters().values()), {"fields": [{"name": name} for name in counters()]}
    beside["observedMetrics"] = {OBSERVED: Row(values=values, schema=schema)}
    assert BatchProgress.of_spark(beside) == told


def test_progress_entry_without_reports_has_zero_counters():
    told = BatchProgress.of_spark(progress(observed=NO_COUNTERS).progress)
    nothing = replace(NOTHING, batch_id=0, duration_ms=1500, groups=0, output_rows={}, open_windows=None)
    assert told == replace(nothing, stages=told.stages, spark_dropped_rows=3)


def test_progress_entry_without_micro_batch_or_counters_gives_none():
    for without in ({"durationMs": {"triggerExecution": 1}}, {"observedMetrics": {}}, {"observedMetrics": None}):
        assert BatchProgress.of_spark({**progress().progress, **without}) is None
    assert BatchProgress.of_spark(progress().progress, "panestream_2") is None


@pytest.mark.parametrize(("took", "rate"), [(0, 0.0), (1, 10_000.0)])
def test_progress_entry_that_took_no_time_has_rate_zero(took, rate):
    told = BatchProgress.of_spark({**progress().progress, "durationMs": {"addBatch": took}})
    assert (told.duration_ms, told.rows_per_second) == (took, rate)
