"""Asks Spark whether it understands something, without its answer on the error output."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from logging import LogRecord

from pyspark.logger import PySparkLogger

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def asking() -> Iterator[None]:
    """Within it, errors of Spark's analysis are raised and not printed: PySpark writes each, caught or not, as 7 kB of JSON.

    Only what this thread is told is silent, and only these two loggers.
    """
    here = threading.get_ident()

    def of_others(record: LogRecord) -> bool:
        return record.thread != here

    # PySpark's own kind of logger: whoever asks for one first decides what it is.
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)
