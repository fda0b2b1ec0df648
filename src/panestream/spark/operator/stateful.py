"""``transformWithState`` for the current Spark version: with rows since 4.1, with data frames in 4.0."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from panestream.engine.plan import WindowPlan
from panestream.spark.compat import check_data_frames
from panestream.spark.operator.operate import OPERATED_SCHEMA
from panestream.spark.operator.processor import RestartInfo, WindowProcessor


def transform(
    exchanged: DataFrame,
    plan: WindowPlan,
    *,
    data_frames: bool,
    initial: DataFrame | None = None,
    clock: bool = False,
    restart_info: RestartInfo | None = None,
) -> DataFrame:
    """Run the exchange rows of a stream through the operator, with its state.

    ``initial`` has the initial entries (:mod:`panestream.spark.savepoint.initial_state`). With ``clock`` Spark also runs
    micro-batches without rows, in which the clock wakes key groups. ``restart_info`` is None if unknown.
    """
    grouped = exchanged.groupBy("group")
    how: dict[str, Any] = {
        "outputStructType": OPERATED_SCHEMA,
        "outputMode": "append",
        "timeMode": "ProcessingTime" if clock else "None",
        "initialState": None if initial is None else initial.groupBy("group"),
    }
    if not data_frames:
        return grouped.transformWithState(statefulProcessor=WindowProcessor(plan, restart_info), **how)
    from panestream.spark.operator.data_frames import DataFrameWindowProcessor

    check_data_frames(exchanged.sparkSession)
    return grouped.transformWithStateInPandas(statefulProcessor=DataFrameWindowProcessor(plan, restart_info), **how)
