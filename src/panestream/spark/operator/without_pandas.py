"""Lets PySpark's Arrow functions work where pandas is not installed.

``mapInArrow``, ``applyInArrow`` and ``transformWithState`` (Row flavour) hand over Arrow and never touch pandas, but PySpark
builds all of them with ``pandas_udf``, which refuses to start without it. Only that check is passed over, only where pandas is
absent, and only while panestream builds its own functions. (Spark Connect's client does need pandas; its own check is left
alone.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from pyspark.sql.pandas import functions as pandas_functions

_CHECK = "require_minimum_pandas_version"


@contextmanager
def without_pandas() -> Iterator[None]:
    """Within it, PySpark does not ask for pandas if there is none."""
    check = getattr(pandas_functions, _CHECK, None)
    if check is None or _installed("pandas"):
        yield
        return
    setattr(pandas_functions, _CHECK, lambda: None)
    try:
        yield
    finally:
        setattr(pandas_functions, _CHECK, check)


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
