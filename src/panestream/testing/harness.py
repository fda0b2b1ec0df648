"""Test windows without Spark: hand in elements, watermarks and clock steps one by one, and look at what comes out."""

from __future__ import annotations

from typing import Any, NamedTuple

from panestream.engine.operators.row.row_plan import RowPlan
from panestream.engine.operators.row.window_operator import Output, RowOperator
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import PanestreamError
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import Window


class Fired(NamedTuple):
    """One result: of which key and window, and the timestamp that it carries (the window's last instant)."""

    key: Any
    window: Window
    value: Any
    timestamp: int


class Late(NamedTuple):
    """One late element."""

    key: Any
    timestamp: int
    value: Any


class Snapshot(NamedTuple):
    """The state at one moment; :meth:`WindowTestHarness.restore` goes back to it."""

    values: dict[tuple[str, int], bytes]


class WindowTestHarness:
    """Runs one plan on one key group, step by step. Flink: ``KeyedOneInputStreamOperatorTestHarness``.

    All times are integers in the unit of the plan. A plan whose recipes were made with their constructors from milliseconds
    (``TumblingEventTimeWindows(10_000)``) is driven in milliseconds; recipes made from durations (``.of("10 seconds")``) count in
    microseconds.

    >>> from panestream.engine.operators.row.row_plan import Reduce
    >>> from panestream.engine.window_spec import WindowSpec
    >>> from panestream.windowing.assigners import TumblingEventTimeWindows
    >>> harness = WindowTestHarness(RowPlan(WindowSpec(TumblingEventTimeWindows(10)), Reduce(lambda a, b: a + b)))
    >>> harness.element("k", 3, 1)
    >>> harness.element("k", 9, 2)
    >>> harness.watermark(9)
    >>> harness.fired()
    [Fired(key='k', window=TimeWindow(start=0, end=10), value=3, timestamp=9)]
    >>> harness.num_timers(), harness.num_state_entries()
    (0, 0)
    """

    def __init__(self, plan: RowPlan, key_group: int = 0) -> None:
        """An empty key group, no watermark yet, the clock at 0."""
        self.plan = plan
        self._key_group = key_group
        self._open(MemoryState())

    def _open(self, state: MemoryState) -> None:
        self._state = state
        self._operator = RowOperator(self.plan, SealedState(state, self._key_group, "row operator"), self._key_group)
        self._collected = Output()

    def element(self, key: Any, ts: int, value: Any) -> None:
        """One row of ``key`` with the event time ``ts``."""
        self._operator.elements([(key, ts, value)])

    def watermark(self, ms: int) -> None:
        """Event time has come to ``ms``. One that does not advance changes nothing."""
        self._operator.advance_watermark(ms)

    def end_of_input(self) -> None:
        """The input is bounded, and this is its end: the watermark goes to the end of time."""
        self._operator.advance_watermark(MAX_TIMESTAMP)

    def processing_time(self, ms: int) -> None:
        """The clock has come to ``ms``."""
        self._operator.advance_processing_time(ms)

    def fired(self) -> list[Fired]:
        """What was fired since this was last called."""
        self._collect()
        taken, self._collected.fired = self._collected.fired, []
        return [Fired(*one) for one in taken]

    def late(self) -> list[Late]:
        """What went to the late output since this was last called."""
        self._collect()
        taken, self._collected.late = self._collected.late, []
        return [Late(*one) for one in taken]

    def side_output(self, tag: str) -> list[Fired]:
        """What process functions sent to ``tag`` since this was last called."""
        self._collect()
        return [Fired(*one) for one in self._collected.side_outputs.pop(tag, [])]

    def _collect(self) -> None:
        output = self._operator.drain()
        self._collected.fired += output.fired
        self._collected.late += output.late
        for tag, values in output.side_outputs.items():
            self._collected.side_outputs.setdefault(tag, []).extend(values)

    @property
    def late_dropped(self) -> int:
        """How many late elements were only counted, ever. Flink: ``numLateRecordsDropped``."""
        return self._operator.late_dropped

    @property
    def current_watermark(self) -> int:
        """The watermark; ``MIN_TIMESTAMP`` before the first."""
        return self._operator.watermark

    @property
    def current_time(self) -> int:
        """The clock; 0 at first."""
        return self._operator.processing_time

    def num_timers(self) -> int:
        """How many timers there are, cleanup timers of windows included."""
        return self._operator.num_timers()

    def num_state_entries(self) -> int:
        """How many things are kept of windows: contents, states of triggers and functions, places of sessions."""
        return self._operator.num_state_entries()

    def num_key_state_entries(self) -> int:
        """How many things process functions keep per key (``global_state()``), which nothing cleans up."""
        return self._operator.num_key_state_entries()

    def next_processing_time_timer(self) -> int | None:
        """At or before the next processing-time timer; None where there is none."""
        return self._operator.next_processing_time_timer()

    def snapshot(self) -> Snapshot:
        """All state, as the store would keep it. The harness goes on."""
        self._operator.commit()
        return Snapshot(dict(self._state.values))

    def restore(self, snapshot: Snapshot) -> None:
        """Begins anew from a snapshot, as after a crash. What was fired and not looked at is gone.

        Raises:
            PanestreamError: it is no snapshot.
        """
        if not isinstance(snapshot, Snapshot):
            raise PanestreamError(f"restore wants what snapshot() returned, got {type(snapshot).__name__}")
        self._open(MemoryState(dict(snapshot.values)))

    def state_sizes(self) -> dict[str, int]:
        """Bytes at rest, by space of the store: what the last :meth:`snapshot` wrote."""
        sizes: dict[str, int] = {}
        for (space, _), value in sorted(self._state.values.items()):
            sizes[space] = sizes.get(space, 0) + len(value)
        return sizes
