"""Spark's daemon of Python workers for tests. It imports what every worker needs once, before it forks the workers."""

from contextlib import suppress
from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    for name in ("pandas", "pyarrow", "pyspark.worker", "panestream.spark.operator.processor"):
        with suppress(ImportError):  # pandas is optional
            import_module(name)
    manager()
