"""Use of PySpark's Arrow functions without pandas.

``mapInArrow``, ``applyInArrow`` and ``transformWithState`` (with rows) use Arrow only, but PySpark builds all of them with
``pandas_udf``, which refuses to start without pandas. Only that check is skipped, only if pandas is missing, and only while
panestream builds its own functions. (Spark Connect's client does need pandas; its own check stays.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from pyspark.sql.pandas import functions as pandas_functions

_CHECK = "require_minimum_pandas_version"


@contextmanager
def without_pandas() -> Iterator[None]:
    """Skip PySpark's check for pandas in the block if pandas is missing."""
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
