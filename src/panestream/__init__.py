"""panestream: Flink's windows for PySpark, on streams and on batches, columnar and exactly once."""

from panestream import errors
from panestream.spark.query import BatchProgress, RunningQuery
from panestream.spark.session import build_session
from panestream.spark.shipping import ship
from panestream.spark.sinks import ConsoleSink, FileSink, ForeachBatchSink, MemorySink, ParquetSink, Sink, TableSink
from panestream.stream import DataStream, KeyedStream, WindowedResult, WindowedStream, stream
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
