"""The row operator on columns: a micro-batch of a key group goes in as Arrow tables and comes out as such."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.identity import check_identity
from panestream.engine.kernels.python_values import RowType, arrow_column, python_values, result_columns
from panestream.engine.operators.row.interleaving import interleaved
from panestream.engine.operators.row.keys import hashable
from panestream.engine.operators.row.row_plan import RowPlan
from panestream.engine.operators.row.window_operator import FiredResult, Firing, Output, RowOperator
from panestream.engine.plan import FIRING_COLUMNS, MAIN, WindowPlan
from panestream.engine.runtime.gc_control import without_collector
from panestream.engine.runtime.group_io import GroupInput, GroupMetrics, GroupOutput
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.storage.payload import one_chunk
from panestream.engine.storage.sealed_state import SealedState
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import TimeWindow

if TYPE_CHECKING:
    from panestream.engine.operators.row.spec import RowSpec

INPUTS = "inputs"


@dataclass(slots=True)
class _Arrived:
    """The rows of one table that came: as the operator takes them, their times, and where their whole rows are."""

    rows: list[tuple[Any, int, Any]]
    times: npt.NDArray[np.int64]
    whole: pa.Table


class RowGroupOperator:
    """One key group's row operator, for one micro-batch.

    Args:
        plan: the query.
        spec: its operator, as planned.
        row_plan: what the row operator does.
        row_type: of the elements.
        state: the key group's state.
        group: its number.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(
        self, plan: WindowPlan, spec: RowSpec, row_plan: RowPlan, row_type: RowType, state: SealedState, group: int
    ) -> None:
        self._plan = plan
        self._spec = spec
        self._row_type = row_type
        self._state = state
        self._operator = RowOperator(row_plan, self._state, group)
        meta = self._operator.store.meta
        if "identity" in meta:
            check_identity(meta["identity"], plan.identity(), "the checkpoint")
            self._tracker = WatermarkTracker.from_json(plan.watermark, meta["watermarks"])
        else:
            self._tracker = WatermarkTracker(plan.watermark)

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""
        with without_collector():
            output = self._process(batch)
            self._operator.store.release()
            return output

    def _process(self, batch: GroupInput) -> GroupOutput:
        output = GroupOutput()
        for table in batch.invalid:
            output.emit(self._plan.invalid_tag or "", table)
        arrived = [self._arrived(table) for table in batch.of(INPUTS)]
        after = MAX_TIMESTAMP if batch.end_of_input else self._tracker.take_in(batch)
        clock = batch.batch_time or None
        emitted = self._operator.process(self._in_order(arrived, batch.origins.get(INPUTS, [])), after, clock)
        self._emit(emitted, output)
        if batch.end_of_input and self._plan.operator.uses_processing_time and not isinstance(self._plan.assigner, GlobalWindows):
            # A batch has no clock to wait for: what is open at the end of the input fires then.
            self._operator.advance_processing_time(MAX_TIMESTAMP)
            self._emit(self._operator.drain(), output)
        if emitted.late:
            self._emit_late(arrived, [id(element) for _, _, element in emitted.late], output)
        if not batch.end_of_input:
            self._commit()
        output.wake_up = self._operator.next_processing_time_timer()
        if output.wake_up is not None and not self._plan.operator.uses_processing_time:
            raise InvalidPlanError(
                f"{self._operator.plan.window.firing_trigger!r} registered a processing-time timer: give it the property "
                "uses_processing_time that returns True, so that Spark wakes the query up without new data"
            )
        self._measure(batch, output.metrics, emitted.late_dropped + len(emitted.late))
        return output

    def _emit(self, emitted: Output, output: GroupOutput) -> None:
        output.metrics.fired_rows += len(emitted.fired)
        self._emit_fired(MAIN, emitted.fired, self._spec.results, output, emitted.firings)
        for tag, fired in emitted.side_outputs.items():
            self._emit_fired(tag, fired, partial(result_columns, schema=self._side_schema(tag)), output)

    def _arrived(self, table: pa.Table) -> _Arrived:
        width, rows = len(self._plan.key_schema), table.num_rows
        keys = [_keys(table.column(position)) for position in range(width)]
        key: Sequence[Any] = keys[0] if width == 1 else list(zip(*keys, strict=True)) if keys else [()] * rows
        values = len(self._row_type.schema)
        columns = [one_chunk(table.column(width + 1 + position)) for position in range(values)]
        elements = self._row_type.from_columns(list(map(python_values, columns)), rows)
        self._operator.store.arrived(elements, columns)
        times = table.column(width).to_numpy()
        first_whole = width + 1 + (0 if self._plan.operator.takes_rows else values)
        rows_of = list(zip(key, times.tolist(), elements, strict=True))
        return _Arrived(rows_of, times, table.select(range(first_whole, table.num_columns)))

    def _in_order(self, arrived: list[_Arrived], origins: Sequence[int]) -> Iterable[tuple[Any, int, Any]]:
        rows = chain.from_iterable(part.rows for part in arrived)
        if len(set(origins)) < 2 or not self._operator.plan.window.merges:
            return rows
        return map(list(rows).__getitem__, interleaved([part.times for part in arrived], origins).tolist())

    def _emit_fired(
        self,
        tag: str,
        fired: Sequence[FiredResult],
        columns_of: Callable[[Sequence[Any]], list[pa.Array]],
        output: GroupOutput,
        firings: Sequence[Firing] = (),
    ) -> None:
        if not fired:
            return
        keys = [one[0] for one in fired]
        columns: Iterator[Sequence[Any]] = iter([keys] if len(self._plan.key_schema) == 1 else zip(*keys, strict=True))
        arrays = [arrow_column(next(columns), field) for field in self._plan.key_schema]
        windows = [one[1] for one in fired]
        for name in ("start", "end"):
            bounds = [getattr(window, name) if isinstance(window, TimeWindow) else None for window in windows]
            arrays.append(pa.array(bounds, pa.int64()).cast(pa.timestamp("us", tz="UTC")))
        arrays += columns_of([one[2] for one in fired])
        if firings:
            arrays += [
                pa.array(column, field.type) for column, field in zip(zip(*firings, strict=True), FIRING_COLUMNS, strict=True)
            ]
        output.emit(tag, pa.Table.from_arrays(arrays, schema=self._plan.output_schema(tag)))

    def _side_schema(self, tag: str) -> pa.Schema:
        declared = self._plan.side_outputs
        if tag not in declared:
            hint = did_you_mean(tag, declared) if declared else "none is declared"
            raise InvalidPlanError(
                f"the window function sent to the output {tag!r}: declare it, .side_output({tag!r}, schema); {hint}"
            )
        return declared[tag]

    def _emit_late(self, arrived: list[_Arrived], late: list[int], output: GroupOutput) -> None:
        """The whole rows of late elements, as they came."""
        schema, wanted = self._plan.row_schema, set(late)
        if self._plan.late_tag is None or schema is None:
            raise RuntimeError("late rows came out that the plan did not ask for")
        for part in arrived:
            places = [place for place, row in enumerate(part.rows) if id(row[2]) in wanted]
            rows = part.whole.take(pa.array(places, pa.int64()))
            output.emit(self._plan.late_tag, pa.Table.from_arrays(rows.columns, schema=schema))

    def _commit(self) -> None:
        # With its number it is written in every micro-batch, like that of all key groups.
        number = self._state.micro_batch
        self._operator.store.meta.update(identity=self._plan.identity(), watermarks=self._tracker.to_json(), micro_batch=number)
        self._operator.commit()

    def _measure(self, batch: GroupInput, metrics: GroupMetrics, late: int) -> None:
        self._tracker.measure(batch, metrics)
        metrics.late_rows = late
        self._state.measure(metrics)


def _keys(column: pa.ChunkedArray) -> list[Any]:
    values = python_values(column)
    return list(map(hashable, values)) if pa.types.is_nested(column.type) else values
