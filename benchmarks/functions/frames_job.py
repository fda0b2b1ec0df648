"""Contestant: panestream, with a function of each window's rows as a pandas frame or an Arrow table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import panestream as pst
from benchmarks.events import EventSpec
from benchmarks.functions.cases import Frames
from panestream.spark.session import STREAM_SETTINGS

SETTINGS = dict(STREAM_SETTINGS)
"""The settings that ``build_session`` and ``result.start`` set for every user."""


def of_frame(_key: Any, _window: Any, rows: Any) -> Any:
    """Return sum and number of the values as a frame of one row, as the hand-written version does."""
    import pandas as pd

    return pd.DataFrame({"total": [rows["value"].sum()], "events": [len(rows)]})


def of_table(_key: Any, _window: Any, rows: pa.Table) -> list[tuple[int, int]]:
    """Return sum and number of the values of an Arrow table, as one row."""
    return [(pc.sum(rows["value"]).as_py(), rows.num_rows)]


def query(events: DataFrame, case: Frames, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``."""
    windows = (
        pst.stream(events.select("key", "value", "ts"))
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{spec.disorder_ms} milliseconds"))
        .key_by("key")
        .window(pst.TumblingEventTimeWindows.of(case.size))
    )
    schema = "total bigint, events bigint"
    result = windows.apply_in_pandas(of_frame, schema) if case.shape == "pandas" else windows.apply_arrow(of_table, schema)
    return result.main.select("key", "window_end", "total", "events")
