"""Test windows without Spark: hand in elements, watermarks and clock steps one by one, and look at what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from panestream.engine.explain import Shown
from panestream.engine.operators.row.output import FiredResult, Output
from panestream.engine.operators.row.row_plan import AnyWindowFunction, RowPlan
from panestream.engine.operators.row.window_operator import (
    RowOperator,
    count_key_state_entries,
    count_state_entries,
    count_timers,
)
from panestream.engine.query import WindowSpec
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, InvalidWindowError, PanestreamError
from panestream.testing.clockwork import Clockwork
from panestream.testing.elements import Columns
from panestream.testing.results import LateElement, WindowResult, late_element, window_result
from panestream.testing.window_query import WindowQuery, window_query
from panestream.tracing.events import Trace
from panestream.tracing.recorder import TracedOperator
from panestream.tracing.why import ANY, Explanation, explain
from panestream.tracing.words import Words
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from panestream.windowing.instants import Instant, instant
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.triggers import Trigger
from panestream.windowing.watermarks import WatermarkStrategy
from panestream.windowing.windows import Window


class Snapshot(NamedTuple):
    """The state at one moment; :meth:`WindowTestHarness.restore` goes back to it."""

    values: dict[tuple[str, int], bytes]
    watermarks: Mapping[str, Any] | None = None


class WindowTestHarness(Shown):
    """Runs windows and a function on one key group, step by step. Flink: ``KeyedOneInputStreamOperatorTestHarness``.

    It takes what ``.window(...)`` of a stream takes (one kind of windows at a time), and runs it with the row operator, which
    defines what all others do.

    Times go in as integers, as durations since the epoch (``"90 seconds"``), or as ``datetime`` with a time zone. They come out
    as integers in the unit of the windows: microseconds where windows, triggers and evictors were made from durations
    (``TumblingEventTimeWindows.of("1 minute")``); whatever you count in where they were made by their constructors. Once a time
    went in as a duration or a ``datetime``, results show their times as times of day, in UTC.

    >>> import panestream as pst
    >>> harness = WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=lambda a, b: a + b)
    >>> harness.process_element(1, "10 seconds", key="ann")
    >>> harness.process_element(2, "59 seconds", key="ann")
    >>> harness.process_watermark("1 minute")
    >>> harness.extract_output()
    [WindowResult(key='ann', window=[00:00:00, 00:01:00), value=3, timestamp=00:00:59.999999)]
    >>> harness.num_timers(), harness.num_state_entries()
    (0, 0)

    Declared aggregates, and functions that see rows, want the columns; rows are then given as dicts.

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
        """An empty key group, no watermark yet, the clock at 0.

        Exactly one of ``reduce``, ``aggregate``, ``apply`` and ``process`` says what runs when a window fires.

        Args:
            assigner: the windows, e.g. ``TumblingEventTimeWindows.of("1 minute")``, or of a class of yours.
            trigger: when they fire; None: as the assigner says.
            evictor: what is left out when they fire.
            allowed_lateness: how long after its end a window still takes elements: a duration, or an integer.
            reduce: a function of two elements that returns one.
            aggregate: an :class:`AggregateFunction` of yours; or declared aggregates of ``pst.agg``, one or several, whose
                results come out as a dict.
            apply: a :class:`WindowFunction`, or a function of key, window and elements.
            process: a :class:`ProcessWindowFunction`, or a function of key, context and elements.
            then: a function like ``process`` that is given the one result of ``reduce`` or ``aggregate`` (of declared aggregates
                a tuple, in their order).
            columns: names of the columns of rows, and their types as Arrow calls them (``"int64"``, ``"double"``, ``"string"``,
                ``"timestamp[us]"``, or a ``pyarrow.DataType``). Elements are then given as dicts (or values in that order), and
                functions see rows as on Spark. Without it an element is whatever is handed in.
            side_output_late_data: keep late elements for :meth:`extract_late_elements`, instead of counting them only.
            allow_pickled_state: as of a stream: let objects of your own classes rest in state.
            key_group: the number of the group; only ``WindowStagger.RANDOM`` looks at it.
            traced: write down what becomes of every element and window, for :meth:`trace`; keeps all elements.
            watermark_strategy: moves the watermark at each :meth:`end_micro_batch`; None: :meth:`process_watermark` does.

        Raises:
            InvalidPlanError: none or several functions; parts that do not fit together, or do not take what they will be given.
            InvalidWindowError: a lateness that makes no sense.
        """
        if isinstance(allowed_lateness, datetime):
            raise InvalidWindowError(
                f"the allowed lateness is how long, such as '1 minute', and no time: got {allowed_lateness!r}"
            )
        lateness = instant(allowed_lateness, "allowed lateness")
        window = WindowSpec(assigner, trigger, evictor, lateness, pickled_state=allow_pickled_state)
        functions = {"reduce": reduce, "aggregate": aggregate, "apply": apply, "process": process}
        query = window_query(window, functions, then, columns, side_output_late_data)
        self._begin(query, key_group, traced, None if watermark_strategy is None else Clockwork(watermark_strategy))

    @classmethod
    def of_plan(cls, plan: RowPlan, key_group: int = 0, *, traced: bool = False) -> WindowTestHarness:
        """A harness for a plan of the engine, as panestream's own tests have it."""
        harness = cls.__new__(cls)
        harness._begin(WindowQuery(plan), key_group, traced)  # noqa: SLF001 - its own
        return harness

    def _begin(self, query: WindowQuery, key_group: int, traced: bool, clockwork: Clockwork | None = None) -> None:
        self._query = query
        self._key_group = key_group
        self._traced = traced
        self._in_microseconds = False
        self._clockwork = clockwork
        self._open(MemoryState())

    def _open(self, state: MemoryState) -> None:
        self._state = state
        operator = TracedOperator if self._traced else RowOperator
        self._operator = operator(self._query.plan, SealedState(state, self._key_group, "row operator"), self._key_group)
        self._collected = Output()

    def _parts(self) -> Mapping[str, str]:
        operator, words = self._operator, Words(in_microseconds=self._in_microseconds)
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

    # ---------------------------------------------------------------- what goes in

    def process_element(self, value: Any, timestamp: Instant | None = None, key: Any = None) -> None:
        """One element.

        Args:
            value: the element; with ``columns`` a dict, or values in their order.
            timestamp: its event time. Windows of processing time do without: it is the clock then.
            key: its key; of several columns a tuple.

        Raises:
            InvalidPlanError: windows of event time, and no timestamp; a row that does not fit the columns; what a query would
                fail with on Spark, too, such as a trigger with timers of the clock that does not say so
                (:attr:`Trigger.uses_processing_time`).
            WindowFunctionError: a function of yours raised.
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
        """Event time has come to ``time``: windows whose last instant is this or before fire.

        A watermark that does not advance changes nothing.
        """
        self._operator.advance_watermark(self._instant(time, "the watermark"))
        self._check_timers()

    def set_processing_time(self, time: Instant) -> None:
        """The clock has come to ``time``; a timer is due when the clock is past it. Time does not go back."""
        self._operator.advance_processing_time(self._instant(time, "the processing time"))

    def end_micro_batch(self, time: Instant, *, run: str = "") -> None:
        """A micro-batch is over that began at ``time`` by the clock: the watermark moves as the strategy says, as on Spark.

        It has the elements since the last one. Where there are none the source was asked in vain: that is silence.

        Args:
            time: the clock.
            run: of the query; another one than before: it was down in between.

        Raises:
            InvalidPlanError: the harness was made without ``watermark_strategy``.

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
                "the harness has no strategy that moves the watermark: make it with WindowTestHarness(..., "
                "watermark_strategy=pst.WatermarkStrategy...), or say where it is, .process_watermark(...)"
            )
        clock = self._instant(time, "the clock")
        self._operator.advance_processing_time(clock)
        self._operator.advance_watermark(self._clockwork.end_micro_batch(clock, run))
        self._check_timers()

    def end_of_input(self) -> None:
        """The input is bounded, and this is its end: the watermark goes to the end of time."""
        self._operator.advance_watermark(MAX_TIMESTAMP)

    def _instant(self, time: Instant, what: str) -> int:
        """As an integer; who speaks of durations or dates counts in microseconds."""
        self._in_microseconds |= not isinstance(time, int)
        return instant(time, what)

    def _check_timers(self) -> None:
        """Raises where a query would: Spark asks for the next timer after each micro-batch."""
        self._operator.next_processing_time_timer()

    # ---------------------------------------------------------------- what comes out

    def extract_output(self) -> list[WindowResult]:
        """What was fired since this was last called, in the order of firing."""
        self._collect()
        taken, self._collected.fired = self._results(self._collected.fired), []
        names = self._query.names
        if names is None:
            return taken
        return [result._replace(value=dict(zip(names, result.value, strict=True))) for result in taken]

    def extract_side_output(self, tag: str) -> list[WindowResult]:
        """What process functions sent to ``tag`` (``context.output(tag, value)``) since this was last called."""
        self._collect()
        return self._results(self._collected.side_outputs.pop(tag, []))

    def extract_late_elements(self) -> list[LateElement]:
        """The late elements since this was last called, where they are kept (``side_output_late_data``)."""
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

    # ---------------------------------------------------------------- what is kept

    @property
    def late_dropped(self) -> int:
        """How many late elements were only counted, ever. Flink: ``numLateRecordsDropped``."""
        return self._operator.late_dropped

    @property
    def current_watermark(self) -> int:
        """The watermark; ``MIN_TIMESTAMP`` before the first."""
        return self._operator.watermark

    @property
    def current_processing_time(self) -> int:
        """The clock; 0 at first."""
        return self._operator.processing_time

    def num_timers(self) -> int:
        """How many timers there are, cleanup timers of windows included."""
        return count_timers(self._operator)

    def num_state_entries(self) -> int:
        """How many things are kept of windows: contents, states of triggers and functions, places of sessions."""
        return count_state_entries(self._operator)

    def num_key_state_entries(self) -> int:
        """How many things process functions keep per key (``global_state()``), which nothing cleans up."""
        return count_key_state_entries(self._operator)

    def next_processing_time_timer(self) -> int | None:
        """At or before the next processing-time timer; None where there is none."""
        return self._operator.next_processing_time_timer()

    def trace(self) -> Trace:
        """What has become of every element and window so far, and what caused each firing.

        Raises:
            InvalidPlanError: the harness was not made with ``traced=True``.

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
    ) -> Explanation:
        """Explain where rows are; or, with ``window``, what windows emitted: see :func:`panestream.tools.why`.

        Raises:
            InvalidPlanError: the harness was not made with ``traced=True``; rows and windows were asked for at once.

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
        """All state, as the store would keep it. The harness goes on.

        Raises:
            InvalidPlanError: the harness is traced: a trace knows the elements of windows, which state alone does not tell.
        """
        if self._traced:
            raise InvalidPlanError("a traced harness has no snapshots: make one without traced=True")
        self._operator.commit()
        return Snapshot(dict(self._state.values), None if self._clockwork is None else self._clockwork.saved())

    def restore(self, snapshot: Snapshot) -> None:
        """Begins anew from a snapshot, as after a crash. What was fired and not looked at is gone.

        The snapshot may be of another harness, whose lateness was another, or whose function, if it keeps the same. (On Spark a
        checkpoint is tied to the windows, and to what the function keeps; a harness does not check that.)

        Raises:
            PanestreamError: it is no snapshot.
            InvalidPlanError: the harness is traced.
        """
        if self._traced:
            raise InvalidPlanError("a traced harness cannot be restored: make one without traced=True")
        if not isinstance(snapshot, Snapshot):
            raise PanestreamError(f"restore wants what snapshot() returned, got {type(snapshot).__name__}")
        self._open(MemoryState(dict(snapshot.values)))
        if self._clockwork is not None:
            self._clockwork.restore(snapshot.watermarks)

    def state_sizes(self) -> dict[str, int]:
        """Bytes at rest, by space of the store: what the last :meth:`snapshot` wrote."""
        sizes: dict[str, int] = {}
        for (space, _), value in sorted(self._state.values.items()):
            sizes[space] = sizes.get(space, 0) + len(value)
        return sizes
