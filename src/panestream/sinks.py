"""All sinks, which take the outputs of a query, and tools for the files that they write.

>>> import panestream as pst
>>> pst.sinks.ParquetSink("out").describe()
'parquet out'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panestream.lazy_names import LazyNames

if TYPE_CHECKING:
    from panestream.spark.kafka.deduplicator import KafkaDeduplicator as KafkaDeduplicator
    from panestream.spark.sinks.base import Sink as Sink
    from panestream.spark.sinks.compacting import compact as compact
    from panestream.spark.sinks.compaction import Compaction as Compaction
    from panestream.spark.sinks.debug_and_foreach import ConsoleSink as ConsoleSink
    from panestream.spark.sinks.debug_and_foreach import ForeachBatchSink as ForeachBatchSink
    from panestream.spark.sinks.debug_and_foreach import MemorySink as MemorySink
    from panestream.spark.sinks.files import FileSink as FileSink
    from panestream.spark.sinks.files import ParquetSink as ParquetSink
    from panestream.spark.sinks.kafka import KafkaSink as KafkaSink
    from panestream.spark.sinks.merging import MergeSink as MergeSink
    from panestream.spark.sinks.postgres import PostgresSink as PostgresSink
    from panestream.spark.sinks.redis import RedisSink as RedisSink
    from panestream.spark.sinks.spark_sinks import SparkSink as SparkSink
    from panestream.spark.sinks.tables import TableSink as TableSink

_NAMES = LazyNames(__name__)
if not TYPE_CHECKING:  # a type checker must refuse unknown names
    __getattr__, __dir__ = _NAMES.get, _NAMES.names
