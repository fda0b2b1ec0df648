"""An executor that runs scenarios on Spark's stateful processor without Spark: real exchange, real payloads, a store in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.types import Row

from panestream.engine.exchange.group_run import METRICS
from panestream.engine.exchange.packing import PackColumns
from panestream.engine.operators.row.contents import ProcessRows
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.planner import plan_functions
from panestream.engine.storage import payload
from panestream.engine.storage.payload import REPORT
from panestream.errors import PanestreamError
from panestream.spark.compat import group_values
from panestream.spark.operator.processor import WindowProcessor
from panestream.spark.operator.task_functions import Pack
from panestream.windowing.watermarks import WatermarkStrategy
from tests.conformance.executors.base import Observed
from tests.conformance.executors.batches import (
    MicroBatch,
    StepWatermarks,
    fired_as_json,
    json_plan_of,
    late_as_json,
    micro_batches,
)
from tests.conformance.scenario_format import LATE_TAG, Scenario, ScenarioError

_KEYS = pa.schema([("key", pa.string())])
_ROWS = pa.schema(
    [("key", pa.string()), ("ts", pa.int64()), ("value", pa.int64()), ("gap", pa.int64()), ("watermark", pa.int64())]
)
_RESULT = pa.schema([("value", pa.string())])
_LONGEST = 6


@dataclass(slots=True)
class MemoryHandle:
    """A ``StatefulProcessorHandle`` over a dict: one map state, and timers of one grouping key."""

    values: dict[tuple[str, int], bytes] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)

    def getMapState(self, name: str, key_schema: Any, value_schema: Any) -> MemoryHandle:  # noqa: N802 - Spark's names from here on
        return self

    def getValue(self, key: tuple[str, int]) -> tuple[bytes] | None:  # noqa: N802
        value = self.values.get(key)
        return None if value is None else (value,)

    def updateValue(self, key: tuple[str, int], value: tuple[bytes]) -> None:  # noqa: N802
        self.values[key] = value[0]

    def removeKey(self, key: tuple[str, int]) -> None:  # noqa: N802
        del self.values[key]

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        return iter(sorted(self.timers))

    def registerTimer(self, expiry: int) -> None:  # noqa: N802
        self.timers.add(expiry)

    def deleteTimer(self, expiry: int) -> None:  # noqa: N802
        self.timers.discard(expiry)


@dataclass(frozen=True, slots=True)
class ProcessorExecutor:
    """Runs scenarios in micro-batches on the stateful processor.

    Attributes:
        restore: make a new processor on the saved state for every micro-batch, as Spark does after a restart.
    """

    restore: bool = False

    def run(self, scenario: Scenario) -> Observed:
        batches = micro_batches(scenario, _LONGEST)
        observed = Observed(cuts=[batch.steps for batch in batches])
        run = _Run(self.restore)
        try:
            run.plan = _plan_of(scenario)
            for batch in batches:
                run.micro_batch(batch, observed)
        except ScenarioError:
            raise
        except PanestreamError as error:
            observed.error = f"{type(error).__name__}: {error}"
            return observed
        if scenario.end_of_input and run.plan.assigner.is_event_time:
            run.check_that_nothing_is_left(keeps_per_key=scenario.spec["function"]["type"] == "context", observed=observed)
        return observed


def _plan_of(scenario: Scenario) -> WindowPlan:
    row_plan = json_plan_of(scenario)
    assert not isinstance(row_plan.function, ProcessRows)
    return WindowPlan(
        keys=("key",),
        key_schema=_KEYS,
        assigner=row_plan.window.assigner,
        operator=plan_functions(row_plan.window, row_plan.function, _RESULT, _ROWS, row_plan.function),
        watermark=WatermarkStrategy.for_generator(StepWatermarks),
        event_time="ts",
        groups=1,
        allowed_lateness=row_plan.window.allowed_lateness,
        late_tag=row_plan.late_output,
        row_schema=_ROWS,
        ticks=1,
    )


@dataclass(slots=True)
class _Run:
    """The run of one scenario through its micro-batches."""

    restore: bool
    plan: Any = None
    handle: MemoryHandle = field(default_factory=MemoryHandle)
    processor: WindowProcessor | None = None
    clock: int = 0

    def micro_batch(self, batch: MicroBatch, observed: Observed) -> None:
        """Process rows first and then expired timers, as Spark does."""
        if self.processor is None or self.restore:
            self.processor = WindowProcessor(self.plan)
            self.processor.init(self.handle)  # type: ignore[arg-type]
        self.clock = max(self.clock, batch.clock or 0)
        key, now = (group_values(1)[0],), TimerValues(self.clock, -1)
        emitted: list[Any] = []
        if batch.elements or batch.watermark is not None:
            emitted += self.processor.handleInputRows(key, iter(self._packed(batch)), now)
        for expiry in [timer for timer in self.handle.listTimers() if timer <= self.clock]:
            emitted += self.processor.handleExpiredTimer(key, now, None)
            self.handle.deleteTimer(expiry)
        self._record([(row.tag, row.body) for row in emitted], observed)

    def check_that_nothing_is_left(self, keeps_per_key: bool, observed: Observed) -> None:
        """Check that the final watermark removed all event-time windows and their state."""
        if self.handle.timers:
            # The engine may still have a timer for a removed window. It then does nothing and sets no further timer.
            idle = Observed()
            self.micro_batch(MicroBatch(clock=max(self.handle.timers)), idle)
            observed.complaints += [f"something fired after the end of input: {idle.steps}"] if any(idle.steps) else []
        left = [] if keeps_per_key else [space for space, _ in self.handle.values if space != "meta"]
        if left or self.handle.timers:
            observed.complaints.append(f"after the end of input {left} and the timers {self.handle.timers} are left")

    def _packed(self, batch: MicroBatch) -> list[Row]:
        """Return the exchange's output: packed rows, and a report with the watermark of the micro-batch."""
        packed: list[dict[str, Any]] = []
        if batch.elements:
            rows = [element._asdict() for element in batch.elements]
            whole = pa.Table.from_pylist(rows, schema=_ROWS)
            arrays = [whole["ts"], whole["key"], whole.to_struct_array(), pa.array([self.clock] * len(rows), pa.int64())]
            table = pa.Table.from_arrays(
                [pa.chunked_array([_array(array)]) for array in arrays], names=["time", "key", "row", "processing_time"]
            )
            pack = Pack(self.plan, PackColumns((pa.string(),), (), row=2, processing_time=3))
            packed += [row for out in pack(table.to_batches()) for row in out.to_pylist()]
        if batch.watermark is not None:
            report = {"rows": 0, "invalid": 0, "history": 0, "seen": {"": -(2**62)}, "processing_time": self.clock, "run": ""}
            report["watermarks"] = {"": batch.watermark}
            body = payload.encode(pa.table({}), {"kind": REPORT, **report})
            packed.append({"group": group_values(1)[0], "origin": 1, "sequence": 0, "parts_left": 0, "body": body})
        # Spark delivers the rows of a group in any order.
        return [Row(**row) for row in reversed(packed)]

    def _record(self, emitted: list[tuple[str, bytes]], observed: Observed) -> None:
        fired, late = [], []
        for tag, body in emitted:
            if tag == METRICS:
                metrics = json.loads(body)
                observed.late_dropped += 0 if self.plan.late_tag else metrics["late_rows"]
                continue
            table, _ = payload.decode(body, self.plan.output_schema(tag))
            if tag == MAIN:
                for name in ("window_start", "window_end"):
                    position = table.schema.get_field_index(name)
                    table = table.set_column(position, name, table.column(position).cast(pa.int64()))
                fired += [fired_as_json(row) for row in table.to_pylist()]
            elif tag == LATE_TAG:
                late += [late_as_json(row) for row in table.to_pylist()]
        observed.steps.append(fired)
        observed.late.append(late)


def _array(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
