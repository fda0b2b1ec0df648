"""Contestant: the same function of each window's rows, written by hand with Spark's ``applyInPandasWithState``.

It is written for speed. The state of a key is two arrays in the order of time, read and written once per key and micro-batch. A
search finds windows as slices. The timer is for the next window end. The function is panestream's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.events import EventSpec
from benchmarks.functions.cases import Frames
from benchmarks.functions.frames_job import of_frame
from panestream.spark.session import STREAM_SETTINGS

SETTINGS = dict(STREAM_SETTINGS)
"""The settings of panestream's state store."""
_OUTPUT = "key bigint, end_ms bigint, total bigint, events bigint"
_STATE = "times binary, values binary"
"""The state as bytes, which are cheaper than arrays. PySpark 4.3 does not accept arrays here either."""


def query(events: DataFrame, case: Frames, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``."""
    size = case.size_ms

    def advance(key: tuple[int], frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd

        times, values = (np.frombuffer(column, np.int64) for column in (state.get if state.exists else (b"", b"")))
        fresh = [] if state.hasTimedOut else list(frames)
        if fresh:
            times = np.concatenate([times, *(frame["ms"].to_numpy() for frame in fresh)])
            values = np.concatenate([values, *(frame["value"].to_numpy() for frame in fresh)])
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        done, fired, watermark = 0, [], state.getCurrentWatermarkMs()
        while done < len(times):
            end = int(times[done] - times[done] % size + size)
            if end > watermark:
                break
            until = int(np.searchsorted(times, end))
            rows = pd.DataFrame({"key": key[0], "value": values[done:until], "ms": times[done:until]})
            result = of_frame(key[0], None, rows)
            fired.append(result.assign(key=key[0], end_ms=end)[["key", "end_ms", "total", "events"]])
            done = until
        if done < len(times):
            state.update((times[done:].tobytes(), values[done:].tobytes()))
            state.setTimeoutTimestamp(int(times[done] - times[done] % size + size))
        elif state.exists:
            state.remove()
        yield from fired

    timed = events.withWatermark("ts", f"{spec.disorder_ms} milliseconds")
    by_key = timed.select("key", "value", F.unix_millis("ts").alias("ms"), "ts").groupBy("key")
    rows = by_key.applyInPandasWithState(advance, _OUTPUT, _STATE, "append", GroupStateTimeout.EventTimeTimeout)
    return rows.select("key", F.timestamp_millis("end_ms").alias("window_end"), "total", "events")
