"""History for ``bootstrap``: a batch for each stream, and the source positions where the streams continue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyspark.sql import DataFrame

from panestream.datastream.events import Events
from panestream.engine.runtime.sides import SIDES
from panestream.errors import InvalidPlanError
from panestream.spark.savepoint.history import rows_like

History: TypeAlias = DataFrame | tuple[DataFrame, DataFrame]
"""A batch, or for two streams a pair of batches, the left one first."""

Position: TypeAlias = Mapping[str, Mapping[str, int]]
"""The first Kafka offset of each partition that the stream reads, by topic."""

Positions: TypeAlias = Position | tuple[Position | None, Position | None] | None
"""The positions of one or two streams; None if the user did not pass any."""


def history_rows(history: object, events: Events) -> DataFrame:
    """Return history as rows of the query; raise InvalidPlanError unless it has the streams' columns and one batch for each."""
    united = events.united
    if united is None:
        return rows_like(history, events.df)
    if not isinstance(history, tuple) or len(history) != len(SIDES):
        raise InvalidPlanError(
            "bootstrap: this query has two streams, and each needs its own history: bootstrap((views, clicks), ...), left "
            "stream first. For a stream without history give an empty DataFrame with its columns, spark.createDataFrame([], "
            "schema)"
        )
    streams = zip(history, (united.left, united.right), SIDES, strict=True)
    return united.rows_of(*(rows_like(one, stream, f"the {side} stream") for one, stream, side in streams))


__all__ = ["History", "Position", "Positions", "history_rows"]
