"""The two kinds of input of Spark's stateful operators: rows since Spark 4.1, pandas data frames in 4.0.

A checkpoint that started with data frames keeps them on later versions: Spark stores the operator's name in the checkpoint, and
only that operator can read its state.
"""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.sql import SparkSession

from panestream.errors import EnvironmentNotReadyError
from panestream.spark.session import version

DATA_FRAMES = "panestreamDataFrames"
"""The setting with which ``.main`` resumes a checkpoint from Spark 4.0. ``start`` detects that by itself."""


def wants_data_frames(spark: SparkSession) -> bool:
    """Return whether a new checkpoint starts with data frames: on Spark 4.0, or if the session's setting requests it."""
    return not _has_rows(spark) or spark.conf.get(DATA_FRAMES, "false") == "true"


def check_data_frames(spark: SparkSession) -> None:
    """Raise EnvironmentNotReadyError without pandas, or for a Connect client of Spark 4.0, which lacks stateful operators."""
    if not hasattr(spark.range(0).groupBy("id"), "transformWithStateInPandas"):
        raise EnvironmentNotReadyError(
            "Spark Connect of Spark 4.0 has no stateful operators for Python: run the stream in a classic session (batch "
            "DataFrames work through Connect too), or with Spark 4.1 or later"
        )
    if find_spec("pandas") is None:
        raise EnvironmentNotReadyError(
            "streams on Spark 4.0, and checkpoints that were begun on it, need pandas, in this Python and in that of the "
            "executors: pip install 'pandas>=2.2,<3'"
        )


def check_rows(spark: SparkSession, checkpoint: str) -> None:
    """Raise EnvironmentNotReadyError if Spark is older than 4.1, which cannot resume a checkpoint that uses rows."""
    if not _has_rows(spark):
        raise EnvironmentNotReadyError(
            f"the state in the checkpoint {checkpoint} was begun with Spark 4.1 or later, Spark {spark.version} cannot read it: "
            "go on with that version, or start on a new checkpoint"
        )


def _has_rows(spark: SparkSession) -> bool:
    return version(spark) >= (4, 1)
