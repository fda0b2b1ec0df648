"""Streaming query events in the form that Spark gives to listeners, without Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from panestream.engine.runtime.group_io import GroupMetrics
from panestream.spark.progress.micro_batch import OBSERVED

ID, RUN = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
HOUR = 3_600_000_000


PARTITIONS = [["a", HOUR + 1, HOUR, False], ["b", 2 * HOUR, 2 * HOUR - 1, True]]
WHOLE = ("input_rows", "invalid_rows", "watermark", "max_event_time")
"""Metrics that all key groups report equally."""
SHARES = {
    "late_rows": {0: 2},
    "outside_rows": {0: 1},
    "windowed_rows": {2: 6},
    "fired_rows": {0: 5},
    "kept_windows": {0: 3},
    "state_bytes": {0: 400, 1: 3000, 2: 300, 3: 300},
    "state_calls": {0: 9},
    "bytes_read": {0: 100},
    "bytes_written": {0: 200},
    "operator_us": {0: 2_000_000, 1: 1_000_000, 2: 1_000_000, 3: 4_000_000},
}
"""The shares of key groups in the counters."""


def counters(groups: int = 4, **changed: Any) -> dict[str, Any]:
    """Return Spark's observations of a micro-batch of ten rows: two late, one invalid, and one between two windows.

    ``groups`` key groups report. ``changed`` are totals; one key group has them if not all report them equally.
    """
    reports = []
    for group in range(groups):
        metrics = GroupMetrics(
            input_rows=10, invalid_rows=1, watermark=HOUR, max_event_time=2 * HOUR, partition_count=2, idle_partitions=1
        )
        for name, shares in SHARES.items():
            setattr(metrics, name, shares.get(group, 0))
        metrics.key_group = group
        if group == 0:
            metrics.fired_windows, metrics.firings = [7], {"on_time": 4, "late": 1}
            metrics.outputs, metrics.partitions = {"main": 5}, PARTITIONS
        for name, value in changed.items():
            of_one = next(iter(SHARES.get(name, {0: 0})))
            if name in WHOLE or group == of_one:
                setattr(metrics, name, value)
            elif name in SHARES:
                setattr(metrics, name, 0)
        reports.append(json.dumps(metrics.to_json()))
    query = {"tags": ["main", "late"], "groups": 4, "late_kept": False}
    return {"reports": reports, "query": json.dumps(query)}


NO_COUNTERS = {"reports": None, "query": None}
"""The observations if all rows were filtered out before the windows."""


def progress(
    batch_id: int = 0, name: str | None = "clicks", run: str = RUN, observed: Any = None, **changed: Any
) -> SimpleNamespace:
    """Return the event of a micro-batch that started three hours after the epoch."""
    told = {
        "id": ID,
        "runId": run,
        "name": name,
        "batchId": batch_id,
        "timestamp": "1970-01-01T03:00:00.000Z",
        "durationMs": {"addBatch": 1500, "walCommit": 100, "triggerExecution": 2000},
        "stateOperators": [{"numRowsDroppedByWatermark": 3}, {"numRowsDroppedByWatermark": 0}],
        "observedMetrics": {OBSERVED: Row(**(observed or counters(**changed)))},
    }
    return SimpleNamespace(progress=told)


def started(name: str | None = "clicks", run: str = RUN) -> SimpleNamespace:
    """Return the event of a start."""
    return SimpleNamespace(id=ID, runId=run, name=name)


def terminated(error: str | None = None, run: str = RUN) -> SimpleNamespace:
    """Return the event of an end."""
    return SimpleNamespace(id=ID, runId=run, exception=error)
