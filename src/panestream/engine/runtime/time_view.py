"""The progress of time in a key group as a table: its watermark, closed windows, and the progress of each source partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.state_views import INSTANT
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

WATERMARKS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("watermark", INSTANT),
        pa.field("closed", INSTANT),
        pa.field("processing_time", INSTANT),
        pa.field("source_partition", pa.string()),
        pa.field("partition_watermark", INSTANT),
        pa.field("max_event_time", INSTANT),
        pa.field("idle", pa.bool_()),
        pa.field("silent", pa.duration("us")),
    ]
)
"""One row for each known source partition, or one row without a partition if none is known."""


def watermarks_of(plan: WindowPlan, header: Mapping[str, Any], group: int) -> pa.Table:
    """Return the watermarks of key group number ``group``, given the header of its state tables."""
    tracker = WatermarkTracker.from_json(plan.watermark, header["watermarks"])
    alike = {
        "key_group": group,
        "watermark": known(tracker.watermark),
        "closed": known(header["closed"]),
        "processing_time": header["clock"] or None,
    }
    rows = [
        {
            **alike,
            "source_partition": name,
            "partition_watermark": watermark,
            "max_event_time": newest,
            "idle": idle,
            "silent": tracker.silent_for(name),
        }
        for name, newest, watermark, idle in tracker.by_partition(most=None)
    ]
    return pa.Table.from_pylist(rows or [alike], schema=WATERMARKS)


def known(time: int) -> int | None:
    """Return a time in engine units, or None before the first time and after the end of time."""
    return None if time in (MIN_TIMESTAMP, MAX_TIMESTAMP) else time


__all__ = ["WATERMARKS", "watermarks_of"]
