"""What a key group knows of time, as a table: its watermark, what is closed, and how far each source partition is."""

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
"""One row for each source partition that the key group knows; one without partition where it knows none."""


def watermarks_of(plan: WindowPlan, header: Mapping[str, Any], group: int) -> pa.Table:
    """The watermarks of a key group.

    Args:
        plan: the query.
        header: of its state tables.
        group: its number.
    """
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
    """A time in engine units; None where there is none yet, and where all time is over."""
    return None if time in (MIN_TIMESTAMP, MAX_TIMESTAMP) else time


__all__ = ["WATERMARKS", "watermarks_of"]
