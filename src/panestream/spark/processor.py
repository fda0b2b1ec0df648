"""The stateful processor that Spark runs for each key group.

Spark starts a fresh Python on the driver in *every* micro-batch, only to ask the processor for its state variables. So this
module imports nothing but PySpark's own, and the plan stays pickled until rows come: else that Python would load Arrow, numpy
and the whole engine first (0.2 s of every micro-batch, measured).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import BinaryType, LongType, Row, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

    from panestream.engine.plan import WindowPlan

_KEY = StructType([StructField("space", StringType(), False), StructField("key", LongType(), False)])
_VALUE = StructType([StructField("value", BinaryType(), False)])


class SparkState:
    """The state of the key group at hand, in one map of Spark's state store."""

    def __init__(self, entries: MapState) -> None:
        self._entries = entries

    def get(self, space: str, key: int) -> bytes | None:
        value = self._entries.getValue((space, key))
        return None if value is None else bytes(value[0])

    def put(self, space: str, key: int, value: bytes) -> None:
        self._entries.updateValue((space, key), (value,))

    def remove(self, space: str, key: int) -> None:
        self._entries.removeKey((space, key))


class WindowProcessor(StatefulProcessor):
    """The processor for ``transformWithState``: a call for each key group and micro-batch, a few binary rows in and out."""

    def __init__(self, plan: WindowPlan) -> None:
        # Travels inside what Spark pickles and ships itself, and is opened only by the workers of the same query.
        self._pickled_plan = pickle.dumps(plan)
        self._state: SparkState | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = SparkState(handle.getMapState("panestream", _KEY, _VALUE))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        from panestream.spark.operate import operate_group

        if self._state is None:
            raise RuntimeError("Spark called handleInputRows before init")
        plan: WindowPlan = pickle.loads(self._pickled_plan)  # noqa: S301 (see __init__)
        arrived = [(row.origin, row.sequence, row.body) for row in rows]
        for tag, body in operate_group(plan, self._state, arrived):
            yield Row(tag=tag, body=body)

    def close(self) -> None:
        pass
