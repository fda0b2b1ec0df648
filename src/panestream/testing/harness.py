"""Tests windows without Spark, step by step: put in elements, watermarks and clock times, then inspect the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from panestream.engine.explain import ReprHtml
from panestream.engine.operators.row.contents import AnyWindowFunction, RowPlan
from panestream.engine.operators.row.operator import row_operator
from panestream.engine.operators.row.window_operator import (
    FiredResult,
    Output,
    count_key_state_entries,
    count_state_entries,
    count_timers,
)
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, InvalidWindowError, PanestreamError
from panestream.testing.clockwork import Clockwork
from panestream.testing.elements import Columns
from panestream.testing.harness_query import HarnessQuery, harness_query
from panestream.testing.results import LateElement, WindowResult, late_element, window_result
from panestream.tracing.events import Trace
from panestream.tracing.recorder import TracedOperator, traced_operator
from panestream.tracing.texts import TraceTexts
from panestream.tracing.why import ANY, Answer, explain
from panestream.windowing.aggregates.base import Aggregate
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from panestream.windowing.time import MAX_TIMESTAMP, Instant, instant
from panestream.windowing.triggers import Trigger
from panestream.windowing.watermarks import WatermarkStrategy
from panestream.windowing.windows import Window


class Snapshot(NamedTuple):
    """The state at one moment, for :meth:`WindowTestHarness.restore`.

    Examples:
        >>> import panestream as pst
        >>> harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max)
        >>> harness.process_element(3, "5 seconds", key="ann")
        >>> saved = harness.snapshot()
        >>> harness.process_element(9, "5 seconds", key="ann")
        >>> harness.restore(saved)
        >>> harness.end_of_input()
        >>> [result.value for result in harness.extract_output()]
        [3]
    """

    values: dict[tuple[str, int], bytes]
    watermarks: Mapping[str, Any] | None = None


class WindowTestHarness(ReprHtml):
    """Runs windows and a function on one key group, step by step. Flink: ``KeyedOneInputStreamOperatorTestHarness``.

    It takes the arguments of a stream's ``.window(...)``, for one kind of windows. It runs the row operator, which defines the
    results of all other operators.

    Times are given as integers, as durations since the epoch (``"90 seconds"``), or as ``datetime`` with a time zone. They are
    returned as integers in the unit of the windows: microseconds if windows, triggers and evictors were created from durations
    (``TumblingEventTimeWindows.of("1 minute")``), or your own unit if they were created by their constructors. After the first
    duration or ``datetime``, results show their times as times of day, in UTC.

    >>> import panestream as pst
    >>> harness = WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=lambda a, b: a + b)
    >>> harness.process_element(1, "10 seconds", key="ann")
    >>> harness.process_element(2, "59 seconds", key="ann")
    >>> harness.process_watermark("1 minute")
    >>> harness.extract_output()
    [WindowResult(key='ann', window=[00:00:00, 00:01:00), value=3, timestamp=00:00:59.999999)]
    >>> harness.num_timers(), harness.num_state_entries()
    (0, 0)

    Declared aggregates, and functions on rows, need ``columns``. Rows are then dicts.

    >>> harness = WindowTestHarness(
    ...     pst.EventTimeSessionWindows.with_gap("30 seconds"),
    ...     aggregate=[pst.agg.count().alias("n"), pst.agg.sum("price")],
    ...     columns={"price": "double"},
    ... )
    >>> harness.process_element({"price": 2.5}, "0 seconds")
    >>> harness.process_element({"price": 1.0}, "30 seconds")
    >>> harness.end_of_input()
    >>> [result.value for result in harness.extract_output()]
    [{'n': 2, 'sum(price)': 3.5}]
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        *,
        trigger: Trigger | None = None,
        evictor: Evictor | None = None,
        allowed_lateness: Instant = 0,
        reduce: ReduceFunction | None = None,
        aggregate: AggregateFunction | Aggregate | Sequence[Aggregate] | None = None,
        apply: WindowFunction | Callable[..., Any] | None = None,
        process: ProcessWindowFunction | Callable[..., Any] | None = None,
        then: AnyWindowFunction | Callable[..., Any] | None = None,
        columns: Columns | None = None,
        side_output_late_data: bool = False,
        allow_pickled_state: bool = False,
        key_group: int = 0,
        traced: bool = False,
        watermark_strategy: WatermarkStrategy | None = None,
    ) -> None:
        """Create an empty key group without a watermark, with the clock at 0.

        Exactly one of ``reduce``, ``aggregate``, ``apply`` and ``process`` is the function that runs when a window fires.

        Args:
            assigner: the windows, e.g. ``TumblingEventTimeWindows.of("1 minute")``, or an instance of your own class.
            trigger: decides when windows fire, by default as in the assigner.
            evictor: removes elements when windows fire.
            allowed_lateness: how long after its end a window accepts elements, as a duration or an integer.
            reduce: a function of two elements that returns one.
            aggregate: your :class:`AggregateFunction`, or declared aggregates of ``pst.agg``, whose results become a dict.
            apply: a :class:`WindowFunction`, or a function of key, window and elements.
            process: a :class:`ProcessWindowFunction`, or a function of key, context and elements.
            then: a function like ``process`` that gets the one result of ``reduce`` or ``aggregate`` (for declared aggregates a
                tuple in their order).
            columns: names of the columns of rows, and their types as ``pyarrow.DataType`` or Arrow names (``"int64"``,
                ``"double"``, ``"string"``, ``"timestamp[us]"``). Elements are then dicts, or values in this order, and functions
                see rows as on Spark. Without it an element may be any object.
            side_output_late_data: keep late elements for :meth:`extract_late_elements`, instead of only counting them.
            allow_pickled_state: as for a stream, allow objects of your own classes in the state.
            key_group: the number of the group, which only matters for ``WindowStagger.RANDOM``.
            traced: record the history of elements and windows for :meth:`trace`, which keeps all elements.
            watermark_strategy: moves the watermark at each :meth:`end_micro_batch`. Without it, use :meth:`process_watermark`.

        Raises:
            InvalidPlanError: not exactly one function, or arguments that do not fit each other.
            InvalidWindowError: an invalid lateness.
        """
        if isinstance(allowed_lateness, datetime):
            raise InvalidWindowError(
                f"the allowed lateness is how long, such as '1 minute', and no time: got {allowed_lateness!r}"
            )
        lateness = instant(allowed_lateness, "allowed lateness")
        window = WindowQuery(assigner, trigger, evictor, lateness, pickled_state=allow_pickled_state)
        functions = {"reduce": reduce, "aggregate": aggregate, "apply": apply, "process": process}
        query = harness_query(window, functions, then, columns, side_output_late_data)
        clockwork = None if watermark_strategy is None else Clockwork(watermark_strategy)
        if watermark_strategy is not None:
            query = replace(query, plan=replace(query.plan, key_watermarks=watermark_strategy.of_keys))
        self._begin(query, key_group, traced, clockwork)

    @classmethod
    def of_plan(cls, plan: RowPlan, key_group: int = 0, *, traced: bool = False) -> WindowTestHarness:
        """Create a harness for a plan of the engine, for panestream's own tests."""
        harness = cls.__new__(cls)
        harness._begin(HarnessQuery(plan), key_group, traced)  # noqa: SLF001 - its own
        return harness

    def _begin(self, query: HarnessQuery, key_group: int, traced: bool, clockwork: Clockwork | None = None) -> None:
        self._query = query
        self._key_group = key_group
        self._traced = traced
        self._in_microseconds = False
        self._clockwork = clockwork
        self._open(MemoryState())

    def _open(self, state: MemoryState) -> None:
        self._state = state
        made = traced_operator if self._traced else row_operator
        self._operator = made(self._query.plan, SealedState(state, self._key_group, "row operator"), self._key_group)
        self._collected = Output()

    def _parts(self) -> Mapping[str, str]:
        operator, words = self._operator, TraceTexts(in_microseconds=self._in_microseconds)
        return {
            "windows": repr(self._query.plan.window.assigner),
            "watermark": words.time(self.current_watermark),
            "clock": words.time(self.current_processing_time),
            "timers": f"{count_timers(operator):,}",
            "state entries": f"{count_state_entries(operator):,}",
            "late, dropped": f"{operator.late_dropped:,}",
            "trigger": repr(self._query.plan.window.firing_trigger),
            "traced": "yes: .explain(), .trace(), pst.tools.timeline(harness)" if self._traced else "no",
        }

    # ---------------------------------------------------------------- input

    def process_element(self, value: Any, timestamp: Instant | None = None, key: Any = None) -> None:
        """Add one element.

        Args:
            value: the element, which with ``columns`` is a dict, or values in their order.
            timestamp: its event time. It is optional for processing-time windows, which then use the clock.
            key: its key, or a tuple for several columns.

        Raises:
            InvalidPlanError: an event-time window without a timestamp, a row that does not fit the columns, or an error that a
                query would have on Spark, such as processing-time timers without :attr:`Trigger.uses_processing_time`.
            WindowFunctionError: your function raised an exception.
        """
        if timestamp is None and self._operator.is_event_time:
            raise InvalidPlanError(
                f"windows of event time need the event time of each element, e.g. 1_000_000; got {value!r} alone"
            )
        time = self._operator.processing_time if timestamp is None else self._instant(timestamp, "the timestamp")
        rows = self._query.rows
        self._operator.elements([(key, time, value if rows is None else rows.element(value, time))])
        if self._clockwork is not None:
            self._clockwork.saw(value, time)
        self._check_timers()

    def process_watermark(self, time: Instant) -> None:
        """Advance the watermark, which fires windows whose last instant is at most ``time``; a lower one is ignored."""
        self._operator.advance_watermark(self._instant(time, "the watermark"))
        self._check_timers()

    def set_processing_time(self, time: Instant) -> None:
        """Advance the clock to ``time``, which fires earlier timers. The clock must not go back."""
        self._operator.advance_processing_time(self._instant(time, "the processing time"))

    def end_micro_batch(self, time: Instant, *, run: str = "") -> None:
        """End a micro-batch that started at ``time`` on the clock: the watermark moves by the strategy, as on Spark.

        The micro-batch has the elements since the previous one. Without elements, the source was silent. Raise
        ``InvalidPlanError`` if the harness was created without ``watermark_strategy``.

        Args:
            time: the clock.
            run: the run of the query. A new value means that the query was down since the previous micro-batch.

        >>> import panestream as pst
        >>> strategy = pst.WatermarkStrategy.for_monotonous_timestamps().closing_after("30 seconds")
        >>> minute = pst.TumblingEventTimeWindows.of("1 minute")
        >>> harness = WindowTestHarness(minute, reduce=max, watermark_strategy=strategy)
        >>> harness.process_element(7, "50 seconds")
        >>> harness.end_micro_batch("51 seconds")
        >>> harness.end_micro_batch("71 seconds")  # silent for 20 seconds
        >>> harness.extract_output()
        []
        >>> harness.end_micro_batch("81 seconds")
        >>> [result.value for result in harness.extract_output()]
        [7]
        """
        if self._clockwork is None:
            raise InvalidPlanError(
                "the harness lacks a strategy that moves the watermark: make it with WindowTestHarness(..., "
                "watermark_strategy=pst.WatermarkStrategy...), or set the watermark with .process_watermark(...)"
            )
        clock = self._instant(time, "the clock")
        self._operator.advance_processing_time(clock)
        self._operator.advance_watermark(self._clockwork.end_micro_batch(clock, run))
        self._check_timers()

    def end_of_input(self) -> None:
        """End the bounded input: the watermark advances to the end of time."""
        self._operator.advance_watermark(MAX_TIMESTAMP)

    def _instant(self, time: Instant, what: str) -> int:
        """Return the time as an integer, in microseconds if it is a duration or date."""
        self._in_microseconds |= not isinstance(time, int)
        return instant(time, what)

    def _check_timers(self) -> None:
        """Raise the errors of a query: Spark reads the next timer after each micro-batch."""
        self._operator.next_processing_time_timer()

    # ---------------------------------------------------------------- output

    def extract_output(self) -> list[WindowResult]:
        """Return and clear the results since the last call, in the order of firing."""
        self._collect()
        taken, self._collected.fired = self._results(self._collected.fired), []
        names = self._query.names
        if names is None:
            return taken
        return [result._replace(value=dict(zip(names, result.value, strict=True))) for result in taken]

    def extract_side_output(self, tag: str) -> list[WindowResult]:
        """Return and clear the values that process functions sent to ``tag`` with ``context.output(tag, value)``."""
        self._collect()
        return self._results(self._collected.side_outputs.pop(tag, []))

    def extract_late_elements(self) -> list[LateElement]:
        """Return and clear the late elements since the last call; they are only kept with ``side_output_late_data``."""
        self._collect()
        taken, self._collected.late = self._collected.late, []
        rows, unit = self._query.rows, self._in_microseconds
        return [
            late_element(key, time, value if rows is None else rows.row(value), in_microseconds=unit)
            for key, time, value in taken
        ]

    def _results(self, fired: Sequence[FiredResult]) -> list[WindowResult]:
        return [window_result(*result, in_microseconds=self._in_microseconds) for result in fired]

    def _collect(self) -> None:
        output = self._operator.drain()
        self._collected.fired += output.fired
        self._collected.late += output.late
        for tag, values in output.side_outputs.items():
            self._collected.side_outputs.setdefault(tag, []).extend(values)

    # ---------------------------------------------------------------- state

    @property
    def late_dropped(self) -> int:
        """The number of late elements that were dropped since the start. Flink: ``numLateRecordsDropped``."""
        return self._operator.late_dropped

    @property
    def current_watermark(self) -> int:
        """The watermark; ``MIN_TIMESTAMP`` before the first."""
        return self._operator.watermark

    @property
    def current_processing_time(self) -> int:
        """The clock, which starts at 0."""
        return self._operator.processing_time

    def num_timers(self) -> int:
        """Return the number of timers, including the cleanup timers of windows."""
        return count_timers(self._operator)

    def num_state_entries(self) -> int:
        """Return the number of state entries of windows: contents, states of triggers and functions, entries of sessions."""
        return count_state_entries(self._operator)

    def num_key_state_entries(self) -> int:
        """Return the number of state entries per key (``global_state()``), which are never cleaned up."""
        return count_key_state_entries(self._operator)

    def next_processing_time_timer(self) -> int | None:
        """Return a time at or before the next processing-time timer, or None without timers."""
        return self._operator.next_processing_time_timer()

    def trace(self) -> Trace:
        """Return the history of all elements and windows, with the cause of each firing.

        Raise ``InvalidPlanError`` if the harness was created without ``traced=True``.

        >>> import panestream as pst
        >>> harness = WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max, traced=True)
        >>> harness.process_element(2, "10 seconds")
        >>> harness.process_watermark("1 minute")
        >>> harness.process_element(3, "11 seconds")
        >>> trace = harness.trace()
        >>> [(element.value, element.fate) for element in trace.elements]
        [(2, 'taken'), (3, 'late')]
        >>> [(firing.which, firing.cause.kind, firing.results) for firing in trace.firings]
        [('on_time', 'event-time timer', (2,))]
        """
        if not isinstance(self._operator, TracedOperator):
            raise InvalidPlanError("the harness has written nothing down: make it with WindowTestHarness(..., traced=True)")
        return self._operator.trace(in_microseconds=self._in_microseconds)

    def explain(
        self,
        *,
        key: Any = ANY,
        row: Any = ANY,
        at: Instant | None = None,
        window: Window | tuple[int, int] | Instant | None = None,
    ) -> Answer:
        """Explain the fate of rows, or with ``window`` the results of windows; see :func:`panestream.tools.why`.

        Raise ``InvalidPlanError`` for a harness without ``traced=True``, or if rows and windows are both given.

        >>> import panestream as pst
        >>> harness = WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max, traced=True)
        >>> harness.process_watermark("61 seconds")
        >>> harness.process_element(3, "11 seconds", key="ann")
        >>> harness.explain(key="ann")  # doctest: +ELLIPSIS
        Row 3 of key 'ann', event time 00:00:11, came as number 1, when the watermark was 00:01:01.
          It was late: its window, [00:00:00, 00:01:00), had closed when the watermark came to 00:01:01.
          An allowed lateness of 1 second 1 millisecond, or a watermark that waits ... longer, would have kept it.
        """
        return explain(self.trace(), key=key, row=row, at=at, window=window)

    def snapshot(self) -> Snapshot:
        """Return all state as it would be stored; the harness stays usable.

        A traced harness raises ``InvalidPlanError``, since the state does not contain the elements of windows for its trace.
        """
        if self._traced:
            raise InvalidPlanError("a traced harness does not support snapshots. Make one without traced=True")
        self._operator.commit()
        return Snapshot(dict(self._state.values), None if self._clockwork is None else self._clockwork.saved())

    def restore(self, snapshot: Snapshot) -> None:
        """Restart from a snapshot, as after a crash; results that were not extracted are lost.

        The snapshot may come from a harness with another lateness, or with another function that keeps the same state. Spark
        ties a checkpoint to the windows and the function's state, which a harness does not check. Raise ``PanestreamError`` if
        the argument is not a snapshot, and ``InvalidPlanError`` if the harness is traced.
        """
        if self._traced:
            raise InvalidPlanError("a traced harness cannot be restored: make one without traced=True")
        if not isinstance(snapshot, Snapshot):
            raise PanestreamError(f"restore needs what snapshot() returned, got {type(snapshot).__name__}")
        self._open(MemoryState(dict(snapshot.values)))
        if self._clockwork is not None:
            self._clockwork.restore(snapshot.watermarks)

    def state_sizes(self) -> dict[str, int]:
        """Return the bytes of state by space of the store, as of the last :meth:`snapshot`.

        ``meta`` includes the small values of all spaces.
        """
        sizes: dict[str, int] = {}
        for (space, _), value in sorted(self._state.values.items()):
            sizes[space] = sizes.get(space, 0) + len(value)
        return sizes
