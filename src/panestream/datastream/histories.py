"""History as ``bootstrap`` takes it: of one stream a batch, of two one for each; and where their sources go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyspark.sql import DataFrame

from panestream.datastream.events import Events
from panestream.engine.runtime.sides import SIDES
from panestream.errors import InvalidPlanError
from panestream.spark.savepoint.history import rows_like

History: TypeAlias = DataFrame | tuple[DataFrame, DataFrame]
"""A batch; of two streams the history of each, the left one first."""

Position: TypeAlias = Mapping[str, Mapping[str, int]]
"""Where a stream of Kafka goes on: the first offset of each partition, by topic."""

Positions: TypeAlias = Position | tuple[Position | None, Position | None] | None
"""The same of two streams; None: nobody said."""


def history_rows(history: object, events: Events) -> DataFrame:
    """History as the query takes its rows.

    Args:
        history: what the user gave.
        events: of the stream.

    Raises:
        InvalidPlanError: it is no history of the stream, or not one for each of two.
    """
    united = events.united
    if united is None:
        return rows_like(history, events.df)
    if not isinstance(history, tuple) or len(history) != len(SIDES):
        raise InvalidPlanError(
            "bootstrap: this query has two streams, and each has a history of its own: bootstrap((views, clicks), ...), the left "
            "one first; of one that has none an empty DataFrame with its columns, spark.createDataFrame([], schema)"
        )
    streams = zip(history, (united.left, united.right), SIDES, strict=True)
    return united.rows_of(*(rows_like(one, stream, f"the {side} stream") for one, stream, side in streams))


__all__ = ["History", "Position", "Positions", "history_rows"]
