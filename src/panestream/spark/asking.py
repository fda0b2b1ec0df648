"""Calls of Spark's analysis whose errors are expected, without output on the error stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from logging import LogRecord

from pyspark.logger import PySparkLogger

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def silence_analysis_errors() -> Iterator[None]:
    """Suppress the log output of Spark's analysis errors in the block. PySpark logs each, even a caught one, as 7 kB of JSON.

    Only messages of this thread from two loggers are suppressed.
    """
    here = threading.get_ident()

    def of_others(record: LogRecord) -> bool:
        return record.thread != here

    # PySpark's own kind of logger: the first caller decides the class of a logger.
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)
