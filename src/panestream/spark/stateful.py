"""``transformWithState`` as the Spark at hand has it: with rows from 4.1 on, with data frames in 4.0."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from panestream.engine.plan import WindowPlan
from panestream.errors import EnvironmentNotReadyError
from panestream.spark.operate import OPERATED_SCHEMA
from panestream.spark.processor import WindowProcessor
from panestream.spark.session import has_rows

if TYPE_CHECKING:
    from pyspark.sql import GroupedData


def transform(exchanged: DataFrame, plan: WindowPlan) -> DataFrame:
    """The rows of the exchange of a stream through the operator, with its state.

    Raises:
        EnvironmentNotReadyError: Spark 4.0 without pandas, or through Spark Connect.
    """
    grouped = exchanged.groupBy("group")
    mode = "ProcessingTime" if plan.wakes_up else "None"
    if has_rows(exchanged.sparkSession):
        return grouped.transformWithState(
            statefulProcessor=WindowProcessor(plan), outputStructType=OPERATED_SCHEMA, outputMode="append", timeMode=mode
        )
    return _with_data_frames(grouped, plan, mode)


def _with_data_frames(grouped: GroupedData, plan: WindowPlan, mode: str) -> DataFrame:
    if not hasattr(grouped, "transformWithStateInPandas"):
        raise EnvironmentNotReadyError(
            "Spark Connect of Spark 4.0 has no stateful operators for Python: run the stream in a classic session (batch "
            "DataFrames work), or with Spark 4.1 or later"
        )
    if find_spec("pandas") is None:
        raise EnvironmentNotReadyError(
            "streams on Spark 4.0 need pandas, in this Python and in that of the executors (from Spark 4.1 on they do not): "
            "pip install 'pandas>=2.2,<3'"
        )
    from panestream.spark.data_frames import DataFrameWindowProcessor

    return grouped.transformWithStateInPandas(
        statefulProcessor=DataFrameWindowProcessor(plan), outputStructType=OPERATED_SCHEMA, outputMode="append", timeMode=mode
    )
