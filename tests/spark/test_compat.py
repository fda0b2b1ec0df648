"""The workarounds in ``compat.py`` are still needed: these tests read the installed PySpark, without Spark."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pyspark
import pytest

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))

NEEDED = {
    "the Connect client caches the schema of a DataFrame": ("pyspark.sql.connect.dataframe", "_cached_schema", (4, 0)),
    "PySpark logs analysis errors of DataFrames": ("pyspark.errors.exceptions.base", "DataFrameQueryContextLogger", (4, 0)),
    "PySpark logs analysis errors of SQL": ("pyspark.errors.exceptions.base", "SQLQueryContextLogger", (4, 0)),
    "pandas_udf checks for pandas": ("pyspark.sql.pandas.functions", "    require_minimum_pandas_version()", (4, 0)),
    "a task invalidates the caches of imports": ("pyspark.worker_util", "importlib.invalidate_caches()", (4, 1)),
}


@pytest.mark.parametrize("what", NEEDED)
def test_installed_pyspark_still_needs_the_workaround(what):
    module, sign, since = NEEDED[what]
    if since > VERSION:
        pytest.skip(f"Spark {pyspark.__version__} is older")
    source = importlib.util.find_spec(module)
    assert source is not None
    assert source.origin is not None
    assert sign in Path(source.origin).read_text("utf-8"), (
        f"delete the workaround in spark/compat.py once no supported version needs it: {what}"
    )


def test_task_context_still_has_no_attribute_for_the_run_of_a_query():
    assert not [name for name in dir(pyspark.TaskContext) if "run" in name.lower() or "query" in name.lower()]


def test_grouped_data_still_cannot_choose_a_partition():
    from pyspark.sql import GroupedData

    arguments = inspect.signature(GroupedData.transformWithState if VERSION >= (4, 1) else GroupedData.transformWithStateInPandas)
    assert not [name for name in arguments.parameters if "partition" in name.lower()]


def test_spark_with_data_frames_is_still_supported():
    from importlib.metadata import requires

    floors = [line for line in requires("panestream") or [] if line.startswith("pyspark") and ">=4.0" in line]
    assert floors, "delete data frames from spark/compat.py and spark/operator"
