"""The stateful processor that Spark runs for each key group.

Spark starts an extra Python on the driver, only to ask the processor for its state variables. So this module imports nothing but
PySpark's own, and the plan stays pickled until rows come: else that Python would load Arrow, numpy and the whole engine first.
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
    """The state of the key group at hand, in one map of Spark's state store."""

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


class TakenUp(NamedTuple):
    """What a run finds that goes on with a checkpoint.

    Attributes:
        run: what it is called itself.
        planned: the last micro-batch that was planned; -1: none. Up to it they are run again.
        earlier: what the run is called that planned it.
    """

    run: str
    planned: int = -1
    earlier: str = ""

    def planned_in(self, number: int) -> str:
        """Which run planned a micro-batch of this run: one that was broken off comes again, with the time that it had."""
        return self.run if number > self.planned else self.earlier


class WindowProcessor(StatefulProcessor):
    """The processor for ``transformWithState``: a call for each key group and micro-batch, a few binary rows in and out.

    Spark 4.0 wants them as data frames (:mod:`panestream.spark.operator.data_frames`); all else is the same.
    """

    def __init__(self, plan: WindowPlan, taken_up: TakenUp | None = None) -> None:
        """Of one run of a query.

        Args:
            plan: the query.
            taken_up: what the run found planned; None: nobody looked.
        """
        self._taken_up = taken_up
        # Where Spark does not tell which run it is, as inside of foreachBatch through Connect; and when it was begun.
        self._run, self._begun = uuid.uuid4().hex, time.time() * 1000
        # Travels inside what Spark pickles and ships itself, and is opened only by the workers of the same query. Spark's own
        # pickler, since users' functions may stand in a notebook.
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
        # Of a query that starts from a savepoint: entries of the state, as they are to be (panestream.spark.savepoint).
        if self._state is None:
            raise RuntimeError("Spark called the processor before init")
        assert self._handle is not None  # noqa: S101 - init sets both
        for space, number, value in self.entries_of(initialState):
            if space is None:
                self._handle.registerTimer(number)
            else:
                self._state.put(space, number, value)

    def entries_of(self, initial: Any) -> Iterable[tuple[str | None, int, bytes]]:
        """What Spark hands over of the initial state at once: space, number and value of entries."""
        return [(initial.space, initial.number, initial.value)]

    def parts_of(self, rows: Iterator[Any]) -> list[Sequence[Any]]:
        """What arrived for a key group: of each row the fields of a :class:`~panestream.engine.storage.payload.PayloadPart`."""
        return [(row.origin, row.sequence, row.parts_left, row.body) for row in rows]

    def rows_of(self, output: Iterable[tuple[str, bytes]]) -> Iterator[Any]:
        """What leaves a key group, as Spark takes it; ``output``: tags and bodies."""
        return (Row(tag=tag, body=body) for tag, body in output)

    def _process(self, key: Any, arrived: list[Sequence[Any]], timers: TimerValues) -> Iterator[Any]:
        from panestream.engine.exchange.group_run import bodies, run_micro_batch
        from panestream.engine.runtime.group_operator import freeze_modules_once
        from panestream.engine.storage.payload import PayloadPart
        from panestream.spark.operator.placement import group_number
        from panestream.spark.reasons import in_few_words
        from panestream.spark.run import run_id
        from panestream.spark.worker import remember_archives

        remember_archives()
        if self._state is None:
            raise RuntimeError("Spark called the processor before init")
        plan = self._plan = self._plan or pickle.loads(self._pickled_plan)  # noqa: S301 (see __init__)
        now = timers.getCurrentProcessingTimeInMs() * plan.ticks if self._wakes_up else None
        parts = [PayloadPart(*part) for part in arrived]
        started = time.perf_counter()
        which = self._which_run(run_id() or self._run, timers)
        with in_few_words():
            output = run_micro_batch(plan, self._state, group_number(plan.groups, key[0]), parts, now, **which)
        if self._wakes_up:
            # An engine timer is due once the clock is past it.
            self._wake_up_at(None if output.wake_up is None else output.wake_up // plan.ticks + 1)
        output.metrics.operator_us = round((time.perf_counter() - started) * 1_000_000)
        yield from self.rows_of(bodies(output))
        freeze_modules_once()

    def _which_run(self, run: str, timers: TimerValues) -> dict[str, str]:
        """Which run it is, and which planned the micro-batch: one that was broken off comes again with the time that it had."""
        assert self._state is not None  # noqa: S101 - the caller looked
        number, known = self._state.micro_batch, self._taken_up
        if known is not None and number is not None:
            return {"run": run, "planned_in": known.planned_in(number)}
        # Nobody looked: it was planned before, where its time is of before.
        before = self._wakes_up and timers.getCurrentProcessingTimeInMs() < self._begun
        return {"run": run, "planned_in": f"before {run}" if before else run}

    def _wake_up_at(self, expiry: int | None) -> None:
        """One timer a key group: the earliest of all its windows, in milliseconds; None: there is none."""
        assert self._handle is not None  # noqa: S101 - the caller looked
        set_already = list(self._handle.listTimers())
        for other in set_already:
            if other != expiry:
                self._handle.deleteTimer(other)
        if expiry is not None and expiry not in set_already:
            self._handle.registerTimer(expiry)

    def close(self) -> None:
        pass
