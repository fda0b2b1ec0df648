"""panestream: Flink's windows for PySpark, on streams and on batches, columnar and exactly once.

Names are loaded when they are first used: Spark starts fresh Pythons that need a single module of this package, and should
not wait for all of it. The imports below are the one list of them: type checkers read it as it stands, and so does
:func:`__getattr__`. Of a package of which all is public (``import *``) the list is the package's own ``__all__``.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
"""As in pyproject.toml. A constant, since asking for the metadata of packages takes longer than importing this."""

if TYPE_CHECKING:
    from panestream import errors as errors
    from panestream import metrics as metrics
    from panestream import testing as testing
    from panestream.advisor.advice import DelayCost as DelayCost
    from panestream.advisor.advice import Lateness as Lateness
    from panestream.advisor.lateness import lateness as lateness
    from panestream.datastream import CoGroupedStream as CoGroupedStream
    from panestream.datastream import CoGroupedWindows as CoGroupedWindows
    from panestream.datastream import DataStream as DataStream
    from panestream.datastream import IntervalJoin as IntervalJoin
    from panestream.datastream import IntervalPairs as IntervalPairs
    from panestream.datastream import KeyedStream as KeyedStream
    from panestream.datastream import PreparedQuery as PreparedQuery
    from panestream.datastream import WindowedResult as WindowedResult
    from panestream.datastream import WindowedStream as WindowedStream
    from panestream.datastream import prepare as prepare
    from panestream.datastream import stream as stream
    from panestream.datastream.kafka import KafkaStream as KafkaStream
    from panestream.datastream.kafka import from_kafka as from_kafka
    from panestream.datastream.stored import StoredPanes as StoredPanes
    from panestream.datastream.stored import from_panes as from_panes
    from panestream.notebook.live import live as live
    from panestream.pictures.timeline import Timeline as Timeline
    from panestream.pictures.timeline import timeline as timeline
    from panestream.report.recording import RunReport as RunReport
    from panestream.spark.arrival import FILE_ORDER as FILE_ORDER
    from panestream.spark.kafka.once import KafkaOnce as KafkaOnce
    from panestream.spark.progress.micro_batch import BatchProgress as BatchProgress
    from panestream.spark.progress.micro_batch import PartitionProgress as PartitionProgress
    from panestream.spark.query import RunningQuery as RunningQuery
    from panestream.spark.savepoint.reading import CheckpointState as CheckpointState
    from panestream.spark.savepoint.reading import read_checkpoint as read_checkpoint
    from panestream.spark.savepoint.saved import Savepoint as Savepoint
    from panestream.spark.savepoint.saved import read_savepoint as read_savepoint
    from panestream.spark.savepoint.writing import savepoint as savepoint
    from panestream.spark.session import build_session as build_session
    from panestream.spark.shipping import ship as ship
    from panestream.spark.sinks.base import Sink as Sink
    from panestream.spark.sinks.compacting import compact as compact
    from panestream.spark.sinks.compaction import Compaction as Compaction
    from panestream.spark.sinks.files import FileSink as FileSink
    from panestream.spark.sinks.files import ParquetSink as ParquetSink
    from panestream.spark.sinks.kafka import KafkaSink as KafkaSink
    from panestream.spark.sinks.merging import MergeSink as MergeSink
    from panestream.spark.sinks.others import ConsoleSink as ConsoleSink
    from panestream.spark.sinks.others import ForeachBatchSink as ForeachBatchSink
    from panestream.spark.sinks.others import MemorySink as MemorySink
    from panestream.spark.sinks.tables import TableSink as TableSink
    from panestream.tracing.events import Trace as Trace
    from panestream.tracing.why import why as why
    from panestream.windowing import aggregates as _aggregates
    from panestream.windowing.assigners import *
    from panestream.windowing.evictors import *
    from panestream.windowing.functions import *
    from panestream.windowing.state import *
    from panestream.windowing.time import MAX_TIMESTAMP as MAX_TIMESTAMP
    from panestream.windowing.time import MIN_TIMESTAMP as MIN_TIMESTAMP
    from panestream.windowing.triggers import *
    from panestream.windowing.watermarks import *
    from panestream.windowing.windows import *

    agg = _aggregates


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """Where each public name is: the module, and what it is called there."""
    import ast

    loader: Any = __spec__.loader
    blocks = [node for node in ast.parse(loader.get_source(__name__)).body if isinstance(node, ast.If)]
    homes: dict[str, tuple[str, str]] = {}
    for statement in blocks[0].body:
        if isinstance(statement, ast.Assign):  # a public name for a module that is called otherwise
            homes[ast.unparse(statement.targets[0])] = homes.pop(ast.unparse(statement.value))
        elif isinstance(statement, ast.ImportFrom):
            home = str(statement.module)
            for imported in statement.names:
                names = import_module(home).__all__ if imported.name == "*" else [imported.name]
                homes.update({(imported.asname or name): (home, name) for name in names})
    return homes


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_homes())
    if name.startswith("_") or name not in _homes():
        from panestream.windowing.foreign_names import resolve

        return resolve(sys.modules[__name__], name, ["panestream"], "module 'panestream'")
    home, called = _homes()[name]
    try:
        module = import_module(home)
        # What a module does not have is a module in it.
        value = getattr(module, called) if called in vars(module) else import_module(f"{home}.{called}")
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ModuleNotFoundError(
            "panestream needs PySpark and there is none here: pip install 'panestream[spark]'", name="pyspark"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_homes(), *(name for name in globals() if name.startswith("__"))})
