"""Streaming query events in the form that Spark gives to listeners, without Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from panestream.spark.progress.micro_batch import OBSERVED

ID, RUN = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
HOUR = 3_600_000_000


def counters(**changed: Any) -> dict[str, Any]:
    """Return Spark's observations of a micro-batch of ten rows: two late, one invalid, and one between two windows."""
    return {
        "input_rows": 10,
        "windowed_rows": 6,
        "late_rows": 2,
        "invalid_rows": 1,
        "outside_rows": 1,
        "dropped_rows": 2,
        "fired_rows": 5,
        "fired_windows": 1,
        "early_firings": None,
        "on_time_firings": 4,
        "late_firings": 1,
        "output_rows": '{"main":5,"late":0}',
        "open_windows": 3,
        "state_bytes": 4000,
        "state_calls": 9,
        "state_read_bytes": 100,
        "state_written_bytes": 200,
        "groups": 4,
        "groups_reporting": 4,
        "most_rows": 6,
        "most_rows_group": 2,
        "most_bytes": 3000,
        "most_bytes_group": 1,
        "operator_us": 8_000_000,
        "most_us": 4_000_000,
        "most_us_group": 3,
        "watermark": HOUR,
        "watermark_before": None,
        "max_event_time": 2 * HOUR,
        "partition_count": 2,
        "idle_partitions": 1,
        "partitions": json.dumps([["a", HOUR + 1, HOUR, False], ["b", 2 * HOUR, 2 * HOUR - 1, True]]),
        **changed,
    }


def progress(batch_id: int = 0, name: str | None = "clicks", run: str = RUN, **changed: Any) -> SimpleNamespace:
    """Return the event of a micro-batch that started three hours after the epoch."""
    told = {
        "id": ID,
        "runId": run,
        "name": name,
        "batchId": batch_id,
        "timestamp": "1970-01-01T03:00:00.000Z",
        "durationMs": {"addBatch": 1500, "walCommit": 100, "triggerExecution": 2000},
        "stateOperators": [{"numRowsDroppedByWatermark": 3}, {"numRowsDroppedByWatermark": 0}],
        "observedMetrics": {OBSERVED: Row(**counters(**changed))},
    }
    return SimpleNamespace(progress=told)


def started(name: str | None = "clicks", run: str = RUN) -> SimpleNamespace:
    """Return the event of a start."""
    return SimpleNamespace(id=ID, runId=run, name=name)


def terminated(error: str | None = None, run: str = RUN) -> SimpleNamespace:
    """Return the event of an end."""
    return SimpleNamespace(id=ID, runId=run, exception=error)
