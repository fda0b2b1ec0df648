"""Tests windows that run only on columns, without Spark: look-backs and predicate windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.explain import ReprHtml
from panestream.engine.plan import MAIN, Chunk, WindowPlan, WindowQuery
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.testing.column_query import column_operator, runs_on_columns_only
from panestream.testing.elements import Columns, schema_of
from panestream.testing.results import LateElement, WindowResult, late_element, window_result
from panestream.tracing.events import Cause, Fate, Firing, TimeMoved, Trace, TracedElement, TracedWindow
from panestream.tracing.texts import TraceTexts
from panestream.windowing.aggregates.base import Aggregate
from panestream.windowing.assigners import RollingWindows, WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Instant, instant
from panestream.windowing.watermarks import WatermarkStrategy
from panestream.windowing.windows import TimeWindow

_KEY, _TIME = "key", "time of the element"


class ColumnTestHarness(ReprHtml):
    """Runs look-backs or predicate windows on one key group, with the operators that run them on Spark.

    Rows are dicts. Inputs of aggregates and predicates are column names, because SQL needs Spark; a predicate is a column of
    booleans. Times are given as for :class:`WindowTestHarness` and returned as integers.
    >>> import panestream as pst
    >>> harness = ColumnTestHarness(
    ...     pst.LookBackWindows.of("1 hour"), aggregate=[pst.agg.sum("spent").alias("last_hour")], columns={"spent": "int64"}
    ... )
    >>> for time, spent in [("10 min", 5), ("30 min", 2), ("80 min", 1)]:
    ...     harness.process_element({"spent": spent}, time, key="ann")
    >>> harness.process_watermark("2 hours")
    >>> [result.value for result in harness.extract_output()]
    [{'spent': 5, 'last_hour': 5}, {'spent': 2, 'last_hour': 7}, {'spent': 1, 'last_hour': 3}]
    """

    def __init__(self, assigner: WindowAssigner, *, aggregate: Aggregate | Sequence[Aggregate], columns: Columns) -> None:
        """Create an empty key group without a watermark.

        Args:
            assigner: ``LookBackWindows``, ``PredicateWindows``, or sessions that are ``closed_by`` a predicate.
            aggregate: one or several declared aggregates of ``pst.agg``.
            columns: the names of the columns of rows, and their Arrow types.

        Raises:
            InvalidPlanError: :class:`WindowTestHarness` runs these windows, or the rows lack a column.
        """
        if not runs_on_columns_only(assigner):
            raise InvalidPlanError(f"{assigner!r} run row by row, too: take a WindowTestHarness for them")
        if isinstance(assigner, RollingWindows):
            raise InvalidPlanError(
                f"{assigner!r} change the values of a key, and no window of a row fires: test them with pst.testing.simulate, or "
                "as a batch on Spark"
            )
        self._columns = schema_of(columns)
        self._looks_back = look_backs_of(assigner) is not None
        self._plan = _plan_of(assigner, [aggregate] if isinstance(aggregate, Aggregate) else list(aggregate), self._columns)
        self._state, self._step = MemoryState(), 0
        self._elements: list[TracedElement] = []
        self._pending: list[int] = []
        self._windows: list[TracedWindow] = []
        self._watermarks: list[TimeMoved] = []
        self._fired: list[WindowResult] = []
        self._late: list[LateElement] = []
        self._in_microseconds = False
        self.current_watermark = MIN_TIMESTAMP
        """The watermark; ``MIN_TIMESTAMP`` before the first."""

    def _parts(self) -> Mapping[str, str]:
        words = TraceTexts(in_microseconds=self._in_microseconds)
        return {"windows": repr(self._plan.assigner), "watermark": words.time(self.current_watermark)}

    # ---------------------------------------------------------------- input

    def process_element(self, value: dict[str, Any], timestamp: Instant, key: Any = None) -> None:
        """Add a row as a dict; missing columns are null, and unknown columns raise ``InvalidPlanError``."""
        for name in value:
            if name not in self._columns.names:
                raise InvalidPlanError(f"the rows have no column {name!r}; {did_you_mean(name, self._columns.names)}")
        time, number = self._instant(timestamp, "the timestamp"), len(self._elements)
        late = time <= self.current_watermark
        fate: Fate = "late" if late else "outside"
        watermark = self.current_watermark
        self._elements.append(TracedElement(number, self._next(), key, time, value, watermark, 0, watermark, fate, (), ()))
        self._pending.append(number)
        if late:
            self._late.append(late_element(key, time, value, in_microseconds=self._in_microseconds))

    def process_watermark(self, time: Instant) -> None:
        """Advance the watermark, which emits the rows and windows up to ``time``; a lower watermark does not change anything."""
        came = max(self._instant(time, "the watermark"), self.current_watermark)
        if came == MIN_TIMESTAMP:
            return
        # Without a delay, the watermark is the largest time minus one.
        self._run(GroupInput(seen={"": came + 1}), came)

    def end_of_input(self) -> None:
        """End the bounded input, which emits all rows and windows."""
        self._run(GroupInput(end_of_input=True), MAX_TIMESTAMP)

    # ---------------------------------------------------------------- output

    def extract_output(self) -> list[WindowResult]:
        """Return and clear the results since the last call; look-backs have one for each row, with its columns."""
        taken, self._fired = self._fired, []
        return taken

    def extract_late_elements(self) -> list[LateElement]:
        """Return and clear the rows since the last call that arrived after the watermark had passed them."""
        taken, self._late = self._late, []
        return taken

    def trace(self) -> Trace:
        """Return the history of all rows and windows for ``pst.tools.timeline`` and ``pst.tools.why``."""
        return Trace(
            tuple(self._elements),
            tuple(self._windows),
            tuple(self._watermarks),
            in_microseconds=self._in_microseconds,
            description=repr(self._plan.assigner),
        )

    # ---------------------------------------------------------------- implementation

    def _run(self, batch: GroupInput, came: int) -> None:
        rows = [self._elements[number] for number in self._pending]
        self._pending = []
        if rows:
            chunk = self._chunk(rows)
            for kind, table in self._plan.operator.pack(self._plan, chunk):
                batch.parts.setdefault(kind, []).append(table)
        batch.input_rows = len(rows)
        output = self._plan.operator.for_group(self._plan, self._state, 0).process(batch)
        if came > self.current_watermark:
            self.current_watermark = came
            self._watermarks.append(TimeMoved(self._next(), came))
        for tag, table in output.tables:
            if tag == MAIN:
                for row in table.cast(_with_integers(table.schema)).to_pylist():
                    self._came_out(row)

    def _chunk(self, rows: Sequence[TracedElement]) -> Chunk:
        plan, times = self._plan, np.array([row.timestamp for row in rows], np.int64)
        known: dict[str, Any] = {name: [row.value.get(name) for row in rows] for name in self._columns.names}
        known[_TIME] = times
        schema = pa.schema([*self._columns, (_TIME, pa.int64())])
        table = pa.table(known, schema=schema).combine_chunks()
        keys = [pa.array([repr(row.key) for row in rows], pa.string())]
        values = [table.column(text.removeprefix("whether ")).chunk(0) for text in plan.operator.inputs]
        return Chunk(times, keys, values)

    def _came_out(self, row: dict[str, Any]) -> None:
        key = next(one.key for one in self._elements if repr(one.key) == row[_KEY])
        if self._looks_back:
            widest = self._plan.operator
            time = row.pop(_TIME)
            start, end = time - widest.longest, time + widest.ahead + 1  # type: ignore[attr-defined]
        else:
            start, end = row.pop("window_start"), row.pop("window_end")
            time = end - 1
        del row[_KEY]
        window = TimeWindow(start, end)
        self._fired.append(window_result(key, window, row, time, in_microseconds=self._in_microseconds))
        self._write_down(key, window, row)

    def _write_down(self, key: Any, window: TimeWindow, result: dict[str, Any]) -> None:

        number = len(self._windows)
        inside = [
            one for one in self._elements
            if one.key == key and one.fate != "late" and window.start <= one.timestamp < window.end
        ]  # fmt: skip
        for one in inside:
            self._elements[one.number] = replace(one, fate="taken", windows=(*one.windows, number))
        members, opened = tuple(one.number for one in inside), min(one.step for one in inside)
        cause = Cause("event-time timer", window.max_timestamp())
        step, watermark = self._next(), self.current_watermark
        firing = Firing(number, 0, step, "on_time", cause, False, members, (), (), (result,), watermark, 0)
        self._windows.append(
            TracedWindow(
                number,
                key,
                window,
                opened,
                elements=members,
                firings=(firing,),
                cleared=self._next(),
                cleared_watermark=watermark,
                cleared_clock=0,
            )
        )

    def _next(self) -> int:
        self._step += 1
        return self._step

    def _instant(self, time: Instant, what: str) -> int:
        """Return the time as an integer, in microseconds if it is a duration or date."""
        self._in_microseconds |= not isinstance(time, int)
        return instant(time, what)


def _plan_of(assigner: WindowAssigner, aggregates: list[Aggregate], columns: pa.Schema) -> WindowPlan:
    """Return the planner's query; look-backs keep the columns and the time of the row."""
    keys = pa.schema([(_KEY, pa.string())])
    operator = column_operator(WindowQuery(assigner), aggregates, columns, keys, _TIME)
    return WindowPlan((_KEY,), keys, assigner, operator, WatermarkStrategy.for_monotonous_timestamps(), "time", 1)


def _with_integers(schema: pa.Schema) -> pa.Schema:

    return pa.schema([field.with_type(pa.int64()) if field.name in ("window_start", "window_end") else field for field in schema])


__all__ = ["ColumnTestHarness"]
