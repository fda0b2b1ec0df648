"""panestream: Flink's windows for PySpark, on streams and on batches, columnar and exactly once.

Names are loaded when they are first used: Spark starts fresh Pythons that need a single module of this package, and should
not wait for all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from panestream import errors
    from panestream.datastream import DataStream, KeyedStream, WindowedResult, WindowedStream, stream
    from panestream.spark.query import BatchProgress, RunningQuery
    from panestream.spark.session import build_session
    from panestream.spark.shipping import ship
    from panestream.spark.sinks import ConsoleSink, FileSink, ForeachBatchSink, MemorySink, ParquetSink, Sink, TableSink
    from panestream.windowing import aggregates as agg
    from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
    from panestream.windowing.watermarks import WatermarkStrategy

__all__ = [
    "BatchProgress",
    "ConsoleSink",
    "DataStream",
    "FileSink",
    "ForeachBatchSink",
    "KeyedStream",
    "MemorySink",
    "ParquetSink",
    "RunningQuery",
    "Sink",
    "SlidingEventTimeWindows",
    "TableSink",
    "TumblingEventTimeWindows",
    "WatermarkStrategy",
    "WindowedResult",
    "WindowedStream",
    "agg",
    "build_session",
    "errors",
    "ship",
    "stream",
]

_MODULES = {"agg": "panestream.windowing.aggregates", "errors": "panestream.errors"}
_HOMES = {
    "panestream.datastream": ("DataStream", "KeyedStream", "WindowedResult", "WindowedStream", "stream"),
    "panestream.spark.query": ("BatchProgress", "RunningQuery"),
    "panestream.spark.session": ("build_session",),
    "panestream.spark.shipping": ("ship",),
    "panestream.spark.sinks": (
        "ConsoleSink",
        "FileSink",
        "ForeachBatchSink",
        "MemorySink",
        "ParquetSink",
        "Sink",
        "TableSink",
    ),
    "panestream.windowing.assigners": ("SlidingEventTimeWindows", "TumblingEventTimeWindows"),
    "panestream.windowing.watermarks": ("WatermarkStrategy",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _HOME_OF:
        raise AttributeError(f"module 'panestream' has no attribute {name!r}")
    try:
        value = import_module(_MODULES[name]) if name in _MODULES else getattr(import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ModuleNotFoundError(
            "panestream needs PySpark and there is none here: pip install 'panestream[spark]'", name="pyspark"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
