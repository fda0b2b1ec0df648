"""Where the rows of an output go, idempotently: a micro-batch that is run again leaves what it left the first time.

Spark re-runs a micro-batch whose commit it did not see. A sink is handed the batch's id; writing the same batch twice must
be the same as writing it once. :mod:`base` says what a sink is; files, tables, merging and others are the kinds.
"""

from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.files import FileSink, ParquetSink
from panestream.spark.sinks.merging import MergeSink
from panestream.spark.sinks.others import ConsoleSink, ForeachBatchSink, MemorySink
from panestream.spark.sinks.tables import TableSink

__all__ = ["ConsoleSink", "FileSink", "ForeachBatchSink", "MemorySink", "MergeSink", "ParquetSink", "Sink", "TableSink"]
