"""The stateful processor that Spark runs for each key group.

Spark starts an extra Python on the driver, only to ask the processor for its state variables. So this module imports only
PySpark, and the plan stays pickled until rows arrive. Otherwise that Python would load Arrow, numpy and the engine first.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext, cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import BinaryType, LongType, Row, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

    from panestream.engine.plan import WindowPlan


_KEY = StructType([StructField("space", StringType(), False), StructField("key", LongType(), False)])
_VALUE = StructType([StructField("value", BinaryType(), False)])


class SparkState:
    """The state of the current key group, in one map of Spark's state store."""

    def __init__(self, entries: MapState) -> None:
        self._entries = entries

    @property
    def micro_batch(self) -> int | None:
        context = TaskContext.get()
        number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        return None if number is None else int(number)

    def get(self, space: str, key: int) -> bytes | None:
        value = self._entries.getValue((space, key))
        return None if value is None else bytes(value[0])

    def put(self, space: str, key: int, value: bytes) -> None:
        self._entries.updateValue((space, key), (value,))

    def remove(self, space: str, key: int) -> None:
        self._entries.removeKey((space, key))


class RestartInfo(NamedTuple):
    """The planned micro-batches that a run finds in its checkpoint.

    Attributes:
        run: the name of this run.
        planned: the last planned micro-batch, or -1. Planned micro-batches that were not committed run again.
        earlier: the name of the run that planned it.
    """

    run: str
    planned: int = -1
    earlier: str = ""

    def planned_in(self, number: int) -> str:
        """Return the run that planned a micro-batch. An interrupted micro-batch runs again with its original time."""
        return self.run if number > self.planned else self.earlier


class WindowProcessor(StatefulProcessor):
    """The processor for ``transformWithState``: called for each key group and micro-batch, with a few binary rows in and out.

    Spark 4.0 needs a variant with data frames (:mod:`panestream.spark.operator.processor`).
    """

    def __init__(self, plan: WindowPlan, restart_info: RestartInfo | None = None) -> None:
        """Prepare a run. ``restart_info`` has the micro-batches that it found planned; None if unknown."""
        self._restart_info = restart_info
        # A name and a start time for the run, if Spark does not give its id, as inside foreachBatch through Connect.
        self._run, self._begun = uuid.uuid4().hex, time.time() * 1000
        # Part of the object that Spark pickles, and unpickled only by workers of this query. With Spark's own pickler, since user
        # functions may be defined in a notebook.
        self._pickled_plan = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        self._wakes_up = plan.wakes_up
        self._plan: WindowPlan | None = None
        self._state: SparkState | None = None
        self._handle: StatefulProcessorHandle | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = SparkState(handle.getMapState("panestream", _KEY, _VALUE))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        return self._process(key, self.parts_of(rows), timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: Any) -> Iterator[Any]:
        return self._process(key, [], timerValues)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        # For a query that starts from a savepoint: the entries of its initial state (panestream.spark.savepoint).
        if self._state is None:
            raise RuntimeError("Spark called the processor before init")
        assert self._handle is not None  # noqa: S101 - init sets both
        for space, number, value in self.entries_of(initialState):
            if space is None:
                self._handle.registerTimer(number)
            else:
                self._state.put(space, number, value)

    def entries_of(self, initial: Any) -> Iterable[tuple[str | None, int, bytes]]:
        """Return the entries in a piece of Spark's initial state: space, number and value."""
        return [(initial.space, initial.number, initial.value)]

    def parts_of(self, rows: Iterator[Any]) -> list[Sequence[Any]]:
        """Return the fields of the :class:`~panestream.engine.storage.payload.PayloadPart` in each row of a key group."""
        return [(row.origin, row.sequence, row.parts_left, row.body) for row in rows]

    def rows_of(self, output: Iterable[tuple[str, bytes]]) -> Iterator[Any]:
        """Return the output (tags and bodies) in the form that Spark expects."""
        return (Row(tag=tag, body=body) for tag, body in output)

    def _process(self, key: Any, arrived: list[Sequence[Any]], timers: TimerValues) -> Iterator[Any]:
        from panestream.engine.exchange.group_run import bodies, run_micro_batch
        from panestream.engine.runtime.group_operator import freeze_modules_once
        from panestream.engine.storage.payload import PayloadPart
        from panestream.spark.compat import cache_zip_imports, group_number, run_id
        from panestream.spark.failures import without_internal_traceback

        cache_zip_imports()
        if self._state is None:
            raise RuntimeError("Spark called the processor before init")
        plan = self._plan = self._plan or pickle.loads(self._pickled_plan)  # noqa: S301 (see __init__)
        now = timers.getCurrentProcessingTimeInMs() * plan.ticks if self._wakes_up else None
        parts = [PayloadPart(*part) for part in arrived]
        started = time.perf_counter()
        which = self._which_run(run_id() or self._run, timers)
        with without_internal_traceback():
            output = run_micro_batch(plan, self._state, group_number(plan.groups, key[0]), parts, now, **which)
        if self._wakes_up:
            # An engine timer is due once the clock is past it.
            self._wake_up_at(None if output.wake_up is None else output.wake_up // plan.ticks + 1)
        output.metrics.operator_us = round((time.perf_counter() - started) * 1_000_000)
        yield from self.rows_of(bodies(output))
        freeze_modules_once()

    def _which_run(self, run: str, timers: TimerValues) -> dict[str, str]:
        """Return this run, and the run that planned the micro-batch. An interrupted one runs again with its original time."""
        assert self._state is not None  # noqa: S101 - the caller looked
        number, restart = self._state.micro_batch, self._restart_info
        if restart is not None and number is not None:
            return {"run": run, "planned_in": restart.planned_in(number)}
        # Unknown: an earlier run planned it if its time is before the start of this run.
        before = self._wakes_up and timers.getCurrentProcessingTimeInMs() < self._begun
        return {"run": run, "planned_in": f"before {run}" if before else run}

    def _wake_up_at(self, expiry: int | None) -> None:
        """Keep one timer per key group, the earliest of all its windows, in milliseconds; None deletes it."""
        assert self._handle is not None  # noqa: S101 - the caller looked
        set_already = list(self._handle.listTimers())
        for other in set_already:
            if other != expiry:
                self._handle.deleteTimer(other)
        if expiry is not None and expiry not in set_already:
            self._handle.registerTimer(expiry)

    def close(self) -> None:
        pass


_FIELDS = ("origin", "sequence", "parts_left", "body")


class DataFrameWindowProcessor(WindowProcessor):
    """The processor for ``transformWithStateInPandas``, with the state and timers of its base class."""

    def parts_of(self, rows: Iterator[Any]) -> list[Sequence[Any]]:
        # tolist returns Python's numbers instead of numpy's.
        return [part for frame in rows for part in zip(*(frame[name].tolist() for name in _FIELDS), strict=True)]

    def entries_of(self, initial: Any) -> Iterable[tuple[str | None, int, bytes]]:
        return zip(*(initial[name].tolist() for name in ("space", "number", "value")), strict=True)

    def rows_of(self, output: Iterable[tuple[str, bytes]]) -> Iterator[Any]:
        import pandas as pd

        # Spark makes an Arrow batch of each frame. With one body in each, none exceeds Arrow's size limit.
        for tag, body in output:
            yield pd.DataFrame({"tag": [tag], "body": [body]})
