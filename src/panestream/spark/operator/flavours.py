"""Rows or data frames: what Spark hands to stateful operators. Rows from 4.1 on, data frames of pandas' in 4.0.

What was begun over data frames goes on over them, also on later versions: Spark keeps the operator's name in the checkpoint and
lets no other read its state.
"""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.sql import SparkSession

from panestream.errors import EnvironmentNotReadyError
from panestream.spark.session import version

DATA_FRAMES = "panestreamDataFrames"
"""The setting that has ``.main`` go on with a checkpoint that was begun on Spark 4.0; ``start`` sees that by itself."""


def wants_data_frames(spark: SparkSession) -> bool:
    """Whether a new checkpoint is to be begun over data frames: on 4.0, and where the session was set so."""
    return not _has_rows(spark) or spark.conf.get(DATA_FRAMES, "false") == "true"


def check_data_frames(spark: SparkSession) -> None:
    """Refuses a session that cannot run stateful operators over data frames.

    Raises:
        EnvironmentNotReadyError: there is no pandas; or it is a client of Spark Connect of 4.0.
    """
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
    """Refuses a session that cannot go on with what was begun over rows.

    Raises:
        EnvironmentNotReadyError: Spark is older than 4.1.
    """
    if not _has_rows(spark):
        raise EnvironmentNotReadyError(
            f"the state in the checkpoint {checkpoint} was begun with Spark 4.1 or later, Spark {spark.version} cannot read it: "
            "go on with that version, or start on a new checkpoint"
        )


def _has_rows(spark: SparkSession) -> bool:
    return version(spark) >= (4, 1)
