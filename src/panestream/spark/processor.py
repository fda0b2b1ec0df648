"""The stateful processor that Spark runs for each key group.

Spark starts a fresh Python on the driver in *every* micro-batch, only to ask the processor for its state variables. So this
module imports nothing but PySpark's own, and the plan stays pickled until rows come: else that Python would load Arrow, numpy
and the whole engine first (0.2 s of every micro-batch, measured).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
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
        # Travels inside what Spark pickles and ships itself, and is opened only by the workers of the same query. Spark's own
        # pickler, since users' functions may stand in a notebook.
        self._pickled_plan = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        self._uses_clock = plan.operation.uses_clock
        self._state: SparkState | None = None
        self._handle: StatefulProcessorHandle | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = SparkState(handle.getMapState("panestream", _KEY, _VALUE))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        return self._process(key, [(row.origin, row.sequence, row.body) for row in rows], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: Any) -> Iterator[Row]:
        return self._process(key, [], timerValues)

    def _process(self, key: Any, arrived: list[tuple[int, int, bytes]], timers: TimerValues) -> Iterator[Row]:
        from panestream.spark.operate import bodies, operate_group

        if self._state is None or self._handle is None:
            raise RuntimeError("Spark called the processor before init")
        plan: WindowPlan = pickle.loads(self._pickled_plan)  # noqa: S301 (see __init__)
        now = timers.getCurrentProcessingTimeInMs() if self._uses_clock else None
        output = operate_group(plan, self._state, key[0], arrived, now)
        if output.wake_up is not None:
            self._wake_up_after(output.wake_up // 1000)
        for tag, body in bodies(output):
            yield Row(tag=tag, body=body)

    def _wake_up_after(self, milliseconds: int) -> None:
        """One timer a key group: the earliest of all its windows. An engine timer is due once the clock is past it."""
        assert self._handle is not None  # noqa: S101 - the caller looked
        expiry = milliseconds + 1
        set_already = list(self._handle.listTimers())
        if expiry in set_already:
            return
        for other in set_already:
            self._handle.deleteTimer(other)
        self._handle.registerTimer(expiry)

    def close(self) -> None:
        pass
